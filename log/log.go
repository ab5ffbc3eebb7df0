// Package log owns the replicas' logs on disk: one directory per partition in Kafka's format, in one or more log
// directories (Manager).
//
// # Append
//
// What a batch must satisfy is checked before (record.Check). Under the log's lock: sequence numbers, roll if due,
// offset and leader epoch written into the header, one write to the page cache, index entry, producer state, bounds
// published. fsync is never under the lock: the directory's syncer gathers those who wait and syncs each file once.
//
// # Read
//
// Readers load the published bounds and the list of segments and take no lock. A range of a file that was returned
// stays readable until it is released.
//
// # What holds after a crash
//
//   - Process killed: what was appended is there.
//   - Power lost: what was flushed is there; from the recovery point on, the tail is cut at the first batch that is not whole.
//   - Whatever lies below the recovery point has its index, aborted transactions and leader epochs on disk.
package log

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/gregor-broker/gregor/log/epoch"
	"github.com/gregor-broker/gregor/log/producer"
	"github.com/gregor-broker/gregor/log/segment"
)

// Log is one replica's log. Safe for concurrent use. Appends, rolls and truncations take mu; reads never do.
type Log struct {
	dir  *dir
	tp   TopicPartition
	path string

	config atomic.Pointer[Config]
	segs   atomic.Pointer[[]*segment.Segment] // by base; never empty; the last one grows
	epochs atomic.Pointer[epoch.History]
	state  atomic.Int32 // of type lifeState
	pub    published

	// recovered is the recovery point: the offset up to which everything is durable.
	recovered atomic.Int64
	unflushed atomic.Int64 // records appended since the last flush began
	// dropping says that segments below the log start may still have their names on disk: until then the log start is
	// kept in its checkpoint.
	dropping atomic.Bool

	mu struct {
		sync.Mutex
		id          TopicID
		producers   producer.State
		marker      []byte  // memory for the next one
		snapshots   []int64 // offsets of the snapshot files, rising
		unsynced    []int64 // those among them that are not synced
		epochsDirty bool    // epochs differ from the file
		namesDirty  bool    // files were made or renamed since the directory was synced
		touched     bool    // something changed since the last clean state on disk
		truncations int64   // a flush that began before the last one does not count
		segCreated  int64   // when the active segment was made or opened, ms
		jitter      int64   // of its roll, ms
	}
}

// lifeState says what may be done with a log.
type lifeState int32

const (
	live    lifeState = iota
	failed            // an fsync failed: nobody knows what is on disk; readable
	closed            // by the manager
	deleted           // the directory is on its way out
)

var (
	errClosed = fmt.Errorf("closed: %w", ErrStorage)
	errFailed = fmt.Errorf("stopped after a failed fsync: %w", ErrStorage)
)

// usable returns the reason why nothing may be written.
func (l *Log) usable() error {
	switch lifeState(l.state.Load()) {
	case failed:
		return l.errorf("%w", errFailed)
	case closed:
		return l.errorf("%w", errClosed)
	case deleted:
		return l.errorf("%w", ErrUnknownPartition)
	}
	return nil
}

// errorf makes an error that names the partition.
func (l *Log) errorf(format string, args ...any) error {
	return fmt.Errorf("%s: "+format, append([]any{l.tp}, args...)...)
}

// storage makes an error about a failed call of the file system, and logs it.
func (l *Log) storage(doing string, err error) error {
	if lifeState(l.state.Load()) == deleted {
		return l.errorf("%w", ErrUnknownPartition)
	}
	l.dir.trouble(l.tp, doing, err)
	return l.errorf("%s: %w: %w", doing, ErrStorage, err)
}

func (l *Log) storageIf(doing string, err error) error {
	if err == nil {
		return nil
	}
	return l.storage(doing, err)
}

// TopicPartition names the log.
func (l *Log) TopicPartition() TopicPartition { return l.tp }

// TopicID is the id in partition.metadata, zero without.
func (l *Log) TopicID() TopicID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.id
}

// Dir is the partition's own directory; its parent is the log directory.
func (l *Log) Dir() string { return l.path }

// Config is the topic's configuration in force.
func (l *Log) Config() *Config { return l.config.Load() }

// SetConfig puts another configuration in force.
func (l *Log) SetConfig(c *Config) { l.config.Store(c) }

// Bounds are the published offsets, consistent with each other.
func (l *Log) Bounds() Bounds { return l.pub.view().Bounds }

// Size is the number of bytes of all log files.
func (l *Log) Size() int64 {
	sum := int64(0)
	for _, s := range *l.segs.Load() {
		sum += s.Size()
	}
	return sum
}

// AdvanceHighWatermark raises the high watermark to o, at most to the log end. It never goes back.
func (l *Log) AdvanceHighWatermark(o int64) (moved bool) {
	if moved = l.pub.advance(o); !moved {
		return false
	}
	l.dir.hwChanged.set()
	if l.pub.unstable.Load() >= 0 {
		l.mu.Lock()
		l.replicated()
		l.mu.Unlock()
	}
	return true
}

// replicated drops what the high watermark has decided from the unstable transactions. The caller holds mu.
func (l *Log) replicated() {
	if !l.mu.producers.Pending() {
		return
	}
	l.mu.producers.Replicated(l.pub.hw.Load())
	l.pub.setUnstable(l.mu.producers.FirstUnstable())
}

// active is the segment that grows. The caller holds mu.
func (l *Log) active() *segment.Segment {
	segs := *l.segs.Load()
	return segs[len(segs)-1]
}

// setSegments publishes another list. The caller holds mu.
func (l *Log) setSegments(segs []*segment.Segment) { l.segs.Store(&segs) }

// ProducerCount returns how many producers it remembers.
func (l *Log) ProducerCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.producers.Len()
}

// Producers lists the producers by id.
func (l *Log) Producers() []ProducerState {
	l.mu.Lock()
	rows := l.mu.producers.Rows()
	l.mu.Unlock()
	out := make([]ProducerState, len(rows))
	for i, r := range rows {
		out[i] = ProducerState{r.ProducerID, r.Epoch, r.LastSequence, r.Timestamp, r.CoordinatorEpoch, r.TxnFirstOffset}
	}
	return out
}
