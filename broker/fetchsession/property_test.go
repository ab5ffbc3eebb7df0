package fetchsession

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

// broker is a model of partitions: how much was appended, trimmed, and whether reading fails.
type broker struct {
	end, start [6]int64
	fails      [6]bool
}

// read spends a budget of bytes (one per record) over the partitions in order.
func (b *broker) read(ps []Partition, budget int64) []Result {
	rs := make([]Result, len(ps))
	for i, p := range ps {
		n := p.Partition
		if b.fails[n] {
			rs[i] = Result{Code: 6, HighWatermark: -1, LogStartOffset: -1}
			continue
		}
		got := min(b.end[n]-p.FetchOffset, budget)
		budget -= got
		rs[i] = Result{RecordBytes: int(got), HighWatermark: b.end[n], LogStartOffset: b.start[n]}
	}
	return rs
}

// known is what a client knows of a partition.
type known struct {
	offset, highWatermark, start int64
	code                         int16
}

// TestIncrementalEqualsFull drives a session through random changes; after each answer the client must know what a
// full fetch of everything would have told it, and with a small budget everything must be read in the end. So it is with a session
// that stands, whose places are touched where something changes.
func TestIncrementalEqualsFull(t *testing.T) {
	rounds := 200
	if *seedFlag != 0 {
		rounds = 1
	}
	for range rounds {
		seed := *seedFlag
		if seed == 0 {
			seed = rand.Uint64()
		}
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) {
			incrementalEqualsFull(t, rand.New(rand.NewPCG(seed, 0)), false)
			incrementalEqualsFull(t, rand.New(rand.NewPCG(seed, 0)), true)
		}) {
			t.Logf("replay: go test ./broker/fetchsession -run TestIncrementalEqualsFull -seed %d", seed)
		}
	}
}

var seedFlag = flag.Uint64("seed", 0, "replay the property test with this seed")

func incrementalEqualsFull(t *testing.T, r *rand.Rand, stands bool) {
	c, _ := newTestCache()
	b := &broker{}
	client := map[Key]*known{}
	var id, epoch int32
	asked := map[Key]Partition{} // what the session was told last
	places := map[Key]*Place{}
	for step := range 60 {
		before := *b
		for i := range b.end {
			if r.IntN(3) == 0 {
				b.end[i] += int64(r.IntN(4))
			}
			if r.IntN(10) == 0 {
				b.fails[i] = !b.fails[i]
			}
			if r.IntN(10) == 0 && client[key(int32(i))] != nil {
				b.start[i] = client[key(int32(i))].offset
			}
		}
		if step > 40 { // let the client catch up
			b.fails = [6]bool{}
		}
		for i := range b.end {
			changed := b.end[i] != before.end[i] || b.start[i] != before.start[i] || b.fails[i] != before.fails[i]
			if p := places[key(int32(i))]; p != nil && changed {
				p.Touch(true)
			}
		}
		req := Request{SessionID: id, Epoch: epoch, Follower: stands}
		if stands {
			req.Changes = new(counted)
		}
		for i := range b.end {
			k := key(int32(i))
			switch {
			case client[k] == nil && r.IntN(3) == 0:
				client[k] = &known{highWatermark: -2}
			case client[k] != nil && r.IntN(20) == 0:
				delete(client, k)
				if epoch > 0 {
					req.Forgotten = append(req.Forgotten, k)
				}
				delete(asked, k)
			}
			if kn := client[k]; kn != nil {
				p := Partition{Key: k, FetchOffset: kn.offset}
				if asked[k] != p {
					req.Partitions = append(req.Partitions, p)
					asked[k] = p
				}
			}
		}
		if len(client) == 0 {
			id, epoch = 0, 0
			continue
		}
		x, code := c.Open(&req)
		if code != 0 {
			t.Fatalf("step %d: code %d", step, code)
		}
		if len(x.Partitions()) != len(client) && !x.Standing() {
			t.Fatalf("step %d: the session has %v, the client %d partitions", step, partitions(x), len(client))
		}
		rs := b.read(x.Partitions(), 3)
		looked := map[Key]bool{}
		for i, p := range x.Partitions() {
			looked[p.Key] = true
			rs[i].Settled = rs[i].Code == 0 && p.FetchOffset == b.end[p.Partition]
			if x.Standing() {
				places[p.Key] = x.Place(i)
			}
		}
		for k, kn := range client {
			if n := k.Partition; !looked[k] && (kn.code != 0 || b.fails[n] || kn.offset != b.end[n] || kn.highWatermark != b.end[n] || kn.start != b.start[n]) {
				t.Fatalf("step %d: partition %d was not looked at; the client knows %+v", step, n, *kn)
			}
		}
		id, _ = x.Finish(rs)
		epoch = nextEpoch(epoch)
		for i, p := range x.Partitions() {
			kn := client[p.Key]
			if p.FetchOffset != kn.offset {
				t.Fatalf("step %d: the session reads from %d, the client is at %d", step, p.FetchOffset, kn.offset)
			}
			if !rs[i].Omit {
				kn.offset += int64(rs[i].RecordBytes)
				kn.highWatermark, kn.start, kn.code = rs[i].HighWatermark, rs[i].LogStartOffset, rs[i].Code
			}
			full := rs[i]
			if kn.highWatermark != full.HighWatermark || kn.start != full.LogStartOffset || kn.code != full.Code {
				t.Fatalf("step %d: the client knows %+v, a full fetch would have said %+v", step, *kn, full)
			}
		}
	}
}

