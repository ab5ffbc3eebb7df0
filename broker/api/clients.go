package api

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/wire"
)

// Clients knows what the connected clients called themselves in ApiVersions (KIP-511). Safe for concurrent use; the zero
// value is ready. What is known of a connection is its wire.Conn's value: one *kind that all of its kind share.
type Clients struct {
	mu struct {
		sync.Mutex
		kinds map[told]*kind
	}
}

// told is what a client said, and the epoch of the features that it was told in return.
type told struct {
	Client
	epoch int64
}

// Client is what a client says that it is, and the listener that it came in on.
type Client struct{ Name, Version, Listener string }

// kind are the connections that say the same. Guarded by the lock of Clients, but for told, which does not change.
type kind struct {
	told
	connections int
}

// met notes what is at the other end of a connection, in a first stage of one of its requests.
func (s *Clients) met(c *wire.Conn, what told) {
	s.gone(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.mu.kinds[what]
	if k == nil {
		if s.mu.kinds == nil {
			s.mu.kinds = map[told]*kind{}
		}
		k = &kind{told: what}
		s.mu.kinds[what] = k
	}
	k.connections++
	c.Value = k
}

// gone forgets a connection; a kind goes with its last.
func (s *Clients) gone(c *wire.Conn) {
	k, ok := c.Value.(*kind)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if k.connections--; k.connections == 0 {
		delete(s.mu.kinds, k.told)
	}
	c.Value = nil
}

// Counts returns how many connections there are of each kind that has said what it is.
func (s *Clients) Counts() map[Client]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := make(map[Client]int, len(s.mu.kinds))
	for what, k := range s.mu.kinds {
		counts[what.Client] += k.connections
	}
	return counts
}

// outdated says whether a request of a transactional producer came over a connection whose client was told what is served before
// gregor.extensions was switched on. Other connections may have told it since that it need not add partitions to transactions, and this
// one cannot carry the versions that do so by themselves: closed, it is asked anew what is served.
func (s *Services) outdated(c *Call, request kmsg.Request) bool {
	k, ok := c.request.Conn.Value.(*kind)
	if !ok || !s.extended() || k.epoch >= s.Features().Epoch {
		return false
	}
	switch r := request.(type) {
	case *kmsg.ProduceRequest:
		return r.TransactionID != nil
	case *kmsg.TxnOffsetCommitRequest, *kmsg.EndTxnRequest:
		return true
	}
	return false
}

// client is what the client calls itself; empty before it has. In a first stage only.
func (c *Call) client() Client {
	if k, ok := c.request.Conn.Value.(*kind); ok {
		return k.Client
	}
	return Client{}
}
