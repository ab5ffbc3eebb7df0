package wire

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
)

var (
	errStopping  = errors.New("the server stops")
	errTooManyIP = errors.New("the address has as many connections as max.connections.per.ip allows")
)

// quota counts connections. Safe for concurrent use.
type quota struct {
	mu struct {
		sync.Mutex
		max       int // 0: no limit; < 0: nobody
		exempt    string
		maxPerIP  int // 0: no limit; < 0: none
		overrides map[netip.Addr]int
		listeners map[string]int // limits
		total     int
		at        map[string]int // connections by listener
		perIP     map[netip.Addr]int
		stopped   bool
		empty     chan struct{} // closed when stopped and nobody is left
	}
	room     sync.Cond
	stopping chan struct{} // closed when nobody is let in any more
}

func newQuota() *quota {
	q := &quota{stopping: make(chan struct{})}
	q.room.L = &q.mu.Mutex
	q.mu.empty = make(chan struct{})
	q.mu.perIP, q.mu.at = map[netip.Addr]int{}, map[string]int{}
	return q
}

// set changes the limits. Host names are resolved.
func (q *quota) set(l ConnectionLimits) error {
	overrides := map[netip.Addr]int{}
	for host, n := range l.PerIPOverrides {
		if addr, err := netip.ParseAddr(host); err == nil {
			overrides[addr.Unmap()] = n
			continue
		}
		addrs, err := net.LookupHost(host)
		if err != nil {
			return fmt.Errorf("max.connections.per.ip.overrides: %w", err)
		}
		for _, a := range addrs {
			if addr, err := netip.ParseAddr(a); err == nil {
				overrides[addr.Unmap()] = n
			}
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.max, q.mu.maxPerIP, q.mu.overrides, q.mu.listeners = l.MaxConnections, l.MaxConnectionsPerIP, overrides, l.PerListener
	q.mu.exempt = l.Exempt
	q.room.Broadcast()
	return nil
}

// enter counts a listener's connection from addr. It waits while there are too many in all or at the listener, as Kafka's acceptors
// do.
func (q *quota) enter(listener string, addr netip.Addr) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if limit, limited := q.limit(addr); limited && q.mu.perIP[addr] >= limit {
		return errTooManyIP
	}
	for q.full(listener) && !q.mu.stopped {
		q.room.Wait()
	}
	if q.mu.stopped {
		return errStopping
	}
	q.mu.total++
	q.mu.at[listener]++
	q.mu.perIP[addr]++
	return nil
}

// full says whether a listener may have no more connections. The caller holds mu.
func (q *quota) full(listener string) bool {
	return listener != q.mu.exempt && reached(q.mu.max, q.mu.total) || reached(q.mu.listeners[listener], q.mu.at[listener])
}

// reached says whether n connections are as many as a limit allows.
func reached(limit, n int) bool { return limit < 0 || limit > 0 && n >= limit }

// limit is addr's, if it has one. The caller holds mu.
func (q *quota) limit(addr netip.Addr) (n int, limited bool) {
	if n, ok := q.mu.overrides[addr]; ok {
		return n, true
	}
	return max(0, q.mu.maxPerIP), q.mu.maxPerIP != 0
}

// leave takes a listener's connection from addr out.
func (q *quota) leave(listener string, addr netip.Addr) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.total--
	q.mu.at[listener]--
	if q.mu.perIP[addr]--; q.mu.perIP[addr] <= 0 {
		delete(q.mu.perIP, addr)
	}
	q.room.Broadcast() // there may be room at one listener and not at another
	q.closeIfEmpty()
}

// stop lets nobody in any more; the channel closes when the last connection has left.
func (q *quota) stop() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.mu.stopped {
		q.mu.stopped = true
		close(q.stopping)
	}
	q.room.Broadcast()
	q.closeIfEmpty()
	return q.mu.empty
}

// closeIfEmpty closes empty once. The caller holds mu.
func (q *quota) closeIfEmpty() {
	if !q.mu.stopped || q.mu.total > 0 {
		return
	}
	select {
	case <-q.mu.empty:
	default:
		close(q.mu.empty)
	}
}
