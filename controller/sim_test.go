package controller

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/store/storetest"
	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// The simulation runs several machines on one fake store. Everything that can happen next (a turn of a machine, a read, a commit, a
// reply, an order, its answer, a timer, a failure) happens in an order drawn from a seed, on one goroutine.
type sim struct {
	t       *testing.T
	rand    *rand.Rand
	clock   *clock.Fake
	fake    *storetest.Fake
	brokers []*simBroker
	tasks   []simTask // what is under way
	chaos   bool
	expect  map[string]bool // topics by name: answered as created (true) or deleted (false) last; missing: in doubt
	asked   map[string]int  // requests about a topic that have no answer, also those that died with their broker
	overlap map[string]bool // several were under way at once: their order is not known
	answers int
	moved   map[string]bool     // topics that were reassigned: when they are deleted, data may be left on brokers that were away
	epochs  map[string][2]int32 // state path + topic id: controller epoch and leader epoch seen
}

type simTask struct {
	of  *simBroker
	gen int
	run func()
}

type simBroker struct {
	s       *sim
	id      int32
	gen     int // of the process
	alive   bool
	client  *storetest.Client
	machine *Machine
	server  *replicaServer
	epoch   int64
	mail    []Event
	queues  map[int32][]Send
	sending map[int32]bool
	watches map[Changed]func()
	timers  map[uint64]clock.Timer
	failed  error
	open    int // requests without an answer
}

func newSim(t *testing.T, seed uint64, brokers int) *sim {
	c := clock.NewFake(time.UnixMilli(1_000_000))
	s := &sim{t: t, rand: rand.New(rand.NewPCG(seed, 1)), clock: c, fake: storetest.NewFake(c), expect: map[string]bool{}, asked: map[string]int{}, overlap: map[string]bool{}, moved: map[string]bool{}, epochs: map[string][2]int32{}}
	s.fake.OnCommit = func(*storetest.Client, []store.Op) storetest.Fault {
		if s.chaos && s.rand.IntN(20) == 0 {
			return storetest.Fault(1 + s.rand.IntN(2))
		}
		return storetest.NoFault
	}
	for i := range brokers {
		b := &simBroker{s: s, id: int32(i + 1), server: newReplicaServer(t, int32(i+1))}
		s.brokers = append(s.brokers, b)
		b.start()
	}
	return s
}

// start begins a process.
func (b *simBroker) start() {
	b.gen++
	b.alive, b.client, b.mail, b.failed = true, b.s.fake.Client(), nil, nil
	b.queues, b.sending, b.watches, b.timers = map[int32][]Send{}, map[int32]bool{}, map[Changed]func(){}, map[uint64]clock.Timer{}
	b.epoch, b.open = -1, 0
	b.server.restart()
	set := settings()
	set.AutoLeaderRebalance, set.LeaderImbalanceCheckInterval = true, 2*time.Second
	set.SessionTimeout = 10 * time.Second
	set.Seed = b.s.rand.Uint64() | 1
	b.machine = NewMachine(MachineOptions{brokerNode(b.id), "vddWK14PRI2hO83V7_zqFg", configRules{}, zap.NewNop(), set})
	b.client.WatchSession(func(e store.SessionEvent) { b.post(SessionChanged{e}) })
	b.post(Begin{b.client.Session()})
}

// restart is what is left after a restart of the process: the data.
func (s *replicaServer) restart() {
	s.mu.epoch = 0
	s.mu.strays = true
	clear(s.mu.fail)
	clear(s.mu.known)
	s.mu.metadata, s.mu.ids, s.mu.configs = map[string]int32{}, map[string][16]byte{}, map[string]map[string]string{}
	for name, r := range s.mu.replicas {
		s.mu.replicas[name] = replica{r.id, -1, -1}
	}
}

