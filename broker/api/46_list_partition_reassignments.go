package api

import "github.com/twmb/franz-go/pkg/kmsg"

// ListPartitionReassignments lists the reassignments under way, of all partitions or of some.
// Errors: NOT_CONTROLLER. After KafkaApis.handleListPartitionReassignmentsRequest.
var listPartitionReassignments = Entry{
	Key: kmsg.ListPartitionReassignments, ZooKeeper: v(0, 0), Kafka4: v(0, 0),
	Access: on(kmsg.ACLResourceTypeCluster, kmsg.ACLOperationDescribe), Cost: 16, Runs: onProcessor, Controller: true,
	Serve: func(s *Services, c *Call, r kmsg.Request) {
		s.Controller.ListPartitionReassignments(r.(*kmsg.ListPartitionReassignmentsRequest), func(response *kmsg.ListPartitionReassignmentsResponse) {
			c.Reply(response)
		})
	},
}
