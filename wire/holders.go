package wire

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/gregor-broker/gregor/wire/session"
)

// patience is how long a connection may hold memory without progress while others wait for memory.
const patience = 10 * time.Second

// progress counts the bytes that a connection has sent or taken while it holds memory.
type progress struct{ at, lookedAt atomic.Int64 }

// begin counts what has been until now as progress.
func (p *progress) begin() { p.lookedAt.Store(p.at.Load() - session.FirstStep) }

// made reports whether there has been progress since the last look.
func (p *progress) made() bool { return p.at.Load()-p.lookedAt.Load() >= session.FirstStep }

// look is made, and begins the next period.
func (p *progress) look() bool {
	at := p.at.Load()
	return at-p.lookedAt.Swap(at) >= session.FirstStep
}

// holders are the connections that hold memory and can give it back only with their clients' help: requests that are not all there,
// replies that are not taken. While anybody waits for memory, each has to make progress: at least session.FirstStep bytes in each
// period of patience, or it is told. Safe for concurrent use.
type holders struct {
	clock    clock.Clock
	waiting  func() bool // somebody waits for memory
	told     session.Kind
	progress func(*Conn) *progress

	mu struct {
		sync.Mutex
		conns  map[*Conn]struct{}
		timer  clock.Timer // of the next look; nil while there is no need
		closed bool
	}
}

// set says whether c holds memory now. Whatever changes that calls it after the change.
func (h *holders) set(c *Conn, holds func() bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, known := h.mu.conns[c]
	switch {
	case !holds():
		delete(h.mu.conns, c)
	case !known:
		if h.mu.conns == nil {
			h.mu.conns = map[*Conn]struct{}{}
		}
		h.progress(c).begin()
		h.mu.conns[c] = struct{}{}
		h.plan()
	}
}

func (h *holders) add(c *Conn)    { h.set(c, func() bool { return true }) }
func (h *holders) remove(c *Conn) { h.set(c, func() bool { return false }) }

func (h *holders) any() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.mu.conns) > 0
}

// starved says that a request begins to wait for memory.
func (h *holders) starved() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.plan()
}

// plan has somebody look after a while, if that makes sense and is not planned. The caller holds mu.
func (h *holders) plan() {
	if h.mu.timer == nil && !h.mu.closed && len(h.mu.conns) > 0 && h.waiting() {
		h.mu.timer = h.clock.AfterFunc(patience, h.look)
	}
}

// look tells the connections that have not made progress since the last look.
func (h *holders) look() {
	for _, c := range h.slow() {
		c.port.Post(session.Message{Kind: h.told}) // may be delivered here, which takes mu
	}
}

// slow returns the connections that have made no progress since it was called last, if that hinders others.
func (h *holders) slow() (conns []*Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.timer = nil
	if !h.waiting() {
		return nil
	}
	for c := range h.mu.conns {
		if !h.progress(c).look() {
			conns = append(conns, c)
		}
	}
	h.plan()
	return conns
}

// close stops the looking.
func (h *holders) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.closed = true
	if h.mu.timer != nil {
		h.mu.timer.Stop()
	}
}
