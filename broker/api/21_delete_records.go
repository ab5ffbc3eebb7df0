package api

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DeleteRecords moves the start of logs up, -1 to the high watermark, and answers where they begin now.
// v1 throttling · v2 flexible.
// Errors: UNKNOWN_TOPIC_OR_PARTITION, OFFSET_OUT_OF_RANGE, POLICY_VIOLATION without `delete` in cleanup.policy,
// INVALID_TOPIC_EXCEPTION for internal topics, NOT_LEADER_OR_FOLLOWER. After KafkaApis.handleDeleteRecordsRequest.
var deleteRecords = Entry{
	Key: kmsg.DeleteRecords, ZooKeeper: v(0, 2), Kafka4: v(0, 2),
	Access: on(kmsg.ACLResourceTypeTopic, kmsg.ACLOperationDelete), Cost: 16, Runs: onHandler,
	Serve: serveDeleteRecords,
}

func serveDeleteRecords(s *Services, c *Call, request kmsg.Request) {
	r := request.(*kmsg.DeleteRecordsRequest)
	image := s.Metadata.Image()
	response := kmsg.NewPtrDeleteRecordsResponse()
	for _, asked := range r.Topics {
		t := kmsg.NewDeleteRecordsResponseTopic()
		t.Topic = asked.Topic
		for _, ap := range asked.Partitions {
			p := kmsg.NewDeleteRecordsResponseTopicPartition()
			p.Partition, p.LowWatermark = ap.Partition, -1
			err := error(errUnknownPartition)
			if image.Partition(asked.Topic, ap.Partition) != nil {
				p.LowWatermark, err = s.Replicas.DeleteRecords(asked.Topic, ap.Partition, ap.Offset)
			}
			if p.ErrorCode = c.Code(err); p.ErrorCode == kerr.UnknownServerError.Code {
				s.logUnexpected(c, "delete records", asked.Topic, ap.Partition, err)
			}
			t.Partitions = append(t.Partitions, p)
		}
		response.Topics = append(response.Topics, t)
	}
	c.Reply(response)
}