// crash ends a process; its session ends some time later.
func (b *simBroker) crash() {
	b.alive = false
	b.gen++
	for _, cancel := range b.watches {
		cancel()
	}
	for _, t := range b.timers {
		t.Stop()
	}
	client := b.client
	b.s.tasks = append(b.s.tasks, simTask{b, b.gen, func() {
		client.Close()
		b.s.tasks = append(b.s.tasks, simTask{b, b.gen, b.start})
	}})
}

func (b *simBroker) post(e Event) {
	if c, ok := e.(Changed); ok && slices.Contains(b.mail, Event(c)) {
		return
	}
	b.mail = append(b.mail, e)
}

func (b *simBroker) later(run func()) { b.s.tasks = append(b.s.tasks, simTask{b, b.gen, run}) }

// turn runs the machine with some of its mail.
func (b *simBroker) turn() {
	n := 1 + b.s.rand.IntN(len(b.mail))
	events := b.mail[:n:n]
	b.mail = b.mail[n:]
	for _, a := range b.machine.Step(b.s.clock.Now(), events...) {
		b.do(a)
	}
}

func (b *simBroker) do(a Action) {
	ctx := context.Background()
	switch a := a.(type) {
	case Read:
		b.later(func() {
			nodes, err := b.client.Read(ctx, a.Reqs...)
			b.later(func() { b.post(ReadDone{a.ID, nodes, err}) })
		})
	case Commit:
		b.later(func() {
			before := b.s.fake.Dump()
			out := b.client.CommitEach(store.Within(ctx, a.Session), a.Txns)
			b.s.transitions(before, a.Txns, out)
			b.later(func() { b.post(CommitDone{a.ID, out}) })
		})
	case Send:
		b.queues[a.Broker] = append(b.queues[a.Broker], a)
		b.deliver(a.Broker)
	case Drop:
		for _, s := range b.queues[a.Broker] {
			b.post(SendDone{ID: s.ID, Err: errGone})
		}
		delete(b.queues, a.Broker)
	case After:
		b.timers[a.ID] = b.s.clock.AfterFunc(a.Delay, func() { b.post(Fired{a.ID}) })
	case Cancel:
		b.timers[a.ID].Stop()
	case Watch:
		c := Changed{a.Path, a.Kind}
		if b.watches[c] == nil {
			gen := b.gen
			b.watches[c] = b.client.Watch(a.Path, a.Kind, func() {
				if b.gen == gen {
					b.post(c)
				}
			})
		}
	case Unwatch:
		if cancel := b.watches[Changed{a.Path, a.Kind}]; cancel != nil {
			cancel()
			delete(b.watches, Changed{a.Path, a.Kind})
		}
	case Answer:
		a.reply()
	case Forward:
		b.later(func() { b.post(Forwarded{ID: a.ID, Err: errGone}) })
	case NotifyConfig:
		b.server.ConfigChanged(a.Kind, a.Name, a.Values)
	case Registered:
		b.epoch = max(b.epoch, a.Epoch)
	case Failed:
		b.failed = a.Err
	}
}

// deliver carries the first order of a queue to its broker, and its answer back before the next one.
func (b *simBroker) deliver(to int32) {
	if b.sending[to] || len(b.queues[to]) == 0 {
		return
	}
	b.sending[to] = true
	b.later(func() {
		b.sending[to] = false
		if len(b.queues[to]) == 0 {
			return // dropped
		}
		s, target := b.queues[to][0], b.s.brokers[to-1]
		if !target.alive || target.epoch < 0 { // a broker opens its ports after it has registered
			b.deliver(to) // again, until the controller notices
			return
		}
		b.sending[to] = true
		resp := target.serve(s.Request)
		b.later(func() {
			b.sending[to] = false
			if len(b.queues[to]) > 0 && b.queues[to][0].ID == s.ID {
				b.queues[to] = b.queues[to][1:]
				b.post(SendDone{ID: s.ID, Response: resp})
			}
			b.deliver(to)
		})
	})
}

