package api

import (
	"sync"

	"github.com/gregor-broker/gregor/groupcoord/schema"
	"github.com/gregor-broker/gregor/groupcoord/txn"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// AddPartitionsToTxn adds partitions to a transaction, before a producer of the first protocol writes to them. Brokers ask with
// several transactions at once whether partitions are in them, or have them added for producers of the second (KIP-890).
// v2 PRODUCER_FENCED · v3 flexible · v4 several transactions, verification; from brokers only · v5 TRANSACTION_ABORTABLE.
// Errors, by partition: UNKNOWN_TOPIC_OR_PARTITION, and then OPERATION_NOT_ATTEMPTED for the rest of the transaction,
// INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, TRANSACTION_ABORTABLE.
// After KafkaApis.handleAddPartitionsToTxnRequest.
var addPartitionsToTxn = Entry{
	Key: kmsg.AddPartitionsToTxn, ZooKeeper: v(0, 5), Kafka4: v(0, 5),
	Access: on(kmsg.ACLResourceTypeTransactionalId, kmsg.ACLOperationWrite), Cost: 32, Runs: onProcessor,
	Serve: func(s *Services, c *Call, request kmsg.Request) {
		s.AddPartitionsToTxn(request.(*kmsg.AddPartitionsToTxnRequest), func(response *kmsg.AddPartitionsToTxnResponse) { c.Reply(response) })
	},
}

// addingVersion is the first version that only brokers send.
const addingVersion = 4

// AddPartitionsToTxn has this broker's transaction coordinator answer r and calls done once, on any goroutine.
func (s *Services) AddPartitionsToTxn(r *kmsg.AddPartitionsToTxnRequest, done func(*kmsg.AddPartitionsToTxnResponse)) {
	response := kmsg.NewPtrAddPartitionsToTxnResponse()
	response.Version = r.Version
	transactions := r.Transactions
	if r.Version < addingVersion {
		transactions = []kmsg.AddPartitionsToTxnRequestTransaction{ofClient(r)}
	}
	g := &additions{missing: len(transactions), finish: func(answers []kmsg.AddPartitionsToTxnResponseTransaction) {
		if response.Transactions = answers; r.Version < addingVersion {
			response.Transactions, response.Topics = nil, toClient(answers[0].Topics)
		}
		done(response)
	}}
	g.answers = make([]kmsg.AddPartitionsToTxnResponseTransaction, len(transactions))
	if len(transactions) == 0 {
		g.finish(nil)
		return
	}
	for i := range transactions {
		s.addToTransaction(r.Version, &transactions[i], func(code func(topic string, partition int32) int16) {
			g.put(i, answerFor(&transactions[i], code))
		})
	}
}

// ofClient brings a request of a client into the form that brokers use.
func ofClient(r *kmsg.AddPartitionsToTxnRequest) kmsg.AddPartitionsToTxnRequestTransaction {
	t := kmsg.NewAddPartitionsToTxnRequestTransaction()
	t.TransactionalID, t.ProducerID, t.ProducerEpoch = r.TransactionalID, r.ProducerID, r.ProducerEpoch
	for _, topic := range r.Topics {
		t.Topics = append(t.Topics, kmsg.AddPartitionsToTxnRequestTransactionTopic{Topic: topic.Topic, Partitions: topic.Partitions})
	}
	return t
}

func toClient(topics []kmsg.AddPartitionsToTxnResponseTransactionTopic) []kmsg.AddPartitionsToTxnResponseTopic {
	list := make([]kmsg.AddPartitionsToTxnResponseTopic, len(topics))
	for i, t := range topics {
		list[i].Topic = t.Topic
		for _, p := range t.Partitions {
			list[i].Partitions = append(list[i].Partitions, kmsg.AddPartitionsToTxnResponseTopicPartition{Partition: p.Partition, ErrorCode: p.ErrorCode})
		}
	}
	return list
}

// addToTransaction asks the coordinator about one transaction. answer gets the code of each partition.
func (s *Services) addToTransaction(version int16, t *kmsg.AddPartitionsToTxnRequestTransaction, answer func(func(string, int32) int16)) {
	image := s.Metadata.Image()
	topics := make([]schema.TxnTopic, len(t.Topics))
	exists := true
	for i := range t.Topics {
		topics[i] = schema.TxnTopic{Topic: t.Topics[i].Topic, Partitions: t.Topics[i].Partitions}
		for _, p := range t.Topics[i].Partitions {
			exists = exists && image.Partition(t.Topics[i].Topic, p) != nil
		}
	}
	if !exists {
		answer(func(topic string, partition int32) int16 {
			if image.Partition(topic, partition) == nil {
				return kerr.UnknownTopicOrPartition.Code
			}
			return kerr.OperationNotAttempted.Code
		})
		return
	}
	a := txn.Addition{
		ID: t.TransactionalID, ProducerID: t.ProducerID, Epoch: t.ProducerEpoch, Topics: topics,
		VerifyOnly: t.VerifyOnly, Second: version >= addingVersion && !t.VerifyOnly,
	}
	s.Transactions.AddPartitions(a, func(missing []schema.TxnTopic, err error) {
		code := errcode.Versioned(kmsg.AddPartitionsToTxn.Int16(), version, errcode.Of(err))
		answer(func(topic string, partition int32) int16 {
			if code == 0 && isIn(missing, topic, partition) {
				return kerr.TransactionAbortable.Code
			}
			return code
		})
	})
}

func isIn(topics []schema.TxnTopic, topic string, partition int32) bool {
	for _, t := range topics {
		if t.Topic != topic {
			continue
		}
		for _, p := range t.Partitions {
			if p == partition {
				return true
			}
		}
	}
	return false
}

func answerFor(t *kmsg.AddPartitionsToTxnRequestTransaction, code func(string, int32) int16) kmsg.AddPartitionsToTxnResponseTransaction {
	a := kmsg.NewAddPartitionsToTxnResponseTransaction()
	a.TransactionalID = t.TransactionalID
	a.Topics = make([]kmsg.AddPartitionsToTxnResponseTransactionTopic, 0, len(t.Topics))
	for _, topic := range t.Topics {
		at := kmsg.AddPartitionsToTxnResponseTransactionTopic{Topic: topic.Topic}
		at.Partitions = make([]kmsg.AddPartitionsToTxnResponseTransactionTopicPartition, 0, len(topic.Partitions))
		for _, p := range topic.Partitions {
			at.Partitions = append(at.Partitions, kmsg.AddPartitionsToTxnResponseTransactionTopicPartition{Partition: p, ErrorCode: code(topic.Topic, p)})
		}
		a.Topics = append(a.Topics, at)
	}
	return a
}

// additions gathers the answers about the transactions of a request. Each is put once, from any goroutine.
type additions struct {
	sync.Mutex
	missing int
	answers []kmsg.AddPartitionsToTxnResponseTransaction
	finish  func([]kmsg.AddPartitionsToTxnResponseTransaction)
}

func (g *additions) put(i int, a kmsg.AddPartitionsToTxnResponseTransaction) {
	g.Lock()
	g.answers[i] = a
	g.missing--
	complete := g.missing == 0
	g.Unlock()
	if complete {
		g.finish(g.answers)
	}
}
