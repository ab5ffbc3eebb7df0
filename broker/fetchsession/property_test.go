package fetchsession

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
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
// full fetch of everything would have told it, and with a small budget everything must be read in the end.
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
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { incrementalEqualsFull(t, rand.New(rand.NewPCG(seed, 0))) }) {
			t.Logf("replay: go test ./broker/fetchsession -run TestIncrementalEqualsFull -seed %d", seed)
		}
	}
}

var seedFlag = flag.Uint64("seed", 0, "replay the property test with this seed")

func incrementalEqualsFull(t *testing.T, r *rand.Rand) {
	c, _ := newTestCache()
	b := &broker{}
	client := map[Key]*known{}
	var id, epoch int32
	asked := map[Key]Partition{} // what the session was told last
	for step := range 60 {
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
		req := Request{SessionID: id, Epoch: epoch}
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
		if len(x.Partitions()) != len(client) {
			t.Fatalf("step %d: the session has %v, the client %d partitions", step, partitions(x), len(client))
		}
		rs := b.read(x.Partitions(), 3)
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
