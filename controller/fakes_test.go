package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
	"go.uber.org/zap"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// configRules stands for the broker's table of topic keys: a key "bad" is refused.
type configRules struct{}

func (configRules) Validate(values map[string]string) error {
	if v, ok := values["bad"]; ok {
		return errcode.Newf(kerr.InvalidConfig, "Unknown topic config name: bad (%s)", v)
	}
	return nil
}

func (configRules) Describe(values map[string]string) []kmsg.CreateTopicsResponseTopicConfig {
	var list []kmsg.CreateTopicsResponseTopicConfig
	for _, k := range slices.Sorted(maps.Keys(values)) {
		c := kmsg.NewCreateTopicsResponseTopicConfig()
		v := values[k]
		c.Name, c.Value, c.Source = k, &v, 1
		list = append(list, c)
	}
	return list
}

func (configRules) UncleanElection(values map[string]string) bool {
	return values["unclean.leader.election.enable"] == "true"
}

func settings() Settings {
	return Settings{DeleteTopicEnable: true, NumPartitions: 1, DefaultReplicationFactor: 1, InterBrokerListener: "PLAINTEXT", Seed: 1,
		InternalTopics: map[string]InternalTopic{OffsetsTopicName: OffsetsTopic(3, 1, 104857600), TransactionsTopicName: TransactionsTopic(3, 1, 104857600, 1)}}
}

func brokerNode(id int32) znode.Broker {
	return znode.Broker{ID: id, JMXPort: -1, Endpoints: []znode.Endpoint{{Listener: "PLAINTEXT", Protocol: "PLAINTEXT", Host: "127.0.0.1", Port: 9090 + id}}}
}

// replicaServer is a broker as far as the controller sees it. It checks what must hold for orders.
type replicaServer struct {
	t  testing.TB
	id int32

	mu struct {
		sync.Mutex
		registration int64               // broker epoch of the last UpdateMetadata
		epoch        int32               // largest controller epoch seen
		replicas     map[string]replica  // by topic-partition
		metadata     map[string]int32    // leader by topic-partition
		ids          map[string][16]byte // topic ids in metadata
		removed      []string            // topic-partitions whose data was removed
		requests     []kmsg.Request      // in order
		fail         map[string]int16    // code to answer for a topic-partition
		configs      map[string]map[string]string
		active       int32
		known        map[string]knownState
		strays       bool // data of an earlier topic of the same name may be here, and gives way
		lost         int  // further Sends that fail before anything happens
	}
}

// knownState is what a replica was told last.
type knownState struct {
	epoch, version int32
	isr, replicas  []int32
}

type replica struct {
	id     [16]byte
	leader int32
	epoch  int32
}

func newReplicaServer(t testing.TB, id int32) *replicaServer {
	s := &replicaServer{t: t, id: id}
	s.mu.replicas, s.mu.metadata, s.mu.ids = map[string]replica{}, map[string]int32{}, map[string][16]byte{}
	s.mu.known = map[string]knownState{}
	s.mu.fail, s.mu.configs = map[string]int16{}, map[string]map[string]string{}
	return s
}

func tp(topic string, p int32) string { return fmt.Sprintf("%s-%d", topic, p) }

