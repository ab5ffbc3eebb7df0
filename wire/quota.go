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
	max       int // 0: no limit
	maxPerIP  int // 0: no limit
	overrides map[netip.Addr]int

	mu struct {
		sync.Mutex
		total   int
		perIP   map[netip.Addr]int // nil without a limit per address
		stopped bool
		empty   chan struct{} // closed when stopped and nobody is left
	}
	room sync.Cond
}

// newQuota resolves the host names of the overrides.
func newQuota(cfg *Config) (*quota, error) {
	q := &quota{max: cfg.MaxConnections, maxPerIP: cfg.MaxConnectionsPerIP, overrides: map[netip.Addr]int{}}
	q.room.L = &q.mu.Mutex
	q.mu.empty = make(chan struct{})
	if q.maxPerIP > 0 || len(cfg.PerIPOverrides) > 0 {
		q.mu.perIP = map[netip.Addr]int{}
	}
	for host, n := range cfg.PerIPOverrides {
		if addr, err := netip.ParseAddr(host); err == nil {
			q.overrides[addr.Unmap()] = n
			continue
		}
		addrs, err := net.LookupHost(host)
		if err != nil {
			return nil, fmt.Errorf("max.connections.per.ip.overrides: %w", err)
		}
		for _, a := range addrs {
			if addr, err := netip.ParseAddr(a); err == nil {
				q.overrides[addr.Unmap()] = n
			}
		}
	}
	return q, nil
}

// enter counts a connection from addr. It waits while there are too many in all, as Kafka's acceptors do.
func (q *quota) enter(addr netip.Addr) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := q.mu.perIP[addr]; q.limit(addr) > 0 && n >= q.limit(addr) || q.overridden(addr, 0) {
		return errTooManyIP
	}
	for q.max > 0 && q.mu.total >= q.max && !q.mu.stopped {
		q.room.Wait()
	}
	if q.mu.stopped {
		return errStopping
	}
	q.mu.total++
	if q.mu.perIP != nil {
		q.mu.perIP[addr]++
	}
	return nil
}

// limit is addr's, 0 for none.
func (q *quota) limit(addr netip.Addr) int {
	if n, ok := q.overrides[addr]; ok {
		return n
	}
	return q.maxPerIP
}

// overridden reports whether addr has exactly this override.
func (q *quota) overridden(addr netip.Addr, n int) bool {
	have, ok := q.overrides[addr]
	return ok && have == n
}

// leave takes a connection from addr out.
func (q *quota) leave(addr netip.Addr) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.total--
	if q.mu.perIP != nil {
		if q.mu.perIP[addr]--; q.mu.perIP[addr] <= 0 {
			delete(q.mu.perIP, addr)
		}
	}
	q.room.Signal()
	q.closeIfEmpty()
}

// stop lets nobody in any more; the channel closes when the last connection has left.
func (q *quota) stop() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.stopped = true
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
