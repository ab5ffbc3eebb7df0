package controller

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/store/storetest"
	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/gregor-broker/gregor/wire/ibp"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the scripts' output")

// TestScripts plays testdata/*.txt: a line with a command, then everything that the machine of broker 1 wanted done until nothing was
// under way any more. Reads, commits and orders succeed at once and in order. -rewrite writes what happens now.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := newScript(t)
			for line := range strings.Lines(string(text)) {
				switch command := strings.TrimSuffix(line, "\n"); {
				case strings.HasPrefix(command, "#"):
					fmt.Fprintln(&s.out, command)
				case command != "" && !strings.HasPrefix(command, " "):
					fmt.Fprintf(&s.out, "\n%s\n", command)
					s.play(strings.Fields(command))
				}
			}
			got := bytes.TrimLeft(s.out.Bytes(), "\n")
			if *rewrite {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			} else if string(got) != string(text) {
				t.Errorf("what happens now:\n%s", got)
			}
		})
	}
}

type script struct {
	t       *testing.T
	out     bytes.Buffer
	clock   *clock.Fake
	fake    *storetest.Fake
	client  *storetest.Client
	machine *Machine
	servers map[int32]*replicaServer
	others  map[int32]*storetest.Client
	mail    []Event
	held    map[int32][]Send // of brokers that stand still, in order
	loseAt  string           // the next commit that touches this path loses its reply
}

func newScript(t *testing.T) *script {
	c := clock.NewFake(time.UnixMilli(1_795_972_146_715))
	s := &script{t: t, clock: c, fake: storetest.NewFake(c), servers: map[int32]*replicaServer{}, others: map[int32]*storetest.Client{},
		held: map[int32][]Send{}}
	s.client = s.fake.Client()
	s.client.WatchSession(func(e store.SessionEvent) { s.mail = append(s.mail, SessionChanged{e}) })
	s.fake.OnCommit = func(_ *storetest.Client, ops []store.Op) storetest.Fault {
		if s.loseAt != "" && slices.ContainsFunc(ops, func(op store.Op) bool { return op.Path == s.loseAt }) {
			s.loseAt = ""
			return storetest.LoseReply
		}
		return storetest.NoFault
	}
	s.machine = NewMachine(MachineOptions{brokerNode(1), "vddWK14PRI2hO83V7_zqFg", configRules{}, zap.NewNop(), settings()})
	s.servers[1] = newReplicaServer(t, 1)
	return s
}

