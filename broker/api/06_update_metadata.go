package api

import "github.com/twmb/franz-go/pkg/kmsg"

// UpdateMetadata is the controller's order that tells this broker who lives and who leads.
// v1 racks · v2 listener names · v3 endpoints only · v4 offline replicas · v5 broker epoch, topics together · v6 flexible ·
// v7 topic ids · v8 KRaft controllers, which are refused. v0 to v4 list partitions without their topics' ids, and v0 names no
// endpoints: no controller from 2.8 on sends them.
// Errors: STALE_BROKER_EPOCH, STALE_CONTROLLER_EPOCH. After KafkaApis.handleUpdateMetadataRequest.
var updateMetadata = Entry{
	Key: kmsg.UpdateMetadata, ZooKeeper: v(0, 8), Kafka4: none, BetweenBrokers: true,
	Access: on(kmsg.ACLResourceTypeCluster, kmsg.ACLOperationClusterAction), Cost: 16, Runs: onHandler,
	Serve: serveUpdateMetadata,
}

func serveUpdateMetadata(s *Services, c *Call, request kmsg.Request) {
	r := request.(*kmsg.UpdateMetadataRequest)
	if code := s.refused(order{r.ControllerID, r.BrokerEpoch, r.IsKRaftController}); code != 0 {
		response := r.ResponseKind().(*kmsg.UpdateMetadataResponse)
		response.ErrorCode = code
		c.Reply(response)
		return
	}
	response := s.UpdateMetadata(r, c.request.Conn.Number())
	var gone []string
	for i := range r.TopicStates {
		if name := r.TopicStates[i].Topic; response != nil && response.ErrorCode == 0 && s.Metadata.Image().Topic(name) == nil {
			gone = append(gone, name)
		}
	}
	if len(gone) > 0 {
		s.Controller.ForgetTopics(gone) // before the next order, which may bring another topic of the name
	}
	ordered(c, response)
}
