package api

import "github.com/twmb/franz-go/pkg/kmsg"

// AllocateProducerIds gives a broker a block of producer ids (KIP-730).
// Errors: NOT_CONTROLLER, BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH. After KafkaApis.handleAllocateProducerIdsRequest.
var allocateProducerIDs = Entry{
	Key: kmsg.AllocateProducerIDs, ZooKeeper: v(0, 0), Kafka4: none, BetweenBrokers: true,
	Access: on(kmsg.ACLResourceTypeCluster, kmsg.ACLOperationClusterAction), Cost: 8, Runs: onProcessor, Controller: true,
	Serve: func(s *Services, c *Call, r kmsg.Request) {
		s.Controller.ServeProducerIDs(r.(*kmsg.AllocateProducerIDsRequest), func(response *kmsg.AllocateProducerIDsResponse) { c.Reply(response) })
	},
}
