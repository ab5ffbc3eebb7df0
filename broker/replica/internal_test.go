package replica

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/gregor-broker/gregor/log/record"
)

const offsetsTopic = "__consumer_offsets"

func TestInternalLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.mustObey(f.order(offsetsTopic, idOf(1), 2, 3, self))
		l := f.InternalLog(offsetsTopic)
		moved := make(chan int64, 10)
		cancel := l.Watch(1, func(hw int64) { moved <- hw })
		end, err := l.Append(1, 3, one(t, "a"))
		if err != nil || end != 1 || <-moved != 1 || l.HighWatermark(1) != 1 {
			t.Errorf("end %d, %v, high watermark %d", end, err, l.HighWatermark(1))
		}
		cancel()
		cancel()
		if _, err := l.Append(1, 3, batch(t, record.Gzip, "b", 1, 2)); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if len(moved) != 0 {
			t.Error("told after the watch was cancelled")
		}
		for _, c := range []struct {
			name     string
			p, epoch int32
			b        record.Batch
			want     *kerr.Error
		}{
			{"old epoch", 1, 2, one(t, "v"), kerr.FencedLeaderEpoch},
			{"no such partition", 2, 3, one(t, "v"), kerr.UnknownTopicOrPartition},
			{"too large", 1, 3, one(t, strings.Repeat("v", l.MaxBatchBytes(1))), kerr.MessageTooLarge},
		} {
			if _, err := l.Append(c.p, c.epoch, c.b); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", c.name, err, c.want)
			}
		}
		f.minISR[offsetsTopic] = 2
		lonely := f.order(offsetsTopic, idOf(1), 1, 4, self)
		lonely.TopicStates[0].PartitionStates[0].Replicas = []int32{self, 2}
		f.mustObey(lonely)
		f.ConfigChanged(offsetsTopic)
		if err := l.CanAppend(0, 4); !errors.Is(err, kerr.NotEnoughReplicas) {
			t.Errorf("below min ISR: %v", err)
		}
		var seen []int64
		if err := l.Replay(1, func(e record.Entry) error { seen = append(seen, e.LastOffset()); return nil }); err != nil || len(seen) != 2 || seen[1] != 2 {
			t.Errorf("replayed %v, %v", seen, err)
		}
		stop := errors.New("stop")
		if err := l.Replay(1, func(record.Entry) error { return stop }); !errors.Is(err, stop) {
			t.Errorf("%v", err)
		}
		l.Watch(9, func(int64) {})()
		if l.HighWatermark(9) != -1 || l.MaxBatchBytes(9) != 0 {
			t.Error("a partition that is not held has a high watermark or a limit")
		}
	})
}

// TestReplayOfManyBatches: batches larger and smaller than what is read at a time, and a log that starts inside one.
func TestReplayOfManyBatches(t *testing.T) {
	f := newFixture(t)
	c := *f.configFor("t")
	c.SegmentBytes, c.MaxMessageBytes = 5<<20, 4<<20
	f.configs["t"] = &c
	f.lead("t", idOf(1), 1)
	sizes := []int{10, replayBytes + 1, 100, replayBytes / 2, replayBytes / 3, replayBytes / 3, 2 * replayBytes, 1}
	for _, n := range sizes {
		f.mustPut("t", 0, batch(t, record.None, strings.Repeat("v", n/2), 1, 2))
	}
	if _, err := f.deleteRecords("t", 0, 3); err != nil {
		t.Fatal(err)
	}
	next := int64(2)
	err := f.InternalLog("t").Replay(0, func(e record.Entry) error {
		if e.BaseOffset() != next {
			t.Errorf("offset %d follows %d", e.BaseOffset(), next-1)
		}
		next = e.LastOffset() + 1
		return nil
	})
	if err != nil || next != int64(2*len(sizes)) {
		t.Errorf("replayed to %d of %d, %v", next, 2*len(sizes), err)
	}
}
