package clock

import (
	"sync"
	"time"
)

// Seldom bounds what is said about a thing that others can cause again and again. The zero value is ready. Safe for
// concurrent use.
type Seldom struct {
	mu struct {
		sync.Mutex
		said    bool
		next    time.Duration // monotonic time from which on it is due again
		leftOut int
	}
}

// Due says whether it is time to say it, which it is once in every, and how often it was not since it last was.
func (s *Seldom) Due(c Clock, every time.Duration) (leftOut int, due bool) {
	now := c.Monotonic()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.said && now < s.mu.next {
		s.mu.leftOut++
		return 0, false
	}
	leftOut = s.mu.leftOut
	s.mu.said, s.mu.next, s.mu.leftOut = true, now+every, 0
	return leftOut, true
}
