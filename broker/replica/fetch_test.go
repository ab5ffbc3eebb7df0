package replica

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/record"
)

// TestF1 is case F1: the first partition that has something answers its first batch whole, whatever the limits.
func TestF1(t *testing.T) {
	f := newFixture(t)
	f.lead("t", idOf(1), 3)
	big := one(t, strings.Repeat("x", 600_000))
	small := one(t, "v")
	f.mustPut("t", 0, slices.Clone(big))
	for range 3 {
		f.mustPut("t", 0, slices.Clone(small))
		f.mustPut("t", 1, slices.Clone(small))
	}
	const partitions = 1 << 20
	for _, c := range []struct {
		name          string
		hard          bool
		maxBytes      int
		partitionMax  int
		order         []int32
		offset        int64
		first, second int
	}{
		{"soft, big first", false, 1, 1, []int32{0, 1}, 0, len(big), 0},
		{"soft, small first", false, 1, 1, []int32{1, 0}, 0, len(small), 0},
		{"soft, empty first", false, 1, 1, []int32{2, 0}, 0, 0, len(big)},
		{"hard", true, 50 << 20, 1, []int32{0, 1}, 0, 0, 0},
		{"hard, fits one small", true, 50 << 20, len(small), []int32{1, 0}, 0, len(small), 0},
		{"partition limit after the first", false, 50 << 20, 2 * len(small), []int32{1, 0}, 0, 2 * len(small), 0},
		{"request limit spent in order", false, 4 * len(small), partitions, []int32{1, 0}, 1, 2 * len(small), 2 * len(small)},
		{"zero", false, 0, 0, []int32{0, 1}, 0, len(big), 0},
	} {
		p := look()
		p.HardLimit, p.MaxBytes = c.hard, c.maxBytes
		entries := []FetchEntry{from("t", c.order[0], c.offset), from("t", c.order[1], c.offset)}
		for i := range entries {
			entries[i].MaxBytes = c.partitionMax
			if entries[i].Partition == 2 {
				entries[i].Offset = 0
			}
		}
		rs := f.get(p, entries...)
		if rs[0].Err != nil || rs[1].Err != nil {
			t.Errorf("%s: %v, %v", c.name, rs[0].Err, rs[1].Err)
		}
		if n, m := rs[0].Records.Size(), rs[1].Records.Size(); n != c.first || m != c.second {
			t.Errorf("%s: %d and %d bytes, want %d and %d", c.name, n, m, c.first, c.second)
		}
	}
}

// TestNegativeLimits: less than nothing cannot be read, as in Kafka, where there is something.
func TestNegativeLimits(t *testing.T) {
	f := newFixture(t)
	f.lead("t", idOf(1), 2)
	f.mustPut("t", 0, one(t, "v"))
	p := look()
	p.MaxBytes = -5
	rs := f.get(p, from("t", 0, 0), from("t", 1, 0), from("t", 1, 9))
	for i, want := range []error{log.ErrReadSize, nil, log.ErrOffsetOutOfRange} {
		if !errors.Is(rs[i].Err, want) {
			t.Errorf("entry %d: %v, want %v", i, rs[i].Err, want)
		}
	}
}

