package api

import (
	"github.com/gregor-broker/gregor/broker/replica"
	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ListOffsets finds offsets by time: the first record at or after a timestamp, or one of the ends of the log.
// v0 a list of segment offsets · v1 one offset, with the record's timestamp · v2 isolation level · v4 leader epochs
// · v7 the largest timestamp (-3) · v8 the start of the local log (-4) · v9 the end of what is tiered (-5) · v10 timeout
// · v11 the start of what is not tiered yet (-6).
// Errors: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH,
// OFFSET_NOT_AVAILABLE (LEADER_NOT_AVAILABLE below v5), INVALID_REQUEST for a partition that is named twice,
// UNSUPPORTED_VERSION for a negative timestamp that the version does not know, UNKNOWN_SERVER_ERROR for an isolation
// level that there is not. After KafkaApis.handleListOffsetRequest.
var listOffsets = Entry{
	Key: kmsg.ListOffsets, ZooKeeper: v(0, 9), Kafka4: v(1, 11),
	Access: on(kmsg.ACLResourceTypeTopic, kmsg.ACLOperationDescribe), Cost: 16, Runs: onHandler,
	Serve: serveListOffsets,
}

// timestampSince says from which version on a negative timestamp has a meaning.
var timestampSince = map[int64]int16{
	replica.Earliest: 0, replica.Latest: 0, replica.MaxTimestamp: 7, replica.EarliestLocal: 8, replica.LatestTiered: 9,
	replica.EarliestPendingUpload: 11,
}

func knownTimestamp(timestamp int64, version int16) bool {
	if timestamp >= 0 {
		return true
	}
	since, ok := timestampSince[timestamp]
	return ok && version >= since
}

func serveListOffsets(s *Services, c *Call, request kmsg.Request) {
	r := request.(*kmsg.ListOffsetsRequest)
	response := kmsg.NewPtrListOffsetsResponse()
	doubles := duplicateOffsets(r)
	places := map[string]int{}
	n := 0
	for i := range r.Topics {
		topic := r.Topics[i].Topic
		if !s.Embedded {
			places[topic] = addTopic(response, topic)
		}
		for j := range r.Topics[i].Partitions {
			asked := &r.Topics[i].Partitions[j]
			n++
			var err error
			if doubles != nil && r.Version > 0 {
				d := doubles[n-1]
				if d.before && s.Embedded {
					continue // answered at its first place
				}
				if d.again || d.before {
					err = errDuplicatePartition
				}
			}
			at, known := places[topic]
			if !known {
				at = addTopic(response, topic)
				places[topic] = at
			}
			response.Topics[at].Partitions = append(response.Topics[at].Partitions, s.listOffset(c, r, topic, asked, err))
		}
	}
	c.Reply(response)
}

// addTopic adds a topic to the answer and returns its place. 3.9 answers for each time that a topic is named, 4.4 once for all its
// partitions, of which there must be some.
func addTopic(response *kmsg.ListOffsetsResponse, topic string) int {
	t := kmsg.NewListOffsetsResponseTopic()
	t.Topic = topic
	response.Topics = append(response.Topics, t)
	return len(response.Topics) - 1
}

func duplicateOffsets(r *kmsg.ListOffsetsRequest) []double {
	var keys []partitionKey
	for i := range r.Topics {
		for j := range r.Topics[i].Partitions {
			keys = append(keys, partitionKey{r.Topics[i].Topic, log.TopicID{}, r.Topics[i].Partitions[j].Partition})
		}
	}
	return duplicates(len(keys), func(i int) partitionKey { return keys[i] })
}

func (s *Services) listOffset(c *Call, r *kmsg.ListOffsetsRequest, topic string, asked *kmsg.ListOffsetsRequestTopicPartition, err error) kmsg.ListOffsetsResponseTopicPartition {
	q := replica.OffsetQuery{
		Topic: topic, Partition: asked.Partition, Timestamp: asked.Timestamp, CurrentLeaderEpoch: asked.CurrentLeaderEpoch,
		ReplicaID: r.ReplicaID, Committed: r.IsolationLevel == readCommitted,
	}
	if err == nil {
		err = s.checkOffsetQuery(r, asked.Timestamp)
	}
	p := kmsg.NewListOffsetsResponseTopicPartition()
	p.Partition, p.Timestamp, p.Offset, p.LeaderEpoch = asked.Partition, -1, -1, -1
	switch {
	case err != nil:
	case r.Version == 0:
		p.OldStyleOffsets, err = s.Replicas.LegacyOffsets(&q, int(asked.MaxNumOffsets))
	default:
		var o replica.Offset
		o, err = s.Replicas.Offset(&q)
		p.Offset, p.Timestamp, p.LeaderEpoch = o.Offset, o.Timestamp, o.LeaderEpoch
	}
	p.ErrorCode = c.Code(err)
	switch p.ErrorCode {
	case kerr.OffsetNotAvailable.Code:
		if r.Version < 5 {
			p.ErrorCode = kerr.LeaderNotAvailable.Code
		}
	case kerr.UnknownServerError.Code:
		s.logUnexpected(c, "list offsets", topic, asked.Partition, err)
	}
	return p
}

// checkOffsetQuery refuses times and isolation levels that there are not. 3.9 looks at the time first.
func (s *Services) checkOffsetQuery(r *kmsg.ListOffsetsRequest, timestamp int64) error {
	known := knownTimestamp(timestamp, r.Version)
	switch {
	case !known && !s.Embedded:
		return replica.ErrTimestamp
	case !knownIsolation(r.IsolationLevel):
		return errIsolation
	case !known:
		return replica.ErrTimestamp
	}
	return nil
}

// readCommitted is the isolation level that hides what is not committed.
const readCommitted = 1

// errIsolation refuses other isolation levels than 0 and 1. Kafka has no better code for it.
var errIsolation = errcode.New(kerr.UnknownServerError, "there are two isolation levels, 0 and 1")

func knownIsolation(level int8) bool { return level == 0 || level == readCommitted }