// serve refuses what was meant for an earlier registration, as a broker does.
func (b *simBroker) serve(req kmsg.Request) kmsg.Response {
	resp := req.ResponseKind()
	stale := kerr.StaleBrokerEpoch.Code
	switch r := req.(type) {
	case *kmsg.LeaderAndISRRequest:
		if r.BrokerEpoch < b.epoch {
			resp.(*kmsg.LeaderAndISRResponse).ErrorCode = stale
			return resp
		}
	case *kmsg.UpdateMetadataRequest:
		if r.BrokerEpoch < b.epoch {
			resp.(*kmsg.UpdateMetadataResponse).ErrorCode = stale
			return resp
		}
		b.s.knowTheirLead(r)
	case *kmsg.StopReplicaRequest:
		if r.BrokerEpoch < b.epoch {
			resp.(*kmsg.StopReplicaResponse).ErrorCode = stale
			return resp
		}
	}
	b.server.mu.requests = nil
	return b.server.serve(req)
}

// knowTheirLead is case P6 for a cluster: whoever is named a leader anywhere has been told so before. Brokers that have crashed once
// are left out, since a restart forgets.
func (s *sim) knowTheirLead(r *kmsg.UpdateMetadataRequest) {
	for _, ts := range r.TopicStates {
		for _, p := range ts.PartitionStates {
			if p.Leader <= 0 || s.brokers[p.Leader-1].gen > 1 {
				continue
			}
			have, ok := s.brokers[p.Leader-1].server.mu.replicas[tp(ts.Topic, p.Partition)]
			if ok && have.id == ts.TopicID && have.epoch < p.LeaderEpoch {
				s.t.Errorf("broker %d is named the leader of %s-%d in epoch %d but has %+v", p.Leader, ts.Topic, p.Partition, p.LeaderEpoch, have)
			}
		}
	}
}

// step lets one thing happen; false when nothing is under way but timers.
func (s *sim) step() bool {
	s.tasks = slices.DeleteFunc(s.tasks, func(t simTask) bool { return t.gen != t.of.gen })
	var ready []*simBroker
	for _, b := range s.brokers {
		if b.alive && len(b.mail) > 0 {
			ready = append(ready, b)
		}
	}
	n := len(ready) + len(s.tasks)
	if n == 0 {
		return false
	}
	if i := s.rand.IntN(n); i < len(ready) {
		ready[i].turn()
	} else {
		i -= len(ready)
		task := s.tasks[i]
		s.tasks = slices.Delete(s.tasks, i, i+1)
		task.run()
	}
	return true
}

// disturb does something bad, rarely.
func (s *sim) disturb() {
	b := s.brokers[s.rand.IntN(len(s.brokers))]
	switch s.rand.IntN(400) {
	case 0:
		if b.alive && b.client.Session() != 0 {
			b.client.Expire()
			b.later(b.client.Renew)
		}
	case 1:
		if b.alive {
			b.crash()
		}
	}
}

