package zk

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of what a server's frames may claim, in bytes without the length prefix. A session's first frame has 37 of them; the
// largest other one is a list of children.
const (
	maxGreetingBytes = 256
	minReplyBytes    = 16
	maxReplyBytes    = 32 << 20
)

// Opcodes of ZooKeeper's protocol (org.apache.zookeeper.ZooDefs.OpCode) that are no request of a caller.
const (
	opPing       int32 = 11
	opAuth       int32 = 100
	opSetWatches int32 = 101
	opClose      int32 = -11
)

// socket is a connection as the library uses it: one goroutine reads, one writes a whole frame with each Write. It tells the
// session what is being written, checks the frames' lengths before the library believes them, and has a deadline of its own
// until the server has agreed to the session (the library's would be several session timeouts).
type socket struct {
	net.Conn
	address string
	session *session
	reader  *bufio.Reader
	left    int         // bytes of the present frame that are still to be read
	resumed bool        // the session is older than the connection; set before agreed
	open    atomic.Bool // the server has agreed to the session

	mu struct {
		sync.Mutex
		err error // the first failure
	}
}

func newSocket(c net.Conn, address string, n *session) *socket {
	return &socket{Conn: c, address: address, session: n, reader: bufio.NewReaderSize(c, 64<<10)}
}

// agreed says that the session has been agreed upon: deadlines are the library's from now on.
func (c *socket) agreed() {
	_ = c.Conn.SetDeadline(time.Time{}) // a broken connection will show itself
	c.open.Store(true)
}

func (c *socket) note(err error) {
	if err == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.err == nil {
		c.mu.err = err
	}
}

// err returns the first failure, nil if there was none.
func (c *socket) err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.err
}

// Read never returns bytes of two frames.
func (c *socket) Read(p []byte) (int, error) {
	n, err := c.read(p)
	if err != nil {
		c.note(err)
		if !c.open.Load() {
			c.session.failed(err)
		}
	}
	return n, err
}

func (c *socket) read(p []byte) (int, error) {
	if c.left == 0 {
		prefix, err := c.reader.Peek(4)
		if err != nil {
			return 0, err
		}
		length := binary.BigEndian.Uint32(prefix)
		if err := c.check(length); err != nil {
			return 0, err
		}
		c.left = len(prefix) + int(length)
	}
	n, err := c.reader.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

func (c *socket) check(length uint32) error {
	switch {
	case !c.open.Load() && (length < minReplyBytes || length > maxGreetingBytes):
		return fmt.Errorf("%s does not answer as ZooKeeper does", c.address)
	case length < minReplyBytes || length > maxReplyBytes:
		return fmt.Errorf("%s sent a reply of %d bytes", c.address, length)
	}
	return nil
}

// Write sends one frame of the library's.
func (c *socket) Write(p []byte) (int, error) {
	if c.open.Load() && len(p) >= 12 {
		switch int32(binary.BigEndian.Uint32(p[8:])) {
		case opPing, opAuth, opClose:
		case opSetWatches:
			c.session.rewatching(c)
		default:
			if !c.session.writing() {
				return len(p), nil
			}
		}
	}
	n, err := c.Conn.Write(p)
	c.note(err)
	return n, err
}

// SetReadDeadline implements net.Conn.
func (c *socket) SetReadDeadline(t time.Time) error {
	if !c.open.Load() {
		return nil
	}
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline implements net.Conn.
func (c *socket) SetWriteDeadline(t time.Time) error {
	if !c.open.Load() {
		return nil
	}
	return c.Conn.SetWriteDeadline(t)
}
