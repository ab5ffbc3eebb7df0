package cli

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/gregor-broker/gregor/compat/testbroker"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// cut is a connection that the broker ends at the second request, which is the first after ApiVersions.
type cut struct {
	net.Conn
	requests atomic.Int32
}

func (c *cut) Write(b []byte) (int, error) {
	if c.requests.Add(1) == 2 {
		_ = c.Close()
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *cut) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil && c.requests.Load() > 1 {
		err = io.EOF
	}
	return n, err
}

// TestBrokerEndsAtOnce: a command goes on when a broker ends just after it was dialed, as any that is restarted may.
func TestBrokerEndsAtOnce(t *testing.T) {
	c := Connection{servers: []string{testbroker.Start(t).Addr()}}
	var dialed atomic.Int32
	client, err := c.Client(t.Context(), kgo.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if n := dialed.Add(1); err == nil && n == 2 {
			return &cut{Conn: conn}, nil
		}
		return conn, err
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for range 2 { // each over a connection of its own: to the address that was given, and to the broker by its id
		r := kmsg.NewPtrListGroupsRequest()
		if _, err := r.RequestWith(t.Context(), client); err != nil {
			t.Error(err)
		}
	}
	if n := dialed.Load(); n < 3 {
		t.Errorf("%d connections: none was cut", n)
	}
}
