package controller

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/store/storetest"
	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The order of the checks is Kafka's: what is a repetition must be found before what is stale.
func TestJudge(t *testing.T) {
	m := NewMachine(MachineOptions{Broker: brokerNode(1), Configs: configRules{}, Logger: testLogger(t), Settings: settings()})
	m.reign = &reign{brokers: map[int32]*broker{1: {epoch: 11}, 2: {epoch: 12}, 3: {epoch: 13, stopping: true}}}
	for _, c := range []struct {
		name   string
		change func(p *partition, w *proposal)
		want   *kerr.Error // nil: taken over
		same   bool
	}{
		{"shrink", func(_ *partition, w *proposal) { w.isr = []int32{1} }, nil, false},
		{"expand", func(p *partition, w *proposal) { p.isr = []int32{1} }, nil, false},
		{"no state yet", func(p *partition, _ *proposal) { p.version = -1 }, kerr.UnknownTopicOrPartition, false},
		{"partition epoch ahead", func(_ *partition, w *proposal) { w.partitionEpoch = 8 }, kerr.NotController, false},
		{"leader epoch ahead", func(_ *partition, w *proposal) { w.leaderEpoch = 6 }, kerr.NotController, false},
		{"fenced", func(_ *partition, w *proposal) { w.leaderEpoch = 4 }, kerr.FencedLeaderEpoch, false},
		{"again", func(p *partition, w *proposal) { p.isr = w.isr }, nil, true},
		{"again, stale", func(p *partition, w *proposal) { p.isr, w.partitionEpoch = w.isr, 6 }, nil, true},
		{"stale", func(_ *partition, w *proposal) { w.partitionEpoch = 6 }, kerr.InvalidUpdateVersion, false},
		{"another leader", func(_ *partition, w *proposal) { w.leader = 2 }, kerr.InvalidRequest, false},
		{"not assigned", func(_ *partition, w *proposal) { w.isr = []int32{1, 9} }, kerr.InvalidRequest, false},
		{"twice", func(_ *partition, w *proposal) { w.isr = []int32{1, 2, 2} }, kerr.InvalidRequest, false},
		{"without the leader", func(_ *partition, w *proposal) { w.isr = []int32{2} }, kerr.InvalidRequest, false},
		{"recovering with others", func(p *partition, w *proposal) { p.recovering, w.recovering = true, true }, kerr.InvalidRequest, false},
		{"recovering again", func(_ *partition, w *proposal) { w.isr, w.recovering = []int32{1}, true }, kerr.InvalidRequest, false},
		{"recovered", func(p *partition, w *proposal) { p.isr, p.recovering, w.isr = []int32{1}, true, []int32{1} }, nil, false},
		{"dead member", func(_ *partition, w *proposal) { w.isr = []int32{1, 4} }, kerr.IneligibleReplica, false},
		{"member that shuts down", func(_ *partition, w *proposal) { w.isr = []int32{1, 3} }, kerr.IneligibleReplica, false},
		{"dead member, old version", func(_ *partition, w *proposal) { w.isr, w.version = []int32{1, 4}, 1 }, kerr.OperationNotAttempted, false},
		{"member of an earlier life", func(_ *partition, w *proposal) { w.epochs = map[int32]int64{2: 10} }, kerr.IneligibleReplica, false},
		{"members with their epochs", func(_ *partition, w *proposal) { w.epochs = map[int32]int64{1: -1, 2: 12} }, nil, false},
	} {
		top := &topic{name: "t", parts: []partition{{replicas: []int32{1, 2, 3, 4}, isr: []int32{1, 2, 3}, leader: 1, leaderEpoch: 5, version: 7}}}
		x := ref{top, 0}
		w := &proposal{version: 3, leader: 1, leaderEpoch: 5, partitionEpoch: 7, isr: []int32{1, 2}}
		c.change(x.part(), w)
		next, same, err := m.judge(x, w)
		switch {
		case c.want != nil && errcode.Of(err) != c.want.Code, c.want == nil && err != nil, same != c.same:
			t.Errorf("%s: same %v, %v", c.name, same, err)
		case c.want == nil && !same && (next.LeaderEpoch != 5 || next.Leader != 1 || !slices.Equal(next.ISR, w.isr)):
			t.Errorf("%s: %+v", c.name, next)
		}
	}
}

