package enginetest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/wire"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/gregor-broker/gregor/wire/frame"
	"github.com/gregor-broker/gregor/wire/payload"
)

// echo answers every request with its body.
func echo(inline bool) *app {
	return &app{
		admit: func(*wire.Conn, frame.Header, int) (wire.Admission, error) {
			return wire.Admission{Inline: inline}, nil
		},
		serve: func(r *wire.Request, _ bool) bool {
			answer(r, r.Body)
			return true
		},
	}
}

// expectLine waits for the one line that says words, and checks that it names the client.
func (r *rig) expectLine(cl *client, words string) {
	r.t.Helper()
	eventually(r.t, "a line says: "+words, func() bool { return r.logs.Len() > 0 })
	lines := r.logs.TakeAll()
	if len(lines) != 1 || !strings.Contains(lines[0].Message, words) || lines[0].ContextMap()["conn"] != cl.LocalAddr().String() {
		r.t.Errorf("logged %v, want one line with %q from %v", lines, words, cl.LocalAddr())
	}
}

func (s *Suite) foreignProtocols(t *testing.T) {
	r := s.start(t, wire.Config{MaxRequestBytes: 1000}, echo(true))
	for in, words := range map[string]string{
		"GET / HTTP/1.1\r\nHost: kafka:9092\r\n\r\n":                    "looks like an HTTP request",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03":                  "looks like a TLS handshake",
		"\xff\xff\xff\xffxxxx":                                          "a negative length, -1",
		"\x00\x00\x03\xe9":                                              "1001 bytes, more than socket.request.max.bytes (1000)",
		"\x7f\xff\xff\xff":                                              "2147483647 bytes",
		"\x00\x00\x00\x05abcde":                                         "too short for a header",
		"\x00\x00\x00\x0a\x00\x00\x00\x00\x00\x00\x00\x01\x00\x50":      "no valid request header",
		"\x00\x00\x00\x0c\x00\x00\x00\x09\x00\x00\x00\x01\x00\x00\x01z": "no valid request header",
	} {
		cl := r.dial()
		cl.send([]byte(in))
		cl.expectEnd()
		r.expectLine(cl, words)
	}
	// What was well formed before the garbage is answered.
	cl := r.dial()
	cl.send(request(1, []byte("fine")), []byte("POST /x HTTP/1.1\r\n"))
	cl.expect(1, []byte("fine"))
	cl.expectEnd()
	r.expectLine(cl, "an HTTP request")
}

