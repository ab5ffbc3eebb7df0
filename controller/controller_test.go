package controller

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/store/embedded"
	"github.com/gregor-broker/gregor/controller/store/storetest"
	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func openEmbedded(t testing.TB, path string) *embedded.Store {
	t.Helper()
	s, err := embedded.Open(path, embedded.Options{Clock: clock.System})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func newStore(testing.TB) store.Store { return storetest.NewFake(clock.System).Client() }

func TestStartRegistersAndElects(t *testing.T) {
	n := start(t, newStore(t))
	if n.ActiveID() != 1 || n.BrokerEpoch() <= 0 || n.server.mu.active != 1 {
		t.Errorf("active %d, epoch %d, observer says %d", n.ActiveID(), n.BrokerEpoch(), n.server.mu.active)
	}
	if got := n.data(znode.ControllerEpochPath); got != "1" {
		t.Errorf("controller epoch %s", got)
	}
	if got := n.data(znode.ClusterIDPath); got != `{"version":"1","id":"vddWK14PRI2hO83V7_zqFg"}` {
		t.Errorf("cluster id %s", got)
	}
	update := n.server.mu.requests[0].(*kmsg.UpdateMetadataRequest)
	if len(update.LiveBrokers) != 1 || update.LiveBrokers[0].Endpoints[0].Port != 9091 || update.BrokerEpoch != n.BrokerEpoch() {
		t.Errorf("first order %+v", update)
	}
	n.stop()
	if n.data(znode.ControllerPath) != "<none>" || n.data(znode.BrokerPath(1)) != "<none>" {
		t.Error("ephemeral nodes are left after Stop")
	}
	if resp := n.create("late"); resp.Topics[0].ErrorCode != kerr.NotController.Code {
		t.Errorf("after Stop: %d", resp.Topics[0].ErrorCode)
	}
	if _, err := n.alter(znode.Topics, "t", nil); !errors.Is(err, kerr.NotController) {
		t.Errorf("after Stop: %v", err)
	}
}

func TestStartRefusesInWords(t *testing.T) {
	f := storetest.NewFake(clock.System)
	start(t, f.Client())
	server := newReplicaServer(t, 1)
	o := Options{Store: f.Client(), Broker: brokerNode(1), ClusterID: "vddWK14PRI2hO83V7_zqFg", Transport: server, Observer: server, Configs: configRules{},
		Clock: clock.System, Logger: testLogger(t), Settings: settings()}
	o.Broker.Endpoints = brokerNode(2).Endpoints
	if err := New(o).Start(t.Context()); err == nil || !strings.Contains(err.Error(), "a broker with id 1 is registered already") {
		t.Errorf("same id twice: %v", err)
	}
	o.Store, o.ClusterID = f.Client(), "another"
	if err := New(o).Start(t.Context()); err == nil || !strings.Contains(err.Error(), "belongs to cluster vddWK14PRI2hO83V7_zqFg") {
		t.Errorf("another cluster: %v", err)
	}
}

// Case C3: the nodes of a new topic, and of a changed configuration.
func TestNodesOfATopic(t *testing.T) {
	n := start(t, newStore(t))
	n.mustCreate("t:2:1")
	id := n.server.mu.ids["t"]
	for path, want := range map[string]string{
		"/brokers/topics/t": `{"partitions":{"0":[1],"1":[1]},"topic_id":"` + znode.FormatID(id) +
			`","adding_replicas":{},"removing_replicas":{},"version":3}`,
		"/config/topics/t":                         `{"version":1,"config":{}}`,
		"/brokers/topics/t/partitions":             "",
		"/brokers/topics/t/partitions/0":           "",
		"/brokers/topics/t/partitions/0/state":     `{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}`,
		"/brokers/topics/t/partitions/1/state":     `{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}`,
		"/config/changes/config_change_0000000000": "<none>",
	} {
		if got := n.data(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if _, err := n.alter(znode.Topics, "t", map[string]string{"retention.ms": "5"}); err != nil {
		t.Fatal(err)
	}
	if got := n.data("/config/topics/t"); got != `{"version":1,"config":{"retention.ms":"5"}}` {
		t.Error(got)
	}
	if got := n.data("/config/changes/config_change_0000000000"); got != `{"version":2,"entity_path":"topics/t"}` {
		t.Error(got)
	}
	if n.TopicConfigs("t")["retention.ms"] != "5" || n.server.mu.configs["topics/t"]["retention.ms"] != "5" {
		t.Error("the change was not announced before the answer")
	}
	n.alter(znode.Clients, EntityName("c/1"), map[string]string{"producer_byte_rate": "1"})
	if got := n.data("/config/clients/c%2F1"); got != `{"version":1,"config":{"producer_byte_rate":"1"}}` {
		t.Error(got)
	}
	n.alter(znode.Clients, EntityName("c/1"), nil)
	if got := n.data("/config/clients/c%2F1"); got != "<none>" {
		t.Errorf("an emptied quota leaves %s", got)
	}
	n.alter(znode.Users, EntityNames(EntityName("al ice"), "x"), map[string]string{"request_percentage": "1.0"})
	if got := n.data("/config/users/al%20ice/clients/x"); got != `{"version":1,"config":{"request_percentage":"1.0"}}` {
		t.Error(got)
	}
	n.alter(znode.Users, EntityNames(EntityName("al ice"), "x"), nil)
	for _, path := range []string{"/config/users/al%20ice/clients/x", "/config/users/al%20ice/clients", "/config/users/al%20ice"} {
		if got := n.data(path); got != "<none>" {
			t.Errorf("an emptied quota leaves %s: %s", path, got)
		}
	}
}

// alter sets a whole configuration and returns what it was before.
func (n *node) alter(kind, name string, values map[string]string) (old map[string]string, err error) {
	c := make(chan error, 1)
	n.AlterConfigs(kind, name, func(was map[string]string) (map[string]string, error) {
		old = was
		return values, nil
	}, false, func(err error) { c <- err })
	return old, <-c
}

func TestTopicLife(t *testing.T) {
	n := start(t, openEmbedded(t, filepath.Join(t.TempDir(), "metadata")))
	n.mustCreate("a:3")
	first := n.server.mu.ids["a"]
	if resp := n.create("a"); resp.Topics[0].ErrorCode != kerr.TopicAlreadyExists.Code {
		t.Errorf("again: %d", resp.Topics[0].ErrorCode)
	}
	resp := n.delete("a", "nope")
	if resp.Topics[0].ErrorCode != 0 || resp.Topics[0].TopicID != [16]byte{} || resp.Topics[1].ErrorCode != kerr.UnknownTopicOrPartition.Code {
		t.Errorf("delete: %+v", resp.Topics)
	}
	if len(n.server.mu.metadata) != 0 || len(n.server.mu.replicas) != 0 || len(n.server.mu.removed) != 3 {
		t.Errorf("after the deletion: %v %v %v", n.server.mu.metadata, n.server.mu.replicas, n.server.mu.removed)
	}
	for _, path := range []string{"/brokers/topics/a", "/config/topics/a", "/admin/delete_topics/a"} {
		if got := n.data(path); got != "<none>" {
			t.Errorf("%s is left: %s", path, got)
		}
	}
	if _, known := n.server.mu.configs["topics/a"]; known {
		t.Error("nobody said that the configuration is gone")
	}
	n.mustCreate("a:2")
	second := n.server.mu.ids["a"]
	if second == first || n.server.mu.replicas["a-0"] != (replica{second, 1, 0}) {
		t.Errorf("created again: id %x then %x, %+v", first, second, n.server.mu.replicas["a-0"])
	}
	byID := kmsg.NewPtrDeleteTopicsRequest()
	byID.Version, byID.TimeoutMillis = 6, 30000
	byID.Topics = []kmsg.DeleteTopicsRequestTopic{{TopicID: first}, {TopicID: second}, {TopicID: second, Topic: kmsg.StringPtr("a")}, {}}
	resp = ask(n.DeleteTopics, byID)
	if got := fmt.Sprintf("%d %d %s %d %d", resp.Topics[0].ErrorCode, resp.Topics[1].ErrorCode, message(resp.Topics[1].Topic), resp.Topics[2].ErrorCode, resp.Topics[3].ErrorCode); got != "100 0 a 42 42" {
		t.Errorf("by id: %s", got)
	}
}

func TestDeletionCanBeDisabled(t *testing.T) {
	n := start(t, newStore(t), func(o *Options) { o.Settings.DeleteTopicEnable = false })
	n.mustCreate("a")
	r := kmsg.NewPtrDeleteTopicsRequest()
	r.Version, r.TimeoutMillis, r.TopicNames = 2, 30000, []string{"a"}
	if resp := ask(n.DeleteTopics, r); resp.Topics[0].ErrorCode != kerr.InvalidRequest.Code {
		t.Errorf("version 2: %+v", resp.Topics)
	}
	if resp := n.delete("a"); resp.Topics[0].ErrorCode != kerr.TopicDeletionDisabled.Code {
		t.Errorf("version 6: %+v", resp.Topics)
	}
}

func TestPartitionGrowth(t *testing.T) {
	n := start(t, newStore(t), func(o *Options) { o.Settings.RefuseUnknownReplicas = true })
	n.mustCreate("a:2")
	grow := func(topic string, count int32, assignment [][]int32, validate bool) (int16, string) {
		r := kmsg.NewPtrCreatePartitionsRequest()
		r.Version, r.TimeoutMillis, r.ValidateOnly = 3, 30000, validate
		rt := kmsg.NewCreatePartitionsRequestTopic()
		rt.Topic, rt.Count = topic, count
		for _, replicas := range assignment {
			a := kmsg.NewCreatePartitionsRequestTopicAssignment()
			a.Replicas = replicas
			rt.Assignment = append(rt.Assignment, a)
		}
		r.Topics = append(r.Topics, rt)
		resp := ask(n.CreatePartitions, r)
		return resp.Topics[0].ErrorCode, message(resp.Topics[0].ErrorMessage)
	}
	for _, c := range []struct {
		topic      string
		count      int32
		assignment [][]int32
		code       int16
		message    string
	}{
		{"b", 2, nil, 3, "The topic 'b' does not exist."},
		{"a", 1, nil, 37, "Topic currently has 2 partitions, which is higher than the requested 1."},
		{"a", 2, nil, 37, "Topic already has 2 partitions."},
		{"a", 10_003, nil, 44, "Unable to perform excessively large batch operation."},
		{"a", 100_001, nil, 37, "100001 partitions are more than the 100000 that one topic can have."},
		{"a", 4, [][]int32{{1}}, 39, "Increasing the number of partitions by 2 but 1 assignments provided."},
		{"a", 3, [][]int32{{7}}, 39, "Unknown broker(s) in replica assignment: 7."},
		{"a", 3, [][]int32{{1, 1}}, 39, "Duplicate brokers not allowed in replica assignment: 1, 1 for partition id 2."},
		{"a", 3, [][]int32{{}}, 39, "Cannot have replication factor of 0 for partition id 2."},
		{"a", 3, [][]int32{{1}}, 0, "<null>"},
		{"a", 5, nil, 0, "<null>"},
	} {
		code, words := grow(c.topic, c.count, c.assignment, true)
		if code != c.code || words != c.message {
			t.Errorf("%s to %d %v: %d %s, want %d %s", c.topic, c.count, c.assignment, code, words, c.code, c.message)
		}
	}
	if len(n.server.mu.replicas) != 2 {
		t.Errorf("validation changed something: %v", n.server.mu.replicas)
	}
	if code, words := grow("a", 150, nil, false); code != 0 {
		t.Fatal(code, words)
	}
	if len(n.server.mu.replicas) != 150 || n.data("/brokers/topics/a/partitions/149/state") == "<none>" {
		t.Errorf("%d replicas", len(n.server.mu.replicas))
	}
}

func TestRestartKeepsEverything(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metadata")
	s := openEmbedded(t, path)
	n := start(t, s)
	n.mustCreate("a:3", "b.c:1")
	n.alter(znode.Topics, "a", map[string]string{"retention.ms": "5"})
	n.alter(znode.Brokers, znode.Default, map[string]string{"message.max.bytes": "7"})
	before := n.server.mu.ids["a"]
	n.stop()
	s.Close()

	n = start(t, openEmbedded(t, path))
	if n.server.mu.ids["a"] != before || len(n.server.mu.metadata) != 4 || len(n.server.mu.replicas) != 4 {
		t.Errorf("after the restart: %v %v", n.server.mu.metadata, n.server.mu.replicas)
	}
	if n.TopicConfigs("a")["retention.ms"] != "5" || n.BrokerConfigs(znode.Default)["message.max.bytes"] != "7" || n.TopicConfigs("b.c") != nil && len(n.TopicConfigs("b.c")) > 0 {
		t.Errorf("configurations: %v", n.server.mu.configs)
	}
	if n.data(znode.ControllerEpochPath) != "2" || n.data("/brokers/topics/a/partitions/0/state") != `{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}` {
		t.Error("the restart changed states, or not the controller epoch")
	}
	states := n.server.mu.requests[1].(*kmsg.LeaderAndISRRequest)
	if p := states.TopicStates[0].PartitionStates[0]; p.IsNew || p.ControllerEpoch != 1 || states.ControllerEpoch != 2 {
		t.Errorf("first state after a restart: %+v", p)
	}
}

// Orders that get lost are repeated until they arrive; clients wait for that.
func TestOrdersAreRepeated(t *testing.T) {
	n := start(t, newStore(t))
	n.server.mu.Lock()
	n.server.mu.lost = 2
	n.server.mu.Unlock()
	n.mustCreate("a")
	if n.server.mu.metadata["a-0"] != 1 {
		t.Error("answered before the leader serves")
	}
}

// A replica that the broker cannot store has no leader, and its topic is not reported as created.
func TestReplicaThatCannotBeStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, newStore(t))
		n.server.mu.fail["a-0"] = kerr.KafkaStorageError.Code
		r := newTopicRequest("a:2")
		r.TimeoutMillis = 50 // which pass in the bubble when all that follows from the failure is done
		if resp := ask(n.CreateTopics, r); resp.Topics[0].ErrorCode != kerr.RequestTimedOut.Code {
			t.Errorf("%+v", resp.Topics[0])
		}
		if got := n.data("/brokers/topics/a/partitions/0/state"); got != `{"controller_epoch":1,"leader":-1,"version":1,"leader_epoch":1,"isr":[1]}` {
			t.Error(got)
		}
		if n.server.mu.metadata["a-0"] != -1 || n.server.mu.metadata["a-1"] != 1 {
			t.Errorf("metadata %v", n.server.mu.metadata)
		}
	})
}

