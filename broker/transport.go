package broker

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/gregor-broker/gregor/groupcoord"
)

// transport carries the controller's orders: to this very broker by a call, to others over the network. It implements
// controller.Transport.
type transport struct{ broker *Broker }

// Send carries an order out, or has it carried out, and returns the answer.
func (t transport) Send(ctx context.Context, to int32, request kmsg.Request) (kmsg.Response, error) {
	s := t.broker.services
	if to != s.BrokerID {
		ctx, cancel := context.WithTimeout(ctx, t.broker.controllerTimeout())
		defer cancel()
		response := request.ResponseKind()
		err := t.broker.peers.Send(ctx, to, t.broker.clientID(), request, response)
		return response, err
	}
	switch r := request.(type) {
	case *kmsg.LeaderAndISRRequest:
		return s.Replicas.LeaderAndISR(r, 0), nil
	case *kmsg.StopReplicaRequest:
		return s.Replicas.StopReplica(r, 0), nil
	case *kmsg.UpdateMetadataRequest:
		return s.UpdateMetadata(r, 0), nil
	case *kmsg.DescribeLogDirsRequest:
		return s.DescribeLogDirs(r), nil
	case *kmsg.ListGroupsRequest:
		answered := make(chan kmsg.Response, 1)
		s.Groups.ListGroups(groupcoord.Caller{}, r, func(response kmsg.Response) { answered <- response })
		select {
		case response := <-answered:
			return response, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return nil, fmt.Errorf("%s is no order to a broker", kmsg.NameForKey(request.Key()))
}

// addressOf is where a broker's inter-broker listener is reached: as the image says, or for a broker that the image does
// not have yet, as it registered.
func (b *Broker) addressOf(id int32) (string, bool) {
	listener := b.config.InterBrokerListener()
	if known := b.services.Metadata.Image().Broker(id); known != nil {
		if e, ok := known.Endpoints[listener]; ok {
			return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))), true
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), b.peerTimeout())
	defer cancel()
	nodes, err := b.store.Read(ctx, store.Req{Path: znode.BrokerPath(id)})
	if err != nil || !nodes[0].Exists {
		return "", false
	}
	registered, err := znode.DecodeBroker(id, nodes[0].Data)
	if err != nil {
		return "", false
	}
	for _, e := range registered.Endpoints {
		if e.Listener == listener {
			return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))), true
		}
	}
	return "", false
}
