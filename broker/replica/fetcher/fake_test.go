package fetcher

import (
	"errors"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/epoch"
	"github.com/gregor-broker/gregor/log/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// replica is a log in memory: the leader epoch of each offset from start on, and the epochs without records.
type replica struct {
	leaderEpoch int32
	start, hw   int64
	records     []int32 // leader epochs
	history     epoch.History
	err         error // of the next change
	did         []string
}

func newReplica(leaderEpoch int32, start int64, records ...int32) *replica {
	r := &replica{leaderEpoch: leaderEpoch, start: start, hw: start, records: records}
	for i, e := range records {
		r.history, _ = r.history.Assign(e, start+int64(i))
	}
	return r
}

func (r *replica) end() int64 { return r.start + int64(len(r.records)) }

func (r *replica) Position() Position {
	e, _ := r.history.Latest()
	return Position{r.end(), e, r.start}
}

func (r *replica) EndOffsetForEpoch(e int32) (int32, int64) { return r.history.EndOffset(e, r.end()) }
func (r *replica) HighWatermark() int64                     { return r.hw }

func (r *replica) allowed(leaderEpoch int32) error {
	if err := r.err; err != nil {
		r.err = nil
		return err
	}
	if leaderEpoch != r.leaderEpoch {
		return ErrSuperseded
	}
	return nil
}

func (r *replica) Append(leaderEpoch int32, records []byte, hw, start int64) error {
	if err := r.allowed(leaderEpoch); err != nil {
		return err
	}
	for len(records) > 0 {
		e, rest, err := record.NextEntry(records)
		if err != nil || e.CheckCRC() != nil {
			return log.ErrCorrupt
		}
		if e.BaseOffset() != r.end() {
			return log.ErrUnexpectedOffset
		}
		b, _ := e.Batch()
		r.history, _ = r.history.Assign(b.LeaderEpoch(), r.end())
		for range b.Count() {
			r.records = append(r.records, b.LeaderEpoch())
		}
		records = rest
	}
	r.hw = max(r.hw, min(hw, r.end()))
	if start > r.start && start <= r.hw {
		r.records, r.start = r.records[start-r.start:], start
	}
	return nil
}

func (r *replica) TruncateTo(leaderEpoch int32, offset int64) error {
	if err := r.allowed(leaderEpoch); err != nil {
		return err
	}
	if offset = min(offset, r.end()); offset < r.start {
		return r.RestartAt(leaderEpoch, offset)
	}
	r.records = slices.Clone(r.records[:offset-r.start])
	r.history, _ = r.history.TruncateEnd(offset)
	r.hw = min(r.hw, offset)
	return nil
}

func (r *replica) RestartAt(leaderEpoch int32, start int64) error {
	if err := r.allowed(leaderEpoch); err != nil {
		return err
	}
	*r = replica{leaderEpoch: r.leaderEpoch, start: start, hw: start}
	return nil
}

var errDisk = errors.New("the disk is gone")

// batch is n records from an offset on, of a leader epoch.
func batch(t testing.TB, offset int64, epoch int32, n int) record.Batch {
	t.Helper()
	recs := make([]record.Record, n)
	for i := range recs {
		recs[i] = record.Record{Offset: offset + int64(i), Value: []byte("v")}
	}
	b, err := record.Build(record.BatchOptions{BaseOffset: offset, LeaderEpoch: epoch}.NoProducer(), recs)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// answer is an answer for one partition without error or records.
func answer(partition int32) kmsg.FetchResponseTopicPartition {
	p := kmsg.NewFetchResponseTopicPartition()
	p.Partition = partition
	return p
}

func answers(session int32, id log.TopicID, ps ...kmsg.FetchResponseTopicPartition) *kmsg.FetchResponse {
	r := kmsg.NewPtrFetchResponse()
	r.SessionID = session
	r.Topics = []kmsg.FetchResponseTopic{{TopicID: id, Partitions: ps}}
	return r
}