func (s *Suite) refusedByAdmit(t *testing.T) {
	r := s.start(t, wire.Config{}, &app{admit: func(_ *wire.Conn, h frame.Header, _ int) (wire.Admission, error) {
		return wire.Admission{}, fmt.Errorf("API key %d is not served", h.Key)
	}})
	cl := r.dial()
	cl.send(request(1, nil))
	cl.expectEnd()
	r.expectLine(cl, "API key 0 is not served")
	cl = r.dial()
	cl.send(request(1, make([]byte, 1<<20))[:100_000]) // refused by its beginning
	cl.expectEnd()
	r.expectLine(cl, "API key 0 is not served")
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func (s *Suite) claimsAllocateNothing(t *testing.T) {
	r := s.start(t, wire.Config{}, echo(true))
	const n, claim = 200, 100 << 20
	before := heap()
	for range n {
		cl := r.dial()
		cl.send(binary.BigEndian.AppendUint32(nil, claim), request(1, nil)[4:])
	}
	cl := r.dial()
	cl.send(request(2, []byte("served meanwhile")))
	cl.expect(2, []byte("served meanwhile"))
	if grown := heap() - before; grown > n*40<<10 {
		t.Errorf("%d connections that claim %d bytes each take %d bytes of heap", n, claim, grown)
	}
}

func (s *Suite) byteByByte(t *testing.T) {
	r := s.start(t, wire.Config{Processors: 1, Handlers: 1, QueuedMaxRequests: 1, QueuedMaxRequestBytes: 100}, echo(false))
	slow, other := r.dial(), r.dial()
	for i, b := range request(1, []byte("one byte at a time")) {
		slow.send([]byte{b})
		if i%4 == 0 {
			other.send(request(int32(i), []byte("in between")))
			other.expect(int32(i), []byte("in between"))
		}
	}
	slow.expect(1, []byte("one byte at a time"))
}

// holder is an app whose requests wait in Serve until they are let go, one at a time.
type holder struct {
	arrived chan *wire.Request
	let     chan struct{}
	app
}

func hold(t *testing.T, cost int64) *holder {
	h := &holder{arrived: make(chan *wire.Request, 100), let: make(chan struct{}, 100)}
	h.admit = func(*wire.Conn, frame.Header, int) (wire.Admission, error) { return wire.Admission{Cost: cost}, nil }
	h.serve = func(r *wire.Request, _ bool) bool {
		h.arrived <- r
		<-h.let
		answer(r)
		return true
	}
	t.Cleanup(func() { close(h.let) })
	return h
}

func (h *holder) next(t *testing.T) int32 {
	t.Helper()
	return within(t, "a request is served", h.arrived).Header.CorrelationID
}

// quiet fails if a request is served that should not be. It cannot prove that none will be.
func (h *holder) quiet(t *testing.T) {
	t.Helper()
	for range 100 {
		runtime.Gosched()
	}
	select {
	case r := <-h.arrived:
		t.Fatalf("request %d is served beyond the limit", r.Header.CorrelationID)
	default:
	}
}

func (s *Suite) memoryBudget(t *testing.T) {
	h := hold(t, 400)
	r := s.start(t, wire.Config{QueuedMaxRequestBytes: 1000}, &h.app)
	var clients []*client
	for i := range int32(6) {
		cl := r.dial()
		clients = append(clients, cl)
		cl.send(request(i, nil))
		if i < 2 {
			if got := h.next(t); got != i {
				t.Fatalf("request %d is served, want %d", got, i)
			}
		} else {
			h.quiet(t)
		}
	}
	var order []int32
	for range 4 {
		h.let <- struct{}{}
		order = append(order, h.next(t))
		h.quiet(t)
	}
	// Connections of different processors may reach the gate in another order than they sent.
	slices.Sort(order)
	if !slices.Equal(order, []int32{2, 3, 4, 5}) {
		t.Errorf("served %v", order)
	}
	h.let <- struct{}{}
	h.let <- struct{}{}
	for i, cl := range clients {
		cl.expect(int32(i), nil)
	}
}

func (s *Suite) costAboveBudgetRunsAlone(t *testing.T) {
	h := hold(t, 0) // its size counts
	r := s.start(t, wire.Config{QueuedMaxRequestBytes: 50_000}, &h.app)
	small, large := r.dial(), r.dial()
	small.send(request(1, nil))
	h.next(t)
	go large.send(request(2, make([]byte, 5<<20)))
	h.quiet(t)
	h.let <- struct{}{}
	small.expect(1, nil)
	if got := h.next(t); got != 2 {
		t.Fatalf("request %d", got)
	}
	small.send(request(3, nil))
	h.quiet(t)
	h.let <- struct{}{}
	large.expect(2, nil)
	h.next(t)
	h.let <- struct{}{}
	small.expect(3, nil)
}

// claimsDoNotStarve: who takes the whole budget with claims and then sends nothing holds up small requests not at all, and large
// ones for a while.
func (s *Suite) claimsDoNotStarve(t *testing.T) {
	const budget = 1 << 20
	clk := clock.NewFake(time.UnixMilli(0))
	parked := make(chan *wire.Request, 1)
	a := echo(true)
	serve := a.serve
	a.serve = func(r *wire.Request, inline bool) bool {
		if r.Header.CorrelationID == 0 {
			parked <- r
			return true
		}
		return serve(r, inline)
	}
	r := s.start(t, wire.Config{Clock: clk, QueuedMaxRequestBytes: budget, Processors: 1}, a)
	var claims []*client
	for i := range int32(4) {
		cl := r.dial()
		if i == 0 {
			cl.send(request(0, nil)) // its answer is due when the connection is to end
			defer answer(within(t, "the request arrives", parked))
		}
		cl.send(request(1, make([]byte, budget/3))[:100_000])
		claims = append(claims, cl)
	}
	small := r.dial()
	for i := range int32(100) {
		small.send(request(i+1, []byte("small")))
		small.expect(i+1, []byte("small"))
	}
	body := make([]byte, budget*3/4) // no room for it beside a claim
	stop := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				clk.Advance(time.Second)
				runtime.Gosched()
			}
		}
	})
	ended := make(chan error, len(claims))
	for _, cl := range claims[1:] {
		running.Go(func() {
			_, err := io.Copy(io.Discard, cl)
			if ne, ok := err.(net.Error); !ok || !ne.Timeout() {
				err = nil
			}
			ended <- err
		})
	}
	// A claim that comes to memory after a large request is not in anyone's way until the next. And as the clock runs here, a large
	// request may itself look like a claim that does not go on.
	served := false
	for left := len(claims) - 1; left > 0 || !served; {
		large := r.dial()
		running.Go(func() { large.Write(request(3, body)) })
		if _, got, err := large.receive(); err == nil {
			served = bytes.Equal(got, body)
		}
		for more := true; more; {
			select {
			case err := <-ended:
				if left--; err != nil {
					t.Error("a connection that only claims is not closed")
				}
			default:
				more = false
			}
		}
	}
	close(stop)
	running.Wait()
}