// Who waits for a topic to be served does not wait for one that somebody else deletes.
func TestDeletionEndsWaits(t *testing.T) {
	n := start(t, newStore(t))
	n.server.mu.fail["a-0"] = kerr.KafkaStorageError.Code
	r := newTopicRequest("a:2")
	r.TimeoutMillis = 3_600_000
	created := make(chan int16, 1)
	n.CreateTopics(r, func(resp *kmsg.CreateTopicsResponse) { created <- resp.Topics[0].ErrorCode })
	d := kmsg.NewPtrDeleteTopicsRequest()
	d.Version, d.TopicNames = 3, []string{"a"}
	for ask(n.DeleteTopics, d).Topics[0].ErrorCode != kerr.RequestTimedOut.Code {
		runtime.Gosched() // the creation is not committed yet
	}
	if code := <-created; code != 0 {
		t.Errorf("code %d", code)
	}
}

// 4.4 refuses a topic that one request names twice, 3.9 does not mind.
func TestDeletionNamedTwice(t *testing.T) {
	for _, kafka4 := range []bool{true, false} {
		n := start(t, newStore(t), func(o *Options) { o.Settings.RefuseUnknownReplicas = kafka4 })
		n.mustCreate("a", "b")
		want := int16(0)
		if kafka4 {
			want = kerr.InvalidRequest.Code
		}
		got := n.delete("a", "b", "a").Topics
		answers := 3
		if kafka4 {
			answers = 2
		}
		if len(got) != answers || got[0].ErrorCode != want || got[1].ErrorCode != 0 {
			t.Errorf("as 4.4 %v: %+v", kafka4, got)
		}
	}
}

