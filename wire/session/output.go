package session

import (
	"encoding/binary"
	"time"

	"github.com/gregor-broker/gregor/wire/buffers"
	"github.com/gregor-broker/gregor/wire/frame"
	"github.com/gregor-broker/gregor/wire/payload"
)

// Exchange is one request's place in the order of replies, and its reply. The zero value is ready for Begin.
//
// Whoever replies fills it with SetReply, from any goroutine, and hands it to the owner of the connection, who calls Done.
// Exchanges in work form a list in the order of the requests; the oldest are sent as soon as they are done.
type Exchange struct {
	next   *Exchange // the following request's
	done   bool      // its reply is there
	last   bool      // the connection closes in its place
	prefix [frame.LengthSize]byte
	left   uint8          // bytes of prefix not yet sent
	size   int            // bytes of prefix and parts not yet sent; 0: no reply
	memory int            // bytes of the reply counted as unsent
	parts  []payload.Part // what is left to send after the prefix
	few    [2]payload.Part
	buffer []byte // of the pool's; returned when the reply is out
	pause  time.Duration
	sent   Sent  // nil: nobody wants to know
	owner  Owner // nil: nobody counts it
}

// Sent is told when a reply is out: the system has all of its bytes. It must be quick.
type Sent interface{ Sent() }

// Owner is told when a reply that it counts is gone, sent or not, and how many bytes of memory that held. Called on any goroutine; it must be quick.
type Owner interface{ Gone(memory int) }

// Memory is how many bytes of memory the reply holds.
func (x *Exchange) Memory() int { return x.memory }

// SetOwner has o told when the reply is gone. After SetReply.
func (x *Exchange) SetOwner(o Owner) { x.owner = o }

// SetReply stores a reply, without length prefix. It takes over the parts' files.
func (x *Exchange) SetReply(parts []payload.Part) {
	if len(parts) <= len(x.few) {
		x.parts = x.few[:copy(x.few[:], parts)]
	} else {
		x.parts = append([]payload.Part(nil), parts...)
	}
	n := 0
	for i := range x.parts {
		n += x.parts[i].Size()
		if x.parts[i].File == nil {
			x.memory += len(x.parts[i].Bytes)
		}
	}
	binary.BigEndian.PutUint32(x.prefix[:], uint32(n))
	x.left = frame.LengthSize
	x.size = n + frame.LengthSize
}

// SetLast makes the exchange the connection's last: it closes when all earlier replies are out. It sends nothing itself.
func (x *Exchange) SetLast() { x.last = true }

// SetPause has nothing read from the connection for d from when the exchange is done. Whoever owns the connection keeps the
// time.
func (x *Exchange) SetPause(d time.Duration) { x.pause = d }

// Pause is what SetPause said.
func (x *Exchange) Pause() time.Duration { return x.pause }

// SetSent has s told when the reply is out; not if it never goes out.
func (x *Exchange) SetSent(s Sent) { x.sent = s }

// SetBuffer attaches a buffer of the pool's that returns there when the reply is out.
func (x *Exchange) SetBuffer(b []byte) { x.buffer = b }

// Drop gives back what the reply holds. For exchanges that no connection will send.
func (x *Exchange) Drop(pool *buffers.Pool) {
	payload.Release(x.parts)
	x.parts, x.size = nil, 0
	x.few = [len(x.few)]payload.Part{}
	if x.buffer != nil {
		pool.Put(x.buffer)
		x.buffer = nil
	}
	if x.owner != nil {
		x.owner.Gone(x.memory)
		x.owner = nil
	}
}

// output is the list of requests that have not been answered in full.
type output struct {
	first, last *Exchange
	inFlight    int
	unsent      int // bytes of done replies in memory
}

// Begin takes the next place in the order of replies.
func (c *Conn) Begin(x *Exchange) {
	o := &c.out
	if o.last == nil {
		o.first = x
	} else {
		o.last.next = x
	}
	o.last = x
	o.inFlight++
	if o.inFlight >= c.limits.MaxInFlight {
		c.muted |= InFlight
	}
}