// Send implements Transport for a cluster of one.
func (s *replicaServer) Send(_ context.Context, broker int32, req kmsg.Request) (kmsg.Response, error) {
	if broker != s.id {
		s.t.Errorf("an order for broker %d", broker)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.lost > 0 {
		s.mu.lost--
		return nil, fmt.Errorf("lost on purpose")
	}
	return s.serve(req), nil
}

func (s *replicaServer) serve(req kmsg.Request) kmsg.Response {
	s.mu.requests = append(s.mu.requests, req)
	switch r := req.(type) {
	case *kmsg.LeaderAndISRRequest:
		return s.states(r)
	case *kmsg.UpdateMetadataRequest:
		return s.update(r)
	case *kmsg.StopReplicaRequest:
		return s.stop(r)
	case *kmsg.DescribeLogDirsRequest:
		return s.dirs(r)
	}
	s.t.Errorf("order %T", req)
	return nil
}

// dirs answers what is there.
func (s *replicaServer) dirs(r *kmsg.DescribeLogDirsRequest) kmsg.Response {
	resp := r.ResponseKind().(*kmsg.DescribeLogDirsResponse)
	dir := kmsg.NewDescribeLogDirsResponseDir()
	for _, name := range slices.Sorted(maps.Keys(s.mu.replicas)) {
		topic, p := parsePartition(name)
		t := kmsg.NewDescribeLogDirsResponseDirTopic()
		t.Topic, t.Partitions = topic, []kmsg.DescribeLogDirsResponseDirTopicPartition{{Partition: p}}
		dir.Topics = append(dir.Topics, t)
	}
	resp.Dirs = append(resp.Dirs, dir)
	return resp
}

func (s *replicaServer) stale(epoch int32) bool {
	if epoch < s.mu.epoch {
		return true
	}
	s.mu.epoch = epoch
	return false
}

func (s *replicaServer) states(r *kmsg.LeaderAndISRRequest) kmsg.Response {
	resp := kmsg.NewPtrLeaderAndISRResponse()
	if s.stale(r.ControllerEpoch) {
		resp.ErrorCode = kerr.StaleControllerEpoch.Code
		return resp
	}
	for _, ts := range r.TopicStates {
		rt := kmsg.NewLeaderAndISRResponseTopic()
		rt.TopicID = ts.TopicID
		for _, p := range ts.PartitionStates {
			rp := kmsg.NewLeaderAndISRResponseTopicPartition()
			rp.Partition = p.Partition
			name := tp(ts.Topic, p.Partition)
			old, known := s.mu.replicas[name]
			switch code := s.mu.fail[name]; {
			case code != 0:
				rp.ErrorCode = code
			case known && old.id != ts.TopicID && !s.mu.strays:
				rp.ErrorCode = kerr.InconsistentTopicID.Code
				s.t.Errorf("broker %d: %s with another id before the old one was removed", s.id, name)
			case known && old.id == ts.TopicID && old.epoch >= p.LeaderEpoch:
				rp.ErrorCode = kerr.StaleControllerEpoch.Code
			default:
				s.mu.known[name] = knownState{p.LeaderEpoch, p.ZKVersion, p.ISR, p.Replicas}
				s.mu.replicas[name] = replica{ts.TopicID, p.Leader, p.LeaderEpoch}
			}
			if !slices.Contains(p.Replicas, s.id) {
				s.t.Errorf("broker %d is no replica of %s: %v", s.id, name, p.Replicas)
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

func (s *replicaServer) update(r *kmsg.UpdateMetadataRequest) kmsg.Response {
	resp := kmsg.NewPtrUpdateMetadataResponse()
	if s.stale(r.ControllerEpoch) {
		resp.ErrorCode = kerr.StaleControllerEpoch.Code
		return resp
	}
	if r.BrokerEpoch > s.mu.registration {
		// A new registration: the controller tells everything again. What it does not tell was deleted while nobody could tell us.
		s.mu.registration = r.BrokerEpoch
		clear(s.mu.metadata)
	}
	for _, ts := range r.TopicStates {
		s.mu.ids[ts.Topic] = ts.TopicID
		for _, p := range ts.PartitionStates {
			name := tp(ts.Topic, p.Partition)
			if p.Leader == leaderDuringDelete {
				delete(s.mu.metadata, name)
				continue
			}
			s.mu.metadata[name] = p.Leader
			// Case P6: nobody is told that we lead before we do.
			if p.Leader == s.id && s.mu.fail[name] == 0 && (s.mu.replicas[name].id != ts.TopicID || s.mu.replicas[name].epoch < p.LeaderEpoch) {
				s.t.Errorf("broker %d is named the leader of %s in epoch %d while its replica is %+v", s.id, name, p.LeaderEpoch, s.mu.replicas[name])
			}
		}
	}
	return resp
}

func (s *replicaServer) stop(r *kmsg.StopReplicaRequest) kmsg.Response {
	resp := kmsg.NewPtrStopReplicaResponse()
	if s.stale(r.ControllerEpoch) {
		resp.ErrorCode = kerr.StaleControllerEpoch.Code
		return resp
	}
	for _, ts := range r.Topics {
		for _, p := range ts.PartitionStates {
			name := tp(ts.Topic, p.Partition)
			rp := kmsg.NewStopReplicaResponsePartition()
			rp.Topic, rp.Partition = ts.Topic, p.Partition
			if rp.ErrorCode = s.mu.fail[name]; rp.ErrorCode == 0 && p.Delete {
				delete(s.mu.replicas, name)
				s.mu.removed = append(s.mu.removed, name)
			}
			resp.Partitions = append(resp.Partitions, rp)
		}
	}
	return resp
}

// ConfigChanged implements Observer.
func (s *replicaServer) ConfigChanged(kind, name string, values map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if values == nil {
		delete(s.mu.configs, kind+"/"+name)
	} else {
		s.mu.configs[kind+"/"+name] = values
	}
}

// ControllerChanged implements Observer.
func (s *replicaServer) ControllerChanged(id int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.active = id
}

// node is a Controller with its broker on some store.
type node struct {
	*Controller
	t      testing.TB
	server *replicaServer
	store  store.Store
}

func start(t testing.TB, s store.Store, change ...func(*Options)) *node {
	t.Helper()
	server := newReplicaServer(t, 1)
	o := Options{Store: s, Broker: brokerNode(1), ClusterID: "vddWK14PRI2hO83V7_zqFg", Transport: server, Observer: server, Configs: configRules{},
		Clock: clock.System, Logger: zap.NewNop(), Settings: settings()}
	for _, f := range change {
		f(&o)
	}
	c := New(o)
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := &node{c, t, server, s}
	t.Cleanup(func() { n.stop() })
	return n
}

func (n *node) stop() {
	if err := n.Stop(context.Background()); err != nil {
		n.t.Error(err)
	}
}

// request calls an asynchronous method and waits for its answer.
func ask[Req, Resp any](f func(Req, func(Resp)), r Req) Resp {
	c := make(chan Resp, 1)
	f(r, func(resp Resp) { c <- resp })
	return <-c
}

// newTopicRequest is CreateTopics for topics written "name", "name:partitions" or "name:partitions:replication factor".
func newTopicRequest(specs ...string) *kmsg.CreateTopicsRequest {
	r := kmsg.NewPtrCreateTopicsRequest()
	r.Version, r.TimeoutMillis = 7, 30000
	for _, spec := range specs {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.NumPartitions, t.ReplicationFactor = -1, -1
		parts := strings.Split(spec, ":")
		t.Topic = parts[0]
		if len(parts) > 1 {
			fmt.Sscan(parts[1], &t.NumPartitions)
		}
		if len(parts) > 2 {
			fmt.Sscan(parts[2], &t.ReplicationFactor)
		}
		r.Topics = append(r.Topics, t)
	}
	return r
}

func (n *node) create(specs ...string) *kmsg.CreateTopicsResponse {
	return ask(n.CreateTopics, newTopicRequest(specs...))
}

func (n *node) mustCreate(specs ...string) {
	n.t.Helper()
	for _, rt := range n.create(specs...).Topics {
		if rt.ErrorCode != 0 {
			n.t.Fatalf("creating %s: %d %s", rt.Topic, rt.ErrorCode, message(rt.ErrorMessage))
		}
	}
}

func (n *node) delete(names ...string) *kmsg.DeleteTopicsResponse {
	r := kmsg.NewPtrDeleteTopicsRequest()
	r.Version, r.TimeoutMillis = 6, 30000
	for _, name := range names {
		r.Topics = append(r.Topics, kmsg.DeleteTopicsRequestTopic{Topic: &name})
	}
	return ask(n.DeleteTopics, r)
}

func message(s *string) string {
	if s == nil {
		return "<null>"
	}
	return *s
}

func (n *node) data(path string) string {
	n.t.Helper()
	nodes, err := n.store.Read(context.Background(), store.Req{Path: path})
	if err != nil {
		n.t.Fatal(err)
	}
	if !nodes[0].Exists {
		return "<none>"
	}
	return string(nodes[0].Data)
}

func testLogger(testing.TB) *zap.Logger { return zap.NewNop() }
