package api

import "github.com/twmb/franz-go/pkg/kmsg"

// The APIs that change topics are carried out by the controller, which has the rules and the error codes; elsewhere it
// answers NOT_CONTROLLER.

var createTopics = Entry{
	Key: kmsg.CreateTopics, ZooKeeper: v(0, 7), Kafka4: v(2, 7),
	Access: on(kmsg.ACLResourceTypeCluster, kmsg.ACLOperationCreate), Cost: 16, Runs: onProcessor, Controller: true,
	Serve: func(s *Services, c *Call, r kmsg.Request) {
		s.Controller.CreateTopics(r.(*kmsg.CreateTopicsRequest), func(response *kmsg.CreateTopicsResponse) { c.Reply(response) })
	},
}

var deleteTopics = Entry{
	Key: kmsg.DeleteTopics, ZooKeeper: v(0, 6), Kafka4: v(1, 6),
	Access: on(kmsg.ACLResourceTypeTopic, kmsg.ACLOperationDelete), Cost: 8, Runs: onProcessor, Controller: true,
	Serve: func(s *Services, c *Call, r kmsg.Request) {
		s.Controller.DeleteTopics(r.(*kmsg.DeleteTopicsRequest), func(response *kmsg.DeleteTopicsResponse) { c.Reply(response) })
	},
}

var createPartitions = Entry{
	Key: kmsg.CreatePartitions, ZooKeeper: v(0, 3), Kafka4: v(0, 3),
	Access: on(kmsg.ACLResourceTypeTopic, kmsg.ACLOperationAlter), Cost: 16, Runs: onProcessor, Controller: true,
	Serve: func(s *Services, c *Call, r kmsg.Request) {
		s.Controller.CreatePartitions(r.(*kmsg.CreatePartitionsRequest), func(response *kmsg.CreatePartitionsResponse) { c.Reply(response) })
	},
}
