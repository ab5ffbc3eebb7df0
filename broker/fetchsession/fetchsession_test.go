package fetchsession

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/gregor-broker/gregor/wire/clock"
)

func key(i int32) Key { return Key{Topic: "t", Partition: i} }

func want(is ...int32) []Partition {
	ps := make([]Partition, 0, len(is))
	for _, i := range is {
		ps = append(ps, Partition{Key: key(i), CurrentLeaderEpoch: -1, LastFetchedEpoch: -1, MaxBytes: 100, LogStartOffset: -1})
	}
	return ps
}

func partitions(x *Context) []int32 {
	is := []int32{}
	for _, p := range x.Partitions() {
		is = append(is, p.Partition)
	}
	return is
}

// start makes a session of the given partitions, whose results were all {HighWatermark: 10}.
func start(t *testing.T, c *Cache, ps []Partition) int32 {
	t.Helper()
	x, code := c.Open(&Request{Epoch: 0, Partitions: ps})
	if code != 0 {
		t.Fatalf("a full fetch was refused with %d", code)
	}
	results := make([]Result, len(ps))
	for i := range results {
		results[i].HighWatermark = 10
	}
	id, code := x.Finish(results)
	if id == NoSession || code != 0 {
		t.Fatalf("no session was made: id %d, code %d", id, code)
	}
	return id
}

func newTestCache() (*Cache, *clock.Fake) {
	f := clock.NewFake(time.UnixMilli(0))
	return NewCache(1000, f), f
}

func TestNextEpoch(t *testing.T) {
	for _, c := range [][2]int32{{-1, -1}, {0, 1}, {1, 2}, {math.MaxInt32, 1}} {
		if got := nextEpoch(c[0]); got != c[1] {
			t.Errorf("after %d comes %d, want %d", c[0], got, c[1])
		}
	}
}

func TestErrors(t *testing.T) {
	c, _ := newTestCache()
	id := start(t, c, want(0))
	for _, tc := range []struct {
		name string
		r    Request
		code int16
	}{
		{"unknown id", Request{SessionID: id + 1, Epoch: 1}, kerr.FetchSessionIDNotFound.Code},
		{"id of no shard", Request{SessionID: math.MaxInt32, Epoch: 1}, kerr.FetchSessionIDNotFound.Code},
		{"negative id", Request{SessionID: -5, Epoch: 1}, kerr.FetchSessionIDNotFound.Code},
		{"id 0 with an epoch", Request{SessionID: 0, Epoch: 1}, kerr.FetchSessionIDNotFound.Code},
		{"epoch ahead", Request{SessionID: id, Epoch: 2}, kerr.InvalidFetchSessionEpoch.Code},
		{"ids in a session of names", Request{SessionID: id, Epoch: 1, ByID: true}, kerr.FetchSessionTopicIDError.Code},
		{"right", Request{SessionID: id, Epoch: 1}, 0},
		{"epoch behind", Request{SessionID: id, Epoch: 1}, kerr.InvalidFetchSessionEpoch.Code},
	} {
		if _, code := c.Open(&tc.r); code != tc.code {
			t.Errorf("%s: code %d, want %d", tc.name, code, tc.code)
		}
	}
}

func TestSessionless(t *testing.T) {
	c, _ := newTestCache()
	x, code := c.Open(&Request{Epoch: -1, Partitions: want(3, 1)})
	if code != 0 || !slices.Equal(partitions(x), []int32{3, 1}) {
		t.Fatalf("code %d, partitions %v", code, partitions(x))
	}
	results := make([]Result, 2)
	if id, code := x.Finish(results); id != NoSession || code != 0 || results[0].Omit || results[1].Omit {
		t.Errorf("id %d, code %d, results %+v; want everything answered without a session", id, code, results)
	}
	if c.Len() != 0 {
		t.Error("a session was made")
	}
}

func TestFullFetchClosesTheSessionItNames(t *testing.T) {
	for _, epoch := range []int32{0, -1} {
		c, _ := newTestCache()
		id := start(t, c, want(0))
		if _, code := c.Open(&Request{SessionID: id, Epoch: epoch, Partitions: want(0)}); code != 0 {
			t.Errorf("epoch %d: code %d", epoch, code)
		}
		if _, code := c.Open(&Request{SessionID: id, Epoch: 1}); code != kerr.FetchSessionIDNotFound.Code {
			t.Errorf("epoch %d: the old session answers %d", epoch, code)
		}
	}
}

func TestDuplicatePartitionLastWins(t *testing.T) {
	c, _ := newTestCache()
	ps := want(0, 1, 0)
	ps[2].FetchOffset = 7
	x, _ := c.Open(&Request{Epoch: 0, Partitions: ps})
	got := x.Partitions()
	if !slices.Equal(partitions(x), []int32{0, 1}) || got[0].FetchOffset != 7 {
		t.Errorf("partitions %+v", got)
	}
}

