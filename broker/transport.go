package broker

import (
	"context"
	"fmt"

	"github.com/gregor-broker/gregor/broker/metadata"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// localTransport carries the controller's orders to this very broker. It implements controller.Transport.
type localTransport struct{ broker *Broker }

// Send carries an order out.
func (t localTransport) Send(_ context.Context, to int32, request kmsg.Request) (kmsg.Response, error) {
	s := t.broker.services
	if to != s.BrokerID {
		return nil, fmt.Errorf("an order for broker %d reached broker %d", to, s.BrokerID)
	}
	switch r := request.(type) {
	case *kmsg.LeaderAndISRRequest:
		return s.Replicas.LeaderAndISR(r), nil
	case *kmsg.StopReplicaRequest:
		return s.Replicas.StopReplica(r), nil
	case *kmsg.UpdateMetadataRequest:
		t.broker.topicsDeleted(s.Metadata.Apply(r))
		return kmsg.NewPtrUpdateMetadataResponse(), nil
	}
	return nil, fmt.Errorf("%s is no order to a broker", kmsg.NameForKey(request.Key()))
}

// topicsDeleted lets the coordinator forget what it knows of topics that are gone.
func (b *Broker) topicsDeleted(topics []metadata.Deleted) {
	if len(topics) == 0 {
		return
	}
	names := make([]string, len(topics))
	for i, t := range topics {
		names[i] = t.Name
	}
	b.services.Groups.TopicsDeleted(names)
}