// play does a command and everything that follows from it.
func (s *script) play(words []string) {
	ctx := context.Background()
	switch words[0] {
	case "protocol": // inter.broker.protocol.version, before all else
		p, err := ibp.Of(words[1])
		if err != nil {
			s.t.Fatal(err)
		}
		s.machine.o.Settings.Protocol = p
	case "begin":
		s.mail = append(s.mail, Begin{s.client.Session()})
	case "register", "return": // id [rack]: new, or with the data that it had
		var id int32
		fmt.Sscan(words[1], &id)
		b := brokerNode(id)
		if len(words) > 2 {
			b.Rack = words[2]
		}
		s.others[id] = s.fake.Client()
		if had := s.servers[id]; had != nil && words[0] == "return" {
			had.restart()
		} else {
			s.servers[id] = newReplicaServer(s.t, id)
		}
		if _, err := s.others[id].Commit(ctx, store.Create(znode.BrokerPath(id), b.Encode(), store.Ephemeral)); err != nil {
			s.t.Fatal(err)
		}
	case "vanish": // id
		var id int32
		fmt.Sscan(words[1], &id)
		s.others[id].Close()
	case "create": // topics
		r := newTopicRequest(words[1:]...)
		s.request(func(m *Machine) { m.createTopics(r, nil, func(*kmsg.CreateTopicsResponse) {}) })
	case "delete": // topic
		r := kmsg.NewPtrDeleteTopicsRequest()
		r.Version, r.TimeoutMillis = 6, 30000
		r.Topics = []kmsg.DeleteTopicsRequestTopic{{Topic: &words[1]}}
		s.request(func(m *Machine) { m.deleteTopics(r, nil, func(*kmsg.DeleteTopicsResponse) {}) })
	case "grow": // topic count
		r := kmsg.NewPtrCreatePartitionsRequest()
		r.Version, r.TimeoutMillis = 3, 30000
		t := kmsg.NewCreatePartitionsRequestTopic()
		t.Topic = words[1]
		fmt.Sscan(words[2], &t.Count)
		r.Topics = append(r.Topics, t)
		s.request(func(m *Machine) { m.createPartitions(r, nil, func(*kmsg.CreatePartitionsResponse) {}) })
	case "isr": // topic-partition ids: its leader has others in sync
		s.alterPartition(words[1], ids(words[2]))
	case "shutdown": // id
		r := kmsg.NewPtrControlledShutdownRequest()
		r.Version, r.BrokerID, r.BrokerEpoch = 3, ids(words[1])[0], -1
		s.request(func(m *Machine) { m.controlledShutdown(r, func(*kmsg.ControlledShutdownResponse) {}) })
	case "elect": // preferred|unclean [topic-partition]
		r := kmsg.NewPtrElectLeadersRequest()
		r.Version, r.TimeoutMillis = 2, 30000
		if words[1] == "unclean" {
			r.ElectionType = uncleanElection
		}
		if len(words) > 2 {
			topic, p := parsePartition(words[2])
			r.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: topic, Partitions: []int32{p}}}
		}
		s.request(func(m *Machine) { m.electLeaders(r, func(*kmsg.ElectLeadersResponse) {}) })
	case "reassign": // topic-partition ids|cancel
		r := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		r.TimeoutMillis = 30000
		topic, p := parsePartition(words[1])
		rt := kmsg.NewAlterPartitionAssignmentsRequestTopic()
		rp := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		rt.Topic, rp.Partition = topic, p
		if words[2] != "cancel" {
			rp.Replicas = ids(words[2])
		}
		rt.Partitions = append(rt.Partitions, rp)
		r.Topics = append(r.Topics, rt)
		s.request(func(m *Machine) { m.alterReassignments(r, func(*kmsg.AlterPartitionAssignmentsResponse) {}) })
	case "moves":
		r := kmsg.NewPtrListPartitionReassignmentsRequest()
		r.Topics = nil
		s.request(func(m *Machine) { m.listReassignments(r, func(*kmsg.ListPartitionReassignmentsResponse) {}) })
	case "ids": // id: a broker takes producer ids
		r := kmsg.NewPtrAllocateProducerIDsRequest()
		r.BrokerID = ids(words[1])[0]
		r.BrokerEpoch = s.epochOf(r.BrokerID)
		s.request(func(m *Machine) { m.serveProducerIDs(r, func(*kmsg.AllocateProducerIDsResponse) {}) })
	case "lostdir": // id
		op := store.Create(znode.LogDirEventPrefix, znode.EncodeLogDirEvent(ids(words[1])[0]), store.Sequential)
		if _, err := s.fake.Client().Commit(ctx, op); err != nil {
			s.t.Fatal(err)
		}
	case "alter": // kind name key=value
		key, value, _ := strings.Cut(words[3], "=")
		s.request(func(m *Machine) {
			m.beginAlteration(&alteration{kind: words[1], entity: znode.ConfigEntity(words[1], words[2]), done: func(error) {},
				change: func(map[string]string) (map[string]string, error) { return map[string]string{key: value}, nil }})
		})
	case "commit": // somebody else writes: path data
		op := store.Create(words[1], []byte(strings.Join(words[2:], " ")), store.Persistent)
		if _, err := s.fake.Client().Commit(ctx, op); err != nil {
			s.t.Fatal(err)
		}
	case "set": // somebody else writes: path data
		op := store.Set(words[1], []byte(strings.Join(words[2:], " ")), store.AnyVersion)
		if _, err := s.fake.Client().Commit(ctx, op); err != nil {
			s.t.Fatal(err)
		}
	case "usurp": // another controller, broker 9, takes over
		other := s.fake.Client()
		s.others[9] = other
		epoch, _ := other.Read(ctx, store.Req{Path: znode.ControllerEpochPath}, store.Req{Path: znode.ControllerPath})
		_, err := other.Commit(ctx, store.Delete(znode.ControllerPath, store.AnyVersion),
			store.Create(znode.ControllerPath, znode.Controller{BrokerID: 9, KRaftEpoch: -1}.Encode(), store.Ephemeral),
			store.Set(znode.ControllerEpochPath, znode.EncodeControllerEpoch(99), epoch[0].Stat.Version))
		if err != nil {
			s.t.Fatal(err)
		}
	case "expire": // [ids]: meanwhile brokers leave, and come back without their data before anybody sees it
		s.client.Expire()
		for _, word := range words[1:] {
			id := ids(word)[0]
			s.others[id].Close()
			s.others[id], s.servers[id] = s.fake.Client(), newReplicaServer(s.t, id)
			if _, err := s.others[id].Commit(ctx, store.Create(znode.BrokerPath(id), brokerNode(id).Encode(), store.Ephemeral)); err != nil {
				s.t.Fatal(err)
			}
		}
		s.client.Renew()
	case "lose": // path
		s.loseAt = words[1]
	case "fail": // topic-partition on broker 1 or another
		id := int32(1)
		if len(words) > 2 {
			id = ids(words[2])[0]
		}
		s.servers[id].mu.fail[words[1]] = 56
	case "still": // id: it lives, but answers nothing
		s.held[ids(words[1])[0]] = []Send{}
	case "goon": // id: it does what it was told meanwhile
		sends := s.held[ids(words[1])[0]]
		delete(s.held, ids(words[1])[0])
		for _, a := range sends {
			s.do(a)
		}
	case "wait": // duration
		d, err := time.ParseDuration(words[1])
		if err != nil {
			s.t.Fatal(err)
		}
		s.clock.Advance(d)
	default:
		s.t.Fatalf("command %v", words)
	}
	for len(s.mail) > 0 {
		events := s.mail
		s.mail = nil
		for _, a := range s.machine.Step(s.clock.Now(), events...) {
			s.do(a)
		}
	}
}