// Done says that x has its reply, or is to have none.
func (c *Conn) Done(x *Exchange) {
	if c.closed {
		x.Drop(c.pool)
		return
	}
	x.done = true
	if x.last {
		c.muted |= Closing
	}
	c.out.unsent += x.memory
	if c.out.unsent > c.limits.MaxUnsentBytes {
		c.muted |= Output
	}
	c.sweep()
}

// HasOutput reports whether there is something to send now.
func (c *Conn) HasOutput() bool {
	return c.out.first != nil && c.out.first.done && c.out.first.size > 0
}

// Gather appends to vec what is to be sent next: bytes, up to the next file part, to max slices, or to the end of the
// replies that may go out. It returns the part that follows if that is of a file; the part stays the session's and shrinks
// with Sent. An engine that would rather copy some file parts than send them from the file passes copied, which returns a
// part's bytes, or nil for those that it does not want or has no room for.
func (c *Conn) Gather(vec [][]byte, max int, copied func(*payload.Part) []byte) ([][]byte, *payload.Part) {
	for x := c.out.first; x != nil && x.done && !x.last; x = x.next {
		if x.size == 0 {
			continue
		}
		if x.left > 0 {
			if len(vec) >= max {
				return vec, nil
			}
			vec = append(vec, x.prefix[frame.LengthSize-x.left:])
		}
		for i := range x.parts {
			p := &x.parts[i]
			if p.Size() == 0 {
				continue
			}
			if len(vec) >= max {
				return vec, nil
			}
			bytes := p.Bytes
			if p.File != nil {
				if copied != nil {
					bytes = copied(p)
				}
				if bytes == nil {
					return vec, p
				}
			}
			vec = append(vec, bytes)
		}
	}
	return vec, nil
}

// Sent says that the next n bytes of output are gone, and gives back what they were in.
func (c *Conn) Sent(n int) {
	if c.taken != nil {
		c.taken.Add(int64(n))
	}
	for x := c.out.first; n > 0; x = c.out.first {
		k := min(n, x.size)
		n -= k
		prefix := min(k, int(x.left))
		x.left -= uint8(prefix)
		x.size -= k
		x.advance(k - prefix)
		c.sweep()
	}
}

// advance drops the first n bytes of the reply after its prefix, and the parts that are then empty.
func (x *Exchange) advance(n int) {
	for len(x.parts) > 0 {
		p := &x.parts[0]
		k := min(n, p.Size())
		n -= k
		if p.File != nil {
			p.Pos += int64(k)
			p.Len -= k
		} else {
			p.Bytes = p.Bytes[k:]
		}
		if p.Size() > 0 {
			return
		}
		if p.File != nil {
			p.File.Release()
		}
		*p = payload.Part{}
		x.parts = x.parts[1:]
	}
}

// sweep removes the exchanges at the head that are over.
func (c *Conn) sweep() {
	o := &c.out
	for x := o.first; x != nil && x.done && !x.last && x.size == 0; x = o.first {
		o.first = x.next
		if o.first == nil {
			o.last = nil
		}
		x.next = nil
		o.inFlight--
		o.unsent -= x.memory
		x.Drop(c.pool)
		if x.sent != nil {
			x.sent.Sent()
		}
	}
	if o.inFlight < c.limits.MaxInFlight {
		c.muted &^= InFlight
	}
	if o.unsent <= c.limits.MaxUnsentBytes/2 {
		c.muted &^= Output
	}
}

// drop releases the replies that are there and forgets all exchanges.
func (o *output) drop(pool *buffers.Pool) {
	for x := o.first; x != nil; {
		next := x.next
		x.next = nil
		if x.done {
			x.Drop(pool)
		}
		x = next
	}
	*o = output{}
}