func TestProducerIDs(t *testing.T) {
	n := start(t, newStore(t))
	seen := make(chan int64, 10)
	for range 10 {
		n.AllocateProducerIDs(func(first, count int64, err error) {
			if err != nil || count != 1000 {
				t.Error(first, count, err)
			}
			seen <- first
		})
	}
	var firsts []int64
	for range 10 {
		firsts = append(firsts, <-seen)
	}
	slices.Sort(firsts)
	for i, first := range firsts {
		if first != int64(i)*1000 {
			t.Errorf("blocks %v", firsts)
		}
	}
	if got := n.data(znode.ProducerIDsPath); got != `{"version":1,"broker":1,"block_start":"9000","block_end":"9999"}` {
		t.Error(got)
	}
}

// Case A3, the controller's part.
func TestAutoCreation(t *testing.T) {
	n := start(t, newStore(t))
	auto := func(names ...string) string {
		created := ask(n.AutoCreate, names)
		for i := range created {
			if c := &created[i]; (c.Refusal != "") != (c.Code != kerr.LeaderNotAvailable.Code) {
				t.Errorf("%s: code %d, in words %q", c.Topic, c.Code, c.Refusal)
			}
			created[i].Refusal = ""
		}
		return strings.ReplaceAll(fmt.Sprint(created), " }", "}")
	}
	if got := auto("fresh", "a b", ""); got != "[{fresh 5} {a b 17} { 17}]" {
		t.Error(got)
	}
	if got := auto("fresh"); got != "[{fresh 5}]" {
		t.Error(got)
	}
	if got := auto("__consumer_offsets", "__transaction_state", "__cluster_metadata"); got != "[{__consumer_offsets 5} {__transaction_state 5} {__cluster_metadata 42}]" {
		t.Error(got)
	}
	if got := n.data("/config/topics/__consumer_offsets"); got != `{"version":1,"config":{"cleanup.policy":"compact","compression.type":"producer","segment.bytes":"104857600"}}` {
		t.Error(got)
	}
	if got := n.data("/config/topics/__transaction_state"); got != `{"version":1,"config":{"cleanup.policy":"compact","compression.type":"uncompressed",`+
		`"min.insync.replicas":"1","segment.bytes":"104857600","unclean.leader.election.enable":"false"}}` {
		t.Error(got)
	}
	if z, err := znode.DecodeTopic([]byte(n.data("/brokers/topics/__consumer_offsets"))); err != nil || len(z.Replicas) != 3 {
		t.Error(z, err)
	}
	if got := auto(); got != "[]" {
		t.Error(got)
	}
}

