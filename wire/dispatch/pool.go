// Package dispatch decides when and where a request's first stage runs: a pool of handler goroutines, a strand per
// connection that keeps its order without holding a goroutine, and gates that bound how much waits.
package dispatch

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/gregor-broker/gregor/wire/clock"
)

// Job is a piece of work.
type Job interface{ Run() }

// Func is a function as a Job.
type Func func()

// Run calls f.
func (f Func) Run() { f() }

// Pool is a number of goroutines, which Resize changes, that run jobs in the order of Submit. Safe for concurrent use. What may wait in its
// queue is bounded by those who submit: a strand is in it at most once, the requests of all strands by a Gate.
type Pool struct {
	mu struct {
		sync.Mutex
		queue  []Job // ring
		head   int
		length int
		busy   int // goroutines that run a job, which may submit more
		size   int // goroutines that there are
		want   int // and that there should be
		closed bool

		measured          bool          // somebody has asked for what follows
		since             time.Duration // when busy or size changed last; up to then …
		worked, available time.Duration // … goroutines ran jobs, and could have
	}
	waiting atomic.Int32 // length
	work    sync.Cond
	workers sync.WaitGroup
}

// NewPool starts n goroutines.
func NewPool(n int) *Pool {
	p := &Pool{}
	p.work.L = &p.mu.Mutex
	p.Resize(n)
	return p
}

// Resize has n goroutines run jobs, at least one. Those that are too many end when their job is done. After Close it does
// nothing.
func (p *Pool) Resize(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed {
		return
	}
	p.mu.want = max(1, n)
	p.tick()
	for ; p.mu.size < p.mu.want; p.mu.size++ {
		p.workers.Go(p.loop)
	}
	if p.mu.size > p.mu.want {
		p.work.Broadcast() // those that wait
	}
}

// Submit has j run by a handler goroutine. It never waits, and never runs j itself. It returns false, and does nothing,
// once Close has found the queue empty.
func (p *Pool) Submit(j Job) bool {
	p.mu.Lock()
	if p.mu.closed && p.mu.length == 0 && p.mu.busy == 0 {
		p.mu.Unlock()
		return false
	}
	if p.mu.length == len(p.mu.queue) {
		p.grow()
	}
	p.mu.queue[(p.mu.head+p.mu.length)%len(p.mu.queue)] = j
	p.mu.length++
	p.waiting.Add(1)
	p.mu.Unlock()
	p.work.Signal()
	return true
}

// Close lets what was submitted run, and what that submits, and waits for the goroutines to end.
func (p *Pool) Close() {
	p.mu.Lock()
	p.mu.closed = true
	p.mu.Unlock()
	p.work.Broadcast()
	p.workers.Wait()
}

// Waiting returns the number of jobs in the queue.
func (p *Pool) Waiting() int { return int(p.waiting.Load()) }

func (p *Pool) loop() {
	for j := p.take(false); j != nil; j = p.take(true) {
		j.Run()
	}
}

// take returns the next job, nil when there will be none. after says that the caller has just run one.
func (p *Pool) take(after bool) Job {
	p.mu.Lock()
	defer p.mu.Unlock()
	if after {
		p.tick()
		p.mu.busy--
	}
	for p.mu.length == 0 || p.mu.size > p.mu.want {
		if p.mu.size > p.mu.want {
			p.tick()
			p.mu.size--
			p.work.Signal() // a wake-up that was meant for one that stays
			return nil
		}
		if p.mu.closed && p.mu.busy == 0 {
			p.work.Broadcast()
			return nil
		}
		p.work.Wait()
	}
	p.tick()
	p.mu.busy++
	j := p.mu.queue[p.mu.head]
	p.mu.queue[p.mu.head] = nil
	p.mu.head = (p.mu.head + 1) % len(p.mu.queue)
	p.mu.length--
	p.waiting.Add(-1)
	return j
}

// tick adds up the time until now, in which as many goroutines as there are now were there and busy, once somebody has asked for
// that. The caller holds mu.
func (p *Pool) tick() {
	if !p.mu.measured {
		return
	}
	now := clock.System.Monotonic()
	passed := now - p.mu.since
	p.mu.worked += passed * time.Duration(p.mu.busy)
	p.mu.available += passed * time.Duration(p.mu.size)
	p.mu.since = now
}

// Worked returns for how long the goroutines have run jobs since it was called first, and for how long they could have.
func (p *Pool) Worked() (worked, available time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.mu.measured {
		p.mu.measured, p.mu.since = true, clock.System.Monotonic()
	}
	p.tick()
	return p.mu.worked, p.mu.available
}

// grow doubles the ring. The caller holds mu.
func (p *Pool) grow() {
	grown := make([]Job, max(64, 2*len(p.mu.queue)))
	n := copy(grown, p.mu.queue[p.mu.head:])
	copy(grown[n:], p.mu.queue[:p.mu.head])
	p.mu.queue, p.mu.head = grown, 0
}
