package api

import (
	"slices"

	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/broker/metadata"
	"github.com/gregor-broker/gregor/controller"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeTopicPartitions describes topics a page at a time, in the order of their names (KIP-966). There are no
// eligible leader replicas to tell: the lists are empty, not null, which the tools of 4.4 cannot read.
// Errors: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION per topic; INVALID_REQUEST for all over a bad cursor.
// After DescribeTopicPartitionsRequestHandler.
var describeTopicPartitions = Entry{
	Key: kmsg.DescribeTopicPartitions, ZooKeeper: none, Kafka4: v(0, 0),
	Access: on(kmsg.ACLResourceTypeTopic, kmsg.ACLOperationDescribe), Cost: 16, Runs: onHandler,
	Serve: serveDescribeTopicPartitions,
}

func serveDescribeTopicPartitions(s *Services, c *Call, request kmsg.Request) {
	r := request.(*kmsg.DescribeTopicPartitionsRequest)
	image := s.Metadata.Image()
	response := kmsg.NewPtrDescribeTopicPartitionsResponse()
	if !validCursor(r) {
		for _, asked := range r.Topics {
			t := kmsg.NewDescribeTopicPartitionsResponseTopic()
			t.Topic, t.ErrorCode = &asked.Topic, kerr.InvalidRequest.Code
			t.AuthorizedOperations = notAsked
			response.Topics = append(response.Topics, t)
		}
		c.Reply(response)
		return
	}
	limit := max(1, min(config.PartitionSizeLimit.Of(s.Config.Now()), int(r.ResponsePartitionLimit)))
	for _, name := range pageTopics(image, r) {
		first := int32(0)
		if r.Cursor != nil && r.Cursor.Topic == name {
			first = r.Cursor.Partition
		}
		if limit == 0 {
			response.NextCursor = cursorAt(name, first)
			break
		}
		answer, next := s.topicPage(c, image, name, first, limit)
		response.Topics = append(response.Topics, answer)
		limit -= len(answer.Partitions)
		if next >= 0 {
			response.NextCursor = cursorAt(name, next)
			break
		}
	}
	c.Reply(response)
}

// validCursor says whether the cursor, if there is one, names a partition of a topic that is asked for.
func validCursor(r *kmsg.DescribeTopicPartitionsRequest) bool {
	if r.Cursor == nil {
		return true
	}
	asked := len(r.Topics) == 0 || slices.ContainsFunc(r.Topics, func(t kmsg.DescribeTopicPartitionsRequestTopic) bool {
		return t.Topic == r.Cursor.Topic
	})
	return asked && r.Cursor.Partition >= 0
}

// pageTopics returns the asked names, or all, from the cursor's topic on.
func pageTopics(image *metadata.Image, r *kmsg.DescribeTopicPartitionsRequest) []string {
	var names []string
	if len(r.Topics) == 0 {
		names = image.TopicNames()
	}
	for _, t := range r.Topics {
		names = append(names, t.Topic)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if r.Cursor != nil {
		names = slices.DeleteFunc(names, func(name string) bool { return name < r.Cursor.Topic })
	}
	return names
}

func cursorAt(topic string, partition int32) *kmsg.DescribeTopicPartitionsResponseNextCursor {
	cursor := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	cursor.Topic, cursor.Partition = topic, partition
	return &cursor
}

// topicPage describes up to limit partitions of a topic from first on, and says which comes next, -1 for none.
func (s *Services) topicPage(c *Call, image *metadata.Image, name string, first int32, limit int) (kmsg.DescribeTopicPartitionsResponseTopic, int32) {
	answer := kmsg.NewDescribeTopicPartitionsResponseTopic()
	answer.Topic = &name
	answer.AuthorizedOperations = allOperations(kmsg.ACLResourceTypeTopic) // also of a topic that there is not
	t := image.Topic(name)
	if t == nil {
		err := error(kerr.UnknownTopicOrPartition)
		if bad := controller.ValidTopicName(name); bad != nil {
			err = bad
		}
		answer.ErrorCode = errcode.Of(err)
		return answer, -1
	}
	answer.TopicID = t.ID
	answer.IsInternal = metadata.IsInternal(name)
	for i := first; int(i) < len(t.Partitions); i++ {
		if len(answer.Partitions) == limit {
			return answer, i
		}
		p := t.Partition(i)
		if p == nil {
			continue
		}
		answer.Partitions = append(answer.Partitions, kmsg.DescribeTopicPartitionsResponseTopicPartition{
			ErrorCode: c.Code(s.reachable(c, image, p)), Partition: i, LeaderID: p.Leader, LeaderEpoch: p.LeaderEpoch,
			Replicas: p.Replicas, ISR: p.ISR, OfflineReplicas: p.Offline,
			EligibleLeaderReplicas: []int32{}, LastKnownELR: []int32{},
		})
	}
	return answer, -1
}