func TestFetchRefusals(t *testing.T) {
	f := newFixture(t)
	f.mustObey(f.order("t", idOf(1), 1, 3, self))
	f.mustPut("t", 0, one(t, "v"))
	zstd := log.DefaultConfig()
	zstd.Compression = record.Compression{Fixed: true, Codec: record.Zstd}
	f.configs["z"] = zstd
	f.lead("z", idOf(2), 1)
	with := func(change func(*FetchParams, *FetchEntry)) (FetchParams, FetchEntry) {
		p, e := look(), from("t", 0, 0)
		change(&p, &e)
		return p, e
	}
	for name, c := range map[string]struct {
		change func(*FetchParams, *FetchEntry)
		want   *kerr.Error
	}{
		"nothing wrong":       {func(*FetchParams, *FetchEntry) {}, nil},
		"right epoch":         {func(_ *FetchParams, e *FetchEntry) { e.CurrentLeaderEpoch = 3 }, nil},
		"older epoch":         {func(_ *FetchParams, e *FetchEntry) { e.CurrentLeaderEpoch = 2 }, kerr.FencedLeaderEpoch},
		"newer epoch":         {func(_ *FetchParams, e *FetchEntry) { e.CurrentLeaderEpoch = 4 }, kerr.UnknownLeaderEpoch},
		"unknown topic":       {func(_ *FetchParams, e *FetchEntry) { e.Topic = "nope" }, kerr.UnknownTopicOrPartition},
		"unknown id":          {func(_ *FetchParams, e *FetchEntry) { e.Topic, e.TopicID = "nope", idOf(8) }, kerr.UnknownTopicID},
		"other id":            {func(_ *FetchParams, e *FetchEntry) { e.TopicID = idOf(8) }, kerr.InconsistentTopicID},
		"past the end":        {func(_ *FetchParams, e *FetchEntry) { e.Offset = 2 }, kerr.OffsetOutOfRange},
		"negative offset":     {func(_ *FetchParams, e *FetchEntry) { e.Offset = -1 }, kerr.OffsetOutOfRange},
		"a follower's":        {func(p *FetchParams, _ *FetchEntry) { p.ReplicaID = 2 }, kerr.NotLeaderForPartition},
		"a follower's, epoch": {func(p *FetchParams, e *FetchEntry) { p.ReplicaID, e.CurrentLeaderEpoch = 2, 3 }, kerr.UnknownLeaderEpoch},
		"zstd topic":          {func(p *FetchParams, e *FetchEntry) { e.Topic, p.RefuseZstdTopics = "z", true }, kerr.UnsupportedCompressionType},
		"zstd topic, v10":     {func(_ *FetchParams, e *FetchEntry) { e.Topic = "z" }, nil},
		"last epoch unknown":  {func(_ *FetchParams, e *FetchEntry) { e.LastFetchedEpoch = 9 }, kerr.OffsetOutOfRange},
	} {
		p, e := with(c.change)
		r := f.get(p, e)[0]
		if c.want == nil && r.Err != nil || c.want != nil && !errors.Is(r.Err, c.want) {
			t.Errorf("%s: %v, want %v", name, r.Err, c.want)
		}
		if c.want != nil && (r.HighWatermark != -1 || r.LastStable != -1 || r.LogStartOffset != -1 || r.Records.Size() != 0) {
			t.Errorf("%s: %+v beside the error", name, r)
		}
	}
}

func TestFetchTellsWhereLogsDiverge(t *testing.T) {
	f := newFixture(t)
	f.mustObey(f.order("t", idOf(1), 1, 1, self))
	f.mustPut("t", 0, one(t, "a"))
	f.mustObey(f.order("t", idOf(1), 1, 3, self))
	f.mustPut("t", 0, one(t, "b"))
	e := from("t", 0, 2)
	e.LastFetchedEpoch = 1
	r := f.get(look(), e)[0]
	if r.Err != nil || r.Diverging == nil || *r.Diverging != (EpochEnd{1, 1}) || r.Records.Size() != 0 {
		t.Errorf("%+v, want a divergence at the end of epoch 1", r)
	}
	e.Offset = 1
	if r := f.get(look(), e)[0]; r.Err != nil || r.Diverging != nil || r.Records.Size() == 0 {
		t.Errorf("%+v, want records", r)
	}
}

func TestReadCommittedAnswersAList(t *testing.T) {
	f := newFixture(t)
	f.lead("t", idOf(1), 1)
	p := look()
	if r := f.get(p, from("t", 0, 0))[0]; r.Aborted != nil {
		t.Error("read_uncommitted got aborted transactions")
	}
	p.Committed = true
	if r := f.get(p, from("t", 0, 0))[0]; r.Aborted == nil {
		t.Error("read_committed must get an empty list, not null")
	}
}

// waits checks that a fetch has not been answered yet.
func waits(t *testing.T, c <-chan []FetchResult) {
	t.Helper()
	synctest.Wait()
	select {
	case rs := <-c:
		t.Fatalf("answered too early: %+v", rs)
	default:
	}
}