func TestIncremental(t *testing.T) {
	c, _ := newTestCache()
	id := start(t, c, want(0, 1, 2))
	if n := c.Partitions(id); n != 3 || c.Partitions(id+1) != 0 || c.Partitions(-1) != 0 {
		t.Errorf("the session has %d partitions, another %d", n, c.Partitions(id+1))
	}
	steps := []struct {
		name      string
		changed   []Partition
		forgotten []Key
		wanted    []int32
		results   []Result
		answered  []int32
	}{
		{
			"nothing new", nil, nil, []int32{0, 1, 2},
			[]Result{{HighWatermark: 10}, {HighWatermark: 10}, {HighWatermark: 10}}, []int32{},
		},
		{
			"records move to the end", nil, nil, []int32{0, 1, 2},
			[]Result{{HighWatermark: 10, RecordBytes: 5}, {HighWatermark: 10}, {HighWatermark: 10}}, []int32{0},
		},
		{
			"high watermark", nil, nil, []int32{1, 2, 0},
			[]Result{{HighWatermark: 11}, {HighWatermark: 10}, {HighWatermark: 10}}, []int32{1},
		},
		{
			"log start", nil, nil, []int32{1, 2, 0},
			[]Result{{HighWatermark: 11}, {HighWatermark: 10, LogStartOffset: 3}, {HighWatermark: 10}}, []int32{2},
		},
		{
			"error", nil, nil, []int32{1, 2, 0},
			[]Result{{HighWatermark: 11, Code: 6}, {HighWatermark: 10, LogStartOffset: 3}, {HighWatermark: 10}}, []int32{1},
		},
		{
			"the end of an error", nil, nil, []int32{1, 2, 0},
			[]Result{{HighWatermark: 11}, {HighWatermark: 10, LogStartOffset: 3}, {HighWatermark: 10}}, []int32{1},
		},
		{
			"preferred replica", nil, nil, []int32{1, 2, 0},
			[]Result{{HighWatermark: 11}, {HighWatermark: 10, LogStartOffset: 3, Always: true}, {HighWatermark: 10}}, []int32{2},
		},
		{
			"add and forget", want(5, 1), []Key{key(2), key(9)}, []int32{1, 0, 5},
			[]Result{{HighWatermark: 11}, {HighWatermark: 10}, {HighWatermark: 10}}, []int32{5},
		},
	}
	for i, s := range steps {
		x, code := c.Open(&Request{SessionID: id, Epoch: int32(i) + 1, Partitions: s.changed, Forgotten: s.forgotten})
		if code != 0 {
			t.Fatalf("%s: code %d", s.name, code)
		}
		if got := partitions(x); !slices.Equal(got, s.wanted) {
			t.Errorf("%s: to be read %v, want %v", s.name, got, s.wanted)
		}
		gotID, code := x.Finish(s.results)
		if gotID != id || code != 0 {
			t.Errorf("%s: id %d, code %d", s.name, gotID, code)
		}
		answered := []int32{}
		for j, r := range s.results {
			if !r.Omit {
				answered = append(answered, x.Partitions()[j].Partition)
			}
		}
		if !slices.Equal(answered, s.answered) {
			t.Errorf("%s: answered %v, want %v", s.name, answered, s.answered)
		}
	}
}

// TestFollowerIsToldAgain: a follower that truncated, or follows in another epoch, has not taken the high watermark it was told.
func TestFollowerIsToldAgain(t *testing.T) {
	c, _ := newTestCache()
	ps := want(0)
	ps[0].FetchOffset, ps[0].CurrentLeaderEpoch = 20, 3
	open := func(id, epoch int32, changed []Partition) bool {
		x, code := c.Open(&Request{SessionID: id, Epoch: epoch, Partitions: changed, Follower: true})
		if code != 0 {
			t.Fatalf("code %d", code)
		}
		results := []Result{{HighWatermark: 15}}
		x.Finish(results)
		return !results[0].Omit
	}
	x, _ := c.Open(&Request{Epoch: 0, Partitions: ps, Follower: true})
	id, _ := x.Finish([]Result{{HighWatermark: 15, Always: true}})
	for i, step := range []struct {
		offset int64
		epoch  int32
		told   bool
	}{{21, 3, false}, {15, 3, true}, {16, 3, false}, {16, 4, true}, {16, 4, true}, {17, 4, false}} {
		ps[0].FetchOffset, ps[0].CurrentLeaderEpoch = step.offset, step.epoch
		if got := open(id, int32(i)+1, ps); got != step.told {
			t.Errorf("%+v: told %v", step, got)
		}
	}
}

func TestEmptiedSessionEnds(t *testing.T) {
	c, _ := newTestCache()
	id := start(t, c, want(0))
	x, code := c.Open(&Request{SessionID: id, Epoch: 1, Forgotten: []Key{key(0)}})
	if code != 0 || len(x.Partitions()) != 0 {
		t.Fatalf("code %d, %v", code, x.Partitions())
	}
	if got, _ := x.Finish(nil); got != NoSession || c.Len() != 0 {
		t.Errorf("id %d and %d sessions after the last partition was forgotten", got, c.Len())
	}
}

