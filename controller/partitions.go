package controller

import (
	"slices"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// This file is the state machine of partitions: New → Online ⇄ Offline. What a partition should become is a pure
// function of its state and of who lives (decide); settle writes it and tells the brokers.
// After kafka.controller.{PartitionStateMachine,ReplicaStateMachine,Election}.

// settle brings partitions to where they should be. shrink: in-sync replicas that are dead are taken out even where the leader
// lives, as after the failure of a broker.
func (m *Machine) settle(refs []ref, shrink bool) {
	var fresh []ref
	var changing []ref
	var states []znode.State
	var txns []store.Txn
	for _, x := range refs {
		p := x.part()
		if x.t.deletion != nil {
			continue
		}
		if p.busy {
			p.again = true
			continue
		}
		next, change := m.decide(x, shrink)
		switch {
		case !change:
		case p.version < 0:
			fresh = append(fresh, x)
		default:
			p.busy = true
			changing, states = append(changing, x), append(states, next)
			txns = append(txns, store.Txn{store.Set(znode.StatePath(x.t.name, x.p), next.Encode(), p.version)})
		}
	}
	if len(txns) > 0 {
		m.command(txns, func(outcomes []outcome) { m.settled(changing, states, outcomes) })
	}
	if len(fresh) > 0 {
		m.createStates(fresh)
	}
}

// settled takes over what was written. What was not, for whatever reason, is read back and looked at again.
func (m *Machine) settled(refs []ref, states []znode.State, outcomes []outcome) {
	var lost, again []ref
	failed := false
	for i, x := range refs {
		p := x.part()
		p.busy = false
		switch o := outcomes[i]; {
		case x.t.deletion != nil:
			m.maybeRemove(x.t)
		case o.err == nil:
			p.take(states[i], o.results[0].Stat.Version)
			m.orderState(x, false)
			if p.again {
				again = append(again, x)
			}
		default:
			failed = failed || o.at < 0 && !o.unknown()
			lost = append(lost, x)
		}
		p.again = false
	}
	m.settle(again, true)
	m.readBack(lost, failed)
}

// readBack reads states that are not known for sure, takes them over and settles the partitions again. late: the store is in
// trouble, so not at once.
func (m *Machine) readBack(refs []ref, late bool) {
	if len(refs) == 0 {
		return
	}
	paths := make([]string, len(refs))
	for i, x := range refs {
		x.part().busy = true
		paths[i] = znode.StatePath(x.t.name, x.p)
	}
	if late {
		m.log.Error("partition states could not be written; trying again", zap.Int("partitions", len(refs)))
		m.after(inReign, retryDelay, func() { m.readBack(refs, false) })
		return
	}
	m.read(inReign, datas(paths...), func(nodes []store.Node) {
		for i, x := range refs {
			p := x.part()
			p.busy = false
			before := p.version
			switch n := nodes[i]; {
			case x.t.deletion != nil:
				m.maybeRemove(x.t)
			case !n.Exists:
				p.version = -1
			case !m.takeState(x, n):
				return
			default:
				m.orderState(x, before < 0)
			}
		}
		m.settle(refs, true)
	})
}

// decide returns the state that a partition should have, if that is another than it has.
func (m *Machine) decide(x ref, shrink bool) (znode.State, bool) {
	p := x.part()
	unclean := func() bool { return m.o.Configs.UncleanElection(m.topicConfig(x.t.name)) }
	next, ok := nextState(p, func(id int32) bool { return m.reign.live(id, x) }, shrink, unclean)
	next.ControllerEpoch = m.reign.epoch
	return next, ok
}

// nextState is the rule. A partition without a state gets the first live replica as its leader and all live ones as in-sync.
// One whose leader is dead gets the first live replica that is in sync, or, if that is allowed, the first live one at
// all; if there is none it loses its leader but keeps its in-sync replicas, who have what was acknowledged.
func nextState(p *partition, live func(int32) bool, shrink bool, unclean func() bool) (znode.State, bool) {
	dead := func(id int32) bool { return !live(id) }
	if p.version < 0 {
		isr := slices.DeleteFunc(slices.Clone(p.replicas), dead)
		if len(isr) == 0 {
			return znode.State{}, false
		}
		return znode.State{Leader: isr[0], ISR: isr}, true
	}
	isr := slices.DeleteFunc(slices.Clone(p.isr), dead)
	next := znode.State{Leader: p.leader, LeaderEpoch: p.leaderEpoch + 1, ISR: isr, Recovering: p.recovering}
	if p.leader >= 0 && live(p.leader) {
		return next, shrink && len(isr) < len(p.isr)
	}
	for _, id := range p.replicas {
		if slices.Contains(isr, id) {
			next.Leader = id
			return next, true
		}
	}
	if i := slices.IndexFunc(p.replicas, live); i >= 0 && unclean() {
		next.Leader, next.ISR, next.Recovering = p.replicas[i], []int32{p.replicas[i]}, true
		return next, true
	}
	next.Leader, next.ISR = noLeader, p.isr
	return next, p.leader != noLeader
}

// statesPerCommit bounds a commit that creates states: about 20 KB.
const statesPerCommit = 100

// createStates writes the first states of partitions.
func (m *Machine) createStates(refs []ref) {
	var chunks [][]ref
	byTopic(refs, func(t *topic, list []ref) {
		chunks = append(chunks, slices.Collect(slices.Chunk(list, statesPerCommit))...)
	})
	txns := make([]store.Txn, len(chunks))
	states := make([][]znode.State, len(chunks))
	for i, chunk := range chunks {
		t := chunk[0].t
		if !t.hasDir {
			txns[i] = append(txns[i], store.Create(znode.PartitionsPath(t.name), nil, store.Persistent))
			t.hasDir = true // later chunks rely on it; if this one fails the nodes are looked at
		}
		states[i] = make([]znode.State, len(chunk))
		for j, x := range chunk {
			x.part().busy = true
			states[i][j], _ = m.decide(x, false)
			txns[i] = append(txns[i], createState(x, states[i][j])...)
		}
	}
	m.command(txns, func(outcomes []outcome) {
		for i, chunk := range chunks {
			if outcomes[i].err == nil {
				m.statesCreated(chunk, states[i])
			} else {
				m.lookForStates(chunk, outcomes[i])
			}
		}
	})
}

func createState(x ref, s znode.State) []store.Op {
	return []store.Op{store.Create(znode.PartitionPath(x.t.name, x.p), nil, store.Persistent),
		store.Create(znode.StatePath(x.t.name, x.p), s.Encode(), store.Persistent)}
}

// statesCreated takes over states that were created, and gives the orders that create the logs.
func (m *Machine) statesCreated(refs []ref, states []znode.State) {
	var again []ref
	for i, x := range refs {
		p := x.part()
		p.busy = false
		p.take(states[i], 0)
		if x.t.deletion != nil {
			m.maybeRemove(x.t)
			continue
		}
		m.orderState(x, true)
		if p.again {
			again = append(again, x)
		}
		p.again = false
	}
	m.settle(again, true)
}

// lookForStates finds out which nodes of a failed commit exist, creates the parents that are missing, and goes on from there.
func (m *Machine) lookForStates(refs []ref, o outcome) {
	if o.at < 0 && !o.unknown() {
		m.log.Error("partition states could not be created; trying again", zap.String("topic", refs[0].t.name), zap.Error(o.err))
		m.after(inReign, retryDelay, func() { m.lookForStates(refs, outcome{err: store.ErrUnknown, at: -1}) })
		return
	}
	t := refs[0].t
	paths := []string{znode.TopicPath(t.name), znode.PartitionsPath(t.name)}
	for _, x := range refs {
		paths = append(paths, znode.PartitionPath(t.name, x.p), znode.StatePath(t.name, x.p))
	}
	m.read(inReign, datas(paths...), func(nodes []store.Node) {
		if t.deletion != nil || !nodes[0].Exists {
			for i, x := range refs {
				x.part().busy = false
				if nodes[3+2*i].Exists {
					x.part().version = nodes[3+2*i].Stat.Version
				}
			}
			m.maybeRemove(t)
			return
		}
		var txn store.Txn
		if !nodes[1].Exists {
			txn = append(txn, store.Create(nodes[1].Path, nil, store.Persistent))
		}
		t.hasDir = true
		var missing, found []ref
		var states []znode.State
		for i, x := range refs {
			dir, state := nodes[2+2*i], nodes[3+2*i]
			if state.Exists {
				if !m.takeState(x, state) {
					return
				}
				x.part().busy = false
				m.orderState(x, true)
				found = append(found, x)
				continue
			}
			s, ok := m.decide(x, false)
			if !ok {
				x.part().busy = false
				continue
			}
			ops := createState(x, s)
			if dir.Exists {
				ops = ops[1:]
			}
			txn, missing, states = append(txn, ops...), append(missing, x), append(states, s)
		}
		m.settle(found, true)
		if len(missing) == 0 {
			return
		}
		m.command([]store.Txn{txn}, func(outcomes []outcome) {
			if outcomes[0].err == nil {
				m.statesCreated(missing, states)
			} else {
				m.lookForStates(missing, outcomes[0])
			}
		})
	})
}

// statesAnswered looks at a broker's answer to LeaderAndIsr about refs. Those that it leads now can be made known. That a state is
// no news (an equal epoch: STALE_CONTROLLER_EPOCH) is fine. A replica that is refused for another reason (KAFKA_STORAGE_ERROR, data
// of another topic) is offline until the broker starts again. An answer that is an error as a whole is for an earlier registration
// or from an earlier reign; what follows from that comes by way of the store.
func (m *Machine) statesAnswered(id int32, refs []ref) func(kmsg.Response) {
	versions := make([]int32, len(refs))
	for i, x := range refs {
		versions[i] = x.part().version
	}
	return func(resp kmsg.Response) {
		b := m.reign.brokers[id]
		answer, ok := resp.(*kmsg.LeaderAndISRResponse)
		if b == nil || !ok || answer.ErrorCode != 0 {
			return
		}
		refused := map[ref]int16{}
		for _, ts := range answer.Topics {
			t := m.reign.ids[ts.TopicID]
			for _, p := range ts.Partitions {
				if p.ErrorCode != 0 && p.ErrorCode != kerr.StaleControllerEpoch.Code && t != nil {
					refused[ref{t, p.Partition}] = p.ErrorCode
				}
			}
		}
		var offline []ref
		for i, x := range refs {
			p := x.part()
			switch code := refused[x]; {
			case code != 0 && !b.offline[x]:
				offline = append(offline, x)
				m.log.Warn("a broker refused a replica", zap.Int32("broker", id), zap.String("topic", x.t.name), zap.Int32("partition", x.p), zap.Error(kerr.ErrorForCode(code)))
			case code == 0 && p.leader == id && p.version == versions[i]:
				p.told = true
				m.reign.orders.metadata.add(x)
			}
		}
		m.replicasOffline(b, offline)
	}
}

// replicasOffline moves leaderships away from replicas that their broker cannot store.
func (m *Machine) replicasOffline(b *broker, refs []ref) {
	if len(refs) == 0 {
		return
	}
	if b.offline == nil {
		b.offline = map[ref]bool{}
	}
	for _, x := range refs {
		b.offline[x] = true
		m.reign.orders.metadata.add(x)
	}
	m.settle(refs, true)
}