// KIP-455's example, and what a cancelled reassignment goes back to.
func TestAssignmentsOnTheWay(t *testing.T) {
	show := func(a assignment) string { return fmt.Sprint(a.replicas, a.adding, a.removing) }
	first := assignment{replicas: []int32{1, 2, 3}}.to([]int32{3, 4, 2})
	if got := show(first); got != "[3 4 2 1] [4] [1]" {
		t.Error(got)
	}
	if got := show(first.to([]int32{5, 1})); got != "[5 1 3 2] [5] [3 2]" {
		t.Error(got)
	}
	if got := show(first.to(first.origin())); got != "[3 2 1] [] []" {
		t.Error(got)
	}
	if got := show(assignment{replicas: []int32{1, 2}}.to([]int32{2, 1})); got != "[2 1] [] []" {
		t.Error(got)
	}
}

// Signs of another mode stop the start in words, before anything is registered.
func TestOtherModesAreRefused(t *testing.T) {
	for _, c := range []struct{ path, data, want string }{
		{znode.FeaturePath, `{"features":{"metadata.version":{"max_version_level":21}},"version":2,"status":1}`, "feature metadata.version at level 21"},
		{znode.MigrationPath, `{"version":0,"kraft_controller_id":3000,"kraft_controller_epoch":1,"kraft_metadata_offset":-1,"kraft_metadata_epoch":-1}`,
			"being migrated to KRaft, by controller 3000"},
		{znode.ControllerPath, `{"version":2,"brokerid":3000,"timestamp":"1","kraftControllerEpoch":1}`, "A KRaft controller (3000)"},
	} {
		f := storetest.NewFake(clock.System)
		if _, err := f.Client().Commit(t.Context(), store.Create(c.path, []byte(c.data), store.Persistent)); err != nil {
			t.Fatal(err)
		}
		server := newReplicaServer(t, 1)
		err := New(Options{Store: f.Client(), Broker: brokerNode(1), ClusterID: "x", Transport: server, Observer: server, Configs: configRules{},
			Clock: clock.System, Logger: testLogger(t), Settings: settings()}).Start(t.Context())
		if err == nil || !strings.Contains(strings.ToUpper(err.Error()), strings.ToUpper(c.want)) {
			t.Errorf("%s: %v", c.path, err)
		}
		if _, ok := f.Dump()[znode.BrokerPath(1)]; ok {
			t.Errorf("%s: the broker is registered", c.path)
		}
	}
	f := storetest.NewFake(clock.System)
	off := `{"features":{"x":{"max_version_level":1}},"version":2,"status":0}`
	if _, err := f.Client().Commit(t.Context(), store.Create(znode.FeaturePath, []byte(off), store.Persistent)); err != nil {
		t.Fatal(err)
	}
	n := start(t, f.Client())
	const on = `{"features":{},"version":2,"status":1}`
	eventually(t, func() error {
		if got := n.data(znode.FeaturePath); got != on {
			return fmt.Errorf("features that were off: %s", got)
		}
		return nil
	})
}