// budgetSurvivesDeadWaiters kills connections that wait for memory, and some that hold it with half a request.
func (s *Suite) budgetSurvivesDeadWaiters(t *testing.T) {
	h := hold(t, 1<<20)
	r := s.start(t, wire.Config{QueuedMaxRequestBytes: 1 << 20}, &h.app)
	first := r.dial()
	first.send(request(1, nil))
	h.next(t)
	for i := range int32(10) {
		cl := r.dial()
		cl.send(request(100+i, nil))
		half := r.dial()
		half.send(request(200+i, make([]byte, 300_000))[:80_000])
		for _, c := range []*client{cl, half} {
			c.Conn.(*net.TCPConn).SetLinger(0)
			c.Close()
		}
	}
	h.let <- struct{}{}
	first.expect(1, nil)
	// Those that were granted the budget before their death was noticed may be served; what counts is that it comes back.
	for range 20 {
		h.let <- struct{}{}
	}
	last := r.dial()
	last.send(request(2, nil))
	last.expect(2, nil)
}

func (s *Suite) queuedMaxRequests(t *testing.T) {
	g := newGate(t)
	started := make(chan int32, 100)
	r := s.start(t, wire.Config{Processors: 1, Handlers: 2, QueuedMaxRequests: 3}, &app{
		admit: func(_ *wire.Conn, h frame.Header, _ int) (wire.Admission, error) {
			return wire.Admission{Inline: h.CorrelationID >= 1000}, nil
		},
		serve: func(r *wire.Request, inline bool) bool {
			if !inline {
				started <- r.Header.CorrelationID
				g.wait()
			}
			answer(r)
			return true
		},
	})
	var clients []*client
	for i := range int32(10) {
		cl := r.dial()
		cl.send(request(i, nil))
		clients = append(clients, cl)
	}
	within(t, "a handler starts", started)
	within(t, "a handler starts", started)
	// The processor does not wait for the handlers.
	quick := r.dial()
	quick.send(request(1000, nil))
	quick.expect(1000, nil)
	g.open()
	for i, cl := range clients {
		cl.expect(int32(i), nil)
	}
}

func (s *Suite) maxInFlight(t *testing.T) {
	parked := make(chan *wire.Request, 100)
	r := s.start(t, wire.Config{MaxInFlight: 3}, &app{admit: admitInline, serve: func(r *wire.Request, _ bool) bool {
		parked <- r
		return true
	}})
	cl := r.dial()
	for i := range int32(9) {
		cl.send(request(i, nil))
	}
	var held []*wire.Request
	for i := range int32(9) {
		if i < 3 {
			held = append(held, within(t, "a request arrives", parked))
			continue
		}
		for range 100 {
			runtime.Gosched()
		}
		if len(parked) > 0 {
			t.Fatal("more in flight than allowed")
		}
		answer(held[0])
		held = append(held[1:], within(t, "another request arrives", parked))
		cl.expect(i-3, nil)
	}
}

func (s *Suite) maxConnections(t *testing.T) {
	r := s.start(t, wire.Config{ConnectionLimits: wire.ConnectionLimits{MaxConnections: 2}}, echo(true))
	var clients []*client
	for i := range int32(4) {
		cl := r.dial()
		cl.send(request(i, nil))
		clients = append(clients, cl)
		if i < 2 {
			cl.expect(i, nil)
		}
	}
	for i := range int32(2) {
		clients[i].Close()
		clients[i+2].expect(i+2, nil) // it waited for the place
	}
	waits := r.dial()
	waits.send(request(9, nil))
	if err := r.server.SetLimits(wire.ConnectionLimits{MaxConnections: 3}); err != nil {
		t.Fatal(err)
	}
	waits.expect(9, nil) // there is room now
}

