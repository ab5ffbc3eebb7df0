package controller

import (
	"context"
	"slices"
	"strings"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// operate does what brokers and operators do with topics that are there.
func (s *sim) operate() {
	b := s.brokers[s.rand.IntN(len(s.brokers))]
	if !b.alive || b.epoch < 0 {
		return
	}
	switch s.rand.IntN(12) {
	case 0, 1, 2, 3, 4:
		if name := s.pick(b.leads()); name != "" {
			b.propose(name, s.subset(b.id, b.server.mu.known[name].replicas))
		}
	case 5, 6, 7:
		s.reassignSomething()
	case 8:
		r := kmsg.NewPtrElectLeadersRequest()
		r.Version, r.TimeoutMillis, r.Topics = 2, 500, nil
		s.toActive(b, func(m *Machine) { m.electLeaders(r, func(*kmsg.ElectLeadersResponse) {}) })
	case 9:
		gen := b.gen
		r := kmsg.NewPtrControlledShutdownRequest()
		r.Version, r.BrokerID, r.BrokerEpoch = 3, b.id, b.epoch
		s.toActive(b, func(m *Machine) {
			m.controlledShutdown(r, func(*kmsg.ControlledShutdownResponse) {
				if b.gen == gen {
					b.later(b.crash)
				}
			})
		})
	case 10:
		var held []string
		for name := range b.server.mu.replicas {
			held = append(held, name)
		}
		if name := s.pick(held); name != "" {
			b.server.mu.fail[name] = 56
			s.write(store.Create(znode.LogDirEventPrefix, znode.EncodeLogDirEvent(b.id), store.Sequential))
		}
	case 11:
		s.oldTool()
	}
}

// pick returns one of the names, "" if there is none.
func (s *sim) pick(names []string) string {
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return names[s.rand.IntN(len(names))]
}

// subset returns some of the ids, id among them.
func (s *sim) subset(id int32, ids []int32) []int32 {
	list := []int32{id}
	for _, other := range ids {
		if other != id && s.rand.IntN(3) > 0 {
			list = append(list, other)
		}
	}
	return list
}

// toActive carries a request to the broker that from believes to be the active controller.
func (s *sim) toActive(from *simBroker, run func(*Machine)) {
	active := from.machine.activeID
	if active <= 0 {
		return
	}
	from.later(func() {
		if to := s.brokers[active-1]; to.alive {
			to.post(Request{func(m *Machine) { m.reigning(func() { run(m) }) }})
		}
	})
}

// write is a commit of somebody else.
func (s *sim) write(ops ...store.Op) {
	chaos := s.chaos
	s.chaos = false
	client := s.fake.Client()
	client.Commit(context.Background(), ops...) //nolint:errcheck // it may be there already
	client.Close()
	s.chaos = chaos
}

// leads returns the partitions that a broker leads, as far as it knows.
func (b *simBroker) leads() []string {
	var names []string
	for name, r := range b.server.mu.replicas {
		if r.leader == b.id && b.server.mu.known[name].replicas != nil {
			names = append(names, name)
		}
	}
	return names
}

// propose asks the controller for other in-sync replicas.
func (b *simBroker) propose(name string, isr []int32) {
	k, held, gen := b.server.mu.known[name], b.server.mu.replicas[name], b.gen
	topic, p := parsePartition(name)
	_ = topic
	r := kmsg.NewPtrAlterPartitionRequest()
	r.Version, r.BrokerID, r.BrokerEpoch = 3, b.id, b.epoch
	rt, rp := kmsg.NewAlterPartitionRequestTopic(), kmsg.NewAlterPartitionRequestTopicPartition()
	rt.TopicID, rp.Partition, rp.LeaderEpoch, rp.PartitionEpoch = held.id, p, k.epoch, k.version
	for _, id := range isr {
		rp.NewEpochISR = append(rp.NewEpochISR, kmsg.AlterPartitionRequestTopicPartitionNewEpochISR{BrokerID: id, BrokerEpoch: -1})
	}
	rt.Partitions = append(rt.Partitions, rp)
	r.Topics = append(r.Topics, rt)
	b.s.toActive(b, func(m *Machine) {
		m.alterPartition(r, func(resp *kmsg.AlterPartitionResponse) {
			if b.gen != gen || resp.ErrorCode != 0 {
				return
			}
			b.later(func() { b.proposed(name, k, &resp.Topics[0].Partitions[0]) })
		})
	})
}

// proposed takes the answer to a proposal over. After an error the leader waits for the next order, but for one that says that it
// does not know the latest state: that may be because an answer was lost, so it is told the truth here.
func (b *simBroker) proposed(name string, asked knownState, a *kmsg.AlterPartitionResponseTopicPartition) {
	if k := b.server.mu.known[name]; a.ErrorCode == 0 && k.epoch == asked.epoch && a.LeaderEpoch == k.epoch && a.PartitionEpoch > k.version {
		k.isr, k.version = a.ISR, a.PartitionEpoch
		b.server.mu.known[name] = k
	}
}

// reassignSomething moves a partition, or takes a move back.
func (s *sim) reassignSomething() {
	b := s.brokers[s.rand.IntN(len(s.brokers))]
	topic, p, ok := s.somePartition()
	if !ok || !b.alive {
		return
	}
	s.moved[topic] = true
	r := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	r.TimeoutMillis = 500
	rt, rp := kmsg.NewAlterPartitionAssignmentsRequestTopic(), kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	rt.Topic, rp.Partition = topic, p
	if s.rand.IntN(4) > 0 {
		rp.Replicas = s.target()
	}
	rt.Partitions = append(rt.Partitions, rp)
	r.Topics = append(r.Topics, rt)
	s.toActive(b, func(m *Machine) { m.alterReassignments(r, func(*kmsg.AlterPartitionAssignmentsResponse) {}) })
}

// target is a random list of brokers.
func (s *sim) target() []int32 {
	var ids []int32
	for _, i := range s.rand.Perm(len(s.brokers))[:1+s.rand.IntN(len(s.brokers))] {
		ids = append(ids, int32(i+1))
	}
	return ids
}

func (s *sim) somePartition() (topic string, p int32, ok bool) {
	var names []string
	nodes := s.fake.Dump()
	for path := range nodes {
		if name, ok := strings.CutPrefix(path, znode.TopicsPath+"/"); ok && !strings.Contains(name, "/") {
			names = append(names, name)
		}
	}
	if topic = s.pick(names); topic == "" {
		return "", 0, false
	}
	z, _ := znode.DecodeTopic([]byte(nodes[znode.TopicPath(topic)]))
	return topic, int32(s.rand.IntN(max(1, len(z.Replicas)))), true
}

// oldTool writes a wish into the store.
func (s *sim) oldTool() {
	topic, p, ok := s.somePartition()
	switch {
	case !ok:
	case s.rand.IntN(2) == 0:
		s.write(store.Create(znode.PreferredPath, znode.EncodePartitions([]znode.Partition{{Topic: topic, Partition: p}}), store.Persistent))
	default:
		s.moved[topic] = true
		s.write(store.Create(znode.ReassignPath, znode.EncodeReassignments([]znode.Reassignment{{Topic: topic, Partition: p, Replicas: s.target()}}), store.Persistent))
	}
}

// repair ends what only a restart ends: shutdowns that were asked for, and lost directories.
func (s *sim) repair() {
	for _, b := range s.brokers {
		if b.alive {
			b.crash()
		}
	}
}

// catchUp lets followers catch up with their leaders.
func (s *sim) catchUp() {
	for _, b := range s.brokers {
		if !b.alive || b.epoch < 0 {
			continue
		}
		names := b.leads()
		slices.Sort(names)
		for _, name := range names {
			if k := b.server.mu.known[name]; len(k.isr) < len(k.replicas) {
				b.propose(name, slices.Clone(k.replicas))
			}
		}
	}
}

// transitions checks each state that was written against the one before: leaders come from the in-sync replicas unless the state
// says otherwise, the leader epoch rises with every change but that of the in-sync replicas, and nobody leads two epochs' worth.
func (s *sim) transitions(before map[string]string, txns []store.Txn, outcomes []store.Outcome) {
	for i, txn := range txns {
		if outcomes[i].Err != nil {
			continue
		}
		for _, op := range txn {
			if op.Kind != store.OpSet || !strings.HasSuffix(op.Path, "/state") {
				continue
			}
			old, err := znode.DecodeState([]byte(before[op.Path]))
			next, err2 := znode.DecodeState(op.Data)
			if err != nil || err2 != nil {
				s.t.Errorf("%s: %s, then %s", op.Path, before[op.Path], op.Data)
				continue
			}
			elected := next.LeaderEpoch > old.LeaderEpoch
			switch {
			case next.Leader >= 0 && !slices.Contains(old.ISR, next.Leader):
				s.t.Errorf("%s: a leader that was not in sync: %s, then %s", op.Path, before[op.Path], op.Data)
			case !elected && (next.Leader != old.Leader || next.LeaderEpoch != old.LeaderEpoch):
				s.t.Errorf("%s: a change without an epoch: %s, then %s", op.Path, before[op.Path], op.Data)
			case elected && len(without(next.ISR, old.ISR)) > 0:
				s.t.Errorf("%s: an election made replicas in-sync: %s, then %s", op.Path, before[op.Path], op.Data)
			case !slices.ContainsFunc(next.ISR, func(id int32) bool { return slices.Contains(old.ISR, id) }):
				s.t.Errorf("%s: none of the in-sync replicas is left: %s, then %s", op.Path, before[op.Path], op.Data)
			}
		}
	}
}
