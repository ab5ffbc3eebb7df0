package reactor

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gregor-broker/gregor/wire/payload"
	"github.com/gregor-broker/gregor/wire/session"
)

// conn is one connection. It belongs to its processor, except for Post.
type conn struct {
	proc     *processor
	peer     session.Peer
	fd       int
	slot     int32
	gen      uint32
	interest uint32 // events that epoll reports
	full     bool   // the socket takes no more bytes until EPOLLOUT
	loading  bool   // output waits for a cold file range
	ended    bool   // the client has sent its last
	queued   bool   // in the processor's toRun
	closed   bool
	heard    bool // something was read
	answered bool // something was sent
	warm     warmth
	used     time.Duration // time of the last traffic
	links    links         // in byUse
}

// ID names the connection.
func (c *conn) ID() session.ID {
	return session.ID{Proc: c.proc.index, Slot: uint32(c.slot), Gen: c.gen}
}

// Post has m delivered by the processor.
func (c *conn) Post(m session.Message) bool { return c.proc.post(letter{kind: deliver, c: c, m: m}) }

// end closes the socket and tells the application.
func (c *conn) end(cause error) {
	c.closed = true
	c.warm = warmth{}
	if c.answered || c.heard && cause != session.ErrServer {
		unix.Close(c.fd)
	} else {
		reset(c.fd)
	}
	c.peer.Closed(cause)
}

// reset closes a connection on which nothing was said, or on which a server that ends has said nothing, as if it had never been accepted. An end in order, before any answer,
// looks to clients like a broker that speaks something else, and some do not try again.
func reset(fd int) {
	_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	unix.Close(fd)
}

// discard ends a connection that no processor has.
func (c *conn) discard() { c.end(session.ErrServer) }

// read reads what the socket has, up to a quantum, and has the requests run. It returns false if the connection is closed.
func (p *processor) read(c *conn, events uint32) bool {
	s := c.peer.Session()
	for quantum := readQuantum; quantum > 0; {
		first, second := s.ReadBufs(p.scratch[:])
		if first == nil || c.ended {
			if events&(unix.EPOLLHUP|unix.EPOLLERR) != 0 {
				p.close(c, unix.ECONNRESET) // whatever it has sent cannot be answered any more
				return false
			}
			p.watch(c, c.interest&^unix.EPOLLIN)
			return !c.closed
		}
		n, err := p.readInto(c.fd, first, second)
		switch {
		case err == unix.EAGAIN:
			return true
		case err == unix.EINTR:
			continue
		case err != nil:
			p.close(c, err)
			return false
		case n == 0:
			c.ended = true
			p.watch(c, c.interest&^unix.EPOLLIN)
			return !c.closed
		}
		c.heard = true
		if s.Fed(n, p.scratch[:]) {
			p.use(c)
		}
		c.peer.Advance()
		if n < len(first)+len(second) {
			return true
		}
		quantum -= n
	}
	return true
}

// turn sends what may be sent, goes on with what had to wait, and sees whether the connection is over.
func (p *processor) turn(c *conn) {
	s := c.peer.Session()
	for rounds := 0; ; rounds++ {
		if !c.full && !c.loading && !p.flush(c) {
			return
		}
		if !s.Resumable() {
			break
		}
		if rounds == 4 {
			p.queue(c)
			break
		}
		c.peer.Advance()
	}
	if s.Finished() || c.ended && !s.HasOutput() && !s.Resumable() {
		p.close(c, nil)
		return
	}
	want := c.interest &^ unix.EPOLLOUT
	if !s.Muted() && !c.ended {
		want |= unix.EPOLLIN
	}
	if c.full {
		want |= unix.EPOLLOUT
	}
	p.watch(c, want)
}

// watch changes the events that epoll reports for c.
func (p *processor) watch(c *conn, events uint32) {
	if events == c.interest {
		return
	}
	c.interest = events
	ev := unix.EpollEvent{Events: events, Fd: c.slot, Pad: int32(c.gen)}
	if err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_MOD, c.fd, &ev); err != nil {
		p.close(c, fmt.Errorf("epoll_ctl: %w", err))
	}
}

// flush sends what may go out, up to a quantum. It returns false if the connection is closed.
func (p *processor) flush(c *conn) bool {
	s := c.peer.Session()
	for quantum := writeQuantum; s.HasOutput(); {
		if quantum <= 0 {
			p.queue(c)
			return true
		}
		p.copied = 0
		vec, file := s.Gather(p.vectors[:0], maxVectors, p.copySmallFunc)
		var n, size int
		var err error
		if len(vec) > 0 {
			n, size, err = p.send(c.fd, vec, file != nil)
		} else {
			if n, size, err = p.sendRange(c, file, quantum); err == errCold {
				return true
			}
		}
		switch {
		case err == unix.EAGAIN:
			c.full = true
			return true
		case err == unix.EINTR:
			continue
		case err != nil:
			p.close(c, err)
			return false
		}
		p.use(c)
		s.Sent(n)
		c.answered = c.answered || n > 0
		quantum -= n
		if n < size {
			c.full = true
			return true
		}
	}
	return true
}

// copySmall reads a small file range into the scratch buffer, to be sent with what is around it: for those sendfile costs more
// than the copy, and a response may have hundreds.
func (p *processor) copySmall(part *payload.Part) []byte {
	if part.Len > copiedRange || part.Cold || part.Len > len(p.scratch)-p.copied {
		return nil
	}
	buf := p.scratch[p.copied : p.copied+part.Len]
	if n, _ := part.File.ReadAt(buf, part.Pos); n < len(buf) {
		return nil // sendRange finds out why
	}
	p.copied += part.Len
	return buf
}

var errCold = errors.New("reactor: the file range is not in the page cache")

// sendRange sends the beginning of a file's range; size is what it tried to send.
func (p *processor) sendRange(c *conn, file *payload.Part, quantum int) (n, size int, err error) {
	size = min(file.Len, quantum)
	fd := file.File.FD()
	if fd < 0 {
		buf := p.scratch[:min(size, len(p.scratch))]
		if n, err = file.File.ReadAt(buf, file.Pos); n < len(buf) {
			return 0, size, shrunk(file, err)
		}
		return p.send(c.fd, append(p.vectors[:0], buf), false)
	}
	if file.Cold {
		if size = c.warm.prefix(file, size); size == 0 {
			p.load(c, file, min(file.Len, quantum))
			return 0, size, errCold
		}
	}
	pos := file.Pos
	n, err = unix.Sendfile(c.fd, fd, &pos, size)
	if n == 0 && err == nil {
		return 0, size, shrunk(file, nil)
	}
	return n, size, err
}

// shrunk is the error for a file that ends before the range that was to be sent.
func shrunk(p *payload.Part, err error) error {
	if err == nil {
		err = errors.New("end of file")
	}
	return fmt.Errorf("a range of a file that was to be sent, %d bytes from %d, is not there: %w", p.Len, p.Pos, err)
}
