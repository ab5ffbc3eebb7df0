package wire

import (
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/wire/clock"
)

// The engines that Config.Engine names.
const (
	EngineReactor = "reactor" // raw epoll; Linux
	EngineNetloop = "netloop" // Go's net; everywhere, and for in-memory pipes
)

// Config is a server's configuration; zero values take the defaults that the fields name.
type Config struct {
	Processors int // num.network.threads: reactor loops; 3
	Handlers   int // num.io.threads: goroutines for what may not run on a processor; 8

	QueuedMaxRequests     int   // queued.max.requests: requests that wait for a handler; 500
	QueuedMaxRequestBytes int64 // queued.max.request.bytes: sum of the costs of requests in memory, and of replies not yet taken; ≤ 0: no limit
	MaxRequestBytes       int32 // socket.request.max.bytes; 100 MiB
	MaxInFlight           int   // requests of one connection in work or not yet answered in full; 64

	ConnectionLimits

	// TooFast says how long a new connection from an address is held before it is closed, since others came too soon before;
	// 0 if it may stay. nil: all may.
	TooFast func(from netip.Addr) time.Duration

	// Pace says how long to wait before a new connection of a listener is served and its next one accepted. nil: no time.
	Pace func(listener string) time.Duration

	IdleTimeout   time.Duration // connections.max.idle.ms; ≤ 0: never
	SendBuffer    int           // socket.send.buffer.bytes; ≤ 0: the system's
	ReceiveBuffer int           // socket.receive.buffer.bytes; ≤ 0: the system's
	Backlog       int           // socket.listen.backlog.size; ≤ 0: the system's

	// Waiting counts who was handed requests that are not taken up yet, besides the handlers: their goroutines run before a processor
	// sleeps. nil: nobody.
	Waiting *atomic.Int32

	Clock  clock.Clock // the machine's
	Logger *zap.Logger // none
	Engine string      // "": the best that the system has
}

// ConnectionLimits bound the number of connections. Server.SetLimits changes them.
type ConnectionLimits struct {
	MaxConnections      int            // max.connections: accepting pauses at it; 0: no limit, < 0: nobody
	Exempt              string         // a listener at which accepting does not pause for MaxConnections
	PerListener         map[string]int // listener.name.….max.connections, by the listener's name: accepting there pauses at it; as above
	MaxConnectionsPerIP int            // max.connections.per.ip: more are closed at once; 0: no limit, < 0: only addresses with an override
	PerIPOverrides      map[string]int // max.connections.per.ip.overrides, by address or host name
}

// withDefaults returns c with its zero values filled in.
func (c Config) withDefaults() (Config, error) {
	defaultTo(&c.Processors, 3)
	defaultTo(&c.Handlers, 8)
	defaultTo(&c.QueuedMaxRequests, 500)
	defaultTo(&c.MaxRequestBytes, 100<<20)
	defaultTo(&c.MaxInFlight, 64)
	if c.Clock == nil {
		c.Clock = clock.System
	}
	if c.Waiting == nil {
		c.Waiting = new(atomic.Int32)
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	defaultTo(&c.Engine, bestEngine)
	if c.Engine != EngineNetloop && c.Engine != bestEngine {
		return c, fmt.Errorf("wire: engine %q does not exist here; there is %q and %q", c.Engine, EngineNetloop, bestEngine)
	}
	return c, nil
}

func defaultTo[T int | int32 | string](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}
