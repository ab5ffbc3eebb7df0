// Package session is the protocol state of one connection, without I/O: bytes in become requests, replies that are given in
// any order go out in the order of the requests, and reasons to stop reading are kept. Both engines stand on it.
//
// A Conn is owned by one goroutine at a time, that of the engine which moves its bytes; nothing here locks. Input: ReadBufs,
// read, Fed, then Next until it has nothing more, then Stash. Output: Begin for each request in order of arrival, Done when
// its reply is there, Gather, write, Sent.
package session

import (
	"sync/atomic"

	"github.com/gregor-broker/gregor/wire/buffers"
)

// Limits bound what one connection may take. Shared by all connections of a server.
type Limits struct {
	MaxRequestBytes int32
	MaxInFlight     int // requests begun and not yet answered in full
	MaxUnsentBytes  int // bytes of replies in memory (not in files) above which nothing more is read
}

// Reason is a set of reasons not to read from a connection.
type Reason uint8

// The reasons.
const (
	InFlight  Reason = 1 << iota // too many requests are unanswered
	Output                       // too many bytes are unsent
	Memory                       // a request waits for its share of the memory budget
	Queue                        // a request waits for room in the handlers' queue
	Draining                     // the server stops
	Closing                      // the connection ends after the replies that are due
	Throttled                    // its client has taken more than its quota allows
)

// Conn is one connection's protocol state.
type Conn struct {
	limits  *Limits
	pool    *buffers.Pool
	muted   Reason
	stalled bool // Stash left requests, or a request waits, because of a mute
	closed  bool
	aborted bool
	taken   *atomic.Int64 // bytes of replies that the client has taken are added here; nil: nobody counts
	in      input
	out     output
}

// New returns the state of a new connection.
func New(limits *Limits, pool *buffers.Pool) Conn { return Conn{limits: limits, pool: pool} }

// CountTaken has the bytes of replies that the client takes added to n. Before the first reply.
func (c *Conn) CountTaken(n *atomic.Int64) { c.taken = n }

// Abort ends the connection without the replies that are due.
func (c *Conn) Abort() {
	c.aborted = true
	c.muted |= Closing
}

// Aborted reports whether the connection ends although replies are due.
func (c *Conn) Aborted() bool { return c.aborted }

// Mute adds a reason not to read.
func (c *Conn) Mute(r Reason) { c.muted |= r }

// Unmute takes a reason back.
func (c *Conn) Unmute(r Reason) { c.muted &^= r }

// Muted reports whether there is any reason not to read.
func (c *Conn) Muted() bool { return c.muted != 0 }

// MutedFor returns the reasons not to read.
func (c *Conn) MutedFor() Reason { return c.muted }

// Stall says that input waits for the connection to be unmuted.
func (c *Conn) Stall() { c.stalled = true }

// Resumable reports whether input that waited can go on.
func (c *Conn) Resumable() bool { return c.stalled && c.muted == 0 && !c.closed }

// Resume takes back Stall.
func (c *Conn) Resume() { c.stalled = false }

// Finished reports whether the connection is to be closed now: it drains or closes and every reply that is due is out.
func (c *Conn) Finished() bool {
	if c.aborted {
		return true
	}
	if x := c.out.first; x != nil {
		return x.done && x.last && x.size == 0
	}
	return c.muted&(Draining|Closing) != 0
}

// Waits reports whether the connection has requests in work, so that its silence is ours and not the client's.
func (c *Conn) Waits() bool { return c.out.first != nil && !c.out.first.done }

// Close gives back what the connection holds. Replies that come later are dropped by Done.
func (c *Conn) Close() {
	if c.closed {
		return
	}
	c.closed = true
	c.in.drop(c.pool)
	c.out.drop(c.pool)
}
