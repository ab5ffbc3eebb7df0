package api

import "github.com/twmb/franz-go/pkg/kmsg"

// ElectLeaders holds elections: of the preferred replica, or of any that lives. v0 preferred only · v1 types, an error for the
// whole (KIP-460) · v2 flexible.
// Errors: NOT_CONTROLLER, PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE, ELECTION_NOT_NEEDED,
// UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, REQUEST_TIMED_OUT. After KafkaApis.handleElectLeaders.
var electLeaders = Entry{
	Key: kmsg.ElectLeaders, ZooKeeper: v(0, 2), Kafka4: v(0, 2),
	Access: on(kmsg.ACLResourceTypeCluster, kmsg.ACLOperationAlter), Cost: 32, Runs: onProcessor, Controller: true,
	Serve: func(s *Services, c *Call, r kmsg.Request) {
		s.Controller.ElectLeaders(r.(*kmsg.ElectLeadersRequest), func(response *kmsg.ElectLeadersResponse) { c.Reply(response) })
	},
}
