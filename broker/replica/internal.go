package replica

import (
	"errors"
	"fmt"
	"io"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/wire/errcode"
)

// replayBytes is how much Replay reads at a time; a larger batch comes alone.
const replayBytes = 1 << 20

// errRecordsTooLarge is for a coordinator that writes more than its topic allows.
var errRecordsTooLarge = errcode.New(kerr.MessageTooLarge, "the batch is larger than max.message.bytes of the internal topic")

// InternalLog is one of the brokers' own topics as its coordinator uses it; it is what groupcoord calls a Log. Safe
// for concurrent use.
type InternalLog struct {
	manager *Manager
	topic   string
}

// InternalLog returns the view of an internal topic.
func (m *Manager) InternalLog(topic string) *InternalLog { return &InternalLog{m, topic} }

// writable returns a partition that this broker leads in the given epoch with enough replicas in sync.
func (t *InternalLog) writable(p, leaderEpoch int32) (*Partition, error) {
	partition, err := t.manager.lookup(t.topic, log.TopicID{}, p)
	if err != nil {
		return nil, err
	}
	r, err := partition.leading(leaderEpoch)
	if err != nil {
		return nil, err
	}
	if !partition.enoughInSync(r) {
		return nil, ErrNotEnoughReplicas
	}
	return partition, nil
}

// CanAppend returns the error with which an append would be refused now.
func (t *InternalLog) CanAppend(p, leaderEpoch int32) error {
	_, err := t.writable(p, leaderEpoch)
	return err
}

// Append writes a batch, whose base offset and leader epoch it sets, and returns the offset after it. The error comes
// before anything is written if this broker does not lead in that epoch, too few replicas are in sync, or the batch is
// too large.
func (t *InternalLog) Append(p, leaderEpoch int32, b record.Batch) (end int64, err error) {
	return t.append(log.Writer{}, p, leaderEpoch, b)
}

// AppendIn is Append of a batch of a producer's transaction. guard is what JoinTransaction gave, or nil. The error may
// also be one of the log's producer state.
func (t *InternalLog) AppendIn(p, leaderEpoch int32, guard any, b record.Batch) (end int64, err error) {
	w := log.Writer{Coordinator: true}
	w.Guard, _ = guard.(log.Guard)
	return t.append(w, p, leaderEpoch, b)
}

// WriteMarker ends a producer's transaction and returns the offset after the marker.
func (t *InternalLog) WriteMarker(p, leaderEpoch int32, e record.EndTxn) (end int64, err error) {
	partition, err := t.writable(p, leaderEpoch)
	if err != nil {
		return -1, err
	}
	end, err = partition.endTransaction(&e, leaderEpoch)
	if err != nil {
		return -1, err
	}
	partition.appended()
	return end, nil
}

func (t *InternalLog) append(w log.Writer, p, leaderEpoch int32, b record.Batch) (end int64, err error) {
	partition, err := t.writable(p, leaderEpoch)
	if err != nil {
		return -1, err
	}
	if len(b) > t.MaxBatchBytes(p) {
		return -1, errRecordsTooLarge
	}
	checked := record.Trusted(b)
	a, err := partition.appendLeading(w, &checked, leaderEpoch)
	if err != nil {
		return -1, err
	}
	partition.appended()
	t.manager.options.OnAppend(t.topic, len(b), a.LastOffset+1-a.BaseOffset)
	return a.LastOffset + 1, nil
}

// Watch has f called when the high watermark has moved: queued, never inside Append, and possibly once more just after
// cancel. A partition that is not held here is never heard of.
func (t *InternalLog) Watch(p int32, f func(hw int64)) (cancel func()) {
	partition := t.manager.find(t.topic, p)
	if partition == nil {
		return func() {}
	}
	return partition.watched.add(f)
}

// HighWatermark returns a partition's high watermark, -1 if it is not held here.
func (t *InternalLog) HighWatermark(p int32) int64 {
	if partition := t.manager.find(t.topic, p); partition != nil {
		return partition.log.Bounds().HighWatermark
	}
	return -1
}

// MaxBatchBytes is max.message.bytes of the topic.
func (t *InternalLog) MaxBatchBytes(p int32) int {
	if partition := t.manager.find(t.topic, p); partition != nil {
		return int(partition.log.Config().MaxMessageBytes)
	}
	return 0
}

// Replay calls f with each entry from the log start to the end that the log has now, in order. An error of f ends it
// and is returned.
func (t *InternalLog) Replay(p int32, f func(record.Entry) error) error {
	partition, err := t.manager.lookup(t.topic, log.TopicID{}, p)
	if err != nil {
		return err
	}
	b := partition.log.Bounds()
	var buf []byte
	for offset := b.Start; offset < b.End; {
		if buf, err = readAll(partition.log, offset, buf); err != nil {
			return err
		}
		if len(buf) == 0 {
			return nil // the rest was compacted away
		}
		if offset, err = eachEntry(buf, offset, f); err != nil {
			return err
		}
	}
	return nil
}

// readAll reads batches from offset on into buf, at least one if there is any.
func readAll(l *log.Log, offset int64, buf []byte) ([]byte, error) {
	r, err := l.Read(offset, replayBytes, log.LogEnd, true)
	if err != nil {
		return buf, err
	}
	if r.Part.File == nil {
		return append(buf[:0], r.Part.Bytes...), nil
	}
	defer r.Part.File.Release()
	if cap(buf) < r.Part.Len {
		buf = make([]byte, r.Part.Len)
	}
	buf = buf[:r.Part.Len]
	if _, err := r.Part.File.ReadAt(buf, r.Part.Pos); err != nil && err != io.EOF {
		return buf, fmt.Errorf("%v: %w: %w", l.TopicPartition(), log.ErrStorage, err)
	}
	return buf, nil
}

// eachEntry calls f with the entries of buf that lie at or after offset, and returns the offset after the last whole
// one.
func eachEntry(buf []byte, offset int64, f func(record.Entry) error) (int64, error) {
	next := offset
	for len(buf) > 0 {
		e, rest, err := record.NextEntry(buf)
		if errors.Is(err, record.ErrTruncated) && next > offset {
			break
		}
		if err != nil {
			return next, err
		}
		if e.LastOffset() >= offset {
			if err := f(e); err != nil {
				return next, err
			}
		}
		next, buf = e.LastOffset()+1, rest
	}
	return next, nil
}
