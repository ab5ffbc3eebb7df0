package api

import (
	"github.com/gregor-broker/gregor/broker/quota"
	"github.com/gregor-broker/gregor/controller"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The APIs that change topics are carried out by the controller, which has the rules and the error codes; elsewhere it
// answers NOT_CONTROLLER.
//
// A request whose time is over when it comes (a timeout below 0, for CreateTopics 0 too) is carried out all the same by
// 3.9, which then answers that it timed out, and is not by 4.4 (KafkaEventQueue drops it).

// Versions from which on a client knows THROTTLING_QUOTA_EXCEEDED, and is refused what is above its quota; an older one is
// let do it and kept waiting afterwards (KIP-599).
const (
	mutationsStrictCreate = 6
	mutationsStrictDelete = 5
	mutationsStrictGrow   = 3
)

var errMutations = errcode.New(kerr.ThrottlingQuotaExceeded, "The throttling quota has been exceeded.")

func (s *Services) mutation(c *Call, strictFrom int16) *quota.Mutation {
	return s.Quotas.Mutation(c.User(), c.ClientID, c.Version >= strictFrom)
}

// metered is the controller for a request that has this quota.
func (s *Services) metered(m *quota.Mutation) controller.Metered {
	return s.Controller.Metered(func(partitions int) error {
		if !m.Take(partitions) {
			return errMutations
		}
		return nil
	})
}

// meteredReply answers, and tells the client how long its quota has it wait.
func meteredReply[R kmsg.Response](c *Call, m *quota.Mutation) func(R) {
	return func(response R) {
		c.throttle(m.Wait())
		c.Reply(response)
	}
}

var createTopics = Entry{
	Key: kmsg.CreateTopics, ZooKeeper: v(0, 7), Kafka4: v(2, 7),
	Access: on(kmsg.ACLResourceTypeCluster, kmsg.ACLOperationCreate), Cost: 16, Runs: onProcessor, Controller: true,
	Serve: func(s *Services, c *Call, r kmsg.Request) {
		if q := r.(*kmsg.CreateTopicsRequest); s.Embedded && q.TimeoutMillis <= 0 {
			c.Reply(createTimedOut(q))
			return
		}
		m := s.mutation(c, mutationsStrictCreate)
		s.metered(m).CreateTopics(r.(*kmsg.CreateTopicsRequest), meteredReply[*kmsg.CreateTopicsResponse](c, m))
	},
}

var deleteTopics = Entry{
	Key: kmsg.DeleteTopics, ZooKeeper: v(0, 6), Kafka4: v(1, 6),
	Access: on(kmsg.ACLResourceTypeTopic, kmsg.ACLOperationDelete), Cost: 8, Runs: onProcessor, Controller: true,
	Serve: func(s *Services, c *Call, r kmsg.Request) {
		if q := r.(*kmsg.DeleteTopicsRequest); s.Embedded && q.TimeoutMillis < 0 {
			c.Reply(deleteTimedOut(q))
			return
		}
		m := s.mutation(c, mutationsStrictDelete)
		s.metered(m).DeleteTopics(r.(*kmsg.DeleteTopicsRequest), meteredReply[*kmsg.DeleteTopicsResponse](c, m))
	},
}

var createPartitions = Entry{
	Key: kmsg.CreatePartitions, ZooKeeper: v(0, 3), Kafka4: v(0, 3),
	Access: on(kmsg.ACLResourceTypeTopic, kmsg.ACLOperationAlter), Cost: 16, Runs: onProcessor, Controller: true,
	Serve: func(s *Services, c *Call, r kmsg.Request) {
		if q := r.(*kmsg.CreatePartitionsRequest); s.Embedded && q.TimeoutMillis < 0 {
			c.Reply(growthTimedOut(q))
			return
		}
		m := s.mutation(c, mutationsStrictGrow)
		s.metered(m).CreatePartitions(r.(*kmsg.CreatePartitionsRequest), meteredReply[*kmsg.CreatePartitionsResponse](c, m))
	},
}

func createTimedOut(r *kmsg.CreateTopicsRequest) *kmsg.CreateTopicsResponse {
	response := kmsg.NewPtrCreateTopicsResponse()
	for i := range r.Topics {
		t := kmsg.NewCreateTopicsResponseTopic()
		t.Topic, t.ErrorCode = r.Topics[i].Topic, kerr.RequestTimedOut.Code
		t.NumPartitions, t.ReplicationFactor, t.Configs = -1, -1, []kmsg.CreateTopicsResponseTopicConfig{}
		response.Topics = append(response.Topics, t)
	}
	return response
}

func deleteTimedOut(r *kmsg.DeleteTopicsRequest) *kmsg.DeleteTopicsResponse {
	response := kmsg.NewPtrDeleteTopicsResponse()
	add := func(name *string, id [16]byte) {
		t := kmsg.NewDeleteTopicsResponseTopic()
		t.Topic, t.TopicID, t.ErrorCode = name, id, kerr.RequestTimedOut.Code
		response.Topics = append(response.Topics, t)
	}
	for i := range r.TopicNames {
		add(&r.TopicNames[i], [16]byte{})
	}
	for i := range r.Topics {
		add(r.Topics[i].Topic, r.Topics[i].TopicID)
	}
	return response
}

func growthTimedOut(r *kmsg.CreatePartitionsRequest) *kmsg.CreatePartitionsResponse {
	response := kmsg.NewPtrCreatePartitionsResponse()
	for i := range r.Topics {
		t := kmsg.NewCreatePartitionsResponseTopic()
		t.Topic, t.ErrorCode = r.Topics[i].Topic, kerr.RequestTimedOut.Code
		response.Topics = append(response.Topics, t)
	}
	return response
}
