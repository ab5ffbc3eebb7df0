package api

import "github.com/twmb/franz-go/pkg/kmsg"

// LeaderAndIsr is the controller's order that this broker lead or follow partitions.
// v1 isNew · v2 broker epoch, topics together · v3 adding and removing replicas (KIP-455) · v4 flexible · v5 topic ids
// (KIP-516), type · v6 leader recovery (KIP-704) · v7 KRaft controllers (KIP-866), which are refused.
// Errors: STALE_BROKER_EPOCH, STALE_CONTROLLER_EPOCH for the whole; replica.Manager.LeaderAndISR's for a partition.
// After KafkaApis.handleLeaderAndIsrRequest.
var leaderAndISR = Entry{
	Key: kmsg.LeaderAndISR, ZooKeeper: v(0, 7), Kafka4: none, BetweenBrokers: true,
	Access: on(kmsg.ACLResourceTypeCluster, kmsg.ACLOperationClusterAction), Cost: 16, Runs: onHandler,
	Serve: serveLeaderAndISR,
}

func serveLeaderAndISR(s *Services, c *Call, request kmsg.Request) {
	r := request.(*kmsg.LeaderAndISRRequest)
	if code := s.refused(order{r.ControllerID, r.BrokerEpoch, r.IsKRaftController}); code != 0 {
		response := r.ResponseKind().(*kmsg.LeaderAndISRResponse)
		response.ErrorCode = code
		c.Reply(response)
		return
	}
	// A log is created with its topic's configuration, which another broker's controller does not send along.
	s.Controller.LearnTopics(r.TopicStates, func() {
		s.Pool(func() { ordered(c, s.Replicas.LeaderAndISR(r, c.request.Conn.Number())) })
	})
}