func ids(text string) []int32 {
	var list []int32
	for part := range strings.SplitSeq(text, ",") {
		var id int32
		fmt.Sscan(part, &id)
		list = append(list, id)
	}
	return list
}

func parsePartition(text string) (topic string, p int32) {
	i := strings.LastIndexByte(text, '-')
	fmt.Sscan(text[i+1:], &p)
	return text[:i], p
}

func (s *script) epochOf(id int32) int64 {
	nodes, err := s.fake.Client().Read(context.Background(), store.Req{Path: znode.BrokerPath(id)})
	if err != nil {
		s.t.Fatal(err)
	}
	return nodes[0].Stat.Czxid
}

// alterPartition is what a leader sends that knows the store's state.
func (s *script) alterPartition(name string, isr []int32) {
	topic, p := parsePartition(name)
	nodes, err := s.fake.Client().Read(context.Background(), store.Req{Path: znode.StatePath(topic, p)}, store.Req{Path: znode.TopicPath(topic)})
	if err != nil {
		s.t.Fatal(err)
	}
	state, _ := znode.DecodeState(nodes[0].Data)
	z, _ := znode.DecodeTopic(nodes[1].Data)
	r := kmsg.NewPtrAlterPartitionRequest()
	r.Version, r.BrokerID, r.BrokerEpoch = 3, state.Leader, s.epochOf(state.Leader)
	rt, rp := kmsg.NewAlterPartitionRequestTopic(), kmsg.NewAlterPartitionRequestTopicPartition()
	rt.TopicID, rp.Partition, rp.LeaderEpoch, rp.PartitionEpoch = z.ID, p, state.LeaderEpoch, nodes[0].Stat.Version
	for _, id := range isr {
		rp.NewEpochISR = append(rp.NewEpochISR, kmsg.AlterPartitionRequestTopicPartitionNewEpochISR{BrokerID: id, BrokerEpoch: -1})
	}
	rt.Partitions = append(rt.Partitions, rp)
	r.Topics = append(r.Topics, rt)
	s.request(func(m *Machine) { m.alterPartition(r, func(*kmsg.AlterPartitionResponse) {}) })
}

