package controller

import (
	"context"
	"testing"

	"github.com/gregor-broker/gregor/controller/store/storetest"
	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// electionObserver reports who is elected.
type electionObserver struct {
	*replicaServer
	active chan int32
}

func (o electionObserver) ControllerChanged(id int32) { o.active <- id }

// Case C1, the controller's part: after its session has expired a broker registers again, with a larger epoch, and is elected again.
func TestExpiredSession(t *testing.T) {
	client := storetest.NewFake(clock.System).Client()
	active := make(chan int32, 10)
	n := start(t, client, func(o *Options) { o.Observer = electionObserver{o.Transport.(*replicaServer), active} })
	n.mustCreate("a")
	epoch := n.BrokerEpoch()
	if id := <-active; id != 1 {
		t.Fatalf("active controller %d", id)
	}
	client.Expire()
	if id := <-active; id != -1 || n.BrokerEpoch() != -1 {
		t.Errorf("without a session: active %d, epoch %d", id, n.BrokerEpoch())
	}
	client.Renew()
	if id := <-active; id != 1 || n.BrokerEpoch() <= epoch {
		t.Errorf("with a new session: active %d, epoch %d after %d", id, n.BrokerEpoch(), epoch)
	}
	n.mustCreate("b")
	if n.data(znode.ControllerEpochPath) != "2" {
		t.Error("the controller epoch did not rise")
	}
}

// network carries orders to several brokers.
type network map[int32]*replicaServer

func (n network) Send(ctx context.Context, broker int32, req kmsg.Request) (kmsg.Response, error) {
	return n[broker].Send(ctx, broker, req)
}

// Two brokers: one is elected, the other takes over when it stops, and orders are accepted only by the one that leads.
func TestTakeover(t *testing.T) {
	f := storetest.NewFake(clock.System)
	servers := network{1: newReplicaServer(t, 1), 2: newReplicaServer(t, 2)}
	first := start(t, f.Client(), func(o *Options) { o.Transport = servers })
	active := make(chan int32, 10)
	second := start(t, f.Client(), func(o *Options) {
		o.Broker = brokerNode(2)
		o.Transport, o.Observer = servers, electionObserver{servers[2], active}
	})
	if id := <-active; id != 1 || second.ActiveID() != 1 {
		t.Fatalf("the second broker follows %d", id)
	}
	if resp := second.create("x"); resp.Topics[0].ErrorCode != 41 {
		t.Errorf("a broker that was not elected answers %d", resp.Topics[0].ErrorCode)
	}
	first.stop()
	for id := range active {
		if id == 2 {
			break
		}
	}
	second.mustCreate("x")
}
