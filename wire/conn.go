package wire

import (
	"net/netip"
	"sync/atomic"
	"unique"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/wire/buffers"
	"github.com/gregor-broker/gregor/wire/dispatch"
	"github.com/gregor-broker/gregor/wire/frame"
	"github.com/gregor-broker/gregor/wire/session"
)

// ConnID names a connection for as long as the process lives.
type ConnID = session.ID

// Conn is one client's connection. What is exported is safe for concurrent use, except for Value; the rest is owned by the
// engine's goroutine that moves the connection's bytes (its processor).
type Conn struct {
	// Value is the application's. It is touched only in Serve and Closed, which never overlap.
	Value any

	server        *Server
	number        uint64
	listener      unique.Handle[string]
	remote, local netip.AddrPort
	port          session.Port
	dead          atomic.Bool

	session  session.Conn
	strand   dispatch.Strand
	clientID *string // of the last request, reused by the next

	arriving *Request     // large request of which only a part is there
	arrived  progress     // bytes of it, once it holds memory
	owed     atomic.Int64 // bytes of the memory budget that replies hold
	taken    progress     // bytes of replies
	waiting  *Request     // stopped at a gate
	place    dispatch.Waiter
	pause    pause
	end      dispatch.Node
}

// ID names the connection.
func (c *Conn) ID() ConnID { return c.port.ID() }

// Number counts the connections of a process from 1, in the order in which each listener accepted them.
func (c *Conn) Number() uint64 { return c.number }

// Listener is the name of the listener that accepted the connection.
func (c *Conn) Listener() string { return c.listener.Value() }

// RemoteAddr is the client's address; a made up one for in-memory pipes.
func (c *Conn) RemoteAddr() netip.AddrPort { return c.remote }

// LocalAddr is the address that the client connected to; a made up one for in-memory pipes.
func (c *Conn) LocalAddr() netip.AddrPort { return c.local }

// peer is a Conn as engines see it.
type peer Conn

func (p *peer) Session() *session.Conn { return &p.session }

// Advance runs or queues the requests that have arrived.
func (p *peer) Advance() {
	c := (*Conn)(p)
	c.session.Resume()
	if r := c.arriving; r != nil && r.admitted {
		c.arrived.at.Store(int64(c.session.Arrived()))
	}
	if r := c.waiting; r != nil && !c.session.Muted() {
		c.waiting = nil
		c.paid(r)
	}
	for !c.session.Muted() {
		f, err := c.session.Next()
		if err != nil {
			c.refuse(err)
			break
		}
		if f.Bytes == nil {
			break
		}
		c.take(f)
	}
	if c.session.Muted() {
		c.session.Stall()
	}
	c.session.Stash()
}

// take handles a frame: admission first, then the gates, then the strand.
func (c *Conn) take(f session.Frame) {
	r := c.arriving
	if r == nil {
		if r = c.admit(f); r == nil {
			return
		}
	}
	c.arriving = nil
	if f.Part {
		c.arriving = r
	} else {
		r.Body = f.Bytes[r.bodyAt:]
		if f.Owned {
			r.buffer = f.Bytes
		}
	}
	if r.admitted {
		c.server.arrivals.remove(c)
		c.run(r)
		return
	}
	if c.acquire(r, !f.Part) {
		c.paid(r)
		return
	}
	if !f.Part {
		r.keepBody()
	}
	c.waiting = r
	c.session.Mute(session.Memory)
}

// admit makes a request of a frame, or refuses it and returns nil.
func (c *Conn) admit(f session.Frame) *Request {
	h, body, err := frame.ParseHeaderReusing(f.Bytes, c.clientID)
	if err != nil {
		c.refuse(err)
		return nil
	}
	c.clientID = h.ClientID
	a, err := c.server.handler.Admit(c, h, f.Size)
	if err != nil {
		c.refuse(err)
		return nil
	}
	return &Request{
		Conn: c, Header: h, Received: c.server.cfg.Clock.Now(),
		inline: a.Inline, cost: max(a.Cost, int64(f.Size)), bodyAt: len(f.Bytes) - len(body),
	}
}

// paid goes on with a request that has its share of the memory budget.
func (c *Conn) paid(r *Request) {
	r.admitted = true
	if c.arriving == r {
		c.arrived.at.Store(int64(c.session.Arrived()))
		c.server.arrivals.add(c)
		c.session.Admitted()
		return
	}
	c.run(r)
}

