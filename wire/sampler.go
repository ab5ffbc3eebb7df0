package wire

import (
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/wire/clock"
)

const linesPerSecond = 20

// sampler bounds the log lines that clients can cause. Safe for concurrent use.
type sampler struct {
	clock clock.Clock
	mu    struct {
		sync.Mutex
		since time.Duration // start of the second that is counted
		lines int
		left  int // lines left out since the last one
	}
}

// allow reports whether a line may be written, and with which field if others were left out before it.
func (s *sampler) allow() (left []zap.Field, ok bool) {
	now := s.clock.Monotonic()
	s.mu.Lock()
	defer s.mu.Unlock()
	if now-s.mu.since >= time.Second {
		s.mu.since, s.mu.lines = now, 0
	}
	if s.mu.lines >= linesPerSecond {
		s.mu.left++
		return nil, false
	}
	s.mu.lines++
	if s.mu.left > 0 {
		left = []zap.Field{zap.Int("left_out", s.mu.left)}
		s.mu.left = 0
	}
	return left, true
}
