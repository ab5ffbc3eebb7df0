package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// OffsetForLeaderEpoch tells where a leader epoch ended, so that a consumer sees whether its position was truncated
// away (KIP-320).
// v1 the epoch found · v2 the leader epoch that the client believes in · v3 replica id · v4 flexible.
// Errors: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH. After
// KafkaApis.handleOffsetForLeaderEpochRequest.
var offsetForLeaderEpoch = Entry{
	Key: kmsg.OffsetForLeaderEpoch, ZooKeeper: v(0, 4), Kafka4: v(2, 4),
	Access: on(kmsg.ACLResourceTypeTopic, kmsg.ACLOperationDescribe), Cost: 16, Runs: onProcessor,
	Serve: serveOffsetForLeaderEpoch,
}

func serveOffsetForLeaderEpoch(s *Services, c *Call, request kmsg.Request) {
	r := request.(*kmsg.OffsetForLeaderEpochRequest)
	response := kmsg.NewPtrOffsetForLeaderEpochResponse()
	for _, asked := range r.Topics {
		t := kmsg.NewOffsetForLeaderEpochResponseTopic()
		t.Topic = asked.Topic
		for _, ap := range asked.Partitions {
			p := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			p.Partition = ap.Partition
			end, err := s.Replicas.EpochEnd(asked.Topic, ap.Partition, ap.CurrentLeaderEpoch, ap.LeaderEpoch)
			p.LeaderEpoch, p.EndOffset, p.ErrorCode = end.Epoch, end.End, c.Code(err)
			t.Partitions = append(t.Partitions, p)
		}
		response.Topics = append(response.Topics, t)
	}
	c.Reply(response)
}
