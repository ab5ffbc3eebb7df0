package peer

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/wire/clock"
)

// NetworkOptions is what a Network works with. Address and Clock must be set.
type NetworkOptions struct {
	// Address returns where a broker's inter-broker listener is reached; false while it is not known to live.
	Address        func(broker int32) (address string, ok bool)
	Dial           func(ctx context.Context, broker int32, address string) (net.Conn, error) // nil: TCP
	RequestTimeout time.Duration                                                             // for an answer to Send, when the caller's context has no earlier end
	Clock          clock.Clock
}

// Network makes the connections to other brokers. Safe for concurrent use.
type Network struct {
	options NetworkOptions
	mu      struct {
		sync.Mutex
		closed bool
		shared map[shareKey]*shared
	}
	calls sync.WaitGroup
}

// NewNetwork returns a network without connections.
func NewNetwork(o NetworkOptions) *Network {
	if o.Dial == nil {
		var dialer net.Dialer
		o.Dial = func(ctx context.Context, _ int32, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", address)
		}
	}
	n := &Network{options: o}
	n.mu.shared = map[shareKey]*shared{}
	return n
}

// Client returns a connection of the caller's own to a broker, to the address that the broker has at the time of a request, and waits
// that long for an answer.
func (n *Network) Client(broker int32, clientID string, timeout time.Duration) *Client {
	var at string // of the connection
	return New(Options{
		ClientID: clientID, RequestTimeout: timeout, Clock: n.options.Clock,
		Dial: func(ctx context.Context) (net.Conn, error) {
			address, ok := n.options.Address(broker)
			if !ok {
				return nil, fmt.Errorf("broker %d is not known to live", broker)
			}
			at = address
			return n.options.Dial(ctx, broker, address)
		},
		Moved: func() bool {
			address, ok := n.options.Address(broker)
			return ok && address != at
		},
	})
}

type shareKey struct {
	broker   int32
	clientID string
}

// shared is a Client that several callers use in turn: who has put a token into turn uses it, and takes the token out.
type shared struct {
	turn   chan struct{}
	client *Client
}

// Send does a request on a connection that those with the same client id share, one at a time. It holds up only those
// who speak to the same broker.
func (n *Network) Send(ctx context.Context, broker int32, clientID string, r kmsg.Request, response kmsg.Response) error {
	n.mu.Lock()
	if n.mu.closed {
		n.mu.Unlock()
		return ErrClosed
	}
	key := shareKey{broker, clientID}
	s := n.mu.shared[key]
	if s == nil {
		s = &shared{turn: make(chan struct{}, 1), client: n.Client(broker, clientID, n.options.RequestTimeout)}
		n.mu.shared[key] = s
	}
	n.calls.Add(1)
	n.mu.Unlock()
	defer n.calls.Done()
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.turn }()
	return s.client.Do(ctx, r, response)
}

// Close ends the shared connections and waits for the requests on them. Clients that were handed out are their
// owners' to close.
func (n *Network) Close() {
	n.mu.Lock()
	n.mu.closed = true
	for _, s := range n.mu.shared {
		s.client.Close()
	}
	n.mu.Unlock()
	n.calls.Wait()
}
