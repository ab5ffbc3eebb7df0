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

// manyUntakenReplies: however many clients ask for much at once, few replies are made that are not taken.
func (s *Suite) manyUntakenReplies(t *testing.T) {
	for _, inline := range []bool{false, true} {
		s.askForMuch(t, inline)
	}
}

func (s *Suite) askForMuch(t *testing.T, inline bool) {
	const clients, few = 50, 12
	var untaken, most atomic.Int32
	a := bigReplies(unreadReplies)
	a.admit = func(*wire.Conn, frame.Header, int) (wire.Admission, error) {
		return wire.Admission{Inline: inline}, nil
	}
	serve := a.serve
	a.serve = func(r *wire.Request, inline bool) bool {
		n := untaken.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		return serve(r, inline)
	}
	r := s.start(t, wire.Config{QueuedMaxRequestBytes: 1 << 20, SendBuffer: 64 << 10, Handlers: 2}, a)
	first := r.dial()
	first.send(request(0, []byte("big")))
	eventually(t, "the reply holds memory", func() bool { return r.server.Stats().MemoryUsed > 1<<20 })
	var reading sync.WaitGroup
	read := func(cl *client) {
		if _, got, err := cl.receive(); err != nil || len(got) != unreadReplies {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		untaken.Add(-1)
	}
	for i := range int32(clients) {
		cl := r.dial()
		cl.send(request(i+1, []byte("big")))
		reading.Go(func() { read(cl) })
	}
	read(first)
	reading.Wait()
	if most.Load() > few {
		t.Errorf("%d replies wait at a time to be taken (inline: %v)", most.Load(), inline)
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
