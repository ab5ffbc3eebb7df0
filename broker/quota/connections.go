package quota

import (
	"maps"
	"math"
	"net/netip"
	"sync"
	"time"

	"github.com/gregor-broker/gregor/wire/clock"
)

// Connections are the quotas of new connections per second, by address (KIP-612). Safe for concurrent use. After
// kafka.network.ConnectionQuotas.
type Connections struct {
	clock   clock.Clock
	windows Windows

	mu struct {
		sync.Mutex
		limits map[netip.Addr]float64
		rest   float64 // of addresses without a limit of their own; < 0: none
		meters map[netip.Addr]*meter
		tidyAt int
		all    pace             // of all addresses together
		at     map[string]*pace // of those that come to a listener
	}
}

// pace is what came, and how much may.
type pace struct {
	came window
	most float64
}

// wait counts one more, and returns how long until that many may have come.
func (p *pace) wait(now time.Duration) time.Duration {
	p.came.add(now, 1)
	return min(p.came.excess(now, p.most), p.came.Size)
}

// NewConnections returns Connections without quotas.
func NewConnections(c clock.Clock, w Windows) *Connections {
	q := &Connections{clock: c, windows: w}
	q.mu.limits, q.mu.meters, q.mu.rest, q.mu.tidyAt = map[netip.Addr]float64{}, map[netip.Addr]*meter{}, -1, leastMeters
	q.mu.all, q.mu.at = pace{window{Windows: w}, math.Inf(1)}, map[string]*pace{}
	return q
}

// SetAll changes the limit of all addresses together (max.connection.creation.rate).
func (q *Connections) SetAll(limit float64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.all.most = limit
}

// SetListeners changes the limits of single listeners (listener.name.….max.connection.creation.rate). Those that are not there have
// none.
func (q *Connections) SetListeners(limits map[string]float64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for name, limit := range limits {
		if p := q.mu.at[name]; p != nil {
			p.most = limit
		} else {
			q.mu.at[name] = &pace{window{Windows: q.windows}, limit}
		}
	}
	maps.DeleteFunc(q.mu.at, func(name string, _ *pace) bool { return limits[name] == 0 })
}

// Pace counts a new connection of a listener, and returns how long to wait before it is served and the next one is accepted there.
func (q *Connections) Pace(listener string) time.Duration {
	now := q.clock.Monotonic()
	q.mu.Lock()
	defer q.mu.Unlock()
	wait := q.mu.all.wait(now)
	if p := q.mu.at[listener]; p != nil {
		wait = max(wait, p.wait(now))
	}
	return wait
}

// Set changes the limit of an address; < 0 takes it back.
func (q *Connections) Set(addr netip.Addr, limit float64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if addr = addr.Unmap(); limit < 0 {
		delete(q.mu.limits, addr)
	} else {
		q.mu.limits[addr] = limit
	}
}

// SetRest changes the limit of every address that has none of its own; < 0 takes it back.
func (q *Connections) SetRest(limit float64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.rest = limit
}

// Admit counts a new connection, and returns how long it is to be held before it is closed; 0 if it may stay. What may not
// does not count.
func (q *Connections) Admit(addr netip.Addr) time.Duration {
	now := q.clock.Monotonic()
	q.mu.Lock()
	defer q.mu.Unlock()
	addr = addr.Unmap()
	limit, own := q.mu.limits[addr]
	if !own {
		limit = q.mu.rest
	}
	if limit < 0 {
		return 0
	}
	m := q.mu.meters[addr]
	if m == nil {
		q.tidy(now)
		m = &meter{window: window{Windows: q.windows}}
		q.mu.meters[addr] = m
	}
	m.last = now
	m.window.add(now, 1)
	wait := min(m.window.excess(now, limit), q.windows.Size)
	if wait > 0 {
		m.window.add(now, -1)
	}
	return wait
}

// tidy drops meters that say no more than new ones, when there are many. The caller holds mu.
func (q *Connections) tidy(now time.Duration) {
	if len(q.mu.meters) < q.mu.tidyAt {
		return
	}
	for addr, m := range q.mu.meters {
		if now-m.last > time.Duration(q.windows.Num+1)*q.windows.Size {
			delete(q.mu.meters, addr)
		}
	}
	q.mu.tidyAt = max(leastMeters, 2*len(q.mu.meters))
}
