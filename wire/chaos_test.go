package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/wire/frame"
	"github.com/gregor-broker/gregor/wire/payload"
)

// chaos answers at random, now or later or by closing; it counts connections and file references.
type chaos struct {
	opened, closed atomic.Int32
	files          atomic.Int32
	later          sync.WaitGroup
}

func (c *chaos) Admit(_ *Conn, h frame.Header, size int) (Admission, error) {
	if rand.IntN(300) == 0 {
		return Admission{}, errors.New("refused at random")
	}
	return Admission{Inline: rand.IntN(2) == 0, Cost: int64(size) * int64(1+rand.IntN(20))}, nil
}

func (c *chaos) Serve(r *Request, inline bool) bool {
	if r.Conn.Value == nil {
		r.Conn.Value = c
		c.opened.Add(1)
	}
	if inline && rand.IntN(4) == 0 {
		return false
	}
	answer := func() {
		switch rand.IntN(40) {
		case 0:
			r.Close("at random")
		case 1, 2, 3:
			r.NoReply()
		case 4, 5, 6, 7, 8, 9:
			c.files.Add(1)
			r.Reply(payload.Part{Bytes: []byte("head")}, payload.Part{File: (*zeroes)(c), Len: rand.IntN(300_000)})
		default:
			r.Reply(payload.Part{Bytes: append(r.Buffer(10), "answer"...)})
		}
	}
	if rand.IntN(3) == 0 {
		c.later.Go(answer)
	} else {
		answer()
	}
	return true
}

func (c *chaos) Closed(conn *Conn) {
	if conn.Value != nil {
		c.closed.Add(1)
	}
}

// zeroes is an endless file.
type zeroes chaos

func (z *zeroes) FD() int                               { return -1 }
func (z *zeroes) ReadAt(p []byte, _ int64) (int, error) { clear(p); return len(p), nil }
func (z *zeroes) Retain()                               { z.files.Add(1) }
func (z *zeroes) Release()                              { z.files.Add(-1) }

// TestNothingIsLostInChaos has clients come, send requests whole and in part and garbage, and go, at random. After that the
// budgets are whole, the files released and every connection was reported closed.
func TestNothingIsLostInChaos(t *testing.T) {
	for _, engine := range []string{EngineNetloop, bestEngine} {
		t.Run(engine, func(t *testing.T) {
			h := &chaos{}
			s, err := New(Config{Engine: engine, Processors: 2, Handlers: 3, MaxInFlight: 5, QueuedMaxRequests: 4, QueuedMaxRequestBytes: 1 << 20, MaxRequestBytes: 1 << 20}, h)
			if err != nil {
				t.Fatal(err)
			}
			addr, err := s.Bind(Listener{Address: "127.0.0.1:0"})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Start(); err != nil {
				t.Fatal(err)
			}
			var clients sync.WaitGroup
			for range 10 {
				clients.Go(func() {
					for range 25 {
						visit(t, addr.String())
					}
				})
			}
			clients.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := s.Drain(ctx); err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			h.later.Wait()
			if free := s.memory.Free(); free != 1<<20 {
				t.Errorf("%d bytes of the memory budget are lost", 1<<20-free)
			}
			if free := s.queue.Free(); free != 4 {
				t.Errorf("%d places in the queue are lost", 4-free)
			}
			if n := h.files.Load(); n != 0 {
				t.Errorf("%d file references are lost", n)
			}
			if h.opened.Load() != h.closed.Load() || h.opened.Load() == 0 {
				t.Errorf("%d connections, %d reported closed", h.opened.Load(), h.closed.Load())
			}
		})
	}
}

// visit is one client's life.
func visit(t *testing.T, addr string) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Error(err)
		return
	}
	defer nc.Close()
	if rand.IntN(2) == 0 {
		nc.(*net.TCPConn).SetLinger(0)
	}
	var out []byte
	for i := range rand.IntN(30) {
		body := bytes.Repeat([]byte{7}, rand.IntN([]int{10, 3000, 200_000}[rand.IntN(3)]))
		out = binary.BigEndian.AppendUint32(out, uint32(len(body)+10))
		out = append(out, 0, 0, 0, 0)
		out = binary.BigEndian.AppendUint32(out, uint32(i))
		out = append(append(out, 0xff, 0xff), body...)
	}
	switch rand.IntN(3) {
	case 0:
		out = out[:rand.IntN(len(out)+1)]
	case 1:
		out = append(out, "GET / HTTP/1.1\r\n\r\n"...)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for buf := make([]byte, 10_000); rand.IntN(50) > 0; {
			if _, err := nc.Read(buf); err != nil {
				return
			}
		}
	}()
	nc.SetDeadline(time.Now().Add(time.Duration(rand.IntN(20)) * time.Millisecond))
	nc.Write(out)
	if rand.IntN(2) == 0 {
		<-read
	}
	nc.Close()
	<-read
}
