package dispatch

import (
	"sync"
	"sync/atomic"
)

// Gate shares out a quantity, first come first served. Who finds too little left waits in a queue, without a goroutine,
// and is told when it has its share. A demand above the whole counts as the whole, so that it runs alone. Safe for
// concurrent use; a nil Gate has no limit.
type Gate struct {
	mu struct {
		sync.Mutex
		free        int64
		first, last *Waiter
		awaiting    int // goroutines in AwaitSettled
	}
	settled   sync.Cond   // free is not negative any more
	overdrawn atomic.Bool // it is negative; written with mu
	total     int64
}

// Waiter is a place in a gate's queue. Its owner embeds it, and uses it for one Acquire at a time.
type Waiter struct {
	next    *Waiter
	waiting bool
	demand  int64
	to      Grantee
}

// Grantee is told that what it waited for is its own. It is called on some goroutine, must not block, and may not call the
// gate.
type Grantee interface{ Granted(g *Gate) }

// NewGate returns a gate for total; nil, without limit, when that is not positive.
func NewGate(total int64) *Gate {
	if total <= 0 {
		return nil
	}
	g := &Gate{total: total}
	g.settled.L = &g.mu.Mutex
	g.mu.free = total
	return g
}

// Acquire takes n and returns true, or queues w and returns false: to is then told, once, when w has its share.
func (g *Gate) Acquire(w *Waiter, n int64, to Grantee) bool {
	if g == nil {
		return true
	}
	n = min(n, g.total)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.first == nil && n <= g.mu.free {
		g.mu.free -= n
		return true
	}
	w.next, w.waiting, w.demand, w.to = nil, true, n, to
	if g.mu.last == nil {
		g.mu.first = w
	} else {
		g.mu.last.next = w
	}
	g.mu.last = w
	return false
}

// TryAcquire takes n and returns true if that needs no waiting.
func (g *Gate) TryAcquire(n int64) bool {
	if g == nil {
		return true
	}
	n = min(n, g.total)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.first != nil || n > g.mu.free {
		return false
	}
	g.mu.free -= n
	return true
}

// Waited reports whether somebody is in the queue, or in AwaitSettled.
func (g *Gate) Waited() bool {
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.first != nil || g.mu.awaiting > 0
}

// AwaitSettled returns when no more is taken than there is. If that is not now it calls starved first.
func (g *Gate) AwaitSettled(starved func()) {
	if !g.Overdrawn() { // without the lock: each request that a handler takes comes here
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.awaiting++
	g.mu.Unlock()
	starved()
	g.mu.Lock()
	for g.mu.free < 0 {
		g.settled.Wait()
	}
	g.mu.awaiting--
}

// Release gives n back, as it was acquired.
func (g *Gate) Release(n int64) {
	if g == nil {
		return
	}
	g.mu.Lock()
	g.mu.free += min(n, g.total)
	g.unlockAndServe()
}

// Take takes n at once, though there may not be so much: those who come to Acquire wait the longer.
func (g *Gate) Take(n int64) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.free -= n
	g.overdrawn.Store(g.mu.free < 0)
}

// Overdrawn reports whether more is taken than there is.
func (g *Gate) Overdrawn() bool { return g != nil && g.overdrawn.Load() }

// Return gives back n that were taken.
func (g *Gate) Return(n int64) {
	if g == nil {
		return
	}
	g.mu.Lock()
	g.mu.free += n
	g.unlockAndServe()
}

// unlockAndServe serves the queue after something was given back. The caller holds mu, which it unlocks.
func (g *Gate) unlockAndServe() {
	if g.mu.free > g.total {
		g.mu.Unlock()
		panic("dispatch: more is released than was acquired")
	}
	if g.mu.free >= 0 && g.overdrawn.Load() {
		g.overdrawn.Store(false)
		g.settled.Broadcast()
	}
	served := g.serve()
	g.mu.Unlock()
	g.tell(served)
}

// Cancel takes w out of the queue. It returns false if w is not in it: it has its share then, and must Release it.
func (g *Gate) Cancel(w *Waiter) bool {
	if g == nil {
		return false
	}
	g.mu.Lock()
	if !w.waiting {
		g.mu.Unlock()
		return false
	}
	var before *Waiter
	for q := g.mu.first; q != w; q = q.next {
		before = q
	}
	if before == nil {
		g.mu.first = w.next
	} else {
		before.next = w.next
	}
	if g.mu.last == w {
		g.mu.last = before
	}
	w.next, w.waiting, w.to = nil, false, nil
	served := g.serve()
	g.mu.Unlock()
	g.tell(served)
	return true
}

// Free returns what is left.
func (g *Gate) Free() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.free
}

// Total returns how much there is in all.
func (g *Gate) Total() int64 { return g.total }

// serve takes those off the queue's head whose demand fits. The caller holds mu, and calls what it returns without it.
func (g *Gate) serve() (granted []Grantee) {
	for w := g.mu.first; w != nil && w.demand <= g.mu.free; w = g.mu.first {
		g.mu.free -= w.demand
		g.mu.first = w.next
		if g.mu.first == nil {
			g.mu.last = nil
		}
		granted = append(granted, w.to)
		w.next, w.waiting, w.to = nil, false, nil
	}
	return granted
}

func (g *Gate) tell(served []Grantee) {
	for _, to := range served {
		to.Granted(g)
	}
}