// An alteration whose reply is lost is done again, but not for ever: ZooKeeper takes no data above its jute.maxbuffer.
func TestAlterationLost(t *testing.T) {
	for lost, want := range map[int32]error{maxLostReplies - 1: nil, maxLostReplies: kerr.RequestTimedOut} {
		f := storetest.NewFake(clock.System)
		var left atomic.Int32
		f.OnCommit = func(_ *storetest.Client, ops []store.Op) storetest.Fault {
			ours := slices.ContainsFunc(ops, func(op store.Op) bool { return op.Path == "/config/brokers/7" })
			if ours && left.Add(-1) >= 0 {
				return storetest.LoseRequest
			}
			return storetest.NoFault
		}
		n := start(t, f.Client())
		left.Store(lost)
		if _, err := n.alter(znode.Brokers, "7", map[string]string{"a": "1"}); !errors.Is(err, want) {
			t.Errorf("%d times: %v", lost, err)
		}
	}
}

func TestAlterConfigs(t *testing.T) {
	n := start(t, newStore(t))
	n.mustCreate("t")
	if _, err := n.alter(znode.Topics, "nope", map[string]string{"a": "1"}); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("unknown topic: %v", err)
	}
	c := make(chan error, 1)
	refuse := func(map[string]string) (map[string]string, error) { return nil, kerr.InvalidConfig }
	n.AlterConfigs(znode.Topics, "t", refuse, false, func(err error) { c <- err })
	if err := <-c; !errors.Is(err, kerr.InvalidConfig) {
		t.Errorf("refused: %v", err)
	}
	n.AlterConfigs(znode.Topics, "t", func(map[string]string) (map[string]string, error) { return map[string]string{"x": "1"}, nil }, true, func(err error) { c <- err })
	if err := <-c; err != nil || len(n.TopicConfigs("t")) > 0 {
		t.Errorf("validate only: %v, %v", err, n.TopicConfigs("t"))
	}
	// Increments of many at once all count.
	const writers = 20
	errs := make(chan error, writers)
	for range writers {
		n.AlterConfigs(znode.Brokers, "1", func(old map[string]string) (map[string]string, error) {
			v := 0
			fmt.Sscan(old["n"], &v)
			return map[string]string{"n": fmt.Sprint(v + 1)}, nil
		}, false, func(err error) { errs <- err })
	}
	for range writers {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if got := n.BrokerConfigs("1")["n"]; got != fmt.Sprint(writers) {
		t.Errorf("after %d increments: %s", writers, got)
	}
}