// counted counts what it is told.
type counted int

func (c *counted) Notify() { *c++ }

// TestStanding: a Fetch looks at what is new, named, unsettled or touched, and at what is touched while it waits.
func TestStanding(t *testing.T) {
	c, _ := newTestCache()
	told := new(counted)
	x, _ := c.Open(&Request{Follower: true, Changes: told, Partitions: want(0, 1, 2)})
	if x.Standing() {
		t.Fatal("a session stands that is not there yet")
	}
	id, _ := x.Finish(make([]Result, 3))
	settled := func(n int) []Result {
		rs := make([]Result, n)
		for i := range rs {
			rs[i].Settled = true
		}
		return rs
	}
	var places []*Place
	look := func(epoch int32, r Request, wanted ...int32) *Context {
		t.Helper()
		r.SessionID, r.Epoch, r.Follower = id, epoch, true
		if n := c.Pending(id); n > len(wanted) {
			t.Errorf("%d are pending, %v wanted", n, wanted)
		}
		x, code := c.Open(&r)
		if code != 0 || !slices.Equal(partitions(x), wanted) || !x.Standing() {
			t.Fatalf("code %d; looks at %v, want %v", code, partitions(x), wanted)
		}
		return x
	}
	x = look(1, Request{}, 0, 1, 2)
	for i := range 3 {
		places = append(places, x.Place(i))
	}
	x.Looked(7)
	rs := settled(3)
	rs[2].Settled = false
	x.Finish(rs)
	x = look(2, Request{Partitions: want(0)}, 2, 0)
	places[1].Touch(false)
	places[1].Touch(true)
	places[1].Touch(true)
	places[2].Touch(false)
	if *told != 1 {
		t.Errorf("it was told %d times", *told)
	}
	if touched := x.More(); !slices.Equal(touched, []int{0, 2}) || !slices.Equal(partitions(x), []int32{2, 0, 1}) {
		t.Errorf("touched are %v of %v", touched, partitions(x))
	}
	x.Looked(9)
	x.Finish(settled(3))
	stale := look(3, Request{})
	places[0].Touch(true)
	stale.More()
	x = look(4, Request{Forgotten: []Key{key(1)}}) // the client did not wait
	if _, code := stale.Finish(settled(1)); code != kerr.InvalidFetchSessionEpoch.Code {
		t.Errorf("the overtaken Fetch ends with %d", code)
	}
	if touched := x.More(); len(touched) != 1 || x.Place(0) != places[0] {
		t.Error("what an overtaken Fetch saw is lost")
	}
	x.Looked(20)
	if places[1].Touch(true) || !places[0].Touch(true) || places[1].LastFetch() != 9 || places[0].LastFetch() != 20 {
		t.Errorf("the last fetches are %d and %d", places[0].LastFetch(), places[1].LastFetch())
	}
	if places[0].Gone() || !places[1].Gone() {
		t.Error("a place is gone that is not, or the other way round")
	}
	c.Open(&Request{SessionID: id, Follower: true, Partitions: want(0)}) // begins anew
	if !places[0].Gone() || places[0].Touch(true) {
		t.Error("a place outlives its session")
	}
}

func TestBusyPartitionStarvesNobody(t *testing.T) {
	c, _ := newTestCache()
	b := &broker{}
	b.end = [6]int64{1000, 3, 3, 3, 3, 3}
	offsets := [6]int64{}
	var id, epoch int32
	for step := 0; step < 20; step++ {
		req := Request{SessionID: id, Epoch: epoch}
		for i := range offsets {
			req.Partitions = append(req.Partitions, Partition{Key: key(int32(i)), FetchOffset: offsets[i]})
		}
		x, code := c.Open(&req)
		if code != 0 {
			t.Fatal(code)
		}
		rs := b.read(x.Partitions(), 3)
		for i, p := range x.Partitions() {
			offsets[p.Partition] += int64(rs[i].RecordBytes)
		}
		id, _ = x.Finish(rs)
		epoch = nextEpoch(epoch)
	}
	for i, o := range offsets[1:] {
		if o != 3 {
			t.Errorf("partition %d was read to %d of 3 while partition 0 was busy", i+1, o)
		}
	}
}
