package wire

import (
	"context"
	"errors"
	"math"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
	"unique"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/wire/buffers"
	"github.com/gregor-broker/gregor/wire/dispatch"
	"github.com/gregor-broker/gregor/wire/invariants"
	"github.com/gregor-broker/gregor/wire/netloop"
	"github.com/gregor-broker/gregor/wire/session"
)

// maxUnsentBytes bounds the replies in memory that a connection's client does not read; file ranges do not count.
const maxUnsentBytes = 4 << 20

// Server serves Kafka's framing on any number of listeners. Safe for concurrent use.
//
// A processor blocks in epoll_wait and holds a P of the Go scheduler meanwhile: run it with GOMAXPROCS = cores + Processors,
// or what a processor hands to others waits for up to 10 ms.
type Server struct {
	cfg     Config
	handler Handler
	log     *zap.Logger

	limits               session.Limits
	pool                 *buffers.Pool
	handlers             *dispatch.Pool
	memory               *dispatch.Gate // bytes of queued.max.request.bytes
	reserve              *dispatch.Gate // beside the memory budget, see acquire
	arrivals, departures holders        // of the memory budget: requests that arrive, replies that leave
	queue                *dispatch.Gate // requests of queued.max.requests
	quota                *quota
	lines                sampler
	engine               engine
	accepted             atomic.Uint64

	closing sync.Once
	closed  error
}

// engine moves bytes; see wire/reactor and wire/netloop.
type engine interface {
	Bind(name, address string) (net.Addr, error)
	Start() error
	StopAccepting()              // and wait until no more connections come
	Broadcast(m session.Message) // to every connection
	Close() error                // close every connection, wait for the engine's goroutines
	// Rested says for how long each processor has had nothing to do since somebody first asked.
	Rested() (since time.Duration, rested []time.Duration)
}

// New returns a server that listens on nothing yet. Its goroutines run from now on: it is to be closed even if it never starts.
func New(cfg Config, h Handler) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, handler: h, log: cfg.Logger,
		limits:  session.Limits{MaxRequestBytes: cfg.MaxRequestBytes, MaxInFlight: cfg.MaxInFlight, MaxUnsentBytes: maxUnsentBytes},
		pool:    &buffers.Pool{},
		memory:  dispatch.NewGate(cfg.QueuedMaxRequestBytes),
		reserve: newReserve(cfg.QueuedMaxRequestBytes),
		queue:   dispatch.NewGate(int64(cfg.QueuedMaxRequests)),
		lines:   sampler{clock: cfg.Clock},
	}
	s.quota = newQuota()
	if err := s.quota.set(cfg.ConnectionLimits); err != nil {
		return nil, err
	}
	s.arrivals = holders{clock: cfg.Clock, waiting: s.memory.Waited, told: session.Stalled, progress: func(c *Conn) *progress { return &c.arrived }}
	s.departures = holders{clock: cfg.Clock, waiting: s.memory.Waited, told: session.Untaken, progress: func(c *Conn) *progress { return &c.taken }}
	s.handlers = dispatch.NewPool(cfg.Handlers)
	if s.engine, err = newEngine(cfg.Engine, session.Options{
		Acceptor: acceptor{s}, Processors: cfg.Processors, IdleTimeout: cfg.IdleTimeout, SendBuffer: cfg.SendBuffer,
		ReceiveBuffer: cfg.ReceiveBuffer, Backlog: cfg.Backlog, Clock: cfg.Clock, Logger: cfg.Logger, Pool: s.pool,
		Waiting: func() bool { return s.handlers.Waiting() > 0 || cfg.Waiting.Load() > 0 },
	}); err != nil {
		s.handlers.Close()
		return nil, err
	}
	return s, nil
}

// Bind listens on an address. Connections wait in the system's queue until Start.
func (s *Server) Bind(l Listener) (net.Addr, error) { return s.engine.Bind(l.Name, l.Address) }

// BindPipe makes an in-memory listener, whose connections dial returns; only the engine netloop has it. A connection that is
// dialled when the server is closed is closed too.
func (s *Server) BindPipe(name string) (dial func() net.Conn) {
	return s.engine.(*netloop.Engine).BindPipe(name)
}

// Start begins to accept connections.
func (s *Server) Start() error { return s.engine.Start() }

