package replica

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/gregor-broker/gregor/log/record"
)

// TestConcurrentUse has producers, waiting consumers, and a controller that deletes a topic and creates it again, all
// at once. Every call is answered once; a consumer sees each generation's records without gap; nothing but the errors
// of a vanishing topic may appear.
func TestConcurrentUse(t *testing.T) {
	const partitions, generations = 3, 8
	f := newFixture(t)
	f.lead("t", idOf(0), partitions)
	value := one(t, "v")
	var stop atomic.Bool
	var clients sync.WaitGroup
	var appended, read atomic.Int64
	for i := range 3 {
		clients.Go(func() {
			for n := 0; !stop.Load(); n++ {
				entries := make([]ProduceEntry, partitions)
				for j := range entries {
					entries[j] = ProduceEntry{Topic: "t", Partition: int32(j), Records: slices.Clone(value)}
				}
				answered := make(chan error, 1)
				acks := []int16{AcksAll, AcksLeader, AcksNone}[(i+n)%3]
				f.Produce(ProduceParams{Version: 11, Acks: acks, Timeout: time.Minute}, entries, func(rs []ProduceResult) {
					var err error
					for k := range rs {
						if rs[k].Err == nil {
							appended.Add(1)
						}
						err = errors.Join(err, unexpected(rs[k].Err))
					}
					answered <- err
				})
				if err := <-answered; err != nil {
					t.Errorf("produce: %v", err)
				}
			}
		})
	}
	for i := range 3 {
		clients.Go(func() {
			var next [partitions]int64
			for !stop.Load() {
				entries := make([]FetchEntry, partitions)
				for j := range entries {
					entries[j] = from("t", int32((i+j)%partitions), next[(i+j)%partitions])
				}
				p := look()
				p.MaxWait, p.MinBytes = time.Minute, 1+i*200
				p.Gone = stop.Load
				answered := make(chan []FetchResult, 1)
				f.Fetch(p, entries, func(rs []FetchResult) { answered <- rs })
				for j, r := range <-answered {
					at := &next[(i+j)%partitions]
					n, err := consume(r, *at)
					if err != nil {
						t.Errorf("fetch: %v", err)
					}
					if r.Err != nil {
						*at = 0 // a new generation
						continue
					}
					read.Add(n - *at)
					*at = n
				}
			}
		})
	}
	for g := range byte(generations) {
		for appended.Load() < int64(g+1)*200 && !t.Failed() {
			sleep(time.Millisecond)
		}
		f.remove("t", partitions)
		f.lead("t", idOf(g+1), partitions)
	}
	for read.Load() == 0 && !t.Failed() {
		sleep(time.Millisecond)
	}
	stop.Store(true)
	f.find("t", 0).fetches.Notify()
	f.find("t", 1).fetches.Notify()
	f.find("t", 2).fetches.Notify()
	clients.Wait()
	if n := f.purgatory.Waiting(); n != 0 {
		t.Errorf("%d operations still wait", n)
	}
}

// unexpected returns err unless a topic that goes and comes may cause it.
func unexpected(err error) error {
	for _, k := range []*kerr.Error{kerr.UnknownTopicOrPartition, kerr.OffsetOutOfRange, kerr.KafkaStorageError} {
		if errors.Is(err, k) {
			return nil
		}
	}
	return err
}

// consume checks that records go on from offset, and returns the offset after them.
func consume(r FetchResult, offset int64) (int64, error) {
	if r.Records.File == nil {
		return offset, unexpected(r.Err)
	}
	defer r.Records.File.Release()
	buf := make([]byte, r.Records.Len)
	if _, err := r.Records.File.ReadAt(buf, r.Records.Pos); err != nil {
		return offset, err
	}
	for len(buf) > 0 {
		e, rest, err := record.NextEntry(buf)
		if err != nil {
			if errors.Is(err, record.ErrTruncated) {
				break
			}
			return offset, err
		}
		if e.BaseOffset() != offset {
			return offset, fmt.Errorf("offset %d where %d was expected", e.BaseOffset(), offset)
		}
		offset, buf = e.LastOffset()+1, rest
	}
	return offset, nil
}