// A broker that is started again before its old session has run out waits for that; one whose id belongs to another gives up. Case
// C1, second part.
func TestLeftoverRegistration(t *testing.T) {
	for _, dies := range []bool{true, false} {
		s := newScript(t)
		s.machine.o.Settings.SessionTimeout = 6 * time.Second
		for _, command := range []string{"commit /brokers", "commit /brokers/ids", "register 1"} {
			s.play(strings.Fields(command))
		}
		s.servers[1] = newReplicaServer(t, 1)
		data := s.fake.Dump()[znode.BrokerPath(1)]
		s.machine.o.Broker.Rack = "another" // the living one's registration is not ours
		s.play([]string{"begin"})
		s.clock.Jump(s.clock.Now().Add(time.Hour)) // the clock is set right: that is no hour of waiting
		for range 20 {
			s.play([]string{"wait", "250ms"})
		}
		if got := s.out.String(); strings.Contains(got, "registered") || strings.Contains(got, "failed") {
			t.Fatalf("it did not wait: %s", got)
		}
		if dies {
			s.play([]string{"vanish", "1"})
		}
		for range 20 {
			s.play([]string{"wait", "250ms"})
		}
		got := s.out.String()
		if dies && (!strings.Contains(got, "registered: true") || !strings.Contains(got, "ready")) {
			t.Errorf("it did not register when the node had gone: %s", got)
		}
		if !dies && (!strings.Contains(got, "a broker with id 1 is registered already") || s.fake.Dump()[znode.BrokerPath(1)] != data) {
			t.Errorf("the id of a living broker: %s", got)
		}
	}
}

// A broker whose session has run out finds its node of before where it registers anew, as ZooKeeper has not ended that session yet: it
// deletes what is its own and registers, and leaves what is another's until that has gone. KAFKA-7165; case C1.
func TestOwnLeftover(t *testing.T) {
	for name, c := range map[string]struct{ own, sameData bool }{
		"of a session that has ended":            {own: true},
		"of a session whose end is not heard of": {sameData: true},
		"of another broker":                      {},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			s.play([]string{"begin"})
			path, epoch := znode.BrokerPath(1), s.machine.brokerEpoch
			data := []byte(s.fake.Dump()[path])
			if epoch < 0 || len(data) == 0 {
				t.Fatalf("not registered: %s", s.out.String())
			}
			if !c.sameData {
				data = []byte("another")
			}
			before := s.fake.Client()
			if c.own {
				s.machine.former[before.Session()] = true
			}
			s.client.Expire()
			if _, err := before.Commit(t.Context(), store.Create(path, data, store.Ephemeral)); err != nil {
				t.Fatal(err)
			}
			s.client.Renew()
			s.play([]string{"wait", "1ms"})
			owner := func() int64 {
				nodes, err := s.client.Read(t.Context(), store.Req{Path: path})
				if err != nil {
					t.Fatal(err)
				}
				return nodes[0].Stat.EphemeralOwner
			}
			if !c.own && !c.sameData {
				if owner() != before.Session() || s.machine.brokerEpoch >= 0 {
					t.Errorf("the node of another broker: owner %d, epoch %d", owner(), s.machine.brokerEpoch)
				}
				before.Close()
				s.play([]string{"wait", "1m"})
			}
			if owner() != s.client.Session() || s.machine.brokerEpoch <= epoch {
				t.Errorf("owner %d, epoch %d after %d; want the new session %d", owner(), s.machine.brokerEpoch, epoch, s.client.Session())
			}
			if controller := s.fake.Dump()[znode.ControllerPath]; !strings.Contains(controller, `"brokerid":1`) || s.machine.reign == nil {
				t.Errorf("it was not elected again: %s", controller)
			}
		})
	}
}

// forwarder is the active controller as another broker's controller sees it.
type forwarder struct {
	to   *node
	asks chan *kmsg.CreateTopicsRequest
}

func (f *forwarder) forward(r kmsg.Request, done func(kmsg.Response, error)) {
	create := r.(*kmsg.CreateTopicsRequest)
	f.to.CreateTopics(create, func(resp *kmsg.CreateTopicsResponse) {
		done(resp, nil)
		f.asks <- create
	})
}