func TestImport(t *testing.T) {
	s := newStore(t)
	id, _ := znode.ParseID("B_D9IvovQTi7XTjbLu7UNQ")
	topics := []ImportTopic{
		{Name: "t1", ID: id, Partitions: []ImportPartition{{[]int32{1}, 5}, {[]int32{1}, -1}}, Configs: map[string]string{"cleanup.policy": "compact"}},
		{Name: "t2", Partitions: []ImportPartition{{[]int32{1}, 0}}},
	}
	for range 2 { // again changes nothing
		if err := Import(context.Background(), s, topics); err != nil {
			t.Fatal(err)
		}
	}
	n := start(t, s)
	if r := n.server.mu.replicas; r["t1-0"] != (replica{id, 1, 6}) || r["t1-1"] != (replica{id, 1, 0}) || r["t2-0"].epoch != 1 {
		t.Errorf("replicas %+v", r)
	}
	if n.TopicConfigs("t1")["cleanup.policy"] != "compact" {
		t.Error("configuration is missing")
	}
	topics[0].ID[0]++
	if err := Import(context.Background(), s, topics); err == nil || !strings.Contains(err.Error(), "another topic of the same name") {
		t.Errorf("another id: %v", err)
	}
	if err := Import(context.Background(), s, []ImportTopic{{Name: "a b", Partitions: topics[1].Partitions}}); err == nil {
		t.Error("imported a bad name")
	}
}

