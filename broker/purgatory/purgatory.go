// Package purgatory keeps operations that wait for something to happen to a partition: a Fetch for bytes, a Produce for
// the high watermark.
//
// What can happen is a List, which belongs to the partition whose change it announces. An operation waits on one or more
// Lists and has a deadline:
//
//	Watch                                   Notify (an append, a new high watermark, a deletion…)
//	 1 enter every List and the heap         1 publish the change (an atomic store by the caller)
//	 2 look at Ready                         2 count of the List's waiters zero → nothing more to do
//	                                         3 else queue one look at all of them, unless one is queued already
//
// Atomics are sequentially consistent, so either the look of Watch sees the change or Notify sees the waiter: no
// wake-up is lost. Whoever notifies may hold any lock, since looking and finishing happen on the pool's goroutines,
// never inside Notify. Finish is called exactly once.
package purgatory

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/gregor-broker/gregor/wire/clock"
)

// Op is an operation that waits. Ready must not block: it reads what is published. It may be called from several
// goroutines at once, even after Finish. Finish answers, with expired set when the deadline or Close ended the wait.
type Op interface {
	Ready() bool
	Finish(expired bool)
}

// ListOp is an Op on many lists that can tell for one of them whether what happened there makes it ready. After a Notify
// only that is asked, with the list's place among those given to Watch.
type ListOp interface {
	Op
	ReadyAt(list int) bool
}

// lookAgain is the longest time that an operation waits without being looked at, so that those whose client has gone
// (see Op.Ready of the replica manager) do not stay until a deadline that the client chose.
const lookAgain = 30 * time.Second

// Purgatory holds the deadlines of waiting operations. Safe for concurrent use.
type Purgatory struct {
	clock  clock.Clock
	pool   func(func())
	next   atomic.Uint32
	shards [8]shard
}

// New returns a purgatory that runs looks and completions through pool, which must run all that it is given, but not
// before it returns, and must not block.
func New(c clock.Clock, pool func(func())) *Purgatory {
	p := &Purgatory{clock: c, pool: pool}
	for i := range p.shards {
		p.shards[i].purgatory = p
	}
	return p
}

// Watch registers op with the lists and looks at it once, then again after each Notify, until it is ready or wait has
// passed. Finish may be called, on the pool, before Watch returns.
func (p *Purgatory) Watch(op Op, wait time.Duration, lists ...*List) {
	w := &waiter{op: op, links: make([]link, len(lists)), slot: -1}
	w.shard = &p.shards[p.next.Add(1)%uint32(len(p.shards))]
	for i, l := range lists {
		w.links[i] = link{waiter: w, list: l, place: i}
	}
	for i, l := range lists {
		l.add(p, &w.links[i])
	}
	open := w.shard.add(w, wait)
	switch {
	case w.done.Load():
		w.unlink() // a Notify finished it between two of the adds above, and saw only the earlier ones
	case !open:
		p.complete(w, true)
	case op.Ready():
		p.complete(w, false)
	}
}

// Waiting returns the number of operations that have not finished.
func (p *Purgatory) Waiting() int {
	n := 0
	for i := range p.shards {
		n += p.shards[i].len()
	}
	return n
}

// Each calls f for each operation that has not finished, with the number of lists that it waits on. f must not call the
// purgatory.
func (p *Purgatory) Each(f func(op Op, lists int)) {
	for i := range p.shards {
		p.shards[i].each(f)
	}
}

// Close finishes what waits, as expired, and from now on whatever Watch is given. It does not wait for the pool.
func (p *Purgatory) Close() {
	for i := range p.shards {
		for _, w := range p.shards[i].close() {
			p.complete(w, true)
		}
	}
}

// complete claims w and has its Finish run on the pool; the second caller does nothing.
func (p *Purgatory) complete(w *waiter, expired bool) {
	if w.claim() {
		p.pool(func() { w.op.Finish(expired) })
	}
}

// waiter is an operation's place in the purgatory.
type waiter struct {
	op    Op
	done  atomic.Bool
	links []link
	shard *shard

	deadline time.Duration // fixed by shard.add
	due      time.Duration // when to look at it next; guarded by the shard's mutex, as slot
	slot     int           // in the shard's heap, -1 outside
}

// claim takes w out of everything and reports whether the caller is the first to do so: then Finish is theirs.
func (w *waiter) claim() bool {
	if !w.done.CompareAndSwap(false, true) {
		return false
	}
	w.unlink()
	w.shard.remove(w)
	return true
}

// unlink takes w out of the lists in which it is.
func (w *waiter) unlink() {
	for i := range w.links {
		w.links[i].list.remove(&w.links[i])
	}
}

// List is what happens to one thing, and who waits for it. The zero value is ready; it costs nothing while nobody
// waits. Safe for concurrent use.
type List struct {
	count  atomic.Int32 // of links below
	queued atomic.Bool  // a look is in the pool's queue
	mu     struct {
		sync.Mutex
		purgatory *Purgatory // of the waiters; set by the first
		first     *link
	}
}

// link is a waiter's membership in a list.
type link struct {
	waiter     *waiter
	list       *List
	place      int // among the waiter's
	next, prev *link
	in         bool
}

// Notify has those who wait on l looked at. It costs one atomic load when nobody does.
func (l *List) Notify() {
	if l.count.Load() == 0 || !l.queued.CompareAndSwap(false, true) {
		return
	}
	l.mu.Lock()
	p := l.mu.purgatory
	l.mu.Unlock()
	p.pool(func() { l.look(p) })
}

// look finishes the waiters that are ready: the last of them here, the others by the pool, so that one answer does not
// wait for another to be put together.
func (l *List) look(p *Purgatory) {
	l.queued.Store(false)
	var last *waiter
	for _, k := range l.links() {
		w := k.waiter
		if w.done.Load() || !k.ready() || !w.claim() {
			continue
		}
		if last != nil {
			op := last.op
			p.pool(func() { op.Finish(false) })
		}
		last = w
	}
	if last != nil {
		last.op.Finish(false)
	}
}

func (k *link) ready() bool {
	if op, ok := k.waiter.op.(ListOp); ok {
		return op.ReadyAt(k.place)
	}
	return k.waiter.op.Ready()
}

func (l *List) links() []*link {
	l.mu.Lock()
	defer l.mu.Unlock()
	ks := make([]*link, 0, l.count.Load())
	for k := l.mu.first; k != nil; k = k.next {
		ks = append(ks, k)
	}
	return ks
}

func (l *List) add(p *Purgatory, k *link) {
	l.mu.Lock()
	l.mu.purgatory = p
	k.in = true
	k.next = l.mu.first
	if k.next != nil {
		k.next.prev = k
	}
	l.mu.first = k
	l.count.Add(1)
	l.mu.Unlock()
}

func (l *List) remove(k *link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !k.in {
		return
	}
	k.in = false
	if k.prev != nil {
		k.prev.next = k.next
	} else {
		l.mu.first = k.next
	}
	if k.next != nil {
		k.next.prev = k.prev
	}
	l.count.Add(-1)
}
