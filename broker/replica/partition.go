package replica

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gregor-broker/gregor/broker/purgatory"
	"github.com/gregor-broker/gregor/log"
)

// Partition is one partition that this broker holds. Safe for concurrent use. A deleted partition never comes back: a
// topic created again under its name gets new Partitions, so nothing of the old one can leak into them.
type Partition struct {
	manager *Manager
	tp      log.TopicPartition
	id      log.TopicID
	log     *log.Log
	role    atomic.Pointer[role]
	minISR  atomic.Int32

	fetches purgatory.List // wait for more bytes, or the end of the leadership
	acks    purgatory.List // wait for the high watermark, or the end of the leadership
	watched watchers       // the coordinators'
}

// role is what the controller last said about a partition. Immutable.
type role struct {
	leads          bool // this broker is the leader
	deleted        bool
	leader         int32
	leaderEpoch    int32
	partitionEpoch int32 // version of the partition's state in the store
	epochStart     int64 // log end when this broker became leader of the epoch
	isr, replicas  []int32
}

// unknownEnd is the log end of an in-sync follower that has not fetched yet: it holds the high watermark where it is.
const unknownEnd = -1

// highWatermark is the offset up to which every in-sync replica has the log, given their log ends.
func highWatermark(ends []int64) int64 { return slices.Min(ends) }

// enoughInSync says whether acks=-1 can be kept. Kafka never asks for more replicas than a partition has
// (Partition.effectiveMinIsr).
func enoughInSync(isr, replicas, minISR int) bool { return isr >= min(minISR, replicas) }

func (p *Partition) enoughInSync(r *role) bool {
	return enoughInSync(len(r.isr), len(r.replicas), int(p.minISR.Load()))
}

// leading returns the role if this broker leads the partition in the given epoch (-1: whichever), else the error.
func (p *Partition) leading(epoch int32) (*role, error) {
	r := p.role.Load()
	switch {
	case r.deleted:
		return nil, ErrUnknownPartition
	case epoch >= 0 && epoch < r.leaderEpoch:
		return nil, ErrFencedEpoch
	case epoch >= 0 && epoch > r.leaderEpoch:
		return nil, ErrUnknownEpoch
	case !r.leads:
		return nil, ErrNotLeader
	}
	return r, nil
}

// advance moves the high watermark as far as the in-sync replicas allow, and wakes who waits for that.
func (p *Partition) advance() {
	if p.moveHighWatermark() {
		p.acks.Notify()
		p.fetches.Notify()
		p.watched.notify(p)
	}
}

// moveHighWatermark is advance without waking anybody. It does not move while too few replicas are in sync, as in
// Kafka since 3.7.
func (p *Partition) moveHighWatermark() bool {
	r := p.role.Load()
	if !r.leads || !p.enoughInSync(r) {
		return false
	}
	end := p.log.Bounds().End
	if len(r.isr) == 1 {
		return p.log.AdvanceHighWatermark(end)
	}
	ends := make([]int64, len(r.isr))
	for i, id := range r.isr {
		ends[i] = unknownEnd
		if id == p.manager.options.BrokerID {
			ends[i] = end
		}
	}
	return p.log.AdvanceHighWatermark(highWatermark(ends))
}

// become takes a new role and wakes who waited under the old one.
func (p *Partition) become(r *role) {
	p.role.Store(r)
	p.advance()
	p.acks.Notify()
	p.fetches.Notify()
}

// watchers are told when the high watermark moves.
type watchers struct {
	count  atomic.Int32
	queued atomic.Bool
	mu     struct {
		sync.Mutex
		next int
		all  map[int]func(int64)
	}
}

// add registers f and returns what takes it out again.
func (w *watchers) add(f func(hw int64)) (cancel func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.all == nil {
		w.mu.all = map[int]func(int64){}
	}
	key := w.mu.next
	w.mu.next++
	w.mu.all[key] = f
	w.count.Add(1)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if _, in := w.mu.all[key]; in {
			delete(w.mu.all, key)
			w.count.Add(-1)
		}
	}
}

// notify has the watchers told of the high watermark at the time when the pool comes to it. It costs one atomic load
// when there are none.
func (w *watchers) notify(p *Partition) {
	if w.count.Load() == 0 || !w.queued.CompareAndSwap(false, true) {
		return
	}
	p.manager.options.Pool(func() {
		w.queued.Store(false)
		hw := p.log.Bounds().HighWatermark
		for _, f := range w.snapshot() {
			f(hw)
		}
	})
}

func (w *watchers) snapshot() []func(int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fs := make([]func(int64), 0, len(w.mu.all))
	for _, f := range w.mu.all {
		fs = append(fs, f)
	}
	return fs
}