// A broker that is not the controller has topics created by it, takes producer ids itself, and reads the configuration of topics that it
// is given.
func TestFollower(t *testing.T) {
	f := storetest.NewFake(clock.System)
	servers := network{1: newReplicaServer(t, 1), 2: newReplicaServer(t, 2)}
	first := start(t, f.Client(), func(o *Options) { o.Transport = servers })
	via := &forwarder{first, make(chan *kmsg.CreateTopicsRequest, 1)}
	second := start(t, f.Client(), func(o *Options) {
		o.Broker = brokerNode(2)
		o.Transport, o.Observer, o.Forward = servers, servers[2], via.forward
		o.Settings.NumPartitions = 3
	})
	charged := make(chan int, 3)
	permit := func(partitions int) error {
		charged <- partitions
		return nil
	}
	created := ask(second.Metered(permit).AutoCreate, []string{"auto", "a b", OffsetsTopicName})
	if len(created) != 3 || created[0].Code != 5 || created[1].Code != 17 || created[2].Code != 5 || created[2].Refusal != "" {
		t.Errorf("meanwhile Metadata says %v", created)
	}
	asked := <-via.asks
	if len(asked.Topics) != 2 || asked.Topics[0].NumPartitions != 3 || asked.Topics[1].ReplicationFactor != 1 || len(asked.Topics[1].Configs) == 0 {
		t.Errorf("the controller was asked for %+v", asked.Topics)
	}
	if n, internal := <-charged, <-charged; n != 3 || internal != int(asked.Topics[1].NumPartitions) {
		t.Errorf("the client is charged for %d and %d partitions", n, internal)
	}
	ask(second.Metered(permit).AutoCreate, []string{"auto"}) // which is there, though this broker does not know yet
	<-via.asks
	ask(second.AutoCreate, []string{"another"}) // and the answer to what was asked before is known, too
	<-via.asks
	if len(charged) != 0 {
		t.Errorf("a client is charged for a topic that it did not create")
	}
	if resp := first.create("auto"); resp.Topics[0].ErrorCode != kerr.TopicAlreadyExists.Code {
		t.Errorf("auto was not created: %d", resp.Topics[0].ErrorCode)
	}
	blocks := make(chan int64, 1)
	second.AllocateProducerIDs(func(first, _ int64, err error) { blocks <- first })
	if got := <-blocks; got != 0 {
		t.Errorf("first block %d", got)
	}
	r := kmsg.NewPtrAllocateProducerIDsRequest()
	r.BrokerID, r.BrokerEpoch = 2, second.BrokerEpoch()
	if got := ask(first.ServeProducerIDs, r); got.ErrorCode != 0 || got.ProducerIDStart != 1000 || got.ProducerIDLen != 1000 {
		t.Errorf("second block %+v", got)
	}
	r.BrokerEpoch--
	if got := ask(first.ServeProducerIDs, r); got.ErrorCode != kerr.StaleBrokerEpoch.Code {
		t.Errorf("of an earlier life: %d", got.ErrorCode)
	}
	if got := ask(second.ServeProducerIDs, r); got.ErrorCode != kerr.NotController.Code {
		t.Errorf("of a broker that is not the controller: %d", got.ErrorCode)
	}

	req := newTopicRequest("configured")
	value := "5"
	req.Topics[0].Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "retention.ms", Value: &value}}
	id := ask(first.CreateTopics, req).Topics[0].TopicID
	if second.TopicConfigs("configured") != nil {
		t.Error("nobody told the second broker yet")
	}
	learn := func(id [16]byte) map[string]string {
		done := make(chan struct{})
		second.LearnTopics([]kmsg.LeaderAndISRRequestTopicState{{Topic: "configured", TopicID: id}}, func() { close(done) })
		<-done
		return second.TopicConfigs("configured")
	}
	if got := learn(id); got["retention.ms"] != "5" || servers[2].mu.configs["topics/configured"]["retention.ms"] != "5" {
		t.Errorf("learnt %v", got)
	}
	first.delete("configured")
	first.mustCreate("configured")
	if got := learn(id); got["retention.ms"] != "5" {
		t.Errorf("the same topic is read once, got %v", got)
	}
	if got := learn([16]byte{1}); len(got) != 0 {
		t.Errorf("another topic of the name has %v", got)
	}
	second.ForgetTopics([]string{"configured"})
	if got := learn([16]byte{1}); got == nil {
		t.Error("a forgotten topic is read again")
	}
}

