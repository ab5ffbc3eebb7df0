package replica

import (
	"sync"
	"sync/atomic"

	"github.com/gregor-broker/gregor/broker/purgatory"
	"github.com/gregor-broker/gregor/broker/replica/insync"
	"github.com/gregor-broker/gregor/log"
)

// Partition is one partition that this broker holds. Safe for concurrent use. A deleted partition never comes back: a
// topic created again under its name gets new Partitions, so nothing of the old one can leak into them.
//
// The locks are taken in this order: writing, mu, the log's own. Whoever changes the log holds
// writing to read, after a look at the role; a role changes with writing held to write. So nothing is written under a
// role that is over: not by a deposed leader, nor by a fetcher that followed another one.
type Partition struct {
	manager *Manager
	tp      log.TopicPartition
	id      log.TopicID
	log     *log.Log
	minISR  atomic.Int32
	alive   func(broker int32) bool // Options.Online of this partition
	lag     atomic.Int64            // offsets that it was behind the leader's high watermark after the last fetch
	writing sync.RWMutex
	role    atomic.Pointer[role] // stored with mu held

	mu struct {
		sync.Mutex
		leader   insync.Leader // while this broker leads
		proposal int64         // number of the last one
	}

	fetches purgatory.List // wait for more bytes, or the end of the leadership
	places  places         // in followers' standing sessions
	acks    purgatory.List // wait for the high watermark, or the end of the leadership
	starts  purgatory.List // wait for the low watermark, or the end of the leadership
	watched watchers       // the coordinators'
}

// role is what the controller last said about a partition, and what it agreed to. Immutable.
type role struct {
	leads          bool // this broker is the leader
	deleted        bool
	failed         bool // its log directory cannot be written any more
	moving         bool // its replicas are being reassigned
	leader         int32
	leaderEpoch    int32
	partitionEpoch int32 // version of the partition's state in the store
	epochStart     int64 // log end when this broker became leader of the epoch
	isr, replicas  []int32
	adding         []int32 // those of replicas that a reassignment adds
	maximalISR     int     // members of the ISR and of the one that is proposed
}

func (p *Partition) enoughInSync(r *role) bool {
	return insync.EnoughInSync(len(r.isr), len(r.replicas), int(p.minISR.Load()))
}

// leading returns the role if this broker leads the partition in the given epoch (-1: whichever), else the error.
func (p *Partition) leading(epoch int32) (*role, error) {
	r, err := p.holding(epoch)
	if err == nil && !r.leads {
		return nil, ErrNotLeader
	}
	return r, err
}

// holding is leading for those who may read from a follower too.
func (p *Partition) holding(epoch int32) (*role, error) {
	r := p.role.Load()
	switch {
	case r.deleted:
		return nil, ErrUnknownPartition
	case r.failed:
		return nil, log.ErrStorage
	case epoch == -1:
	case epoch < r.leaderEpoch:
		return nil, ErrFencedEpoch
	case epoch > r.leaderEpoch:
		return nil, ErrUnknownEpoch
	}
	return r, nil
}

// advance moves the high watermark as far as the in-sync replicas allow, and wakes who waits for that.
func (p *Partition) advance() {
	if p.moveHighWatermark() {
		p.moved()
	}
}

// moved wakes who waits for the high watermark.
func (p *Partition) moved() {
	p.acks.Notify()
	p.fetches.Notify()
	p.places.touch(false) // a follower is told with the next that it is told
	p.watched.notify(p)
}

// happened wakes who fetches.
func (p *Partition) happened() {
	p.fetches.Notify()
	p.places.touch(true)
}

// moveHighWatermark is advance without waking anybody.
func (p *Partition) moveHighWatermark() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.raise()
}

// raise is moveHighWatermark. The caller holds mu.
func (p *Partition) raise() bool {
	if !p.role.Load().leads {
		return false
	}
	e := p.env()
	return p.log.AdvanceHighWatermark(p.mu.leader.HighWatermark(&e))
}

// env is the moment at which something is decided.
func (p *Partition) env() insync.Env {
	o := &p.manager.options
	b := p.log.Bounds()
	return insync.Env{
		Now: p.manager.clock.Monotonic(), MaxLag: o.ReplicaLagMax, End: b.End, HighWatermark: b.HighWatermark,
		MinISR: int(p.minISR.Load()), Alive: p.alive,
	}
}

// lead makes this broker the leader of an epoch: that is noted in the log before anything is written in it.
func (p *Partition) lead(r *role) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	r.epochStart = p.log.Bounds().End
	if err := p.log.AssignEpoch(r.leaderEpoch); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.role.Load()
	p.mu.leader.Elect(insync.Assignment{
		Self: r.leader, LeaderEpoch: r.leaderEpoch, PartitionEpoch: r.partitionEpoch, Replicas: r.replicas, ISR: r.isr,
	}, old != nil && old.leads, r.epochStart, p.manager.clock.Monotonic())
	r.maximalISR = len(r.isr)
	p.role.Store(r)
	p.raise()
	return nil
}

// follow makes this broker a follower, or one that holds the partition no longer.
func (p *Partition) follow(r *role) {
	p.writing.Lock()
	defer p.writing.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.leader = insync.Leader{}
	p.role.Store(r)
}

// roleChanged wakes who waited under the old role.
func (p *Partition) roleChanged() {
	p.moved()
	p.places.touch(true)
	p.starts.Notify()
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