// maxConnectionsOfListener: a listener that is full waits, and others do not.
func (s *Suite) maxConnectionsOfListener(t *testing.T) {
	r := s.start(t, wire.Config{ConnectionLimits: wire.ConnectionLimits{PerListener: map[string]int{"PLAINTEXT": 1, "OTHER": 5}}}, echo(true))
	first, waits := r.dial(), r.dial()
	first.send(request(1, nil))
	first.expect(1, nil)
	waits.send(request(2, nil))
	first.Close()
	waits.expect(2, nil) // it waited for the place
	more := r.dial()
	more.send(request(3, nil))
	if err := r.server.SetLimits(wire.ConnectionLimits{PerListener: map[string]int{"OTHER": 1}}); err != nil {
		t.Fatal(err)
	}
	more.expect(3, nil) // the limit is gone
}

func (s *Suite) maxConnectionsPerIP(t *testing.T) {
	for _, c := range []struct {
		name  string
		cfg   wire.Config
		limit int
	}{
		{"limit", wire.Config{ConnectionLimits: wire.ConnectionLimits{MaxConnectionsPerIP: 2}}, 2},
		{"override", wire.Config{ConnectionLimits: wire.ConnectionLimits{MaxConnectionsPerIP: 5, PerIPOverrides: map[string]int{"127.0.0.1": 1, "127.0.0.9": 9}}}, 1},
		{"override by name", wire.Config{ConnectionLimits: wire.ConnectionLimits{PerIPOverrides: map[string]int{"localhost": 3}}}, 3},
		{"overrides only", wire.Config{ConnectionLimits: wire.ConnectionLimits{MaxConnectionsPerIP: -1, PerIPOverrides: map[string]int{"127.0.0.9": 9}}}, 0},
		{"none", wire.Config{ConnectionLimits: wire.ConnectionLimits{PerIPOverrides: map[string]int{"127.0.0.1": 0}}}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := s.start(t, c.cfg, echo(true))
			var last *client
			for i := range c.limit {
				last = r.dial()
				last.send(request(int32(i), nil))
				last.expect(int32(i), nil)
			}
			refused := r.dial()
			refused.expectEnd()
			r.expectLine(refused, "refusing a connection")
			if last == nil {
				return
			}
			last.Close()
			eventually(t, "the place is free again", func() bool {
				cl := r.dial()
				cl.Write(request(7, nil))
				_, _, err := cl.receive()
				cl.Close()
				return err == nil
			})
		})
	}
}

func (s *Suite) idleTimeout(t *testing.T) {
	const idle = time.Minute
	clk := clock.NewFake(time.UnixMilli(0))
	parked := make(chan *wire.Request, 1)
	big := payload.Part{Bytes: make([]byte, 60<<20)}
	r := s.start(t, wire.Config{Clock: clk, IdleTimeout: idle, Processors: 1}, &app{admit: admitInline, serve: func(r *wire.Request, _ bool) bool {
		switch r.Header.CorrelationID {
		case 1:
			parked <- r
		case 2:
			r.Reply(head(r), big)
		default:
			answer(r)
		}
		return true
	}})
	silent, waiting, stuck, active := r.dial(), r.dial(), r.dial(), r.dial()
	waiting.send(request(1, nil))
	p := within(t, "the request arrives", parked)
	stuck.send(request(2, nil))
	ping := func() {
		active.send(request(3, nil))
		active.expect(3, nil)
	}
	ping()
	if _, err := stuck.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		clk.Advance(idle / 4)
		ping()
	}
	silent.expectEnd()
	eventually(t, "the connection that does not read is closed", func() bool {
		clk.Advance(idle / 4)
		ping()
		stuck.SetReadDeadline(clock.System.Now().Add(time.Second))
		buf := make([]byte, 1<<20)
		for {
			_, err := stuck.Read(buf)
			if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
				return false
			}
			if err != nil {
				return true
			}
		}
	})
	answer(p)
	waiting.expect(1, nil)
}
