package wire

import (
	"errors"

	"github.com/gregor-broker/gregor/wire/dispatch"
)

// A large request has its share of the memory budget before all of it is there, or two of them could wait for each other
// for ever. So clients that claim much and send little could keep the whole budget. Two rules keep the others served:
//
//   - Small requests have a reserve for when the budget is held by requests that are still arriving.
//   - While anybody waits for memory, who holds some has to send (holders), or the connection is closed.
const (
	reserveShare = 8       // the reserve is this fraction of the budget, beside it
	smallCost    = 1 << 20 // bytes up to which a request may use the reserve
)

var errStalled = errors.New("others wait for the memory that a request holds which does not arrive")

// acquire takes the request's share of the budget, or queues its connection for it.
func (c *Conn) acquire(r *Request, complete bool) bool {
	s := c.server
	if s.memory == nil {
		return true
	}
	if complete && r.cost <= smallCost {
		if s.memory.TryAcquire(r.cost) {
			return true
		}
		if s.arrivals.any() && s.reserve.TryAcquire(r.cost) {
			r.gate = s.reserve
			return true
		}
	}
	if s.memory.Acquire(&c.place, r.cost, c) {
		return true
	}
	s.arrivals.starved()
	s.departures.starved()
	return false
}

// release gives back the request's share of the budget.
func (r *Request) release() {
	if r.gate == nil {
		r.gate = r.Conn.server.memory
	}
	r.gate.Release(r.cost)
}

// stalled takes the memory back and closes the connection, after the replies that are due, if its request still does not
// arrive.
func (c *Conn) stalled() {
	r := c.arriving
	if r == nil || !r.admitted || c.arrived.made() {
		return
	}
	c.refuse(errStalled)
	c.arriving = nil // its buffer may be read into right now, and goes with the connection
	c.server.arrivals.remove(c)
	r.release()
}

// newReserve is the reserve of a budget; nil, without limit, as the budget.
func newReserve(budget int64) *dispatch.Gate {
	if budget <= 0 {
		return nil
	}
	return dispatch.NewGate(max(budget/reserveShare, 1))
}
