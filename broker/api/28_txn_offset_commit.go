package api

import (
	"github.com/gregor-broker/gregor/broker/metadata"
	"github.com/gregor-broker/gregor/broker/replica"
	"github.com/gregor-broker/gregor/log"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TxnOffsetCommit commits offsets of a group as part of a transaction. What the versions changed and which errors there are
// stands with the group coordinator's method; before it is asked, the transaction's coordinator is, whether the partition of
// __consumer_offsets is part of the transaction. After KafkaApis.handleTxnOffsetCommitRequest.
var txnOffsetCommit = Entry{
	Key: kmsg.TxnOffsetCommit, ZooKeeper: v(0, 4), Kafka4: v(0, 6),
	Access: on(kmsg.ACLResourceTypeGroup, kmsg.ACLOperationRead), Cost: 16, Runs: onProcessor,
	Serve: serveTxnOffsetCommit,
}

func serveTxnOffsetCommit(s *Services, c *Call, request kmsg.Request) {
	r := request.(*kmsg.TxnOffsetCommitRequest)
	p := s.Groups.PartitionFor(r.Group)
	if r.Group == "" || p < 0 {
		s.Groups.TxnOffsetCommit(caller(c), r, nil, nil, c.Reply) // which says what is wrong
		return
	}
	joining := replica.Joining{
		TransactionalID: r.TransactionalID, ProducerID: r.ProducerID, ProducerEpoch: r.ProducerEpoch,
		Client: replica.OffsetCommitTxnSupport(r.Version),
	}
	s.Replicas.JoinTransaction(log.TopicPartition{Topic: metadata.ConsumerOffsets, Partition: p}, joining, func(guard log.Guard, err error) {
		s.Groups.TxnOffsetCommit(caller(c), r, guard, err, c.Reply)
	})
}