// ask sends a random request to a broker.
func (s *sim) ask() {
	b := s.brokers[s.rand.IntN(len(s.brokers))]
	if !b.alive || b.open > 6 {
		return
	}
	name := fmt.Sprintf("t%d", s.rand.IntN(6))
	b.open++
	gen := b.gen
	delete(s.expect, name)
	s.overlap[name] = s.overlap[name] || s.asked[name] > 0
	s.asked[name]++
	answered := func(code int16, created bool) {
		b.open--
		s.answers++
		if s.asked[name]--; s.asked[name] > 0 {
			return
		}
		if code == 0 && b.gen == gen && !s.overlap[name] {
			s.expect[name] = created
		}
		s.overlap[name] = false
	}
	switch s.rand.IntN(4) {
	case 0, 1:
		r := newTopicRequest(fmt.Sprintf("%s:%d:%d", name, 1+s.rand.IntN(4), 1+s.rand.IntN(len(s.brokers))))
		r.TimeoutMillis = 500
		b.post(Request{func(m *Machine) {
			m.reigning(func() {
				m.createTopics(r, nil, func(resp *kmsg.CreateTopicsResponse) { answered(resp.Topics[0].ErrorCode, true) })
			})
		}})
	case 2:
		r := kmsg.NewPtrDeleteTopicsRequest()
		r.Version, r.TimeoutMillis = 6, 500
		r.Topics = []kmsg.DeleteTopicsRequestTopic{{Topic: &name}}
		b.post(Request{func(m *Machine) {
			m.reigning(func() {
				m.deleteTopics(r, nil, func(resp *kmsg.DeleteTopicsResponse) { answered(resp.Topics[0].ErrorCode, false) })
			})
		}})
	case 3:
		r := kmsg.NewPtrCreatePartitionsRequest()
		r.Version, r.TimeoutMillis = 3, 500
		t := kmsg.NewCreatePartitionsRequestTopic()
		t.Topic, t.Count = name, int32(2+s.rand.IntN(5))
		r.Topics = append(r.Topics, t)
		b.post(Request{func(m *Machine) {
			m.reigning(func() { m.createPartitions(r, nil, func(resp *kmsg.CreatePartitionsResponse) { answered(-1, false) }) })
		}})
	}
}

// run is one simulation: trouble, then quiet, then everything must be in order.
func (s *sim) run(steps int) {
	s.chaos = true
	for i := range steps {
		if !s.step() || s.rand.IntN(50) == 0 {
			s.clock.Advance(time.Duration(s.rand.IntN(400)) * time.Millisecond)
		}
		s.disturb()
		if s.rand.IntN(30) == 0 {
			s.ask()
		}
		if s.rand.IntN(15) == 0 {
			s.operate()
		}
		if i%7 == 0 {
			s.invariants()
		}
		if s.t.Failed() {
			s.t.Fatalf("at step %d", i)
		}
	}
	s.chaos = false
	s.repair()
	for range 40 {
		for s.step() {
		}
		s.invariants()
		s.catchUp()
		s.clock.Advance(500 * time.Millisecond)
	}
	s.inOrder()
}

// invariants hold at every moment.
func (s *sim) invariants() {
	nodes := s.fake.Dump()
	reigns := 0
	for _, b := range s.brokers {
		if b.alive && b.machine.reign != nil && strconv.Itoa(int(b.machine.reign.epoch)) == nodes[znode.ControllerEpochPath] {
			reigns++
		}
		if b.failed != nil {
			s.t.Errorf("broker %d: %v", b.id, b.failed)
		}
	}
	if reigns > 1 {
		s.t.Errorf("%d controllers in the epoch %s", reigns, nodes[znode.ControllerEpochPath])
	}
	for path, data := range nodes {
		if !strings.HasSuffix(path, "/state") {
			continue
		}
		name := strings.Split(path, "/")[3]
		topic, err := znode.DecodeTopic([]byte(nodes[znode.TopicPath(name)]))
		state, err2 := znode.DecodeState([]byte(data))
		p, _ := strconv.Atoi(strings.Split(path, "/")[5])
		if err != nil || err2 != nil || p >= len(topic.Replicas) {
			s.t.Errorf("%s: %s in topic %s", path, data, nodes[znode.TopicPath(name)])
			continue
		}
		if state.Leader >= 0 && !slices.Contains(state.ISR, state.Leader) || len(state.ISR) == 0 ||
			slices.ContainsFunc(state.ISR, func(id int32) bool { return !slices.Contains(topic.Replicas[p], id) }) {
			s.t.Errorf("%s: %s with replicas %v", path, data, topic.Replicas[p])
		}
		key := path + znode.FormatID(topic.ID)
		seen := s.epochs[key]
		if state.ControllerEpoch < seen[0] || state.LeaderEpoch < seen[1] {
			s.t.Errorf("%s went back to %s after epochs %v", path, data, seen)
		}
		s.epochs[key] = [2]int32{state.ControllerEpoch, state.LeaderEpoch}
	}
}

