// Package memlog is a log of internal topics in memory, whose high watermark, refusals and failures a test controls.
package memlog

import (
	"sync"

	"github.com/gregor-broker/gregor/log/record"
)

// Log implements runtime.Log. Safe for concurrent use.
type Log struct {
	mu struct {
		sync.Mutex
		partitions map[int32]*partition
		held       bool  // the high watermark stands still
		refusal    error // of CanAppend
		failure    error // of the next Append
		replay     error // of the next Replay
		maxBytes   int
	}
}

type partition struct {
	entries  []record.Entry
	end, hw  int64
	watchers map[int]func(int64)
	next     int
}

// New returns an empty log whose high watermark follows every append.
func New() *Log {
	l := &Log{}
	l.mu.partitions = map[int32]*partition{}
	l.mu.maxBytes = 1 << 20
	return l
}

// partition returns p's state. The caller holds mu.
func (l *Log) partition(p int32) *partition {
	part := l.mu.partitions[p]
	if part == nil {
		part = &partition{watchers: map[int]func(int64){}}
		l.mu.partitions[p] = part
	}
	return part
}

// CanAppend returns what Refuse was given.
func (l *Log) CanAppend(int32, int32) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.refusal
}

// Append stores a batch, or returns what FailNext was given.
func (l *Log) Append(p int32, leaderEpoch int32, b record.Batch) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.mu.failure; err != nil {
		l.mu.failure = nil
		return 0, err
	}
	part := l.partition(p)
	b.SetBaseOffset(part.end)
	b.SetLeaderEpoch(leaderEpoch)
	part.entries = append(part.entries, record.Entry(b))
	part.end = b.NextOffset()
	if !l.mu.held {
		part.hw = part.end
	}
	return part.end, nil
}

// AppendIn is Append; a guard that is an error is the refusal.
func (l *Log) AppendIn(p int32, leaderEpoch int32, guard any, b record.Batch) (int64, error) {
	if err, ok := guard.(error); ok {
		return 0, err
	}
	return l.Append(p, leaderEpoch, b)
}

// WriteMarker appends a control batch.
func (l *Log) WriteMarker(p int32, leaderEpoch int32, e record.EndTxn) (int64, error) {
	kind := record.Abort
	if e.Commit {
		kind = record.Commit
	}
	return l.Append(p, leaderEpoch, record.BuildMarker(e.ProducerID, e.ProducerEpoch, kind, e.CoordinatorEpoch, 0))
}

// Put appends an entry as it is, from its own base offset on.
func (l *Log) Put(p int32, e record.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	part := l.partition(p)
	part.entries = append(part.entries, e)
	part.end = e.NextOffset()
	part.hw = part.end
}

// Watch implements runtime.Log.
func (l *Log) Watch(p int32, f func(int64)) (cancel func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	part := l.partition(p)
	id := part.next
	part.next++
	part.watchers[id] = f
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(part.watchers, id)
	}
}

// HighWatermark implements runtime.Log.
func (l *Log) HighWatermark(p int32) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.partition(p).hw
}

// Replay calls f with all entries.
func (l *Log) Replay(p int32, f func(record.Entry) error) error {
	l.mu.Lock()
	entries, err := l.partition(p).entries, l.mu.replay
	l.mu.replay = nil
	l.mu.Unlock()
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := f(e); err != nil {
			return err
		}
	}
	return nil
}

// MaxBatchBytes implements runtime.Log.
func (l *Log) MaxBatchBytes(int32) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.maxBytes
}

// SetMaxBatchBytes sets what MaxBatchBytes returns; 1 MiB at first.
func (l *Log) SetMaxBatchBytes(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.maxBytes = n
}

// Hold makes the high watermark stand still.
func (l *Log) Hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.held = true
}

// Release lets the high watermark follow the log end again.
func (l *Log) Release() {
	l.mu.Lock()
	l.mu.held = false
	var tell []func()
	for _, part := range l.mu.partitions {
		part.hw = part.end
		hw := part.hw
		for _, f := range part.watchers {
			tell = append(tell, func() { f(hw) })
		}
	}
	l.mu.Unlock()
	for _, f := range tell {
		f()
	}
}

// Refuse makes CanAppend return err.
func (l *Log) Refuse(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.refusal = err
}

// FailNext makes the next Append fail with err.
func (l *Log) FailNext(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.failure = err
}

// FailReplay makes the next Replay fail with err.
func (l *Log) FailReplay(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.replay = err
}

// Entries returns what is stored in p.
func (l *Log) Entries(p int32) []record.Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]record.Entry(nil), l.partition(p).entries...)
}

// Truncate drops what lies above the high watermark of p, as when leadership was lost before it was replicated.
func (l *Log) Truncate(p int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	part := l.partition(p)
	for n := len(part.entries); n > 0 && part.entries[n-1].NextOffset() > part.hw; n-- {
		part.entries = part.entries[:n-1]
	}
	part.end = part.hw
}
