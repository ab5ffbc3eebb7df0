package controller

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/store/storetest"
	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// standingStill is a network in which one broker takes orders and never answers.
type standingStill struct {
	network
	broker int32
	taken  chan struct{} // a token for each order that it has been given
	ended  chan error    // why such an order was given up
}

func (s standingStill) Send(ctx context.Context, broker int32, req kmsg.Request) (kmsg.Response, error) {
	if broker != s.broker {
		return s.network.Send(ctx, broker, req)
	}
	s.taken <- struct{}{}
	<-ctx.Done()
	s.ended <- ctx.Err()
	return nil, ctx.Err()
}

// A broker whose session lasts but that answers no order keeps none from the others: topics come, lead and go without it, for as long
// as it stands still. When its session is over the controller gives its order up.
func TestOneBrokerStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := storetest.NewFake(clock.System)
		still := standingStill{network{1: newReplicaServer(t, 1), 2: newReplicaServer(t, 2)}, 3, make(chan struct{}, 10), make(chan error, 10)}
		clients := map[int32]*storetest.Client{}
		for id := int32(2); id <= 3; id++ {
			clients[id] = f.Client()
			for _, op := range []store.Op{
				store.Create("/brokers", nil, store.Persistent), store.Create("/brokers/ids", nil, store.Persistent),
				store.Create(znode.BrokerPath(id), brokerNode(id).Encode(), store.Ephemeral),
			} {
				_, _ = clients[id].Commit(t.Context(), op) // the first two may be there
			}
		}
		n := start(t, f.Client(), func(o *Options) { o.Transport, o.Observer = still, still.network[1] })
		<-still.taken
		for i := range 20 {
			name := fmt.Sprint("t", i)
			createOn(t, n, name, []int32{2, 1, 3})
			synctest.Wait()
			if got, ok := still.network[2].leaderOf(name); !ok || got != 2 {
				t.Fatalf("broker 2 was told leader %d (%v) of %s", got, ok, name)
			}
			time.Sleep(time.Minute) // by the test's clock
		}
		createOn(t, n, "elsewhere", []int32{1, 2})
		if resp := n.delete("elsewhere"); resp.Topics[0].ErrorCode != 0 || n.data(znode.TopicPath("elsewhere")) != "<none>" {
			t.Errorf("a topic that it has no replica of was not deleted: %d", resp.Topics[0].ErrorCode)
		}
		if len(still.taken) > 0 || len(still.ended) > 0 {
			t.Errorf("it was given %d orders more before it answered the first; %d were given up", len(still.taken), len(still.ended))
		}
		clients[3].Close()
		synctest.Wait()
		if len(still.ended) != 1 {
			t.Errorf("%d of its orders were given up when its session was over", len(still.ended))
		}
	})
}

func createOn(t *testing.T, n *node, topic string, replicas []int32) {
	t.Helper()
	r := newTopicRequest(topic)
	r.Topics[0].ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 0, Replicas: replicas}}
	if resp := ask(n.CreateTopics, r); resp.Topics[0].ErrorCode != 0 {
		t.Fatalf("creating %s: %d %s", topic, resp.Topics[0].ErrorCode, message(resp.Topics[0].ErrorMessage))
	}
}

// leaderOf is the leader of a topic's first partition that the broker has been told.
func (s *replicaServer) leaderOf(topic string) (int32, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	leader, ok := s.mu.metadata[tp(topic, 0)]
	return leader, ok
}
