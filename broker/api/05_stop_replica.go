package api

import "github.com/twmb/franz-go/pkg/kmsg"

// StopReplica is the controller's order to let go of partitions, and of their data where it says so.
// v1 broker epoch, topics together · v2 flexible · v3 leader epochs (KIP-570) · v4 KRaft controllers, which are refused.
// Errors: STALE_BROKER_EPOCH, STALE_CONTROLLER_EPOCH for the whole; FENCED_LEADER_EPOCH, KAFKA_STORAGE_ERROR for a partition.
// After KafkaApis.handleStopReplicaRequest.
var stopReplica = Entry{
	Key: kmsg.StopReplica, ZooKeeper: v(0, 4), Kafka4: none, BetweenBrokers: true,
	Access: on(kmsg.ACLResourceTypeCluster, kmsg.ACLOperationClusterAction), Cost: 16, Runs: onHandler,
	Serve: serveStopReplica,
}

func serveStopReplica(s *Services, c *Call, request kmsg.Request) {
	r := request.(*kmsg.StopReplicaRequest)
	if code := s.refused(order{r.ControllerID, r.BrokerEpoch, r.IsKRaftController}); code != 0 {
		response := r.ResponseKind().(*kmsg.StopReplicaResponse)
		response.ErrorCode = code
		c.Reply(response)
		return
	}
	ordered(c, s.Replicas.StopReplica(r, c.request.Conn.Number()))
}
