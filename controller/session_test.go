package controller

import (
	"context"
	"testing"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/store/storetest"
	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/twmb/franz-go/pkg/kerr"
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

// TestUnreadableEpoch: as long as nobody can read the controller epoch nobody is elected; as soon as it is mended somebody is.
func TestUnreadableEpoch(t *testing.T) {
	client := storetest.NewFake(clock.System).Client()
	active := make(chan int32, 10)
	n := start(t, client, func(o *Options) { o.Observer = electionObserver{o.Transport.(*replicaServer), active} })
	n.mustCreate("a")
	<-active
	write := func(ops ...store.Op) {
		t.Helper()
		if _, err := client.Commit(t.Context(), ops...); err != nil {
			t.Fatal(err)
		}
	}
	write(store.Set(znode.ControllerEpochPath, []byte("rubbish"), store.AnyVersion), store.Delete(znode.ControllerPath, store.AnyVersion))
	if id := <-active; id != -1 {
		t.Fatalf("active controller %d", id)
	}
	write(store.Set(znode.ControllerEpochPath, []byte("41"), store.AnyVersion))
	if id := <-active; id != 1 || n.data(znode.ControllerEpochPath) != "42" {
		t.Errorf("active controller %d of epoch %s", id, n.data(znode.ControllerEpochPath))
	}
	n.mustCreate("b")
}

// TestNodesThatAreNoTopics: what somebody wrote by hand below /brokers/topics and is no topic is left alone, at the time and at the next
// election; the topics beside it are served.
func TestNodesThatAreNoTopics(t *testing.T) {
	client := storetest.NewFake(clock.System).Client()
	n := start(t, client, func(o *Options) { o.Settings.AutoLeaderRebalance = true })
	n.mustCreate("good:1:1")
	for name, data := range map[string]string{
		"empty": `{"partitions":{"0":[]},"topic_id":"AAAAAAAAAAAAAAAAAAAAAQ","version":3}`,
		"none":  `{"partitions":{},"topic_id":"AAAAAAAAAAAAAAAAAAAAAg","version":3}`,
		"a b":   `{"partitions":{"0":[1]},"topic_id":"AAAAAAAAAAAAAAAAAAAAAw","version":3}`,
	} {
		if _, err := client.Commit(t.Context(), store.Create(znode.TopicPath(name), []byte(data), store.Persistent)); err != nil {
			t.Fatal(err)
		}
	}
	n.stop()
	n = start(t, client, func(o *Options) { o.Settings.AutoLeaderRebalance = true })
	for _, name := range []string{"empty", "none", "a b"} {
		r := kmsg.NewPtrCreatePartitionsRequest()
		r.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: name, Count: 3}}
		if code := ask(n.CreatePartitions, r).Topics[0].ErrorCode; code != kerr.UnknownTopicOrPartition.Code {
			t.Errorf("%q can be grown: %d", name, code)
		}
	}
	n.mustCreate("better:1:1")
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
