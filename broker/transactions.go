package broker

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/broker/api"
	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/broker/loglevel"
	"github.com/gregor-broker/gregor/broker/metadata"
	"github.com/gregor-broker/gregor/broker/meter"
	"github.com/gregor-broker/gregor/broker/txnjoin"
	"github.com/gregor-broker/gregor/groupcoord/runtime"
	"github.com/gregor-broker/gregor/groupcoord/txn"
)

// verifyTransactions says whether the first batch of a transaction is appended only when its coordinator knows that the
// partition is part of it.
func (b *Broker) verifyTransactions() bool { return config.TxnVerification.Of(b.live.Now()) }

// newJoiner returns what asks the transaction coordinators.
func (b *Broker) newJoiner() *txnjoin.Joiner {
	o := joinSettings(b.config)
	o.Self, o.Coordinator, o.Local = b.services.BrokerID, b.transactionCoordinator, b.services.AddPartitionsToTxn
	o.Dial = func(broker int32) txnjoin.Client { return b.peers.Client(broker, b.clientID(), b.peerTimeout()) }
	o.Pool, o.Clock, o.Logger = b.network.Go, b.clock, b.named(loglevel.Transactions)
	o.Asked = func(took time.Duration, refused int) {
		b.meter.Took(meter.Verification, took)
		b.meter.Happened(meter.NotVerified, refused)
	}
	return txnjoin.New(o)
}

// joinSettings are the values that the asking honours.
func joinSettings(c *config.Snapshot) txnjoin.Options {
	return txnjoin.Options{RetryBackoff: config.TxnAddBackoff.Of(c), RetryMax: config.TxnAddRetryMax.Of(c)}
}

// newTransactions returns the coordinator of transactions.
func (b *Broker) newTransactions() *txn.Coordinator {
	s := b.services
	return txn.New(txn.Options{
		Log: s.Replicas.InternalLog(metadata.TransactionState), Transport: markerTransport{b}, Clock: b.clock, Logger: b.logger,
		Config:        transactionSettings(b.config),
		Partitions:    func() int32 { return groupMetadata{cache: s.Metadata}.PartitionCount(metadata.TransactionState) },
		NewProducerID: s.ProducerIDs.Next, Waiting: &b.waiting,
		Version: func() int16 { return s.Features().Level(api.TransactionVersion) },
	})
}

// markerTransport carries transaction markers: to this very broker by a call, to others over the network. It implements
// txn.Transport.
type markerTransport struct{ broker *Broker }

// Leader tells where a partition's markers go. A partition of which a starting broker was not told yet may exist: to leave out its
// marker would leave its transaction open for ever.
func (t markerTransport) Leader(topic string, partition int32) (broker int32, exists bool) {
	image := t.broker.services.Metadata.Image()
	p := image.Partition(topic, partition)
	switch {
	case p == nil:
		return -1, !t.broker.services.KnowsCluster()
	case image.Broker(p.Leader) == nil:
		return -1, true
	}
	return p.Leader, true
}

// Write sends markers on a connection that nothing else uses.
func (t markerTransport) Write(broker int32, r *kmsg.WriteTxnMarkersRequest, done func(*kmsg.WriteTxnMarkersResponse, error)) {
	b := t.broker
	if broker == b.services.BrokerID {
		b.services.WriteTxnMarkers(r, func(response *kmsg.WriteTxnMarkersResponse) { done(response, nil) })
		return
	}
	b.background.Go(func() {
		ctx, cancel := context.WithTimeout(b.running, b.peerTimeout())
		defer cancel()
		response := kmsg.NewPtrWriteTxnMarkersResponse()
		done(response, b.peers.Send(ctx, broker, markerClient+b.clientID(), r, response))
	})
}

// markerClient, with its id behind it, is what a broker calls itself where it sends markers.
const markerClient = "txn-marker-sender-"

// transactionCoordinator returns the live broker that leads the partition to which a transactional id belongs.
func (b *Broker) transactionCoordinator(transactionalID string) (broker int32, ok bool) {
	image := b.services.Metadata.Image()
	topic := image.Topic(metadata.TransactionState)
	if topic == nil || len(topic.Partitions) == 0 {
		return -1, false
	}
	p := topic.Partition(runtime.PartitionFor(transactionalID, int32(len(topic.Partitions))))
	if p == nil || image.Broker(p.Leader) == nil {
		return -1, false
	}
	return p.Leader, true
}
