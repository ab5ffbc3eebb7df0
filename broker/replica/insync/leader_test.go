package insync

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

const lag = 30 * time.Second

// at is a moment at which everybody is alive.
func at(now time.Duration, end, hw int64) Env {
	return Env{Now: now, MaxLag: lag, End: end, HighWatermark: hw, MinISR: 1, Alive: func(int32) bool { return true }}
}

// leader is broker 1's view of a partition with three replicas, elected at offset 10 and time 0.
func leader(isr ...int32) *Leader {
	l := &Leader{}
	l.Elect(Assignment{Self: 1, LeaderEpoch: 5, PartitionEpoch: 7, Replicas: []int32{1, 2, 3}, ISR: isr}, false, 10, 0)
	return l
}

func (l *Leader) fetch(id int32, offset, end int64, now time.Duration) {
	l.Fetched(id, &Fetch{Offset: offset, LogStart: 0, LeaderEnd: end, At: now})
}

func TestHighWatermark(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(l *Leader, e *Env)
		isr  []int32
		want int64
	}{
		{"alone", func(*Leader, *Env) {}, []int32{1}, 20},
		{"a member has not fetched", func(*Leader, *Env) {}, []int32{1, 2}, Unknown},
		{"the slowest member", func(l *Leader, e *Env) { l.fetch(2, 15, 20, 1); l.fetch(3, 12, 20, 1) }, []int32{1, 2, 3}, 12},
		{"who is no member and lags does not count", func(l *Leader, e *Env) { l.fetch(2, 15, 20, 1); l.fetch(3, 12, 20, 1) }, []int32{1, 2}, 15},
		{"who is no member but caught up counts", func(l *Leader, e *Env) { l.fetch(2, 15, 15, 1) }, []int32{1}, 15},
		{"not if it is dead", func(l *Leader, e *Env) {
			l.fetch(2, 15, 15, 1)
			e.Alive = func(id int32) bool { return id != 2 }
		}, []int32{1}, 20},
		{"who is about to be a member counts", func(l *Leader, e *Env) { l.fetch(2, 12, 20, 1); l.Proposed = []int32{1, 2} }, []int32{1}, 12},
		{"who is about to leave counts", func(l *Leader, e *Env) { l.fetch(2, 12, 20, 1); l.Proposed = []int32{1} }, []int32{1, 2}, 12},
		{"too few in sync", func(l *Leader, e *Env) { e.MinISR = 2 }, []int32{1}, Unknown},
		{"what is proposed is not in sync yet", func(l *Leader, e *Env) {
			e.MinISR = 2
			l.fetch(2, 20, 20, 1)
			l.Proposed = []int32{1, 2}
		}, []int32{1}, Unknown},
		{"more than there are cannot be asked for", func(l *Leader, e *Env) {
			e.MinISR = 4
			l.fetch(2, 20, 20, 1)
			l.fetch(3, 19, 20, 1)
		}, []int32{1, 2, 3}, 19},
	} {
		l, e := leader(c.isr...), at(2, 20, 10)
		c.do(l, &e)
		if got := l.HighWatermark(&e); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// TestReassignedAway: who is no replica any more but still in the ISR may lead again, so it counts until it has left; but it
// does not come back.
func TestReassignedAway(t *testing.T) {
	l := &Leader{}
	l.Elect(Assignment{Self: 1, LeaderEpoch: 5, PartitionEpoch: 7, Replicas: []int32{1, 2}, ISR: []int32{1, 2, 3}}, false, 10, 0)
	e := at(2, 20, 10)
	l.fetch(2, 20, 20, 1)
	if got := l.HighWatermark(&e); got != Unknown {
		t.Errorf("before the member has fetched: %d", got)
	}
	l.fetch(3, 12, 20, 1)
	if got := l.HighWatermark(&e); got != 12 {
		t.Errorf("%d, want 12", got)
	}
	l.Committed(5, 8, []int32{1, 2})
	if got := l.HighWatermark(&e); got != 20 {
		t.Errorf("when it has left: %d, want 20", got)
	}
	if got := l.Expand(3, &e); got != nil {
		t.Errorf("it came back: %v", got)
	}
}

func TestExpand(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(l *Leader, e *Env)
		want []int32
	}{
		{"has not fetched", func(*Leader, *Env) {}, nil},
		{"below the high watermark", func(l *Leader, e *Env) { l.fetch(2, 14, 20, 1) }, nil},
		{"at the high watermark", func(l *Leader, e *Env) { l.fetch(2, 15, 20, 1) }, []int32{1, 2}},
		{"below the start of the epoch", func(l *Leader, e *Env) { l.fetch(2, 9, 20, 1); e.HighWatermark = 8 }, nil},
		{"dead", func(l *Leader, e *Env) { l.fetch(2, 20, 20, 1); e.Alive = func(int32) bool { return false } }, nil},
		{"another change is on its way", func(l *Leader, e *Env) { l.fetch(2, 20, 20, 1); l.Proposed = []int32{1, 3} }, nil},
		{"a member", func(l *Leader, e *Env) { l.fetch(2, 20, 20, 1); l.ISR = []int32{1, 2} }, nil},
	} {
		l, e := leader(1), at(2, 20, 15)
		c.do(l, &e)
		if got := l.Expand(2, &e); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestShrink(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(l *Leader)
		want []int32
	}{
		{"silent since the election", func(l *Leader) {}, []int32{1}},
		{"at the end", func(l *Leader) { l.fetch(2, 20, 20, 0) }, []int32{1, 2}},
		{"behind, was at the end just now", func(l *Leader) { l.fetch(2, 19, 19, 2*time.Second) }, []int32{1, 2}},
		{"behind, was at the end too long ago", func(l *Leader) { l.fetch(2, 19, 19, time.Second-1) }, []int32{1}},
		{"always a fetch behind", func(l *Leader) {
			for i := range int64(31) {
				l.fetch(2, 10+i, 11+i, time.Duration(i)*time.Second)
			}
		}, []int32{1, 2}},
		{"a change is on its way", func(l *Leader) { l.Proposed = []int32{1, 2, 3} }, nil},
	} {
		l, e := leader(1, 2), at(lag+time.Second, 20, 10)
		c.do(l)
		got := l.Shrink(&e)
		if got == nil && c.want != nil && l.Proposed == nil {
			got = l.ISR
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// beat is when a follower came last.
type beat time.Duration

func (b *beat) LastFetch() time.Duration { return time.Duration(*b) }

// TestBeat: a follower whose fetches are not told one by one is caught up for as long as it comes.
func TestBeat(t *testing.T) {
	l := leader(1, 2)
	b := beat(5)
	l.Fetched(2, &Fetch{Offset: 20, LeaderEnd: 20, At: 5, Beat: &b})
	b = beat(10 * lag)
	e := at(10*lag+lag/2, 21, 20)
	if isr := l.Shrink(&e); isr != nil {
		t.Errorf("one that came half a limit ago leaves: %v", isr)
	}
	e.Now += lag
	if isr := l.Shrink(&e); !slices.Equal(isr, []int32{1}) {
		t.Errorf("one that comes no more stays: %v", isr)
	}
	l.fetch(2, 20, 21, 10*lag+1) // told: what the beat said is kept, what it says from now on does not count
	b = beat(20 * lag)
	if got := l.Followers()[0].SinceCaughtUp(11 * lag); got != lag {
		t.Errorf("caught up %v ago", got)
	}
}

func TestReelection(t *testing.T) {
	l := leader(1, 2)
	l.fetch(2, 18, 20, time.Second)
	l.fetch(3, 17, 20, time.Second)
	next := l.Assignment
	next.LeaderEpoch, next.PartitionEpoch = 6, 8
	l.Proposed = []int32{1}
	l.Elect(next, true, 20, time.Hour)
	if l.Proposed != nil || l.EpochStart != 20 || l.Followers()[0].LogEnd != 18 || l.Followers()[1].LogEnd != 17 {
		t.Errorf("the progress was lost: %+v", l)
	}
	e := at(time.Hour+lag, 20, 10)
	if got := l.Shrink(&e); got != nil {
		t.Errorf("a member has until the lag limit: %v", got)
	}
	if e.Now++; !slices.Equal(l.Shrink(&e), []int32{1}) {
		t.Error("and no longer")
	}
	next.LeaderEpoch = 8
	l.Elect(next, true, 20, time.Hour)
	if l.Followers()[0].LogEnd != Unknown {
		t.Error("another broker may have led in epoch 7: what is known of followers says nothing")
	}
	l.fetch(2, 18, 20, time.Hour)
	next.LeaderEpoch = 9
	l.Elect(next, false, 20, time.Hour)
	if l.Followers()[0].LogEnd != Unknown {
		t.Error("after another broker led, what is known of followers says nothing")
	}
}

func TestAnswers(t *testing.T) {
	l := leader(1)
	l.Proposed = []int32{1, 2}
	if l.MaximalISR() != 2 {
		t.Errorf("maximal ISR of %d", l.MaximalISR())
	}
	if l.Committed(4, 9, []int32{1, 2}) || l.Committed(5, 6, []int32{1, 2}) || l.Proposed == nil {
		t.Error("an answer of another epoch or an older state counted")
	}
	if l.Refused(kerr.InvalidUpdateVersion.Code) || l.Proposed == nil {
		t.Error("while the controller knows better, the proposal stays pending")
	}
	if !l.Refused(kerr.NotController.Code) || l.Proposed == nil {
		t.Error("it is sent again")
	}
	if l.Refused(kerr.IneligibleReplica.Code) || l.Proposed != nil {
		t.Error("the controller says that nothing was written")
	}
	l.Proposed = []int32{1, 2}
	if !l.Committed(5, 8, []int32{1, 2}) || l.Proposed != nil || !slices.Equal(l.ISR, []int32{1, 2}) || l.PartitionEpoch != 8 {
		t.Errorf("committed: %+v", l)
	}
}

func TestLowWatermark(t *testing.T) {
	l, e := leader(1), at(0, 20, 20)
	if got := l.LowWatermark(5, &e); got != Unknown {
		t.Errorf("before the followers said anything: %d", got)
	}
	l.Fetched(2, &Fetch{Offset: 20, LogStart: 3})
	l.Fetched(3, &Fetch{Offset: 20, LogStart: 4})
	if got := l.LowWatermark(5, &e); got != 3 {
		t.Errorf("%d, want 3", got)
	}
	e.Alive = func(id int32) bool { return id != 2 }
	if got := l.LowWatermark(5, &e); got != 4 {
		t.Errorf("%d, want 4", got)
	}
}

// TestCommittedIsEverywhere: whatever happens in whatever order, at the moment when the high watermark moves every
// replica of the ISR as the controller has it, or may have it, has what lies below.
func TestCommittedIsEverywhere(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	for range 300 {
		l := leader(1, 2)
		end, hw, now := int64(10), int64(10), time.Duration(0)
		ends := map[int32]int64{1: end, 2: end, 3: 0}
		stored := l.ISR // at the controller
		for range 200 {
			now += time.Duration(r.Int64N(int64(5 * time.Second)))
			e := at(now, end, hw)
			switch r.IntN(5) {
			case 0:
				end += r.Int64N(5)
				ends[1] = end
			case 1, 2:
				id := int32(2 + r.IntN(2))
				l.fetch(id, ends[id], end, now)
				if isr := l.Expand(id, &e); isr != nil {
					l.Proposed = isr
				}
				ends[id] = min(end, ends[id]+r.Int64N(6))
			case 3:
				if isr := l.Shrink(&e); isr != nil {
					l.Proposed = isr
				}
			case 4:
				if l.Proposed != nil && r.IntN(2) == 0 {
					stored = l.Proposed // the answer is on its way
				}
				if l.Proposed != nil && slices.Equal(stored, l.Proposed) && r.IntN(2) == 0 {
					l.Committed(5, l.PartitionEpoch+1, stored)
				}
			}
			e = at(now, end, hw)
			if next := l.HighWatermark(&e); next > hw {
				hw = next
			}
			for _, id := range stored {
				if ends[id] < hw {
					t.Fatalf("seed %d: replica %d of ISR %v ends at %d, the high watermark is %d", seed, id, stored, ends[id], hw)
				}
			}
		}
	}
}
