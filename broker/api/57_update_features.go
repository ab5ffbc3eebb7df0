package api

import "github.com/twmb/franz-go/pkg/kmsg"

// UpdateFeatures finalises features of the cluster (KIP-584). On ZooKeeper there are none to finalise, and gregor.extensions is switched.
// v1 upgrade type, validate only (KIP-778) · v2 no result for each feature.
// Errors: NOT_CONTROLLER, INVALID_UPDATE_VERSION, FEATURE_UPDATE_FAILED; on ZooKeeper INVALID_REQUEST for each feature.
// After QuorumController.updateFeatures and KafkaApis.handleUpdateFeatures.
var updateFeatures = Entry{
	Key: kmsg.UpdateFeatures, ZooKeeper: v(0, 1), Kafka4: v(0, 2),
	Access: on(kmsg.ACLResourceTypeCluster, kmsg.ACLOperationAlter), Cost: 16, Runs: onProcessor, Controller: true, EmbeddedOnly: true,
	Serve: func(s *Services, c *Call, r kmsg.Request) {
		s.Controller.UpdateFeatures(r.(*kmsg.UpdateFeaturesRequest), func(response *kmsg.UpdateFeaturesResponse) { c.Reply(response) })
	},
}
