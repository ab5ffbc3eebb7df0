// Package enginetest is the suite that every engine of wire has to pass: order, limits, fairness, ends of connections.
package enginetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gregor-broker/gregor/wire"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/gregor-broker/gregor/wire/frame"
	"github.com/gregor-broker/gregor/wire/payload"
)

// patience bounds how long the suite waits for what must happen. Nothing is concluded from less.
const patience = time.Minute

// app is a Handler made of functions.
type app struct {
	admit  func(c *wire.Conn, h frame.Header, size int) (wire.Admission, error)
	serve  func(r *wire.Request, inline bool) bool
	closed func(c *wire.Conn)
}

func (a *app) Admit(c *wire.Conn, h frame.Header, size int) (wire.Admission, error) {
	if a.admit == nil {
		return wire.Admission{}, nil
	}
	return a.admit(c, h, size)
}

func (a *app) Serve(r *wire.Request, inline bool) bool { return a.serve(r, inline) }

func (a *app) Closed(c *wire.Conn) {
	if a.closed != nil {
		a.closed(c)
	}
}

// rig is a running server.
type rig struct {
	t      *testing.T
	server *wire.Server
	addr   string
	logs   *observer.ObservedLogs
}

// start runs a server with one listener until the test ends.
func (s *Suite) start(t *testing.T, cfg wire.Config, a *app) *rig {
	core, logs := observer.New(zapcore.InfoLevel)
	cfg.Engine, cfg.Logger = s.Engine, zap.New(core)
	if cfg.Processors == 0 {
		cfg.Processors = 2
	}
	server, err := wire.New(cfg, a)
	if err != nil {
		t.Fatal(err)
	}
	addr, err := server.Bind(wire.Listener{Name: "PLAINTEXT", Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return &rig{t, server, addr.String(), logs}
}

// client is a connection to a rig.
type client struct {
	t *testing.T
	net.Conn
}

func (r *rig) dial() *client {
	r.t.Helper()
	nc, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(clock.System.Now().Add(patience))
	return &client{r.t, nc}
}

// request returns the bytes of a request: Produce v0, which has a plain header.
func request(corr int32, body []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(body)+12))
	b = append(b, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(corr))
	b = append(b, 0, 2, 'm', 'e')
	return append(b, body...)
}

func (c *client) send(b ...[]byte) {
	c.t.Helper()
	if _, err := c.Write(bytes.Join(b, nil)); err != nil {
		c.t.Fatal(err)
	}
}

// receive returns the next response.
func (c *client) receive() (corr int32, body []byte, err error) {
	var head [8]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return 0, nil, err
	}
	body = make([]byte, binary.BigEndian.Uint32(head[:])-4)
	_, err = io.ReadFull(c, body)
	return int32(binary.BigEndian.Uint32(head[4:])), body, err
}

// expect reads a response and checks it.
func (c *client) expect(corr int32, body []byte) {
	c.t.Helper()
	gotCorr, got, err := c.receive()
	if err != nil {
		c.t.Fatalf("response %d: %v", corr, err)
	}
	if gotCorr != corr || !bytes.Equal(got, body) {
		c.t.Fatalf("response %d of %d bytes (%.40q), want %d of %d bytes (%.40q)", gotCorr, len(got), got, corr, len(body), body)
	}
}

// expectEnd reads until the server closes, and fails if it sends anything before.
func (c *client) expectEnd() {
	c.t.Helper()
	n, err := io.Copy(io.Discard, c)
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		c.t.Fatal("the connection is not closed")
	}
	if n > 0 {
		c.t.Fatalf("%d bytes before the end", n)
	}
}

// answer replies with the correlation id and body.
func answer(r *wire.Request, body ...[]byte) {
	b := r.Buffer(64)
	b = frame.AppendResponseHeader(b, r.Header.Key, r.Header.Version, r.Header.CorrelationID)
	for _, p := range body {
		b = append(b, p...)
	}
	r.Reply(payload.Part{Bytes: b})
}

// head is a response's header as a part.
func head(r *wire.Request) payload.Part {
	return payload.Part{Bytes: frame.AppendResponseHeader(nil, r.Header.Key, r.Header.Version, r.Header.CorrelationID)}
}

// within fails the test unless what happens before the suite's patience ends.
func within[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	late, timer := clock.System.NewTimer(patience)
	defer timer.Stop()
	select {
	case v := <-c:
		return v
	case <-late:
		t.Fatalf("%s: it does not happen", what)
		panic("unreachable")
	}
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 60_000 {
		if ok() {
			return
		}
		again, _ := clock.System.NewTimer(time.Millisecond)
		<-again
	}
	t.Fatalf("%s: it does not happen", what)
}

// file is a payload.File that counts its references.
type file struct {
	payload.File
	refs atomic.Int32
}

func (f *file) Retain()  { f.refs.Add(1) }
func (f *file) Release() { f.refs.Add(-1) }

// gate holds goroutines until it is opened.
type gate struct {
	once sync.Once
	c    chan struct{}
}

func newGate(t *testing.T) *gate {
	g := &gate{c: make(chan struct{})}
	t.Cleanup(g.open)
	return g
}

func (g *gate) open() { g.once.Do(func() { close(g.c) }) }
func (g *gate) wait() { <-g.c }

// recorder collects what happened, in order.
type recorder struct {
	mu     sync.Mutex
	events []string
}

func (r *recorder) add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, fmt.Sprintf(format, args...))
}

func (r *recorder) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.events...)
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}
