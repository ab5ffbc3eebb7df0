package enginetest

import (
	"net/netip"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/wire"
	"github.com/gregor-broker/gregor/wire/clock"
)

// throttled: the answer goes out at once, and what the client sends after it waits for the end of the pause; other connections
// do not.
func (s *Suite) throttled(t *testing.T) {
	for _, inline := range []bool{true, false} {
		clk := clock.NewFake(time.UnixMilli(0))
		served := make(chan int32, 10)
		a := &app{serve: func(r *wire.Request, _ bool) bool {
			served <- r.Header.CorrelationID
			switch r.Header.CorrelationID {
			case 1:
				r.Throttle(time.Minute)
			case 2:
				r.Throttle(time.Second)
				r.NoReply()
				return true
			}
			answer(r)
			return true
		}}
		if inline {
			a.admit = admitInline
		}
		r := s.start(t, wire.Config{Clock: clk}, a)
		slow, other := r.dial(), r.dial()
		slow.send(request(1, nil))
		slow.expect(1, nil)
		within(t, "it is served", served)
		slow.send(request(2, nil), request(3, nil))
		clk.Advance(59 * time.Second)
		for range 20 {
			other.send(request(4, nil))
			other.expect(4, nil)
			if id := within(t, "another's is served", served); id != 4 {
				t.Fatalf("request %d is served in the pause", id)
			}
		}
		clk.Advance(time.Second)
		if id := within(t, "the next is served", served); id != 2 {
			t.Fatalf("request %d is served", id)
		}
		eventually(t, "the one after it is served after another second", func() bool {
			clk.Advance(100 * time.Millisecond)
			return len(served) > 0
		})
		slow.expect(3, nil)
	}
}

// tooFast: a connection that comes too soon is held, and then closed.
func (s *Suite) tooFast(t *testing.T) {
	clk := clock.NewFake(time.UnixMilli(0))
	first := true
	r := s.start(t, wire.Config{Clock: clk, TooFast: func(netip.Addr) time.Duration {
		if first {
			first = false
			return 0
		}
		return time.Second
	}}, echo(true))
	stays, goes := r.dial(), r.dial()
	stays.send(request(1, nil))
	stays.expect(1, nil)
	goes.send(request(1, nil))
	over := make(chan struct{})
	go func() {
		defer close(over)
		goes.expectEnd()
	}()
	closed := func() bool {
		select {
		case <-over:
			return true
		default:
			return false
		}
	}
	clk.Advance(900 * time.Millisecond)
	for range 20 {
		stays.send(request(1, nil))
		stays.expect(1, nil)
	}
	if closed() {
		t.Error("it is closed before its time is over")
	}
	eventually(t, "it is closed", func() bool {
		clk.Advance(100 * time.Millisecond)
		return closed()
	})
	r.expectLine(goes, "closing a connection")
	stays.send(request(2, nil))
	stays.expect(2, nil)
}