// run runs a complete request here if that is allowed, and else queues it.
func (c *Conn) run(r *Request) {
	r.begun = true
	c.session.Begin(&r.exchange)
	if r.inline && !c.server.memory.Overdrawn() && c.strand.Idle() && c.serveHere(r) {
		return
	}
	r.keepBody()
	if c.server.queue.Acquire(&c.place, 1, c) {
		c.push(r)
		return
	}
	c.waiting = r
	c.session.Mute(session.Queue)
}

func (c *Conn) push(r *Request) {
	r.node.Job = r
	c.strand.Push(&r.node)
}

// serveHere runs a request's first stage on the processor. A reply that comes meanwhile, from wherever, needs no post.
func (c *Conn) serveHere(r *Request) (done bool) {
	r.state.Store(stateHere)
	done = c.server.serve(r, true)
	if !r.state.CompareAndSwap(stateHere, stateOpen) {
		c.done(&r.exchange)
	} else if !done {
		return false
	}
	r.releaseBody()
	return true
}

// Granted is called when a gate lets the waiting request pass.
func (c *Conn) Granted(g *dispatch.Gate) {
	if g == c.server.memory {
		c.port.Post(session.Message{Kind: session.MemoryThere})
	} else {
		c.port.Post(session.Message{Kind: session.QueueHasRoom})
	}
}

// Deliver handles what other goroutines posted.
func (p *peer) Deliver(m session.Message) {
	c := (*Conn)(p)
	switch m.Kind {
	case session.Replied:
		c.done(m.X)
	case session.Began:
		c.held()
	case session.PauseOver:
		c.pauseOver()
	case session.TooFast:
		c.session.Unmute(session.Throttled)
		c.refuse(errTooFast)
	case session.MemoryThere:
		c.waiting.admitted = true
		c.session.Unmute(session.Memory)
	case session.QueueHasRoom:
		r := c.waiting
		c.waiting = nil
		c.push(r)
		c.session.Unmute(session.Queue)
	case session.Stalled:
		c.stalled()
	case session.Untaken:
		c.untaken()
	case session.Drain:
		c.session.Mute(session.Draining)
	}
}

// refuse closes the connection after the replies that are due, with one line that says why.
func (c *Conn) refuse(err error) {
	c.server.say("closing a connection: "+err.Error(), c)
	x := &session.Exchange{}
	x.SetLast()
	c.session.Begin(x)
	c.session.Done(x)
}

// Closed gives back all that the connection holds, and tells the application in its turn.
func (p *peer) Closed(cause error) {
	c := (*Conn)(p)
	c.dead.Store(true)
	c.session.Close()
	c.pause.stop()
	c.giveUpWaiting()
	if r := c.arriving; r != nil && r.admitted {
		c.server.arrivals.remove(c)
		r.release()
	}
	c.arriving = nil
	if cause != nil {
		c.server.log.Debug("connection closed", append(c.fields(), zap.Error(cause))...)
	}
	c.end.Job = dispatch.Func(func() { c.server.forget(c) })
	c.strand.Push(&c.end)
}

// giveUpWaiting takes the request that is stopped at a gate out of its queue.
func (c *Conn) giveUpWaiting() {
	r := c.waiting
	if r == nil {
		return
	}
	c.waiting = nil
	if r.begun {
		if !c.server.queue.Cancel(&c.place) {
			c.server.queue.Release(1)
		}
		r.releaseBody()
		return
	}
	if !r.admitted && c.server.memory.Cancel(&c.place) {
		r.cost = 0
	}
	if c.arriving == r {
		r.admitted = true // Closed returns its cost
		return
	}
	r.releaseBody()
}

func (c *Conn) fields() []zap.Field {
	return []zap.Field{zap.Stringer("conn", c.remote), zap.String("listener", c.Listener())}
}

// keepBody gives the request a buffer of its own, for when what it lies in is used again.
func (r *Request) keepBody() {
	if r.buffer != nil {
		return
	}
	r.buffer = r.Conn.server.pool.Get(len(r.Body))
	copy(r.buffer, r.Body)
	r.Body = r.buffer
}

// releaseBody gives back the body's buffer and the request's share of the memory budget.
func (r *Request) releaseBody() {
	if r.buffer != nil {
		r.Conn.server.pool.Put(r.buffer)
	} else {
		buffers.Poison(r.Body)
	}
	r.buffer, r.Body = nil, nil
	r.release()
}