// Go runs f on a handler goroutine, never on the caller's. It does not wait.
func (s *Server) Go(f func()) { s.handlers.Submit(dispatch.Func(f)) }

// Resize changes the number of handler goroutines (num.io.threads).
func (s *Server) Resize(handlers int) { s.handlers.Resize(handlers) }

// Stats says how busy a server is.
type Stats struct {
	Waiting                   int           // requests and completions for which no handler is free
	Worked, Available         time.Duration // of handlers, since Stats was called first
	MemoryUsed, MemoryAllowed int64         // bytes of requests in work and replies not yet taken (queued.max.request.bytes); without a limit 0 of MaxInt64

	Asked  time.Duration   // since Stats was called first
	Rested []time.Duration // of it each processor had nothing to do; nil where the engine has none
}

// Stats looks at the server.
func (s *Server) Stats() Stats {
	x := Stats{Waiting: s.handlers.Waiting(), MemoryAllowed: math.MaxInt64}
	x.Asked, x.Rested = s.engine.Rested()
	x.Worked, x.Available = s.handlers.Worked()
	if s.memory != nil {
		x.MemoryAllowed = s.memory.Total()
		x.MemoryUsed = x.MemoryAllowed - s.memory.Free()
	}
	return x
}

// SetLimits changes the limits of connections. Those that are too many by now stay. An error is a host name without address.
func (s *Server) SetLimits(l ConnectionLimits) error { return s.quota.set(l) }

// Drain accepts and reads nothing more, lets the requests in work be answered, and closes each connection when all its
// answers are out. It returns when that is done, or with ctx's error.
func (s *Server) Drain(ctx context.Context) error {
	empty := s.quota.stop()
	s.engine.StopAccepting()
	s.engine.Broadcast(session.Message{Kind: session.Drain})
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close closes all connections, runs the first stages of the requests that have arrived, and waits for the server's
// goroutines.
func (s *Server) Close() error {
	s.closing.Do(func() {
		s.quota.stop()
		s.arrivals.close()
		s.departures.close()
		s.engine.StopAccepting()
		s.closed = s.engine.Close()
		s.handlers.Close()
		s.pool.Drop()
	})
	return s.closed
}

// serve calls the handler. A panic in it costs one connection; in test builds it stops the process.
func (s *Server) serve(r *Request, inline bool) (done bool) {
	if !invariants.Enabled {
		defer func() {
			if p := recover(); p != nil {
				s.log.Error("a request made its handler panic", append(r.Conn.fields(), zap.Any("err", p), zap.Int16("api", r.Header.Key),
					zap.Int16("version", r.Header.Version), zap.Stack("stack"))...)
				if !r.answered.Load() {
					r.Close("its request failed")
				}
				done = true
			}
		}()
	}
	return s.handler.Serve(r, inline)
}

// say logs a line about a connection, unless there were too many such lines just now.
func (s *Server) say(line string, c *Conn, fields ...zap.Field) {
	if left, ok := s.lines.allow(); ok {
		fields = append(append(c.fields(), fields...), left...)
		s.log.Info(line, fields...)
	}
}

// forget is the last that happens to a connection.
func (s *Server) forget(c *Conn) {
	s.handler.Closed(c)
	s.quota.leave(c.Listener(), c.remote.Addr())
}

// acceptor is a Server as engines see it.
type acceptor struct{ server *Server }

// Accept counts the connection and makes its Conn.
func (a acceptor) Accept(listener string, port session.Port, remote, local netip.AddrPort) session.Peer {
	s := a.server
	remote = netip.AddrPortFrom(remote.Addr().Unmap(), remote.Port())
	c := &Conn{server: s, number: s.accepted.Add(1), listener: unique.Make(listener), remote: remote,
		local: netip.AddrPortFrom(local.Addr().Unmap(), local.Port()), port: port}
	if err := s.quota.enter(listener, remote.Addr()); err != nil {
		if !errors.Is(err, errStopping) {
			s.say("refusing a connection", c, zap.Error(err))
		}
		return nil
	}
	s.pace(listener)
	c.session = session.New(&s.limits, s.pool)
	c.session.CountTaken(&c.taken.at)
	c.strand = dispatch.NewStrand(s.handlers)
	if s.cfg.TooFast != nil {
		c.hold(s.cfg.TooFast(remote.Addr()))
	}
	return (*peer)(c)
}