// A configuration whose name the store cannot have is refused; nobody tries for ever to write it.
func TestNamesThatCannotBeStored(t *testing.T) {
	n := start(t, newStore(t))
	for kind, name := range map[string]string{
		znode.Clients: strings.Repeat("c", 1100), znode.Users: "..", znode.Groups: strings.Repeat("/", 400), znode.IPs: "a//b",
	} {
		if _, err := n.alter(kind, name, map[string]string{"x": "1"}); errcode.Of(err) != kerr.InvalidRequest.Code {
			t.Errorf("%s %.20s: %v", kind, name, err)
		}
	}
}

// In 4.4 a topic that one request names twice is not deleted, however it is named.
func TestTopicsNamedTwiceForDeletion(t *testing.T) {
	n := start(t, newStore(t), func(o *Options) { o.Settings.RefuseUnknownReplicas = true })
	n.mustCreate("a:1")
	name, id := "a", n.server.mu.ids["a"]
	for _, wanted := range [][]kmsg.DeleteTopicsRequestTopic{
		{{Topic: &name}, {Topic: &name}}, {{TopicID: id}, {TopicID: id}}, {{Topic: &name}, {TopicID: id}}, {{TopicID: id}, {Topic: &name}},
	} {
		r := kmsg.NewPtrDeleteTopicsRequest()
		r.Version, r.TimeoutMillis, r.Topics = 6, 30000, wanted
		if got := ask(n.DeleteTopics, r).Topics; len(got) != 1 || got[0].ErrorCode != kerr.InvalidRequest.Code {
			t.Errorf("%+v: %+v", wanted, got)
		}
	}
	if resp := n.delete("a"); resp.Topics[0].ErrorCode != 0 {
		t.Errorf("named once: %+v", resp.Topics)
	}
}
