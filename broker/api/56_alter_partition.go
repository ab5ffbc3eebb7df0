package api

import "github.com/twmb/franz-go/pkg/kmsg"

// AlterPartition is how the leader of partitions asks the controller for other in-sync replicas (KIP-497).
// v1 leader recovery (KIP-704) · v2 topic ids (KIP-841) · v3 broker epochs of the members (KIP-903).
// Errors: NOT_CONTROLLER, STALE_BROKER_EPOCH for the whole; for a partition UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID,
// FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION, INVALID_REQUEST, NOT_CONTROLLER where the leader knows more, and for members that
// do not live INELIGIBLE_REPLICA, before v2 OPERATION_NOT_ATTEMPTED. After KafkaController.tryProcessAlterPartition.
var alterPartition = Entry{
	Key: kmsg.AlterPartition, ZooKeeper: v(0, 3), Kafka4: none, BetweenBrokers: true,
	Access: on(kmsg.ACLResourceTypeCluster, kmsg.ACLOperationClusterAction), Cost: 32, Runs: onProcessor, Controller: true,
	Serve: func(s *Services, c *Call, r kmsg.Request) {
		s.Controller.AlterPartition(r.(*kmsg.AlterPartitionRequest), func(response *kmsg.AlterPartitionResponse) { c.Reply(response) })
	},
}