func (s *script) request(run func(*Machine)) { s.mail = append(s.mail, Request{run}) }

func (s *script) do(a Action) {
	ctx := context.Background()
	say := func(format string, args ...any) { fmt.Fprintf(&s.out, "  "+format+"\n", args...) }
	switch a := a.(type) {
	case Read:
		nodes, err := s.client.Read(ctx, a.Reqs...)
		s.mail = append(s.mail, ReadDone{a.ID, nodes, err})
	case Commit:
		out := s.client.CommitEach(store.Within(ctx, a.Session), a.Txns)
		for i, txn := range a.Txns {
			say("commit%s", showOutcome(out[i].Err))
			for _, op := range txn {
				say("  %s", showOp(op))
			}
		}
		s.mail = append(s.mail, CommitDone{a.ID, out})
	case Send:
		if held, still := s.held[a.Broker]; still {
			s.held[a.Broker] = append(held, a)
			return
		}
		say("to %d: %s%s", a.Broker, showOrder(a.Request), showVersion(a.Request.GetVersion()))
		s.mail = append(s.mail, SendDone{ID: a.ID, Response: s.servers[a.Broker].serve(a.Request)})
	case Drop:
		say("drop %d", a.Broker)
	case After:
		s.clock.AfterFunc(a.Delay, func() { s.mail = append(s.mail, Fired{a.ID}) })
	case Watch:
		s.client.Watch(a.Path, a.Kind, func() {
			if !slices.Contains(s.mail, Event(Changed{a.Path, a.Kind})) {
				s.mail = append(s.mail, Changed{a.Path, a.Kind})
			}
		})
	case Answer:
		say("answer %s", showAnswer(a.Response))
	case NotifyConfig:
		say("config %s/%s %v", a.Kind, a.Name, a.Values)
	case NotifyController:
		say("controller is %d", a.ID)
	case Registered:
		say("registered: %v", a.Epoch >= 0)
	case Ready:
		say("ready")
	case Failed:
		say("failed: %v", a.Err)
	}
}

// showVersion says the version of an order, unless it is one that 3.9 itself sends.
func showVersion(version int16) string {
	if latest := ibp.Latest; version == latest.LeaderAndISR || version == latest.UpdateMetadata || version == latest.StopReplica {
		return ""
	}
	return fmt.Sprintf(" (version %d)", version)
}

func showOutcome(err error) string {
	if err == nil {
		return ""
	}
	return " (" + err.Error() + ")"
}

func showOp(op store.Op) string {
	kind := [...]string{"create", "set", "delete", "check"}[op.Kind]
	mode := [...]string{"", " ephemeral", " sequential"}[op.Mode]
	data := string(op.Data)
	if i := strings.Index(data, `"topic_id":"`); i >= 0 { // random
		data = data[:i] + `"topic_id":"…"` + data[i+35:]
	}
	text := strings.TrimRight(fmt.Sprintf("%s%s %s %s", kind, mode, op.Path, data), " ")
	if op.Kind != store.OpCreate {
		text += fmt.Sprintf(" @%d", op.Version)
	}
	return text
}

