package api

import (
	"github.com/gregor-broker/gregor/controller"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeProducers lists the producers that partitions remember, for hanging transactions and lost sequences.
// Errors: INVALID_TOPIC_EXCEPTION, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER. After
// KafkaApis.handleDescribeProducersRequest.
var describeProducers = Entry{
	Key: kmsg.DescribeProducers, ZooKeeper: v(0, 0), Kafka4: v(0, 0),
	Access: on(kmsg.ACLResourceTypeTopic, kmsg.ACLOperationRead), Cost: 16, Runs: onHandler,
	Serve: serveDescribeProducers,
}

func serveDescribeProducers(s *Services, c *Call, request kmsg.Request) {
	r := request.(*kmsg.DescribeProducersRequest)
	image := s.Metadata.Image()
	response := kmsg.NewPtrDescribeProducersResponse()
	for _, asked := range r.Topics {
		t := kmsg.NewDescribeProducersResponseTopic()
		t.Topic = asked.Topic
		err := controller.ValidTopicName(asked.Topic)
		if err == nil && image.Topic(asked.Topic) == nil {
			err = errUnknownPartition
		}
		for _, partition := range asked.Partitions {
			t.Partitions = append(t.Partitions, s.describeProducers(c, asked.Topic, partition, err))
		}
		response.Topics = append(response.Topics, t)
	}
	c.Reply(response)
}

func (s *Services) describeProducers(c *Call, topic string, partition int32, err error) kmsg.DescribeProducersResponseTopicPartition {
	p := kmsg.NewDescribeProducersResponseTopicPartition()
	p.Partition = partition
	if err == nil {
		producers, failed := s.Replicas.Producers(topic, partition)
		err = failed
		for _, ps := range producers {
			a := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
			a.ProducerID, a.ProducerEpoch, a.LastSequence = ps.ProducerID, int32(ps.ProducerEpoch), ps.LastSequence
			a.LastTimestamp, a.CoordinatorEpoch, a.CurrentTxnStartOffset = ps.LastTimestamp, ps.CoordinatorEpoch, ps.TxnStartOffset
			p.ActiveProducers = append(p.ActiveProducers, a)
		}
	}
	p.ErrorCode, p.ErrorMessage = c.Code(err), errcode.Message(err)
	return p
}