func TestFinishAfterTheSessionWentOn(t *testing.T) {
	c, _ := newTestCache()
	id := start(t, c, want(0))
	first, _ := c.Open(&Request{SessionID: id, Epoch: 1})
	if _, code := c.Open(&Request{SessionID: id, Epoch: 2}); code != 0 {
		t.Fatalf("the next request was refused with %d", code)
	}
	if got, code := first.Finish(make([]Result, 1)); got != id || code != kerr.InvalidFetchSessionEpoch.Code {
		t.Errorf("id %d, code %d; want INVALID_FETCH_SESSION_EPOCH", got, code)
	}
}

func TestEviction(t *testing.T) {
	const minute = time.Minute
	open := func(c *Cache, follower bool, size int) int32 {
		ps := make([]Partition, size)
		for i := range ps {
			ps[i].Key = key(int32(i))
		}
		x, _ := c.Open(&Request{Epoch: 0, Follower: follower, Partitions: ps})
		id, _ := x.Finish(make([]Result, size))
		return id
	}
	for _, tc := range []struct {
		name         string
		old, new     int
		oldF, newF   bool
		touchedAfter time.Duration // the old session is used again then
		newAfter     time.Duration
		made         bool
	}{
		{"recent, smaller", 1, 9, false, false, 0, minute, false},
		{"stale", 9, 1, false, false, 0, 3 * minute, true},
		{"stale follower for a consumer", 9, 1, true, false, 0, 3 * minute, true},
		{"used, old, smaller", 1, 2, false, false, 3 * minute, 4 * minute, true},
		{"used, old, as large", 2, 2, false, false, 3 * minute, 4 * minute, false},
		{"used, old, larger", 3, 2, false, false, 3 * minute, 4 * minute, false},
		{"follower over recent consumer", 9, 1, false, true, 0, minute, true},
		{"follower over recent follower", 1, 9, true, true, 0, minute, false},
		{"follower over used, old, smaller follower", 1, 9, true, true, 3 * minute, 4 * minute, true},
		{"consumer over used, old, smaller follower", 1, 9, true, false, 3 * minute, 4 * minute, false},
	} {
		f := clock.NewFake(time.UnixMilli(0))
		c := NewCache(shardCount, f)
		var olds []int32
		for range shardCount {
			olds = append(olds, open(c, tc.oldF, tc.old))
		}
		if tc.touchedAfter > 0 {
			// one use in between, so that it never counts as stale
			for _, at := range []time.Duration{tc.touchedAfter / 2, tc.touchedAfter} {
				f.Advance(at - f.Monotonic())
				for _, id := range olds {
					c.touch(id, tc.old)
				}
			}
		}
		f.Advance(tc.newAfter - f.Monotonic())
		if made := open(c, tc.newF, tc.new) != NoSession; made != tc.made {
			t.Errorf("%s: made %v, want %v", tc.name, made, tc.made)
		}
		if c.Len() != shardCount {
			t.Errorf("%s: %d sessions", tc.name, c.Len())
		}
	}
}

// TestSessionsAreBounded: what is too large gets no session, and one that grows too large loses it.
func TestSessionsAreBounded(t *testing.T) {
	c, _ := newTestCache()
	many := func(n int) []Partition {
		ps := make([]Partition, n)
		for i := range ps {
			ps[i].Key = key(int32(i))
		}
		return ps
	}
	x, _ := c.Open(&Request{Epoch: 0, Partitions: many(maxPartitions + 1)})
	if id, _ := x.Finish(make([]Result, maxPartitions+1)); id != NoSession {
		t.Error("a session larger than a shard was made")
	}
	id := start(t, c, want(0))
	if _, code := c.Open(&Request{SessionID: id, Epoch: 1, Partitions: many(maxPartitions + 1)}); code != 0 {
		t.Errorf("code %d", code)
	}
	if _, code := c.Open(&Request{SessionID: id, Epoch: 2}); code != kerr.FetchSessionIDNotFound.Code {
		t.Errorf("code %d after the session outgrew its shard", code)
	}
	for i := range c.shards {
		if n := c.shards[i].partitions; n != 0 {
			t.Errorf("shard %d counts %d partitions without sessions", i, n)
		}
	}
}

func TestNoSlots(t *testing.T) {
	c := NewCache(shardCount-1, clock.NewFake(time.UnixMilli(0)))
	x, _ := c.Open(&Request{Epoch: 0, Partitions: want(0)})
	if id, code := x.Finish(make([]Result, 1)); id != NoSession || code != 0 {
		t.Errorf("id %d, code %d", id, code)
	}
}

func BenchmarkIncremental(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c := NewCache(1000, clock.System)
			ps := make([]Partition, n)
			for i := range ps {
				ps[i].Key = key(int32(i))
			}
			x, _ := c.Open(&Request{Epoch: 0, Partitions: ps})
			rs := make([]Result, n)
			id, _ := x.Finish(rs)
			epoch := int32(1)
			b.ReportAllocs()
			for b.Loop() {
				x, code := c.Open(&Request{SessionID: id, Epoch: epoch, Partitions: ps[:1]})
				if code != 0 {
					b.Fatal(code)
				}
				x.Finish(rs)
				epoch = nextEpoch(epoch)
			}
		})
	}
}
