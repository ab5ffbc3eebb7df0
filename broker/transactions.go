package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/broker/loglevel"
	"github.com/gregor-broker/gregor/broker/metadata"
	"github.com/gregor-broker/gregor/broker/txnjoin"
	"github.com/gregor-broker/gregor/groupcoord"
)

// verifyTransactions says whether the first batch of a transaction is appended only when its coordinator knows that the
// partition is part of it.
func (b *Broker) verifyTransactions() bool { return config.TxnVerification.Of(b.live.Now()) }

// newJoiner returns what asks the transaction coordinators.
func (b *Broker) newJoiner() *txnjoin.Joiner {
	return txnjoin.New(txnjoin.Options{
		Self: b.services.BrokerID, Coordinator: b.transactionCoordinator, Local: b.addToTransaction,
		Dial: func(broker int32) txnjoin.Client { return b.peers.Client(broker, b.clientID()) },
		Pool: b.network.Go, Clock: b.clock, Logger: b.named(loglevel.Transactions),
		RetryBackoff: config.TxnAddBackoff.Of(b.config), RetryMax: config.TxnAddRetryMax.Of(b.config),
	})
}

// transactionCoordinator returns the live broker that leads the partition to which a transactional id belongs.
func (b *Broker) transactionCoordinator(transactionalID string) (broker int32, ok bool) {
	image := b.services.Metadata.Image()
	topic := image.Topic(metadata.TransactionState)
	if topic == nil || len(topic.Partitions) == 0 {
		return -1, false
	}
	p := topic.Partition(groupcoord.PartitionOf(transactionalID, int32(len(topic.Partitions))))
	if p == nil || image.Broker(p.Leader) == nil {
		return -1, false
	}
	return p.Leader, true
}

// addToTransaction has our own transaction coordinator answer.
func (b *Broker) addToTransaction(r *kmsg.AddPartitionsToTxnRequest, done func(*kmsg.AddPartitionsToTxnResponse)) {
	if add := b.services.AddToTransaction; add != nil {
		add(r, done)
		return
	}
	response := kmsg.NewPtrAddPartitionsToTxnResponse()
	response.Version, response.ErrorCode = r.Version, kerr.NotCoordinator.Code
	done(response)
}
