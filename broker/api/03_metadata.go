package api

import (
	"slices"
	"time"

	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/broker/metadata"
	"github.com/gregor-broker/gregor/controller"
	"github.com/gregor-broker/gregor/log"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// Metadata tells where the brokers are and who leads which partition, and creates topics that it is asked for where
// that is allowed.
// v0 an empty list means all topics · v1 null means all, empty none · v4 auto-creation by the request's leave
// · v5 offline replicas · v7 leader epochs · v8 authorised operations · v10 topic ids in the answer · v12 asked by id
// · v13 top-level error.
// Errors per topic: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INVALID_TOPIC_EXCEPTION, LEADER_NOT_AVAILABLE,
// LISTENER_NOT_FOUND, INVALID_REQUEST. After KafkaApis.handleTopicMetadataRequest.
var metadataAPI = Entry{
	Key: kmsg.Metadata, ZooKeeper: v(0, 12), Kafka4: v(0, 13),
	Access: on(kmsg.ACLResourceTypeTopic, kmsg.ACLOperationDescribe), Cost: 16, Runs: onProcessor,
	Serve: serveMetadata,
}

// notAsked is the value of authorised operations that were not asked for (KIP-430).
const notAsked = -2147483648

func serveMetadata(s *Services, c *Call, request kmsg.Request) {
	r := request.(*kmsg.MetadataRequest)
	if r.Version >= 10 && r.Version < 12 && slices.ContainsFunc(r.Topics, asksByID) {
		c.Reply(metadataRefused(r))
		return
	}
	image := s.Metadata.Image()
	if shared := s.shared.find(s, c, image, r); shared != nil {
		c.replyShared(shared)
		return
	}
	response, missing := s.metadataAnswer(c, image, r)
	if len(missing) > 0 {
		s.replyCreating(c, response, missing)
		return
	}
	if shared := s.shared.keep(s, c, image, r, response); shared != nil {
		c.replyShared(shared)
		return
	}
	c.Reply(response)
}

// metadataAnswer makes the answer from an image. missing are the topics that are not there and are to be created.
func (s *Services) metadataAnswer(c *Call, image *metadata.Image, r *kmsg.MetadataRequest) (response *kmsg.MetadataResponse, missing []string) {
	response = kmsg.NewPtrMetadataResponse()
	response.ClusterID = &s.ClusterID
	response.ControllerID = image.Controller
	response.AuthorizedOperations = notAsked
	if r.IncludeClusterAuthorizedOperations && r.Version >= 8 && r.Version <= 10 {
		response.AuthorizedOperations = allOperations(kmsg.ACLResourceTypeCluster)
	}
	for _, b := range image.Brokers() {
		if e, ok := s.Endpoint(b, c.Listener(), c.Local()); ok {
			response.Brokers = append(response.Brokers, kmsg.MetadataResponseBroker{
				NodeID: b.ID, Host: e.Host, Port: e.Port, Rack: b.Rack,
			})
		}
	}
	if r.Topics == nil || r.Version == 0 && len(r.Topics) == 0 {
		names := image.TopicNames()
		response.Topics = make([]kmsg.MetadataResponseTopic, 0, len(names))
		for _, name := range names {
			response.Topics = append(response.Topics, s.metadataOf(c, image, image.Topic(name), r))
		}
		return response, nil
	}
	for _, asked := range askedTopics(r) {
		topic, answer := find(image, asked, r.Version)
		if topic != nil {
			answer = s.metadataOf(c, image, topic, r)
		} else if answer.ErrorCode == kerr.UnknownTopicOrPartition.Code && s.mayCreate(r) {
			missing = append(missing, *asked.Topic)
		}
		response.Topics = append(response.Topics, answer)
	}
	slices.SortStableFunc(response.Topics, func(a, b kmsg.MetadataResponseTopic) int { return rankOf(a.ErrorCode) - rankOf(b.ErrorCode) })
	return response, missing
}

// replyCreating answers once the controller has been asked for topics that are missing.
func (s *Services) replyCreating(c *Call, response *kmsg.MetadataResponse, missing []string) {
	s.autoCreate(s.charged(c), missing, func(codes map[string]int16) {
		for i := range response.Topics {
			t := &response.Topics[i]
			if t.Topic == nil || t.ErrorCode != kerr.UnknownTopicOrPartition.Code {
				continue
			}
			if code, ok := codes[*t.Topic]; ok {
				t.ErrorCode = code
			}
		}
		c.Reply(response)
	})
}

// askedTopics returns what is asked for, each once. Where an id is asked for, names count for nothing, as in Kafka.
func askedTopics(r *kmsg.MetadataRequest) []kmsg.MetadataRequestTopic {
	byID := r.Version >= 12 && slices.ContainsFunc(r.Topics, func(t kmsg.MetadataRequestTopic) bool { return t.TopicID != [16]byte{} })
	type key struct {
		id   [16]byte
		name string
	}
	seen := make(map[key]bool, len(r.Topics))
	kept := make([]kmsg.MetadataRequestTopic, 0, len(r.Topics))
	for _, t := range r.Topics {
		k := key{id: t.TopicID}
		if byID {
			t.Topic = nil
		} else if t.Topic != nil {
			k = key{name: *t.Topic}
		}
		if byID && t.TopicID == [16]byte{} || seen[k] {
			continue
		}
		seen[k] = true
		kept = append(kept, t)
	}
	return kept
}

// rankOf says where in the answer a topic with an error stands: ids that are not known come before what is known,
// names after it, and what is no name last, as in Kafka.
func rankOf(code int16) int {
	switch code {
	case kerr.UnknownTopicID.Code:
		return 0
	case kerr.UnknownTopicOrPartition.Code:
		return 2
	case kerr.InvalidTopicException.Code:
		return 3
	}
	return 1
}

// asksByID says whether a topic is asked for as only v12 and later allow, although v10 and v11 have the fields.
func asksByID(t kmsg.MetadataRequestTopic) bool { return t.Topic == nil || t.TopicID != [16]byte{} }

// metadataRefused is the answer to a request that makes no sense as a whole.
func metadataRefused(r *kmsg.MetadataRequest) *kmsg.MetadataResponse {
	response := kmsg.NewPtrMetadataResponse()
	for _, asked := range r.Topics {
		t := kmsg.NewMetadataResponseTopic()
		t.Topic, t.ErrorCode = asked.Topic, kerr.InvalidRequest.Code
		if t.Topic == nil {
			t.Topic = new(string)
		}
		response.Topics = append(response.Topics, t)
	}
	return response
}

// find looks a topic up as it was asked for; where there is none it returns the answer that says so.
func find(image *metadata.Image, asked kmsg.MetadataRequestTopic, version int16) (*metadata.Topic, kmsg.MetadataResponseTopic) {
	answer := kmsg.NewMetadataResponseTopic()
	answer.AuthorizedOperations = notAsked
	if id := log.TopicID(asked.TopicID); version >= 12 && asked.Topic == nil {
		answer.TopicID = id
		answer.ErrorCode = kerr.UnknownTopicID.Code
		return image.TopicByID(id), answer
	}
	if asked.Topic == nil {
		answer.Topic = new(string)
		answer.ErrorCode = kerr.InvalidTopicException.Code
		return nil, answer
	}
	answer.Topic = asked.Topic
	answer.IsInternal = metadata.IsInternal(*asked.Topic)
	answer.ErrorCode = kerr.UnknownTopicOrPartition.Code
	if topic := image.Topic(*asked.Topic); topic != nil {
		return topic, answer
	}
	if controller.ValidTopicName(*asked.Topic) != nil {
		answer.ErrorCode = kerr.InvalidTopicException.Code
	}
	return nil, answer
}

func (s *Services) metadataOf(c *Call, image *metadata.Image, t *metadata.Topic, r *kmsg.MetadataRequest) kmsg.MetadataResponseTopic {
	answer := kmsg.NewMetadataResponseTopic()
	answer.Topic = &t.Name
	answer.TopicID = t.ID
	answer.IsInternal = metadata.IsInternal(t.Name)
	answer.AuthorizedOperations = notAsked
	if r.IncludeTopicAuthorizedOperations {
		answer.AuthorizedOperations = allOperations(kmsg.ACLResourceTypeTopic)
	}
	answer.Partitions = make([]kmsg.MetadataResponseTopicPartition, 0, len(t.Partitions))
	for i := range t.Partitions {
		p := &t.Partitions[i]
		if !p.Exists() {
			continue
		}
		answer.Partitions = append(answer.Partitions, kmsg.MetadataResponseTopicPartition{
			ErrorCode: c.Code(s.reachable(c, image, p)), Partition: int32(i), Leader: p.Leader, LeaderEpoch: p.LeaderEpoch,
			Replicas: p.Replicas, ISR: p.ISR, OfflineReplicas: p.Offline,
		})
	}
	return answer
}

// reachable says why a client on c's listener cannot reach the leader of p, nil if it can.
func (s *Services) reachable(c *Call, image *metadata.Image, p *metadata.Partition) error {
	leader := image.Broker(p.Leader)
	if leader == nil {
		return kerr.LeaderNotAvailable
	}
	if _, ok := s.Endpoint(leader, c.Listener(), c.Local()); !ok {
		return kerr.ListenerNotFound
	}
	return nil
}

func (s *Services) mayCreate(r *kmsg.MetadataRequest) bool {
	return config.AutoCreateTopics.Of(s.Config.Now()) && (r.Version < 4 || r.AllowAutoTopicCreation)
}

// charged is the controller for a client whose Metadata has topics created: its quota of such changes is charged, and only without
// ZooKeeper may refuse them. The client is not kept waiting; it asks for the topics again. After KafkaApis.handleTopicMetadataRequest
// of Apache Kafka 3.9, whose quota is permissive, and the request that 4.4's AutoTopicCreationManager sends in the client's name.
func (s *Services) charged(c *Call) controller.Metered {
	return s.metered(s.Quotas.Mutation(c.User(), c.ClientID, s.Embedded))
}

// autoCreate asks the controller for topics and hands on what Metadata says of each meanwhile: the client asks again.
func (s *Services) autoCreate(by controller.Metered, topics []string, done func(map[string]int16)) {
	slices.Sort(topics)
	by.AutoCreate(slices.Compact(topics), func(created []controller.AutoCreated) {
		codes := make(map[string]int16, len(created))
		for _, t := range created {
			codes[t.Topic] = t.Code
			if t.Refusal != "" && metadata.IsInternal(t.Topic) {
				s.logUncreated(t)
			}
		}
		done(codes)
	})
}

// logUncreated tells of an internal topic that cannot be created: the groups or transactions that need it can only wait.
func (s *Services) logUncreated(t controller.AutoCreated) {
	if leftOut, due := s.uncreated.Due(s.Clock, time.Minute); due {
		s.Logger.Error("a topic that the broker keeps its own state in cannot be created, and who needs it waits; with too few brokers, lower "+
			"offsets.topic.replication.factor or transaction.state.log.replication.factor, or start more", zap.String("topic", t.Topic),
			zap.String("why", t.Refusal), zap.Int("left_out", leftOut))
	}
}
