// Package netloop is the portable engine: it moves the bytes of connections through Go's net.Conn, and of in-memory pipes
// for tests under virtual time.
//
// Each connection has a goroutine that reads, which holds 256 bytes while idle, and one that writes, which lives while there
// is output. The session is owned in turn by whoever works on it: the reader while it handles what it read, the writer
// between two writes, and otherwise whoever posts a message. Nobody waits for an owner except these two.
package netloop

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/gregor-broker/gregor/wire/session"
)

// Engine serves connections. Safe for concurrent use.
type Engine struct {
	o          session.Options
	goroutines sync.WaitGroup // of connections
	acceptors  sync.WaitGroup
	stop       chan struct{} // closed when nothing more is accepted

	mu struct {
		sync.Mutex
		listeners []listener
		conns     map[*conn]struct{}
		last      uint32 // generation
		started   bool
		stopped   bool
		draining  bool
		closed    bool
		sweep     clock.Timer
	}
}

type listener struct {
	net.Listener
	name string
}

// New returns an engine that listens on nothing.
func New(o session.Options) *Engine {
	e := &Engine{o: o, stop: make(chan struct{})}
	e.mu.conns = map[*conn]struct{}{}
	return e
}

// Bind listens on a TCP address.
func (e *Engine) Bind(name, address string) (net.Addr, error) {
	ln, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, err
	}
	if err := e.add(listener{ln, name}); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return ln.Addr(), nil
}

// BindPipe makes an in-memory listener and returns what connects to it.
func (e *Engine) BindPipe(name string) (dial func() net.Conn) {
	ln := newPipeListener()
	if e.add(listener{ln, name}) != nil {
		ln.Close()
	}
	return ln.dial
}

// add registers a listener, and accepts from it at once if the engine has been started.
func (e *Engine) add(ln listener) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.stopped {
		return net.ErrClosed
	}
	e.mu.listeners = append(e.mu.listeners, ln)
	if e.mu.started {
		e.acceptors.Go(func() { e.accept(ln) })
	}
	return nil
}

// Start begins to accept.
func (e *Engine) Start() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.started || e.mu.stopped {
		return errors.New("netloop: started twice, or after its end")
	}
	e.mu.started = true
	for _, ln := range e.mu.listeners {
		e.acceptors.Go(func() { e.accept(ln) })
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
		for _, ln := range listeners {
			ln.Close()
		}
	}
	e.acceptors.Wait()
}

// Broadcast posts m to every connection.
func (e *Engine) Broadcast(m session.Message) {
	for _, c := range e.all() {
		c.Post(m)
	}
}

// Close closes every connection and waits for the engine's goroutines.
func (e *Engine) Close() error {
	e.StopAccepting()
	e.mu.Lock()
	e.mu.closed = true
	sweep := e.mu.sweep
	e.mu.Unlock()
	if sweep != nil {
		sweep.Stop()
	}
	for _, c := range e.all() {
		c.end(session.ErrServer)
	}
	e.goroutines.Wait()
	return nil
}

// Rested returns nothing: there are no processors.
func (e *Engine) Rested() (since time.Duration, rested []time.Duration) { return 0, nil }

func (e *Engine) all() []*conn {
	e.mu.Lock()
	defer e.mu.Unlock()
	conns := make([]*conn, 0, len(e.mu.conns))
	for c := range e.mu.conns {
		conns = append(conns, c)
	}
	return conns
}

const (
	firstRetry = 5 * time.Millisecond
	lastRetry  = time.Second
)

// accept serves one listener until it is closed. When the system has no descriptors or memory left it waits, longer each
// time, instead of asking again at once.
func (e *Engine) accept(ln listener) {
	retry := firstRetry
	for {
		nc, err := ln.Accept()
		switch {
		case err == nil:
			retry = firstRetry
			e.serve(ln.name, nc)
			continue
		case errors.Is(err, net.ErrClosed):
			return
		}
		if retry == firstRetry {
			e.o.Logger.Warn("cannot accept connections; trying again", zap.String("listener", ln.name), zap.Error(err))
		}
		again, timer := e.o.Clock.NewTimer(retry)
		select {
		case <-again:
		case <-e.stop:
			timer.Stop()
			return
		}
		retry = min(2*retry, lastRetry)
	}
}

// serve begins to serve a connection, or closes it.
func (e *Engine) serve(listener string, nc net.Conn) {
	e.tune(nc)
	c := newConn(e, nc)
	c.peer = e.o.Acceptor.Accept(listener, c, addrPort(nc.RemoteAddr()), addrPort(nc.LocalAddr()))
	if c.peer == nil {
		nc.Close()
		return
	}
	e.mu.Lock()
	e.mu.last++
	c.id = session.ID{Gen: e.mu.last}
	if !e.mu.closed {
		e.mu.conns[c] = struct{}{}
		e.goroutines.Go(c.read)
		e.scheduleSweep(e.o.IdleTimeout)
		e.mu.Unlock()
		return
	}
	e.mu.Unlock()
	nc.Close()
	c.peer.Closed(session.ErrServer)
}

// tune sets the socket's buffers. What fails here fails again, and louder, when the connection is used.
func (e *Engine) tune(nc net.Conn) {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return
	}
	if e.o.SendBuffer > 0 {
		_ = tcp.SetWriteBuffer(e.o.SendBuffer)
	}
	if e.o.ReceiveBuffer > 0 {
		_ = tcp.SetReadBuffer(e.o.ReceiveBuffer)
	}
}

// forget takes a connection out.
func (e *Engine) forget(c *conn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.mu.conns, c)
}

// scheduleSweep looks for idle connections after d, unless that is planned. The caller holds mu.
func (e *Engine) scheduleSweep(d time.Duration) {
	if e.o.IdleTimeout > 0 && e.mu.sweep == nil && !e.mu.closed && len(e.mu.conns) > 0 {
		e.mu.sweep = e.o.Clock.AfterFunc(d, e.sweep)
	}
}

// sweep closes the connections that have been idle for too long, and plans the next sweep for when the next one could be.
func (e *Engine) sweep() {
	now := e.o.Clock.Monotonic()
	next := e.o.IdleTimeout
	for _, c := range e.all() {
		left := time.Duration(c.active.Load()) + e.o.IdleTimeout - now
		if left > 0 {
			next = min(next, left)
		} else {
			c.expire()
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.sweep = nil
	e.scheduleSweep(max(next, e.o.IdleTimeout/100))
}

// addrPort returns a's address; for pipes, which have none, a made up one.
func addrPort(a net.Addr) netip.AddrPort {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort()
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 1)
}
