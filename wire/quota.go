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
		max       int // 0: no limit
		maxPerIP  int // 0: no limit; < 0: none
		overrides map[netip.Addr]int
		total     int
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
	q.mu.perIP = map[netip.Addr]int{}
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
	q.mu.max, q.mu.maxPerIP, q.mu.overrides = l.MaxConnections, l.MaxConnectionsPerIP, overrides
	q.room.Broadcast()
	return nil
}

// enter counts a connection from addr. It waits while there are too many in all, as Kafka's acceptors do.
func (q *quota) enter(addr netip.Addr) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if limit, limited := q.limit(addr); limited && q.mu.perIP[addr] >= limit {
		return errTooManyIP
	}
	for q.mu.max > 0 && q.mu.total >= q.mu.max && !q.mu.stopped {
		q.room.Wait()
	}
	if q.mu.stopped {
		return errStopping
	}
	q.mu.total++
	q.mu.perIP[addr]++
	return nil
}

// limit is addr's, if it has one. The caller holds mu.
func (q *quota) limit(addr netip.Addr) (n int, limited bool) {
	if n, ok := q.mu.overrides[addr]; ok {
		return n, true
	}
	return max(0, q.mu.maxPerIP), q.mu.maxPerIP != 0
}

// leave takes a connection from addr out.
func (q *quota) leave(addr netip.Addr) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.total--
	if q.mu.perIP[addr]--; q.mu.perIP[addr] <= 0 {
		delete(q.mu.perIP, addr)
	}
	q.room.Signal()
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
