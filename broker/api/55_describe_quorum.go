package api

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeQuorum tells who keeps the metadata (KIP-595, KIP-836): without ZooKeeper one voter, this broker, whose log is the
// embedded store and whose offsets are the store's commits. On ZooKeeper there is no quorum of brokers, and 3.9 does not serve it.
// v1 times of fetches · v2 directory ids, messages, nodes.
// Errors per partition: UNKNOWN_TOPIC_OR_PARTITION for all but __cluster_metadata-0. After KafkaRaftClient.handleDescribeQuorumRequest.
var describeQuorum = Entry{
	Key: kmsg.DescribeQuorum, ZooKeeper: none, Kafka4: v(0, 2),
	Access: on(kmsg.ACLResourceTypeCluster, kmsg.ACLOperationDescribe), Cost: 8, Runs: onHandler, EmbeddedOnly: true,
	Serve: serveDescribeQuorum,
}

// metadataTopic is where KRaft keeps metadata; there is no log of the name here.
const metadataTopic = "__cluster_metadata"

func serveDescribeQuorum(s *Services, c *Call, request kmsg.Request) {
	r := request.(*kmsg.DescribeQuorumRequest)
	response := kmsg.NewPtrDescribeQuorumResponse()
	for _, t := range r.Topics {
		topic := kmsg.NewDescribeQuorumResponseTopic()
		topic.Topic = t.Topic
		for _, p := range t.Partitions {
			topic.Partitions = append(topic.Partitions, s.describeQuorumOf(t.Topic, p.Partition))
		}
		response.Topics = append(response.Topics, topic)
	}
	node := kmsg.NewDescribeQuorumResponseNode()
	node.NodeID = s.BrokerID
	if b := s.Metadata.Image().Broker(s.BrokerID); b != nil {
		if e, ok := s.Endpoint(b, c.Listener(), c.Local()); ok {
			listener := kmsg.NewDescribeQuorumResponseNodeListener()
			listener.Name, listener.Host, listener.Port = c.Listener(), e.Host, uint16(e.Port)
			node.Listeners = append(node.Listeners, listener)
		}
	}
	response.Nodes = append(response.Nodes, node)
	c.Reply(response)
}

func (s *Services) describeQuorumOf(topic string, partition int32) kmsg.DescribeQuorumResponseTopicPartition {
	answer := kmsg.NewDescribeQuorumResponseTopicPartition()
	answer.Partition = partition
	if topic != metadataTopic || partition != 0 {
		answer.ErrorCode = kerr.UnknownTopicOrPartition.Code
		return answer
	}
	end := s.MetadataOffset()
	now := s.Clock.Now().UnixMilli()
	answer.LeaderID, answer.LeaderEpoch, answer.HighWatermark = s.BrokerID, s.Replicas.ControllerEpoch(), end
	answer.CurrentVoters = []kmsg.DescribeQuorumResponseTopicPartitionReplicaState{{
		ReplicaID: s.BrokerID, LogEndOffset: end, LastFetchTimestamp: now, LastCaughtUpTimestamp: now,
	}}
	return answer
}
