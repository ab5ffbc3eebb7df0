package log

import "sync"

// syncer flushes the logs of a directory on one goroutine. Who asks while a round is at work is served by the next one,
// together with all others who asked meanwhile: a log that many wait for is synced once. Safe for concurrent use.
type syncer struct {
	wake  chan struct{}
	ended chan struct{}
	mu    struct {
		sync.Mutex
		closed  bool
		waiting map[*Log][]chan error
	}
}

func newSyncer() *syncer {
	s := &syncer{wake: make(chan struct{}, 1), ended: make(chan struct{})}
	s.mu.waiting = map[*Log][]chan error{}
	go s.loop()
	return s
}

// flush returns when everything appended to l before is durable.
func (s *syncer) flush(l *Log) error {
	done := make(chan error, 1)
	if !s.add(l, done) {
		return l.errorf("%w", errClosed)
	}
	return <-done
}

// later flushes l in the background; its errors stop the log.
func (s *syncer) later(l *Log) { s.add(l, nil) }

func (s *syncer) add(l *Log, done chan error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return false
	}
	waiters := s.mu.waiting[l]
	if done != nil {
		waiters = append(waiters, done)
	}
	s.mu.waiting[l] = waiters
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return true
}

func (s *syncer) loop() {
	defer close(s.ended)
	for range s.wake {
		s.round()
	}
	s.round()
}

func (s *syncer) round() {
	s.mu.Lock()
	waiting := s.mu.waiting
	if len(waiting) == 0 {
		s.mu.Unlock()
		return
	}
	s.mu.waiting = map[*Log][]chan error{}
	s.mu.Unlock()
	for l, waiters := range waiting {
		err := l.flushNow()
		for _, w := range waiters {
			w <- err
		}
	}
}

// close serves who waits, and refuses others.
func (s *syncer) close() {
	s.mu.Lock()
	s.mu.closed = true
	close(s.wake)
	s.mu.Unlock()
	<-s.ended
}
