package api

import (
	"context"
	"testing"

	"github.com/gregor-broker/gregor/controller"
	"github.com/gregor-broker/gregor/controller/store/storetest"
	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// quietBroker is a broker for a controller that has nothing to order.
type quietBroker struct{}

func (quietBroker) Send(_ context.Context, _ int32, r kmsg.Request) (kmsg.Response, error) {
	return r.ResponseKind(), nil
}
func (quietBroker) ConfigChanged(_, _ string, _ map[string]string) {}
func (quietBroker) ControllerChanged(int32)                        {}
func (quietBroker) Validate(map[string]string) error               { return nil }
func (quietBroker) UncleanElection(map[string]string) bool         { return false }
func (quietBroker) Describe(map[string]string) []kmsg.CreateTopicsResponseTopicConfig {
	return nil
}

// Orders for an earlier registration of this broker are kept out, and those of a KRaft controller.
func TestOrdersAreFenced(t *testing.T) {
	client := storetest.NewFake(clock.System).Client()
	c := controller.New(controller.Options{
		Store: client, Broker: znode.Broker{ID: 1, JMXPort: -1}, ClusterID: "x", Transport: quietBroker{}, Observer: quietBroker{},
		Configs: quietBroker{}, Clock: clock.System, Logger: zap.NewNop(),
	})
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer c.Stop(context.Background())
	s := &Services{BrokerID: 1, Controller: c, Logger: zap.NewNop()}
	epoch := c.BrokerEpoch()
	for _, o := range []struct {
		name string
		order
		want int16
	}{
		{"this registration", order{2, epoch, false}, 0},
		{"earlier registration", order{2, epoch - 1, false}, kerr.StaleBrokerEpoch.Code},
		{"registration unknown", order{2, -1, false}, 0},
		{"later registration", order{2, epoch + 1, false}, 0},
		{"KRaft", order{3000, epoch, true}, kerr.StaleControllerEpoch.Code},
	} {
		if got := s.refused(o.order); got != o.want {
			t.Errorf("%s: %d, want %d", o.name, got, o.want)
		}
	}
}

// What only brokers send is not served where there is one broker.
func TestBetweenBrokers(t *testing.T) {
	embedded, cluster := NewTable(Embedded), NewTable(ZooKeeper)
	for _, key := range []kmsg.Key{kmsg.LeaderAndISR, kmsg.StopReplica, kmsg.UpdateMetadata, kmsg.ControlledShutdown, kmsg.AlterPartition, kmsg.AllocateProducerIDs} {
		if !embedded.Versions(key.Int16()).Empty() || cluster.Versions(key.Int16()).Empty() {
			t.Errorf("%s: embedded %s, on ZooKeeper %s", key.Name(), embedded.Versions(key.Int16()), cluster.Versions(key.Int16()))
		}
	}
}