func TestFetchWaits(t *testing.T) {
	for name, c := range map[string]struct {
		minBytes int
		then     func(*testing.T, *fixture, <-chan []FetchResult)
		after    time.Duration // virtual time at which it must be answered
		bytes    bool
		want     *kerr.Error
	}{
		"time is up": {1, func(t *testing.T, _ *fixture, c <-chan []FetchResult) { waits(t, c) }, time.Second, false, nil},
		"a record": {1, func(t *testing.T, f *fixture, c <-chan []FetchResult) {
			waits(t, c)
			sleep(time.Millisecond)
			f.mustPut("t", 1, one(t, "v"))
		}, time.Millisecond, true, nil},
		"too few bytes, then more": {150, func(t *testing.T, f *fixture, c <-chan []FetchResult) {
			f.mustPut("t", 0, one(t, "v"))
			waits(t, c)
			sleep(time.Millisecond)
			f.mustPut("t", 1, one(t, strings.Repeat("v", 100)))
		}, time.Millisecond, true, nil},
		"too few bytes": {1000, func(t *testing.T, f *fixture, c <-chan []FetchResult) {
			f.mustPut("t", 0, one(t, "v"))
			waits(t, c)
		}, time.Second, true, nil},
		"deleted": {1, func(_ *testing.T, f *fixture, _ <-chan []FetchResult) { f.remove("t", 2) }, 0, false, kerr.UnknownTopicOrPartition},
		"deleted and created again": {1, func(_ *testing.T, f *fixture, _ <-chan []FetchResult) {
			f.remove("t", 2)
			f.lead("t", idOf(2), 2)
		}, 0, false, kerr.UnknownTopicOrPartition},
		"leadership moves": {1, func(_ *testing.T, f *fixture, _ <-chan []FetchResult) { f.mustObey(f.moved("t", 4)) }, 0, false, kerr.FencedLeaderEpoch},
		"fenced": {1, func(_ *testing.T, f *fixture, _ <-chan []FetchResult) {
			f.mustObey(f.order("t", idOf(1), 2, 4, self))
		}, 0, false, kerr.FencedLeaderEpoch},
		"shutdown": {1, func(_ *testing.T, f *fixture, _ <-chan []FetchResult) { f.Manager.Close() }, 0, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				f.mustObey(f.order("t", idOf(1), 2, 3, self))
				p := look()
				p.MaxWait, p.MinBytes = time.Second, c.minBytes
				e := from("t", 0, 0)
				e.CurrentLeaderEpoch = 3
				begin := f.clock.Monotonic()
				answer := f.start(p, e, from("t", 1, 0))
				c.then(t, f, answer)
				rs := <-answer
				if took := f.clock.Monotonic() - begin; took != c.after {
					t.Errorf("answered after %v, want %v", took, c.after)
				}
				if got := rs[0].Records.Size()+rs[1].Records.Size() > 0; got != c.bytes {
					t.Errorf("has records: %v", got)
				}
				if c.want == nil && rs[0].Err != nil || c.want != nil && !errors.Is(rs[0].Err, c.want) {
					t.Errorf("%v, want %v", rs[0].Err, c.want)
				}
				if n := f.purgatory.Waiting(); n != 0 {
					t.Errorf("%d operations still wait", n)
				}
				if x := f.Stats(nil).Expired; c.after == time.Second && x != (Expired{Consumers: 1}) || c.want != nil && x != (Expired{}) {
					t.Errorf("expired: %+v", x)
				}
			})
		})
	}
}

func TestFetchOfADeletedTopicByID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.lead("t", idOf(1), 1)
		p, e := look(), from("t", 0, 0)
		p.MaxWait, e.TopicID = time.Hour, idOf(1)
		answer := f.start(p, e)
		f.remove("t", 1)
		if r := (<-answer)[0]; !errors.Is(r.Err, kerr.UnknownTopicID) {
			t.Errorf("%v, want UNKNOWN_TOPIC_ID", r.Err)
		}
	})
}

func TestFetchAnswersAtOnce(t *testing.T) {
	f := newFixture(t)
	f.lead("t", idOf(1), 2)
	p := look()
	p.MaxWait = time.Hour
	refused := from("t", 0, 0)
	refused.Err = kerr.TopicAuthorizationFailed
	f.get(p)                                         // nothing wanted
	f.get(p, refused)                                // nothing that could come
	f.get(p, from("t", 0, 0), from("t", 1, 5))       // an error
	f.get(FetchParams{MaxBytes: 1}, from("t", 0, 0)) // no minimum and no wait
	p.MinBytes = 0
	f.get(p, from("t", 0, 0))
}

func TestRefusedPartitionDoesNotEndTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.lead("t", idOf(1), 1)
		p := look()
		p.MaxWait = time.Second
		refused := from("nope", 0, 0)
		refused.Err = kerr.UnknownTopicOrPartition
		answer := f.start(p, refused, from("t", 0, 0))
		waits(t, answer)
		f.mustPut("t", 0, one(t, "v"))
		if rs := <-answer; rs[0].Err == nil || rs[1].Records.Size() == 0 {
			t.Errorf("%+v", rs)
		}
	})
}

func TestGoneClientDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.lead("t", idOf(1), 1)
		p := look()
		p.MaxWait, p.Gone = 24*time.Hour, func() bool { return true }
		<-f.start(p, from("t", 0, 0)) // hangs the bubble if not answered
		if took := f.clock.Monotonic(); f.purgatory.Waiting() != 0 {
			t.Errorf("still waiting after %v", took)
		}
	})
}

func TestConsumerDoesNotSeeAboveTheHighWatermark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.mustObey(f.order("t", idOf(1), 1, 1, self, 2))
		f.mustPut("t", 0, one(t, "v"))
		p := look()
		p.MaxWait = time.Second
		answer := f.start(p, from("t", 0, 0))
		waits(t, answer)
		above := f.start(p, from("t", 0, 1))
		waits(t, above)
		f.mustObey(f.order("t", idOf(1), 1, 2, self)) // the other replica leaves the ISR
		if rs := <-answer; rs[0].Records.Size() == 0 || rs[0].HighWatermark != 1 {
			t.Errorf("%+v, want the record once it is committed", rs[0])
		}
		<-above
	})
}
