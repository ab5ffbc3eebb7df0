package enginetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gregor-broker/gregor/wire"
	"github.com/gregor-broker/gregor/wire/frame"
	"github.com/gregor-broker/gregor/wire/payload"
)

// slowReaders: clients that ask for much and read nothing hold up nobody, and lose nothing when they read at last.
func (s *Suite) slowReaders(t *testing.T) {
	disk, data := osFile(t, 24<<20)
	r := s.start(t, wire.Config{Processors: 1}, &app{admit: admitInline, serve: func(r *wire.Request, _ bool) bool {
		if string(r.Body) == "much" {
			disk.Retain()
			r.Reply(head(r), payload.Part{File: disk, Len: len(data)})
		} else {
			answer(r)
		}
		return true
	}})
	var slow []*client
	for i := range int32(20) {
		cl := r.dial()
		cl.send(request(i, []byte("much")), request(i+1, []byte("much")))
		slow = append(slow, cl)
	}
	quick := r.dial()
	for i := range int32(200) {
		quick.send(request(i, nil))
		quick.expect(i, nil)
	}
	for i, cl := range slow[:2] {
		cl.expect(int32(i), data)
		cl.expect(int32(i+1), data)
	}
	for _, cl := range slow {
		cl.Close()
	}
	eventually(t, "files are released", func() bool { return disk.refs.Load() == 0 })
}

func (s *Suite) replyAfterDeath(t *testing.T) {
	disk, _ := osFile(t, 1000)
	parked := make(chan *wire.Request, 10)
	closed := make(chan *wire.Conn, 10)
	r := s.start(t, wire.Config{}, &app{
		serve: func(r *wire.Request, _ bool) bool {
			parked <- r
			return true
		},
		closed: func(c *wire.Conn) { closed <- c },
	})
	cl := r.dial()
	cl.send(request(1, nil), request(2, nil), request(3, nil))
	one, two, three := within(t, "arrives", parked), within(t, "arrives", parked), within(t, "arrives", parked)
	disk.Retain()
	two.Reply(head(two), payload.Part{File: disk, Len: 1000}) // waits for the first
	cl.Close()
	eventually(t, "the death is noticed", one.Dead)
	if c := within(t, "Closed is called", closed); c != one.Conn {
		t.Error("Closed is called for another connection")
	}
	disk.Retain()
	one.Reply(head(one), payload.Part{File: disk, Len: 1000}, payload.Part{File: nil, Bytes: []byte("x")})
	three.NoReply()
	eventually(t, "files are released", func() bool { return disk.refs.Load() == 0 })
}

// framesBeforeTheEndAreServed: a producer with acks=0 sends and closes.
func (s *Suite) framesBeforeTheEndAreServed(t *testing.T) {
	for _, inline := range []bool{false, true} {
		const n = 200
		var served, after atomic.Int32
		closed := make(chan struct{})
		r := s.start(t, wire.Config{MaxInFlight: 7, QueuedMaxRequests: 5}, &app{
			admit: func(*wire.Conn, frame.Header, int) (wire.Admission, error) {
				return wire.Admission{Inline: inline}, nil
			},
			serve: func(r *wire.Request, _ bool) bool {
				served.Add(1)
				r.NoReply()
				return true
			},
			closed: func(*wire.Conn) {
				after.Store(served.Load())
				close(closed)
			},
		})
		cl := r.dial()
		var all []byte
		for i := range int32(n) {
			all = append(all, request(i, make([]byte, 1000))...)
		}
		cl.send(all)
		cl.Close()
		within(t, "Closed is called", closed)
		if after.Load() != n {
			t.Errorf("%d requests of %d were served before Closed", after.Load(), n)
		}
	}
}

func (s *Suite) halfClosedClientGetsItsAnswer(t *testing.T) {
	r := s.start(t, wire.Config{}, echo(true))
	cl := r.dial()
	cl.send(request(1, []byte("last words")))
	cl.Conn.(*net.TCPConn).CloseWrite()
	cl.expect(1, []byte("last words"))
	cl.expectEnd()
}

// staleRepliesAfterReuse answers requests of dead connections while new ones use their descriptors and slots.
func (s *Suite) staleRepliesAfterReuse(t *testing.T) {
	parked := make(chan *wire.Request, 1000)
	ids := sync.Map{}
	r := s.start(t, wire.Config{Processors: 1}, &app{admit: admitInline, serve: func(r *wire.Request, _ bool) bool {
		if owner, known := ids.LoadOrStore(r.Conn.ID(), r.Conn); known && owner != r.Conn {
			t.Errorf("two connections are called %v", r.Conn.ID())
		}
		if string(r.Body) == "park" {
			parked <- r
		} else {
			answer(r, r.Body)
		}
		return true
	}})
	for i := range int32(200) {
		old := r.dial()
		old.send(request(i, []byte("park")), request(i, []byte("park")))
		first, second := within(t, "arrives", parked), within(t, "arrives", parked)
		old.Close()
		cl := r.dial()
		cl.send(request(i+1000, []byte("new")))
		go answer(second, []byte("stale"))
		answer(first, []byte("stale"))
		cl.expect(i+1000, []byte("new"))
		cl.send(request(i+2000, []byte("still new")))
		cl.expect(i+2000, []byte("still new"))
		cl.Close()
	}
}

