package api

import (
	"time"

	"github.com/gregor-broker/gregor/broker/replica"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DeleteRecords moves the start of logs up, -1 to the high watermark, and answers where they begin now.
// v1 throttling · v2 flexible.
// Errors: UNKNOWN_TOPIC_OR_PARTITION, OFFSET_OUT_OF_RANGE, POLICY_VIOLATION without `delete` in cleanup.policy,
// INVALID_TOPIC_EXCEPTION for internal topics, NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT when a live replica did not
// follow in time. After KafkaApis.handleDeleteRecordsRequest.
var deleteRecords = Entry{
	Key: kmsg.DeleteRecords, ZooKeeper: v(0, 2), Kafka4: v(0, 2),
	Access: on(kmsg.ACLResourceTypeTopic, kmsg.ACLOperationDelete), Cost: 16, Runs: onHandler,
	Serve: serveDeleteRecords,
}

func serveDeleteRecords(s *Services, c *Call, request kmsg.Request) {
	r := request.(*kmsg.DeleteRecordsRequest)
	image := s.Metadata.Image()
	var entries []replica.DeleteEntry
	place := map[partitionKey]int{} // of a partition that is named again, the last offset counts
	for _, asked := range r.Topics {
		for _, ap := range asked.Partitions {
			key := partitionKey{topic: asked.Topic, partition: ap.Partition}
			if i, again := place[key]; again {
				entries[i].Offset = ap.Offset
				continue
			}
			e := replica.DeleteEntry{Topic: asked.Topic, Partition: ap.Partition, Offset: ap.Offset}
			if image.Partition(asked.Topic, ap.Partition) == nil {
				e.Err = errUnknownPartition
			}
			place[key] = len(entries)
			entries = append(entries, e)
		}
	}
	timeout := time.Duration(r.TimeoutMillis) * time.Millisecond
	s.Replicas.DeleteRecords(timeout, entries, func(results []replica.DeleteResult) {
		c.Reply(s.deleteRecordsResponse(c, entries, results))
	})
}

// deleteRecordsResponse puts the answer together, each topic once; the results are in the order of the entries.
func (s *Services) deleteRecordsResponse(c *Call, entries []replica.DeleteEntry, results []replica.DeleteResult) *kmsg.DeleteRecordsResponse {
	response := kmsg.NewPtrDeleteRecordsResponse()
	place := map[string]int{}
	for i := range entries {
		e, result := &entries[i], &results[i]
		at, known := place[e.Topic]
		if !known {
			at = len(response.Topics)
			place[e.Topic] = at
			t := kmsg.NewDeleteRecordsResponseTopic()
			t.Topic = e.Topic
			response.Topics = append(response.Topics, t)
		}
		p := kmsg.NewDeleteRecordsResponseTopicPartition()
		p.Partition, p.LowWatermark = e.Partition, result.LowWatermark
		if p.ErrorCode = c.Code(result.Err); p.ErrorCode == kerr.UnknownServerError.Code {
			s.logUnexpected(c, "delete records", e.Topic, e.Partition, result.Err)
		}
		response.Topics[at].Partitions = append(response.Topics[at].Partitions, p)
	}
	return response
}
