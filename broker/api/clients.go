package api

import (
	"sync"

	"github.com/gregor-broker/gregor/wire"
)

// Clients knows what the connected clients called themselves in ApiVersions (KIP-511). Safe for concurrent use; the zero
// value is ready.
type Clients struct {
	mu struct {
		sync.Mutex
		of map[*wire.Conn]Client
	}
}

// Client is what a client says that it is, and the listener that it came in on.
type Client struct{ Name, Version, Listener string }

// met notes what is at the other end of a connection. Whoever opens many connections is bounded by max.connections, and
// whatever they say by what a name may be.
func (s *Clients) met(c *wire.Conn, what Client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.of == nil {
		s.mu.of = map[*wire.Conn]Client{}
	}
	s.mu.of[c] = what
}

func (s *Clients) gone(c *wire.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.of, c)
}

// Counts returns how many connections there are of each kind that has said what it is.
func (s *Clients) Counts() map[Client]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := make(map[Client]int, len(s.mu.of))
	for _, c := range s.mu.of {
		counts[c]++
	}
	return counts
}
