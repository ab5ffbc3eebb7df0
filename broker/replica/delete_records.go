package replica

import (
	"sync"
	"time"

	"github.com/gregor-broker/gregor/broker/metadata"
	"github.com/gregor-broker/gregor/broker/purgatory"
	"github.com/gregor-broker/gregor/broker/replica/insync"
	"github.com/gregor-broker/gregor/log"
)

// DeleteEntry asks for a partition's log start to be moved up to Offset, -1 for the high watermark.
type DeleteEntry struct {
	Topic     string
	Partition int32
	Offset    int64
	Err       error // already refused, for this reason
}

// DeleteResult says where the log begins now on all replicas that are alive: the low watermark, -1 with an error.
type DeleteResult struct {
	Err          error
	LowWatermark int64

	partition *Partition // while the other replicas are waited for; else nil
	start     int64      // that they are to reach
}

// DeleteRecords moves log starts and calls done with the results, at once or when all live replicas have followed, at
// most after timeout. After ReplicaManager.deleteRecords and DelayedDeleteRecords.
func (m *Manager) DeleteRecords(timeout time.Duration, entries []DeleteEntry, done func([]DeleteResult)) {
	op := &deleteOp{done: done}
	op.mu.results = make([]DeleteResult, len(entries))
	var lists []*purgatory.List
	for i := range entries {
		r := &op.mu.results[i]
		*r = m.deleteRecords(&entries[i])
		if r.partition != nil && !r.settle() {
			lists = append(lists, &r.partition.starts)
		}
	}
	if len(lists) == 0 {
		done(op.mu.results)
		return
	}
	m.purgatory.Watch(op, timeout, lists...)
}

// deleteRecords moves the log start of the leader's own log.
func (m *Manager) deleteRecords(e *DeleteEntry) DeleteResult {
	if e.Err != nil {
		return DeleteResult{Err: e.Err, LowWatermark: -1}
	}
	if metadata.IsInternal(e.Topic) {
		return DeleteResult{Err: ErrInternalTopic, LowWatermark: -1}
	}
	p, err := m.lookup(e.Topic, log.TopicID{}, e.Partition)
	if err == nil {
		_, err = p.leading(-1)
	}
	var start int64
	if err == nil {
		start, err = p.log.DeleteRecords(e.Offset)
	}
	if err != nil {
		return DeleteResult{Err: err, LowWatermark: -1}
	}
	p.happened() // one that waits below the new start waits in vain
	return DeleteResult{LowWatermark: -1, partition: p, start: start}
}

// settle reports whether it is known how a deletion ended, and notes that.
func (r *DeleteResult) settle() bool {
	low, err := r.partition.lowWatermark()
	switch {
	case err != nil:
		r.Err = err
	case low < r.start:
		return false
	default:
		r.LowWatermark = low
	}
	r.partition = nil
	return true
}

// lowWatermark is the least log start of the replicas that are alive, insync.Unknown while one has not said.
func (p *Partition) lowWatermark() (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := p.leading(-1); err != nil {
		return insync.Unknown, err
	}
	e := p.env()
	return p.mu.leader.LowWatermark(p.log.Bounds().Start, &e), nil
}

// deleteOp is a DeleteRecords that waits for the followers.
type deleteOp struct {
	done func([]DeleteResult)
	mu   struct {
		sync.Mutex
		results []DeleteResult
	}
}

// Ready follows DelayedDeleteRecords.tryComplete.
func (o *deleteOp) Ready() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := true
	for i := range o.mu.results {
		if r := &o.mu.results[i]; r.partition != nil && !r.settle() {
			all = false
		}
	}
	return all
}

// Finish answers. A late Ready finds everything settled and changes nothing.
func (o *deleteOp) Finish(bool) {
	o.Ready()
	o.mu.Lock()
	results := o.mu.results
	for i := range results {
		if r := &results[i]; r.partition != nil {
			r.Err, r.partition = ErrTimeout, nil
		}
	}
	o.mu.Unlock()
	o.done(results)
}
