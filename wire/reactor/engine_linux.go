package reactor

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gregor-broker/gregor/wire/dispatch"
	"github.com/gregor-broker/gregor/wire/session"
)

// loaders is the number of goroutines that wait for cold file ranges.
const loaders = 4

// Engine serves connections. Safe for concurrent use.
type Engine struct {
	o          session.Options
	processors []*processor
	loaders    *dispatch.Pool
	running    sync.WaitGroup // processors
	acceptors  sync.WaitGroup
	stop       chan struct{} // closed when nothing more is accepted
	measured   atomic.Bool   // somebody has asked for how long processors wait

	mu struct {
		sync.Mutex
		listeners []*listener
		next      int // processor of the next connection
		started   bool
		stopped   bool
		closed    bool
		asked     time.Duration // when, for the first time
	}
}

// New makes an engine that listens on nothing; its processors run until Close.
func New(o session.Options) (*Engine, error) {
	e := &Engine{o: o, stop: make(chan struct{})}
	for i := range o.Processors {
		p, err := newProcessor(e, uint16(i))
		if err != nil {
			for _, p := range e.processors {
				p.closeDescriptors()
			}
			return nil, err
		}
		e.processors = append(e.processors, p)
	}
	e.loaders = dispatch.NewPool(loaders)
	for _, p := range e.processors {
		e.running.Go(p.run)
	}
	return e, nil
}

// Bind listens on a TCP address.
func (e *Engine) Bind(name, address string) (net.Addr, error) {
	l, err := e.listen(name, address)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.stopped {
		return nil, errors.Join(net.ErrClosed, l.file.Close())
	}
	e.mu.listeners = append(e.mu.listeners, l)
	if e.mu.started {
		e.acceptors.Go(func() { e.accept(l) })
	}
	return l.addr, nil
}

// Start begins to accept.
func (e *Engine) Start() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.started || e.mu.stopped {
		return errors.New("reactor: started twice, or after its end")
	}
	e.mu.started = true
	for _, l := range e.mu.listeners {
		e.acceptors.Go(func() { e.accept(l) })
	}
	return nil
}

// StopAccepting closes the listeners and waits for their goroutines.
func (e *Engine) StopAccepting() {
	e.mu.Lock()
	first := !e.mu.stopped
	e.mu.stopped = true
	listeners := e.mu.listeners
	e.mu.Unlock()
	if first {
		close(e.stop)
		for _, l := range listeners {
			l.file.Close()
		}
	}
	e.acceptors.Wait()
}

// Broadcast has m delivered to every connection, and to those that are on their way.
func (e *Engine) Broadcast(m session.Message) {
	for _, p := range e.processors {
		p.post(letter{kind: toAll, m: m})
	}
}

// Close closes every connection and waits for the engine's goroutines.
func (e *Engine) Close() error {
	e.StopAccepting()
	e.mu.Lock()
	first := !e.mu.closed
	e.mu.closed = true
	e.mu.Unlock()
	if first {
		for _, p := range e.processors {
			p.post(letter{kind: shutDown})
		}
	}
	e.running.Wait()
	e.loaders.Close()
	return nil
}

// Rested returns for how long each processor has had nothing to do since this was first asked, and how long ago that was.
func (e *Engine) Rested() (since time.Duration, rested []time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.o.Clock.Monotonic()
	if !e.measured.Swap(true) {
		e.mu.asked = now
		for _, p := range e.processors {
			p.measure(now)
		}
	}
	for _, p := range e.processors {
		rested = append(rested, p.rested(now))
	}
	return now - e.mu.asked, rested
}

// pick returns the processor for the next connection.
func (e *Engine) pick() *processor {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.next = (e.mu.next + 1) % len(e.processors)
	return e.processors[e.mu.next]
}