func showOrder(req kmsg.Request) string {
	var b strings.Builder
	switch r := req.(type) {
	case *kmsg.LeaderAndISRRequest:
		fmt.Fprintf(&b, "LeaderAndIsr epoch %d", r.ControllerEpoch)
		for _, t := range r.TopicStates {
			for _, p := range t.PartitionStates {
				fmt.Fprintf(&b, "; %s leader %d/%d isr %v of %v v%d", tp(t.Topic, p.Partition), p.Leader, p.LeaderEpoch, p.ISR, p.Replicas, p.ZKVersion)
				if len(p.AddingReplicas)+len(p.RemovingReplicas) > 0 {
					fmt.Fprintf(&b, " adding %v removing %v", p.AddingReplicas, p.RemovingReplicas)
				}
				if p.IsNew {
					b.WriteString(" new")
				}
				if p.LeaderRecoveryState == 1 {
					b.WriteString(" recovering")
				}
			}
		}
	case *kmsg.UpdateMetadataRequest:
		var ids []int32
		for _, l := range r.LiveBrokers {
			ids = append(ids, l.ID)
		}
		fmt.Fprintf(&b, "UpdateMetadata epoch %d brokers %v", r.ControllerEpoch, ids)
		for _, t := range r.TopicStates {
			for _, p := range t.PartitionStates {
				fmt.Fprintf(&b, "; %s leader %d/%d", tp(t.Topic, p.Partition), p.Leader, p.LeaderEpoch)
				if len(p.OfflineReplicas) > 0 {
					fmt.Fprintf(&b, " offline %v", p.OfflineReplicas)
				}
			}
		}
	case *kmsg.DescribeLogDirsRequest:
		b.WriteString("DescribeLogDirs")
	case *kmsg.StopReplicaRequest:
		fmt.Fprintf(&b, "StopReplica epoch %d", r.ControllerEpoch)
		for _, t := range r.Topics {
			for _, p := range t.PartitionStates {
				fmt.Fprintf(&b, "; %s/%d delete %v", tp(t.Topic, p.Partition), p.LeaderEpoch, p.Delete)
			}
		}
	}
	return b.String()
}

func showAnswer(response any) string {
	codes := map[string]int16{}
	switch r := response.(type) {
	case *kmsg.CreateTopicsResponse:
		for _, t := range r.Topics {
			codes[t.Topic] = t.ErrorCode
		}
	case *kmsg.DeleteTopicsResponse:
		for _, t := range r.Topics {
			codes[message(t.Topic)] = t.ErrorCode
		}
	case *kmsg.CreatePartitionsResponse:
		for _, t := range r.Topics {
			codes[t.Topic] = t.ErrorCode
		}
	case *kmsg.AlterPartitionResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				return fmt.Sprintf("partition %d: %d leader %d/%d isr %v v%d", p.Partition, p.ErrorCode, p.LeaderID, p.LeaderEpoch, p.ISR, p.PartitionEpoch)
			}
		}
		return fmt.Sprint(r.ErrorCode)
	case *kmsg.ControlledShutdownResponse:
		return fmt.Sprintf("%d remaining %v", r.ErrorCode, len(r.PartitionsRemaining))
	case *kmsg.ElectLeadersResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				codes[tp(t.Topic, p.Partition)] = p.ErrorCode
			}
		}
	case *kmsg.AlterPartitionAssignmentsResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				codes[tp(t.Topic, p.Partition)] = p.ErrorCode
			}
		}
	case *kmsg.ListPartitionReassignmentsResponse:
		var list []string
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				list = append(list, fmt.Sprintf("%s: %v adding %v removing %v", tp(t.Topic, p.Partition), p.Replicas, p.AddingReplicas, p.RemovingReplicas))
			}
		}
		return "moves " + strings.Join(list, "; ")
	default:
		return fmt.Sprint(response)
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(codes)) {
		parts = append(parts, fmt.Sprintf("%s: %d", name, codes[name]))
	}
	return strings.Join(parts, ", ")
}
