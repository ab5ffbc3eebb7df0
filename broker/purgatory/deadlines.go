package purgatory

import (
	"sync"
	"time"

	"github.com/gregor-broker/gregor/wire/clock"
)

// shard is a part of the waiters, in a binary heap by the time at which they are to be looked at next. One timer runs
// for the earliest; it is not moved back when that one leaves, but looks around and goes to the next.
type shard struct {
	purgatory *Purgatory
	mu        struct {
		sync.Mutex
		heap   []*waiter
		timer  clock.Timer   // nil until first needed
		armed  bool          // the timer is pending …
		at     time.Duration // … and fires then
		closed bool
	}
}

func (s *shard) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.heap)
}

func (s *shard) each(f func(Op, int)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.mu.heap {
		f(w.op, len(w.links))
	}
}

// add puts w into the heap, unless a Notify has finished it already; it reports false when the purgatory is closed.
func (s *shard) add(w *waiter, wait time.Duration) bool {
	now := s.purgatory.clock.Monotonic()
	s.mu.Lock()
	defer s.mu.Unlock()
	w.deadline = now + wait
	if s.mu.closed {
		return false
	}
	if w.done.Load() {
		return true
	}
	w.due = min(w.deadline, now+lookAgain)
	s.push(w)
	s.arm(now)
	return true
}

func (s *shard) remove(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.slot >= 0 {
		s.take(w.slot)
	}
}

// close empties the shard and keeps it so.
func (s *shard) close() []*waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.closed = true
	if s.mu.timer != nil {
		s.mu.timer.Stop()
	}
	ws := s.mu.heap
	for _, w := range ws {
		w.slot = -1
	}
	s.mu.heap = nil
	return ws
}

// arm makes the timer fire no later than the first waiter is due. The caller holds mu.
func (s *shard) arm(now time.Duration) {
	if len(s.mu.heap) == 0 {
		return
	}
	first := s.mu.heap[0].due
	if s.mu.armed && s.mu.at <= first {
		return
	}
	s.mu.armed, s.mu.at = true, first
	if s.mu.timer == nil {
		s.mu.timer = s.purgatory.clock.AfterFunc(first-now, s.fire)
		return
	}
	s.mu.timer.Reset(first - now)
}

// fire completes the waiters whose deadline has passed and looks at those that were due for a look.
func (s *shard) fire() {
	p := s.purgatory
	now := p.clock.Monotonic()
	s.mu.Lock()
	s.mu.armed = false
	var due []*waiter
	for len(s.mu.heap) > 0 && s.mu.heap[0].due <= now {
		w := s.take(0)
		due = append(due, w)
	}
	for _, w := range due {
		if w.deadline > now && !s.mu.closed {
			w.due = min(w.deadline, now+lookAgain)
			s.push(w)
		}
	}
	s.arm(now)
	s.mu.Unlock()
	for _, w := range due {
		switch {
		case w.deadline <= now:
			p.complete(w, true)
		case w.op.Ready():
			p.complete(w, false)
		}
	}
}

// push and take are a heap's, with slots kept up to date. The caller holds mu.
func (s *shard) push(w *waiter) {
	s.mu.heap = append(s.mu.heap, w)
	w.slot = len(s.mu.heap) - 1
	s.up(w.slot)
}

func (s *shard) take(i int) *waiter {
	h := s.mu.heap
	w, last := h[i], len(h)-1
	h[i] = h[last]
	h[i].slot = i
	h[last] = nil
	s.mu.heap = h[:last]
	if i < last {
		s.up(i)
		s.down(i)
	}
	w.slot = -1
	return w
}

func (s *shard) up(i int) {
	h := s.mu.heap
	for i > 0 {
		parent := (i - 1) / 2
		if h[parent].due <= h[i].due {
			return
		}
		s.swap(i, parent)
		i = parent
	}
}

func (s *shard) down(i int) {
	h := s.mu.heap
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && h[child+1].due < h[child].due {
			child++
		}
		if h[i].due <= h[child].due {
			return
		}
		s.swap(i, child)
		i = child
	}
}

func (s *shard) swap(i, j int) {
	h := s.mu.heap
	h[i], h[j] = h[j], h[i]
	h[i].slot, h[j].slot = i, j
}
