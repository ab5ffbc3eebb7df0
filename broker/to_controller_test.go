package broker

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestControllerThatStandsStill: a broker waits for the controller's answer as long as controller.socket.timeout.ms says and no longer, since
// another one may have been elected meanwhile.
func TestControllerThatStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.start(1, "offsets.topic.replication.factor=1")
		b := c.start(2, "offsets.topic.replication.factor=1", "controller.socket.timeout.ms=2000")
		if id := b.services.Controller.ActiveID(); id != 1 {
			t.Fatalf("the controller is %d", id)
		}
		silent, far := net.Pipe()
		defer far.Close()
		b.peers.Close()
		b.peers = newPeers(b, func(context.Context, int32, string) (net.Conn, error) { return silent, nil })
		go func() {
			for buf := make([]byte, 1024); ; { // it takes what it gets
				if _, err := far.Read(buf); err != nil {
					return
				}
			}
		}()
		began := b.clock.Monotonic()
		_, err := b.askController(t.Context(), kmsg.NewPtrAllocateProducerIDsRequest())
		if took := b.clock.Monotonic() - began; !errors.Is(err, context.DeadlineExceeded) || took != 2*time.Second {
			t.Errorf("%v after %v", err, took)
		}
	})
}