func (s *Suite) drain(t *testing.T) {
	disk, data := osFile(t, 20<<20)
	parked := make(chan *wire.Request, 10)
	r := s.start(t, wire.Config{}, &app{serve: func(r *wire.Request, _ bool) bool {
		parked <- r
		return true
	}})
	idle, busy, slow := r.dial(), r.dial(), r.dial()
	busy.send(request(1, nil), request(2, nil), request(3, nil)[:10])
	one, two := within(t, "arrives", parked), within(t, "arrives", parked)
	slow.send(request(4, nil))
	four := within(t, "arrives", parked)

	drained := make(chan error, 1)
	told := &waitedFor{Context: deadline(t), waits: make(chan struct{})}
	go func() { drained <- r.server.Drain(told) }()
	within(t, "every connection is told", told.waits) // that one of them ends does not say so of the others
	idle.expectEnd()
	if nc, err := net.Dial("tcp", r.addr); err == nil {
		nc.Close()
		t.Error("a connection is accepted while the server drains")
	}
	busy.send(request(3, nil)[10:], request(5, nil)) // not read any more
	answer(two, []byte("second"))
	answer(one, []byte("first"))
	disk.Retain()
	four.Reply(head(four), payload.Part{File: disk, Len: len(data)})
	busy.expect(1, []byte("first"))
	busy.expect(2, []byte("second"))
	select {
	case err := <-drained:
		t.Errorf("drained with %v before the slow reader has its answer", err)
	default:
	}
	slow.expect(4, data)
	slow.expectEnd()
	if err := within(t, "the server drains", drained); err != nil {
		t.Error(err)
	}
	select {
	case r := <-parked:
		t.Errorf("request %d was served while the server drained", r.Header.CorrelationID)
	default:
	}
}

// waitedFor is a context that tells when somebody begins to wait for its end.
type waitedFor struct {
	context.Context
	once  sync.Once
	waits chan struct{}
}

func (c *waitedFor) Done() <-chan struct{} {
	c.once.Do(func() { close(c.waits) })
	return c.Context.Done()
}

func (s *Suite) drainDeadline(t *testing.T) {
	parked := make(chan *wire.Request, 1)
	r := s.start(t, wire.Config{}, &app{serve: func(r *wire.Request, _ bool) bool {
		parked <- r
		return true
	}})
	cl := r.dial()
	cl.send(request(1, nil))
	p := within(t, "arrives", parked)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.server.Drain(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Drain returns %v", err)
	}
	if err := r.server.Close(); err != nil {
		t.Error(err)
	}
	if !p.Dead() {
		t.Error("a connection survives Close")
	}
	p.NoReply()
}

func (s *Suite) closeWithRequestsInWork(t *testing.T) {
	disk, _ := osFile(t, 1000)
	var served, gone atomic.Int32
	var late sync.WaitGroup
	r := s.start(t, wire.Config{QueuedMaxRequestBytes: 5000, QueuedMaxRequests: 3}, &app{
		serve: func(r *wire.Request, _ bool) bool {
			served.Add(1)
			late.Go(func() {
				disk.Retain()
				r.Reply(head(r), payload.Part{File: disk, Len: 1000})
			})
			return true
		},
		closed: func(*wire.Conn) { gone.Add(1) },
	})
	for range 20 {
		cl := r.dial()
		for i := range int32(30) {
			cl.send(request(i, make([]byte, 100)))
		}
	}
	eventually(t, "something is served", func() bool { return served.Load() > 50 })
	if err := r.server.Close(); err != nil {
		t.Error(err)
	}
	late.Wait()
	if disk.refs.Load() != 0 {
		t.Errorf("%d references to the file remain", disk.refs.Load())
	}
	if n := gone.Load(); n > 20 {
		t.Errorf("Closed was called %d times for 20 connections", n)
	}
	if _, err := net.Dial("tcp", r.addr); err == nil {
		t.Error("the server still listens")
	}
}

// shrunkFile: a range that is not there any more ends the connection.
func (s *Suite) shrunkFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "segment")
	if err := os.WriteFile(path, bytes.Repeat([]byte("x"), 100_000), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	disk := &file{File: realFile{f, int(f.Fd())}}
	r := s.start(t, wire.Config{}, &app{admit: admitInline, serve: func(r *wire.Request, _ bool) bool {
		disk.Retain()
		n := 100
		fmt.Sscan(string(r.Body), &n)
		r.Reply(head(r), payload.Part{File: disk, Pos: 90_000, Len: n})
		return true
	}})
	for _, n := range []int{10_001, 200_000} {
		cl := r.dial()
		cl.send(request(1, fmt.Append(nil, n)))
		if _, _, err := cl.receive(); err == nil {
			t.Error("a response is complete though its file is not")
		}
		if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
			t.Error("the connection is not closed")
		}
	}
	eventually(t, "files are released", func() bool { return disk.refs.Load() == 0 })
}
