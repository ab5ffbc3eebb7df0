package api

import (
	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/broker/metadata"
	"github.com/gregor-broker/gregor/groupcoord/runtime"
	"github.com/gregor-broker/gregor/groupcoord/schema"
	"github.com/gregor-broker/gregor/groupcoord/txn"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// AddOffsetsToTxn adds the partition of __consumer_offsets that stores a group to a transaction, before a producer of the first
// protocol commits offsets in it. v2 PRODUCER_FENCED · v3 flexible · v4 TRANSACTION_ABORTABLE.
// Errors: those of AddPartitionsToTxn. After KafkaApis.handleAddOffsetsToTxnRequest.
var addOffsetsToTxn = Entry{
	Key: kmsg.AddOffsetsToTxn, ZooKeeper: v(0, 4), Kafka4: v(0, 4),
	Access: on(kmsg.ACLResourceTypeTransactionalId, kmsg.ACLOperationWrite), Cost: 16, Runs: onProcessor,
	Serve: serveAddOffsetsToTxn,
}

func serveAddOffsetsToTxn(s *Services, c *Call, request kmsg.Request) {
	r := request.(*kmsg.AddOffsetsToTxnRequest)
	answer := func(err error) {
		response := kmsg.NewPtrAddOffsetsToTxnResponse()
		response.ErrorCode = c.Code(err)
		c.Reply(response)
	}
	add := func(p int32) {
		a := txn.Addition{ID: r.TransactionalID, ProducerID: r.ProducerID, Epoch: r.ProducerEpoch,
			Topics: []schema.TxnTopic{{Topic: metadata.ConsumerOffsets, Partitions: []int32{p}}}}
		s.Transactions.AddPartitions(a, func(_ []schema.TxnTopic, err error) { answer(err) })
	}
	if p := s.Groups.PartitionFor(r.Group); p >= 0 {
		add(p)
		return
	}
	s.autoCreate(s.Controller.Metered(nil), []string{metadata.ConsumerOffsets}, func(map[string]int16) {
		add(runtime.PartitionFor(r.Group, int32(config.OffsetsTopicPartitions.Of(s.Config.Now()))))
	})
}
