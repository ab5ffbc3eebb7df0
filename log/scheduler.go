package log

import (
	"container/heap"
	"sync"
	"time"

	"github.com/gregor-broker/gregor/wire/clock"
)

// scheduler runs what is due in a log directory, one after the other on one goroutine, from a heap of due times. Safe
// for concurrent use.
type scheduler struct {
	clock clock.Clock
	wake  chan struct{}
	stop  chan struct{}
	ended chan struct{}
	mu    struct {
		sync.Mutex
		due dueHeap
		seq uint64
	}
}

type dueItem struct {
	at  time.Duration // monotonic
	seq uint64        // keeps the order of equal times
	run func()
}

type dueHeap []dueItem

func (h dueHeap) Len() int { return len(h) }
func (h dueHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}
func (h dueHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)   { *h = append(*h, x.(dueItem)) }
func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	item := (*h)[last]
	(*h)[last] = dueItem{}
	*h = (*h)[:last]
	return item
}

func newScheduler(c clock.Clock) *scheduler {
	s := &scheduler{clock: c, wake: make(chan struct{}, 1), stop: make(chan struct{}), ended: make(chan struct{})}
	go s.loop()
	return s
}

// after runs f once after d, unless the scheduler is closed before.
func (s *scheduler) after(d time.Duration, f func()) {
	s.mu.Lock()
	s.mu.seq++
	heap.Push(&s.mu.due, dueItem{s.clock.Monotonic() + d, s.mu.seq, f})
	first := s.mu.due[0].seq == s.mu.seq
	s.mu.Unlock()
	if first {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// every runs f after first and then again and again, interval after it ended. An interval of 0 never runs it.
func (s *scheduler) every(first, interval time.Duration, f func()) {
	if interval <= 0 {
		return
	}
	var run func()
	run = func() {
		f()
		s.after(interval, run)
	}
	s.after(first, run)
}

func (s *scheduler) loop() {
	defer close(s.ended)
	for {
		run, wait := s.next()
		if run != nil {
			run()
			continue
		}
		fired, timer := s.clock.NewTimer(wait)
		select {
		case <-fired:
		case <-s.wake:
		case <-s.stop:
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// next takes what is due, or says how long to wait.
func (s *scheduler) next() (run func(), wait time.Duration) {
	select {
	case <-s.stop:
		return nil, time.Hour // the loop sees it, too
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.due) == 0 {
		return nil, time.Hour
	}
	if wait = s.mu.due[0].at - s.clock.Monotonic(); wait > 0 {
		return nil, wait
	}
	return heap.Pop(&s.mu.due).(dueItem).run, 0
}

// close waits for what runs and drops the rest.
func (s *scheduler) close() {
	close(s.stop)
	<-s.ended
}
