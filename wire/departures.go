package wire

import (
	"errors"

	"github.com/gregor-broker/gregor/wire/session"
)

// Replies in memory that their clients do not take count against the memory budget of the requests. When they hold more than that has,
// no request begins, not on a handler either; so clients that ask for much and read nothing cannot drive the broker out of memory,
// however many they are: there is what the budget allows, and a reply of each handler and processor (in the portable engine each connection
// is its own processor). What is sent from files does not count. Who holds memory while others wait for it has to take something (holders),
// or its connection is closed.

// smallReply is how many bytes of a reply are nobody's business; session.Limits bounds what a connection has of those.
const smallReply = 4 << 10

var errUntaken = errors.New("others wait for the memory of its replies, which it does not take")

// owe counts a reply that is there.
func (c *Conn) owe(x *session.Exchange) {
	n := x.Memory()
	if c.server.memory == nil || n < smallReply {
		return
	}
	x.SetOwner((*peer)(c))
	c.owed.Add(int64(n))
	c.server.departures.set(c, c.owes)
	c.server.memory.Take(int64(n))
}

// Gone is called when a reply that was counted is gone.
func (p *peer) Gone(n int) {
	c := (*Conn)(p)
	c.owed.Add(int64(-n))
	c.server.departures.set(c, c.owes)
	c.server.memory.Return(int64(n))
}

func (c *Conn) owes() bool { return c.owed.Load() > 0 }

// untaken closes the connection if its client still takes nothing.
func (c *Conn) untaken() {
	if !c.owes() || c.taken.made() {
		return
	}
	c.server.say("closing a connection: "+errUntaken.Error(), c)
	c.session.Abort()
}
