package netloop

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"github.com/gregor-broker/gregor/wire/payload"
	"github.com/gregor-broker/gregor/wire/session"
)

const (
	idleBuffer = 256      // bytes that an idle connection reads into
	copyBuffer = 64 << 10 // bytes of a file that are copied at a time
	maxVectors = 64
)

// conn is one connection. Its session belongs to whoever has taken it: see take.
type conn struct {
	engine *Engine
	nc     net.Conn
	peer   session.Peer
	id     session.ID
	active atomic.Int64 // time of the last traffic, on the monotonic clock
	small  [idleBuffer]byte

	mu struct {
		sync.Mutex
		owned   bool
		inbox   []session.Message
		spare   []session.Message // the inbox's other half
		ready   bool              // the reader has something to do: read, look at what is there, or end
		writing bool              // there is a writer
		ending  bool              // the reader is to end
		closed  bool              // nothing can be posted any more
		cause   error             // why it ends
	}
	changed sync.Cond // owned, ready, writing or ending changed
}

func newConn(e *Engine, nc net.Conn) *conn {
	c := &conn{engine: e, nc: nc}
	c.changed.L = &c.mu.Mutex
	c.mu.ready = true
	c.touch()
	return c
}

// ID names the connection.
func (c *conn) ID() session.ID { return c.id }

func (c *conn) touch() { c.active.Store(int64(c.engine.o.Clock.Monotonic())) }

// Post has m delivered by the session's owner, which is the caller if there is none.
func (c *conn) Post(m session.Message) bool {
	c.mu.Lock()
	if c.mu.closed {
		c.mu.Unlock()
		return false
	}
	c.mu.inbox = append(c.mu.inbox, m)
	if c.mu.owned {
		c.mu.Unlock()
		return true
	}
	c.mu.owned = true
	c.mu.Unlock()
	c.give()
	return true
}

// take makes the caller the session's owner.
func (c *conn) take() {
	c.mu.Lock()
	for c.mu.owned {
		c.changed.Wait()
	}
	c.mu.owned = true
	c.mu.Unlock()
}

// give ends the ownership, after what was posted meanwhile has been delivered and the writer has been started.
func (c *conn) give() {
	s := c.peer.Session()
	for {
		c.mu.Lock()
		inbox := c.mu.inbox
		if len(inbox) == 0 {
			break
		}
		c.mu.inbox, c.mu.spare = c.mu.spare[:0], nil
		c.mu.Unlock()
		for i, m := range inbox {
			c.peer.Deliver(m)
			inbox[i] = session.Message{}
		}
		c.mu.Lock()
		if cap(inbox) <= maxVectors {
			c.mu.spare = inbox[:0]
		}
		c.mu.Unlock()
	}
	if s.HasOutput() && !c.mu.writing && !c.mu.ending {
		c.mu.writing = true
		c.engine.goroutines.Go(c.write)
	}
	if s.Finished() && (!c.mu.writing || s.Aborted()) {
		c.endLocked(nil)
	}
	c.mu.ready = s.Resumable() || !s.Muted()
	c.mu.owned = false
	c.changed.Broadcast()
	c.mu.Unlock()
}

// end makes the reader, which may be reading, and the writer stop.
func (c *conn) end(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLocked(cause)
}

func (c *conn) endLocked(cause error) {
	if c.mu.ending {
		return
	}
	c.mu.ending, c.mu.cause = true, cause
	c.changed.Broadcast()
	c.nc.Close()
}

// expire closes the connection unless it waits for us.
func (c *conn) expire() {
	c.mu.Lock()
	if c.mu.owned || c.mu.closed {
		c.mu.Unlock()
		return
	}
	c.mu.owned = true
	c.mu.Unlock()
	if !c.peer.Session().Waits() {
		c.end(session.ErrIdle)
	}
	c.give()
}

// read is the reading goroutine: it lives as long as the connection.
func (c *conn) read() {
	c.take()
	if c.peer.Session().MutedFor()&session.Throttled != 0 {
		c.Post(session.Message{Kind: session.Began})
	}
	c.give()
	for c.readOnce() {
	}
	c.mu.Lock()
	for c.mu.owned || c.mu.writing {
		c.changed.Wait() // a client that has sent its last may still want to read
	}
	c.endLocked(nil)
	c.mu.closed = true
	cause := c.mu.cause
	c.mu.Unlock()
	c.engine.forget(c)
	c.peer.Closed(cause)
}

// readOnce waits until the connection may be read, reads, and handles what it read. It returns false at the connection's end.
func (c *conn) readOnce() bool {
	c.mu.Lock()
	for c.mu.owned || !c.mu.ready && !c.mu.ending {
		c.changed.Wait()
	}
	if c.mu.ending {
		c.mu.Unlock()
		return false
	}
	c.mu.owned = true
	c.mu.Unlock()

	s := c.peer.Session()
	if s.Resumable() {
		c.peer.Advance()
		c.give()
		return true
	}
	first, _ := s.ReadBufs(c.small[:])
	c.give()
	if first == nil {
		return true
	}
	n, err := c.nc.Read(first)
	if n > 0 {
		c.take()
		if s.Fed(n, c.small[:]) {
			c.touch()
		}
		c.peer.Advance()
		c.give()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		c.end(err)
	}
	return err == nil
}

// write is the writing goroutine: it lives while there is output.
func (c *conn) write() {
	var vectors [][]byte
	var copied []byte
	s := c.peer.Session()
	c.take()
	for s.HasOutput() && !c.isEnding() {
		var file *payload.Part
		vectors, file = s.Gather(vectors[:0], maxVectors, nil)
		c.give()
		n, err := 0, error(nil)
		if len(vectors) > 0 {
			n, err = c.writeBytes(vectors)
		} else {
			if copied == nil {
				copied = c.engine.o.Pool.Get(copyBuffer)
			}
			n, err = c.writeFile(file, copied)
		}
		c.touch()
		c.take()
		s.Sent(n)
		if err != nil {
			c.end(err)
		}
	}
	if copied != nil {
		c.engine.o.Pool.Put(copied)
	}
	c.mu.Lock()
	c.mu.writing = false
	c.mu.Unlock()
	c.give()
}

func (c *conn) isEnding() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.ending
}

func (c *conn) writeBytes(vectors [][]byte) (int, error) {
	buffers := net.Buffers(vectors)
	n, err := buffers.WriteTo(c.nc)
	return int(n), err
}

// writeFile sends the beginning of a file's range through buf.
func (c *conn) writeFile(p *payload.Part, buf []byte) (int, error) {
	buf = buf[:min(len(buf), p.Len)]
	n, err := p.File.ReadAt(buf, p.Pos)
	if n < len(buf) {
		return 0, fmt.Errorf("a file that is being sent ended at %d, before %d: %w", p.Pos+int64(n), p.Pos+int64(p.Len), err)
	}
	return c.nc.Write(buf)
}
