package api

import "github.com/twmb/franz-go/pkg/kmsg"

// ControlledShutdown is how a broker that is about to stop gives its leaderships away. v0 and v1 have no broker epoch · v2 has ·
// v3 flexible.
// Errors: NOT_CONTROLLER, BROKER_NOT_AVAILABLE, STALE_BROKER_EPOCH. After KafkaApis.handleControlledShutdownRequest.
var controlledShutdown = Entry{
	Key: kmsg.ControlledShutdown, ZooKeeper: v(0, 3), Kafka4: none, BetweenBrokers: true,
	Access: on(kmsg.ACLResourceTypeCluster, kmsg.ACLOperationClusterAction), Cost: 8, Runs: onProcessor, Controller: true,
	Serve: func(s *Services, c *Call, r kmsg.Request) {
		s.Controller.ControlledShutdown(r.(*kmsg.ControlledShutdownRequest), func(response *kmsg.ControlledShutdownResponse) { c.Reply(response) })
	},
}
