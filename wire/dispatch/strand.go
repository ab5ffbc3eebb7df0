package dispatch

import (
	"sync"
	"sync/atomic"
)

// turn is how many jobs of one strand run before others have a turn.
const turn = 8

// Node is a job's place in a strand. Embed it in what runs.
type Node struct {
	next *Node
	Job  Job
}

// Strand runs jobs one at a time in the order of Push, on whichever of the pool's goroutines is free, without holding one
// while it is empty. One goroutine at a time may Push.
type Strand struct {
	pool *Pool
	mu   struct {
		sync.Mutex
		head, tail *Node
	}
	active atomic.Bool // in the pool's queue or running
}

// NewStrand returns an empty strand that runs on pool.
func NewStrand(pool *Pool) Strand { return Strand{pool: pool} }

// Idle reports whether no job is queued or running. The goroutine that pushes may then run a job itself, as long as it
// pushes nothing meanwhile: what earlier jobs wrote is visible to it.
func (s *Strand) Idle() bool { return !s.active.Load() }

// Push appends n.
func (s *Strand) Push(n *Node) {
	s.mu.Lock()
	if s.mu.tail == nil {
		s.mu.head = n
	} else {
		s.mu.tail.next = n
	}
	s.mu.tail = n
	start := !s.active.Load()
	if start {
		s.active.Store(true)
	}
	s.mu.Unlock()
	if start {
		s.pool.Submit(s)
	}
}

// Run is for the pool: it runs a few jobs, and queues the strand again if there are more.
func (s *Strand) Run() {
	for range turn {
		n := s.pop()
		if n == nil {
			return
		}
		n.Job.Run()
	}
	s.pool.Submit(s)
}

// pop takes the next job; with none the strand becomes idle.
func (s *Strand) pop() *Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.mu.head
	if n == nil {
		s.active.Store(false)
		return nil
	}
	if s.mu.head = n.next; s.mu.head == nil {
		s.mu.tail = nil
	}
	n.next = nil
	return n
}
