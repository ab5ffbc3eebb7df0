package broker

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/broker/peer"
	"github.com/gregor-broker/gregor/wire/clock"
)

// TestOrdersOnAnOldConnection: what a controller orders on a connection older than its newest ends that connection, as it has been
// repeated; who means it has it carried out on a new one.
func TestOrdersOnAnOldConnection(t *testing.T) {
	for _, first := range []func(epoch int32) kmsg.Request{leaderAndISROrder, updateMetadataOrder, stopReplicaOrder} {
		for _, late := range []func(epoch int32) kmsg.Request{leaderAndISROrder, updateMetadataOrder, stopReplicaOrder} {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				c.start(7, "offsets.topic.replication.factor=1")
				older, newer := controllerOf(c), controllerOf(c)
				defer older.Close()
				defer newer.Close()
				metadata := kmsg.NewPtrMetadataRequest()
				metadata.Version = 12
				older.must(t, metadata)
				older.must(t, first(100))
				newer.must(t, first(100))
				newer.must(t, late(100))
				if older.dialed != 1 || newer.dialed != 1 {
					t.Fatalf("%d and %d connections", older.dialed, newer.dialed)
				}
				older.must(t, late(100))
				if older.dialed != 2 {
					t.Errorf("%T is carried out after its repetition", late(100))
				}
				newer.must(t, late(101)) // of the next controller, whose connections have nothing to do with those
				if newer.dialed != 1 {
					t.Errorf("%T of a new controller is refused", late(101))
				}
			})
		}
	}
}

// orderer is a controller's connection to a broker.
type orderer struct {
	*peer.Client
	dialed int
}

func controllerOf(c *cluster) *orderer {
	o := &orderer{}
	o.Client = peer.New(peer.Options{ClientID: "2", RequestTimeout: time.Minute, Clock: clock.System, Dial: func(ctx context.Context) (net.Conn, error) {
		o.dialed++
		return c.dial(ctx, "localhost:7")
	}})
	return o
}

func (o *orderer) must(t *testing.T, r kmsg.Request) {
	t.Helper()
	response := r.ResponseKind()
	if err := o.Do(t.Context(), r, response); err != nil {
		t.Fatalf("%T: %v", r, err)
	}
	code := int16(0)
	switch response := response.(type) {
	case *kmsg.LeaderAndISRResponse:
		code = response.ErrorCode
	case *kmsg.UpdateMetadataResponse:
		code = response.ErrorCode
	case *kmsg.StopReplicaResponse:
		code = response.ErrorCode
	}
	if code != 0 {
		t.Fatalf("%T: %d", r, code)
	}
}

func leaderAndISROrder(epoch int32) kmsg.Request {
	r := kmsg.NewPtrLeaderAndISRRequest()
	r.Version, r.ControllerID, r.ControllerEpoch, r.BrokerEpoch = 7, 2, epoch, -1
	return r
}

func updateMetadataOrder(epoch int32) kmsg.Request {
	r := kmsg.NewPtrUpdateMetadataRequest()
	r.Version, r.ControllerID, r.ControllerEpoch, r.BrokerEpoch = 8, 2, epoch, -1
	return r
}

func stopReplicaOrder(epoch int32) kmsg.Request {
	r := kmsg.NewPtrStopReplicaRequest()
	r.Version, r.ControllerID, r.ControllerEpoch, r.BrokerEpoch = 4, 2, epoch, -1
	return r
}