// On a broker that is not elected every request of the kind is answered NOT_CONTROLLER.
func TestNotController(t *testing.T) {
	f := storetest.NewFake(clock.System)
	servers := network{1: newReplicaServer(t, 1), 2: newReplicaServer(t, 2)}
	start(t, f.Client(), func(o *Options) { o.Transport = servers })
	n := start(t, f.Client(), func(o *Options) { o.Broker, o.Transport = brokerNode(2), servers })
	elect := kmsg.NewPtrElectLeadersRequest()
	elect.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: "t", Partitions: []int32{0, 1}}}
	for name, code := range map[string]int16{
		"AlterPartition":     ask(n.AlterPartition, kmsg.NewPtrAlterPartitionRequest()).ErrorCode,
		"ControlledShutdown": ask(n.ControlledShutdown, kmsg.NewPtrControlledShutdownRequest()).ErrorCode,
		"reassignments":      ask(n.AlterPartitionReassignments, kmsg.NewPtrAlterPartitionAssignmentsRequest()).ErrorCode,
		"their list":         ask(n.ListPartitionReassignments, kmsg.NewPtrListPartitionReassignmentsRequest()).ErrorCode,
		"ElectLeaders":       ask(n.ElectLeaders, elect).ErrorCode,
		"one of its rows":    ask(n.ElectLeaders, elect).Topics[0].Partitions[1].ErrorCode,
	} {
		if code != kerr.NotController.Code {
			t.Errorf("%s: %d", name, code)
		}
	}
}

