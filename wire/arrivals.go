package wire

import (
	"errors"
	"sync"
	"time"

	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/gregor-broker/gregor/wire/dispatch"
	"github.com/gregor-broker/gregor/wire/session"
)

// A large request has its share of the memory budget before all of it is there, or two of them could wait for each other
// for ever. So clients that claim much and send little could keep the whole budget. Two rules keep the others served:
//
//   - Small requests have a reserve for when the budget is held by requests that are still arriving.
//   - While anybody waits for memory, who holds some has to send: at least session.FirstStep bytes in each period of
//     arrivalPatience, or the connection is closed.
const (
	arrivalPatience = 10 * time.Second
	reserveShare    = 8       // the reserve is this fraction of the budget, beside it
	smallCost       = 1 << 20 // bytes up to which a request may use the reserve
)

var errStalled = errors.New("others wait for the memory that a request holds which does not arrive")

// arrivals are the connections whose request holds memory and is not all there. Safe for concurrent use.
type arrivals struct {
	clock   clock.Clock
	waiting func() bool // somebody waits for memory

	mu struct {
		sync.Mutex
		conns  map[*Conn]struct{}
		timer  clock.Timer // of the next look; nil while there is no need
		closed bool
	}
}

func (a *arrivals) add(c *Conn) {
	c.lookedAt.Store(-session.FirstStep) // it has just made progress
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.conns == nil {
		a.mu.conns = map[*Conn]struct{}{}
	}
	a.mu.conns[c] = struct{}{}
	a.plan()
}

func (a *arrivals) remove(c *Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.mu.conns, c)
}

func (a *arrivals) any() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.mu.conns) > 0
}

// starved says that a request begins to wait for memory.
func (a *arrivals) starved() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.plan()
}

// plan has somebody look after a while, if that makes sense and is not planned. The caller holds mu.
func (a *arrivals) plan() {
	if a.mu.timer == nil && !a.mu.closed && len(a.mu.conns) > 0 && a.waiting() {
		a.mu.timer = a.clock.AfterFunc(arrivalPatience, a.look)
	}
}

// look tells the connections that have not sent enough since the last look.
func (a *arrivals) look() {
	for _, c := range a.slow() {
		c.port.Post(session.Message{Kind: session.Stalled}) // may be delivered here, which takes mu
	}
}

// slow returns the connections that have not sent enough since it was called last, if that hinders others.
func (a *arrivals) slow() (conns []*Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.timer = nil
	if !a.waiting() {
		return nil
	}
	for c := range a.mu.conns {
		if at := c.arrived.Load(); at-c.lookedAt.Swap(at) < session.FirstStep {
			conns = append(conns, c)
		}
	}
	a.plan()
	return conns
}

// close stops the looking.
func (a *arrivals) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.closed = true
	if a.mu.timer != nil {
		a.mu.timer.Stop()
	}
}

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
	if r == nil || !r.admitted || c.arrived.Load()-c.lookedAt.Load() >= session.FirstStep {
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