// inOrder holds when everything is quiet and every broker lives.
func (s *sim) inOrder() {
	nodes := s.fake.Dump()
	for _, b := range s.brokers {
		if b.open != 0 {
			s.t.Errorf("%d requests to broker %d were never answered", b.open, b.id)
		}
	}
	topics := map[string]znode.Topic{}
	for path, data := range nodes {
		if name, ok := strings.CutPrefix(path, znode.TopicsPath+"/"); ok && !strings.Contains(name, "/") {
			topics[name], _ = znode.DecodeTopic([]byte(data))
		}
		if strings.HasPrefix(path, znode.DeleteTopicsPath+"/") || strings.HasPrefix(path, znode.LogDirEventsPath+"/") ||
			path == znode.ReassignPath || path == znode.PreferredPath {
			s.t.Errorf("%s is left", path)
		}
	}
	for name, created := range s.expect {
		if _, ok := topics[name]; ok != created {
			s.t.Errorf("topic %s exists: %v; last answer said created: %v", name, ok, created)
		}
	}
	leaders := map[string]int32{}
	for name, z := range topics {
		if _, ok := nodes[znode.TopicConfigPath(name)]; !ok {
			s.t.Errorf("topic %s has no configuration", name)
		}
		for p := range z.Replicas {
			state, err := znode.DecodeState([]byte(nodes[znode.StatePath(name, int32(p))]))
			if err != nil || state.Leader < 0 {
				s.t.Errorf("%s-%d: %s (%v)", name, p, nodes[znode.StatePath(name, int32(p))], err)
			}
			leaders[tp(name, int32(p))] = state.Leader
			if len(z.Adding)+len(z.Removing) > 0 {
				s.t.Errorf("the reassignment of %s-%d does not end: %s", name, p, nodes[znode.TopicPath(name)])
			}
			if state.Leader != z.Replicas[p][0] || len(state.ISR) != len(z.Replicas[p]) {
				s.t.Errorf("%s-%d is not balanced: %s of %v", name, p, nodes[znode.StatePath(name, int32(p))], z.Replicas[p])
			}
			for _, id := range z.Replicas[p] {
				r := s.brokers[id-1].server.mu.replicas[tp(name, int32(p))]
				if r != (replica{z.ID, state.Leader, state.LeaderEpoch}) {
					s.t.Errorf("broker %d has %s-%d as %+v, the store says %+v", id, name, p, r, state)
				}
			}
		}
	}
	for _, b := range s.brokers {
		if fmt.Sprint(b.server.mu.metadata) != fmt.Sprint(leaders) {
			s.t.Errorf("broker %d tells clients\n%v, the store says\n%v", b.id, b.server.mu.metadata, leaders)
		}
		for name, has := range b.server.mu.replicas {
			topic, p := parsePartition(name)
			z, ok := topics[topic]
			known := ok && z.ID == has.id && int(p) < len(z.Replicas)
			if known && !slices.Contains(z.Replicas[p], b.id) || !known && !s.moved[topic] {
				s.t.Errorf("broker %d still has data of %s", b.id, name)
			}
		}
	}
}

// TestSimulation plays many seeds, GREGOR_SEEDS of them if that is set; GREGOR_SEED=n plays one.
func TestSimulation(t *testing.T) {
	first, count := rand.Uint64N(1<<32), uint64(12)
	if n, err := strconv.ParseUint(os.Getenv("GREGOR_SEEDS"), 10, 64); err == nil {
		count = n
	}
	if text := os.Getenv("GREGOR_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		first, count = n, 1
	}
	answers := 0
	for seed := first; seed < first+count; seed++ {
		ok := t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			s := newSim(t, seed, 1+int(seed%3))
			s.run(3000)
			answers += s.answers
			if t.Failed() {
				t.Logf("again: GREGOR_SEED=%d go test -run TestSimulation ./controller", seed)
			}
		})
		if !ok {
			break
		}
	}
	t.Logf("%d requests answered", answers)
}