// What waits to be deleted is told, and what cannot be while a broker is down.
func TestDeletionsAreCounted(t *testing.T) {
	s := newScript(t)
	want := func(when string, want ...int) {
		t.Helper()
		topics, replicas, blockedTopics, blockedReplicas := s.machine.deletions()
		if got := []int{topics, replicas, blockedTopics, blockedReplicas}; !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	for _, command := range []string{"begin", "register 2", "create t:3:2", "create u:1:1", "vanish 2"} {
		s.play(strings.Fields(command))
	}
	want("before anything is deleted", 0, 0, 0, 0)
	s.play([]string{"delete", "t"})
	s.play([]string{"wait", "2s"})
	want("while a broker is down", 1, 3, 1, 3)
	s.play([]string{"return", "2"})
	want("when it is back", 0, 0, 0, 0)
	s.play([]string{"usurp"})
	want("when another is the controller", 0, 0, 0, 0)
}

// What takes the controller time is told: events, orders, elections.
func TestMeasure(t *testing.T) {
	var mu sync.Mutex
	got, ordered := map[string]int{}, map[int32]chan struct{}{1: make(chan struct{}, 1), 2: make(chan struct{}, 1)}
	count := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		got[what]++
	}
	f := storetest.NewFake(clock.System)
	servers := network{1: newReplicaServer(t, 1), 2: newReplicaServer(t, 2)}
	n := start(t, f.Client(), func(o *Options) {
		o.Transport = servers
		o.Measure = Measure{
			EventWaited: func(time.Duration) { count("events") }, TurnTook: func(time.Duration) { count("turns") },
			OrderWaited: func(id int32, _ time.Duration) {
				select {
				case ordered[id] <- struct{}{}:
				default:
				}
			},
			Elected: func(time.Duration) { count("elections") },
		}
	})
	start(t, f.Client(), func(o *Options) { o.Broker, o.Transport, o.Observer = brokerNode(2), servers, servers[2] })
	for code := int16(-1); code != 0; {
		if code = n.create("t:1:2").Topics[0].ErrorCode; code != 0 && code != kerr.InvalidReplicationFactor.Code { // until the second is known
			t.Fatalf("code %d", code)
		}
	}
	<-ordered[1]
	<-ordered[2]
	mu.Lock()
	if got["events"] == 0 || got["turns"] == 0 || got["turns"] > got["events"] || got["elections"] != 0 {
		t.Errorf("after a topic was created: %v", got)
	}
	mu.Unlock()
	state := func() znode.State {
		s, err := znode.DecodeState([]byte(n.data(znode.StatePath("t", 0))))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	shut := kmsg.NewPtrControlledShutdownRequest()
	shut.BrokerID, shut.BrokerEpoch = state().Leader, -1
	ask(n.ControlledShutdown, shut)
	mu.Lock()
	defer mu.Unlock()
	if got["elections"] != 1 {
		t.Errorf("after the leader of a partition was to shut down: %v", got)
	}
}

// When a topic's configuration allows it, a replica that was not in sync leads; and preferred replicas lead again by themselves.
func TestElectionsWithoutAsking(t *testing.T) {
	s := newScript(t)
	s.machine.o.Settings.AutoLeaderRebalance, s.machine.o.Settings.LeaderImbalanceCheckInterval = true, time.Minute
	s.machine.o.Settings.LeaderImbalancePercent = 10
	for _, command := range []string{"begin", "register 2", "register 3", "create t:1:3", "isr t-0 3", "vanish 3"} {
		s.play(strings.Fields(command))
	}
	state := func() znode.State {
		st, err := znode.DecodeState([]byte(s.fake.Dump()[znode.StatePath("t", 0)]))
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	if got := state(); got.Leader != -1 {
		t.Fatalf("nobody in sync lives: %+v", got)
	}
	s.play(strings.Fields("alter topics t unclean.leader.election.enable=true"))
	if got := state(); got.Leader != 1 || !got.Recovering || !slices.Equal(got.ISR, []int32{1}) {
		t.Fatalf("unclean election allowed: %+v", got)
	}
	if n := s.machine.uncleanElections.Load(); n != 1 {
		t.Errorf("%d unclean elections are counted", n)
	}
	for _, command := range []string{"wait 6s", "register 3", "isr t-0 1,3,2", "wait 30s"} {
		s.play(strings.Fields(command))
	}
	if got := state(); got.Leader != 1 {
		t.Fatalf("leaders were balanced too early: %+v", got)
	}
	s.play([]string{"wait", "40s"})
	if got := state(); got.Leader != 3 || !slices.Equal(got.ISR, []int32{1, 3, 2}) {
		t.Errorf("the preferred replica does not lead: %+v", got)
	}
}

// A broker whose reassignment ended while it was away removes the data when it comes back.
func TestStraysAreRemoved(t *testing.T) {
	s := newScript(t)
	for _, command := range []string{"begin", "register 2", "create t:1:2", "register 3"} {
		s.play(strings.Fields(command))
	}
	for _, command := range []string{"vanish 2", "reassign t-0 1", "register 2"} {
		s.play(strings.Fields(command))
	}
	stop := false
	for _, r := range s.servers[2].mu.requests {
		if r, ok := r.(*kmsg.StopReplicaRequest); ok && r.Topics[0].PartitionStates[0].Delete {
			stop = true
		}
		if r, ok := r.(*kmsg.LeaderAndISRRequest); ok {
			t.Errorf("it was told %+v", r.TopicStates)
		}
	}
	if !stop {
		t.Error("the broker was not told to remove what it has no more")
	}
	s.servers[2].mu.requests = nil
	s.play([]string{"vanish", "2"})
	s.play([]string{"register", "2"})
	for _, r := range s.servers[2].mu.requests {
		if _, ok := r.(*kmsg.StopReplicaRequest); ok {
			t.Error("it was told twice")
		}
	}
}
