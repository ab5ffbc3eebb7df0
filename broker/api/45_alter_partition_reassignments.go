package api

import "github.com/twmb/franz-go/pkg/kmsg"

// AlterPartitionReassignments begins, replaces and cancels (null replicas) reassignments. v1 can forbid that the replication
// factor changes (KIP-860).
// Errors: NOT_CONTROLLER, INVALID_REPLICA_ASSIGNMENT, NO_REASSIGNMENT_IN_PROGRESS, UNKNOWN_TOPIC_OR_PARTITION,
// INVALID_REPLICATION_FACTOR. After KafkaApis.handleAlterPartitionReassignmentsRequest.
var alterPartitionReassignments = Entry{
	Key: kmsg.AlterPartitionAssignments, ZooKeeper: v(0, 0), Kafka4: v(0, 1),
	Access: on(kmsg.ACLResourceTypeCluster, kmsg.ACLOperationAlter), Cost: 32, Runs: onProcessor, Controller: true,
	Serve: func(s *Services, c *Call, r kmsg.Request) {
		s.Controller.AlterPartitionReassignments(r.(*kmsg.AlterPartitionAssignmentsRequest), func(response *kmsg.AlterPartitionAssignmentsResponse) {
			c.Reply(response)
		})
	},
}
