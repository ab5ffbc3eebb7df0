package api

import (
	"github.com/gregor-broker/gregor/broker/metadata"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// FindCoordinator tells which broker coordinates a group or a transactional id: the leader of the partition of
// __consumer_offsets or __transaction_state that its name hashes to. The topic is made when it is first needed.
// v1 key type · v3 flexible · v4 several keys · v6 share groups.
// Errors: COORDINATOR_NOT_AVAILABLE, INVALID_REQUEST. After KafkaApis.getCoordinator.
var findCoordinator = Entry{
	Key: kmsg.FindCoordinator, ZooKeeper: v(0, 6), Kafka4: v(0, 6),
	Access: on(kmsg.ACLResourceTypeGroup, kmsg.ACLOperationDescribe), Cost: 8, Runs: onProcessor,
	Serve: serveFindCoordinator,
}

// The types of coordinators.
const (
	coordinatorOfGroup       = 0
	coordinatorOfTransaction = 1
)

// coordinatorTopics are the topics that coordinators store their state in.
var coordinatorTopics = map[int8]string{coordinatorOfGroup: metadata.ConsumerOffsets, coordinatorOfTransaction: metadata.TransactionState}

func serveFindCoordinator(s *Services, c *Call, request kmsg.Request) {
	r := request.(*kmsg.FindCoordinatorRequest)
	keys := r.CoordinatorKeys
	if r.Version < 4 {
		keys = []string{r.CoordinatorKey}
	}
	if topic, ok := coordinatorTopics[r.CoordinatorType]; ok && s.Metadata.Image().Topic(topic) == nil {
		s.autoCreate(s.Controller.Metered(nil), []string{topic}, func(map[string]int16) {
			replyCoordinators(c, r, keys, func(string) (coordinator, error) {
				return coordinator{}, errCoordinatorNotYet
			})
		})
		return
	}
	replyCoordinators(c, r, keys, func(key string) (coordinator, error) {
		return s.coordinatorOf(c, r.CoordinatorType, key)
	})
}

type coordinator struct {
	id       int32
	endpoint metadata.Endpoint
}

var (
	errCoordinatorNotYet = errcode.New(kerr.CoordinatorNotAvailable, "the coordinator is not available yet; ask again")
	errCoordinatorType   = errcode.New(kerr.InvalidRequest, "this type of coordinator does not exist here; 0 is a group's, 1 a transaction's")
)

func (s *Services) coordinatorOf(c *Call, kind int8, key string) (coordinator, error) {
	image := s.Metadata.Image()
	var p *metadata.Partition
	switch kind {
	case coordinatorOfGroup:
		p = image.Partition(metadata.ConsumerOffsets, s.Groups.PartitionFor(key))
	case coordinatorOfTransaction:
		p = image.Partition(metadata.TransactionState, s.Transactions.PartitionFor(key))
	default:
		return coordinator{}, errCoordinatorType
	}
	if p == nil {
		return coordinator{}, errCoordinatorNotYet
	}
	leader := image.Broker(p.Leader)
	if leader == nil {
		return coordinator{}, errCoordinatorNotYet
	}
	endpoint, ok := s.Endpoint(leader, c.Listener(), c.Local())
	if !ok {
		return coordinator{}, errCoordinatorNotYet
	}
	return coordinator{leader.ID, endpoint}, nil
}

func replyCoordinators(c *Call, r *kmsg.FindCoordinatorRequest, keys []string, find func(string) (coordinator, error)) {
	response := kmsg.NewPtrFindCoordinatorResponse()
	for _, key := range keys {
		answer := kmsg.NewFindCoordinatorResponseCoordinator()
		answer.Key, answer.NodeID, answer.Port = key, -1, -1
		if found, err := find(key); err != nil {
			answer.ErrorCode, answer.ErrorMessage = c.Code(err), errcode.Message(err)
		} else {
			answer.NodeID, answer.Host, answer.Port = found.id, found.endpoint.Host, found.endpoint.Port
		}
		response.Coordinators = append(response.Coordinators, answer)
	}
	if r.Version < 4 {
		only := response.Coordinators[0]
		response.ErrorCode, response.ErrorMessage = only.ErrorCode, only.ErrorMessage
		response.NodeID, response.Host, response.Port = only.NodeID, only.Host, only.Port
	}
	c.Reply(response)
}
