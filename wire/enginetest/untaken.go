package enginetest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/wire"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/gregor-broker/gregor/wire/frame"
	"github.com/gregor-broker/gregor/wire/payload"
)

// bigReplies is an app that answers the requests with the body "big" with n bytes, and others with what they say.
func bigReplies(n int) *app {
	a := &app{}
	a.serve = func(r *wire.Request, _ bool) bool {
		if string(r.Body) == "big" {
			r.Reply(head(r), payload.Part{Bytes: make([]byte, n)})
		} else {
			answer(r, r.Body)
		}
		return true
	}
	return a
}

// unreadReplies is more than sockets of this machine take for a client that does not read.
const unreadReplies = 16 << 20

// untakenReplies: replies that nobody takes hold the memory budget until they are taken.
func (s *Suite) untakenReplies(t *testing.T) {
	r := s.start(t, wire.Config{QueuedMaxRequestBytes: 1 << 20, SendBuffer: 64 << 10}, bigReplies(unreadReplies))
	idle := r.dial()
	idle.send(request(1, []byte("big")))
	eventually(t, "the reply holds memory", func() bool { return r.server.Stats().MemoryUsed > 1<<20 })
	other := r.dial()
	other.send(request(2, []byte("later")))
	idle.expect(1, make([]byte, unreadReplies))
	other.expect(2, []byte("later"))
	eventually(t, "nothing holds memory", func() bool { return r.server.Stats().MemoryUsed == 0 })
}

// manyUntakenReplies: however many clients ask for much at once, no request begins while replies that are not taken hold more than the
// budget; those that began at the same time may hold a reply each beside it.
func (s *Suite) manyUntakenReplies(t *testing.T) {
	const handlers, processors = 2, 2
	s.askForMuch(t, wire.Config{Handlers: handlers, Processors: processors}, false, handlers)
	if s.Engine == wire.EngineReactor { // elsewhere each connection is its own processor
		s.askForMuch(t, wire.Config{Handlers: handlers, Processors: processors}, true, handlers+processors)
	}
}

// askForMuch has many clients ask at once; atOnce requests may be served at the same time.
func (s *Suite) askForMuch(t *testing.T, cfg wire.Config, inline bool, atOnce int64) {
	const clients, budget = 50, 1 << 20
	cfg.QueuedMaxRequestBytes, cfg.SendBuffer = budget, 64<<10
	var server atomic.Pointer[wire.Server]
	var most atomic.Int64 // bytes that were held when a request began
	a := bigReplies(unreadReplies)
	a.admit = func(*wire.Conn, frame.Header, int) (wire.Admission, error) {
		return wire.Admission{Inline: inline}, nil
	}
	serve := a.serve
	a.serve = func(req *wire.Request, inline bool) bool {
		held := server.Load().Stats().MemoryUsed
		for m := most.Load(); held > m && !most.CompareAndSwap(m, held); m = most.Load() {
		}
		return serve(req, inline)
	}
	r := s.start(t, cfg, a)
	server.Store(r.server)
	first := r.dial()
	first.send(request(0, []byte("big")))
	eventually(t, "the reply holds memory", func() bool { return r.server.Stats().MemoryUsed > budget })
	var reading sync.WaitGroup
	read := func(cl *client) {
		if _, got, err := cl.receive(); err != nil || len(got) != unreadReplies {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
	for i := range int32(clients) {
		cl := r.dial()
		cl.send(request(i+1, []byte("big")))
		reading.Go(func() { read(cl) })
	}
	read(first)
	reading.Wait()
	const room = 1 << 10 // for what is before the records of a reply
	if may := budget + (atOnce-1)*(unreadReplies+room); most.Load() > may {
		t.Errorf("%d bytes are held when a request begins, which may be %d (inline: %v)", most.Load(), may, inline)
	}
}

// closeWithUntakenReplies: requests that wait for the memory of replies do not keep a server from closing.
func (s *Suite) closeWithUntakenReplies(t *testing.T) {
	r := s.start(t, wire.Config{QueuedMaxRequestBytes: 1 << 20, SendBuffer: 64 << 10, Handlers: 1}, bigReplies(unreadReplies))
	for i := range int32(10) {
		r.dial().send(request(i, []byte("big")))
	}
	eventually(t, "replies hold memory", func() bool { return r.server.Stats().MemoryUsed > 1<<20 })
}

// untakenRepliesDoNotStarve: who takes nothing while others wait for the memory is closed; its replies are forgotten.
func (s *Suite) untakenRepliesDoNotStarve(t *testing.T) {
	clk := clock.NewFake(time.UnixMilli(0))
	r := s.start(t, wire.Config{Clock: clk, QueuedMaxRequestBytes: 1 << 20, SendBuffer: 64 << 10}, bigReplies(unreadReplies))
	idle := r.dial()
	idle.send(request(1, []byte("big")))
	eventually(t, "the reply holds memory", func() bool { return r.server.Stats().MemoryUsed > 1<<20 })
	other := r.dial()
	other.send(request(2, []byte("later")))
	answered := make(chan error, 1)
	go func() {
		_, _, err := other.receive()
		answered <- err
	}()
	eventually(t, "the other is served", func() bool {
		clk.Advance(time.Second)
		select {
		case err := <-answered:
			if err != nil {
				t.Error(err)
			}
			return true
		default:
			return false
		}
	})
	r.expectLine(idle, "which it does not take")
}
