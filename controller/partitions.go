package controller

import (
	"slices"

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
	var writes []stateWrite
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
			writes = append(writes, stateWrite{x: x, state: next, settle: true})
		}
	}
	m.write(writes)
	if len(fresh) > 0 {
		m.createStates(fresh)
	}
}

// decide returns the state that a partition should have, if that is another than it has.
func (m *Machine) decide(x ref, shrink bool) (znode.State, bool) {
	p := x.part()
	unclean := func() bool { return m.o.Configs.UncleanElection(m.topicConfig(x.t.name)) }
	next, ok := nextState(p, m.view(x), shrink, unclean)
	next.ControllerEpoch = m.reign.epoch
	return next, ok
}

// view is what elections need to know of a partition's replicas.
type view struct {
	replicas []int32          // assigned ones, preferred first
	live     func(int32) bool // may be elected
	serves   func(int32) bool // may go on to lead, be it for a while
	recovers bool             // a leader that was not in sync is marked as one that recovers
}

func (m *Machine) view(x ref) view {
	r := m.reign
	return view{x.assigned().replicas, func(id int32) bool { return r.live(id, x) }, func(id int32) bool { return r.serves(id, x) },
		r.protocol.LeaderRecovery}
}

// first returns the first assigned replica of which ok is true.
func (v view) first(ok func(int32) bool) (int32, bool) {
	if i := slices.IndexFunc(v.replicas, ok); i >= 0 {
		return v.replicas[i], true
	}
	return noLeader, false
}

// nextState is the rule. A partition without a state gets the first live replica as its leader and all live ones as in-sync.
// One whose leader is dead gets the first live replica that is in sync, or, if that is allowed, the first live one at
// all; if there is none it loses its leader but keeps its in-sync replicas, who have what was acknowledged.
func nextState(p *partition, v view, shrink bool, unclean func() bool) (znode.State, bool) {
	if p.version < 0 {
		isr := only(v.replicas, v.live)
		if len(isr) == 0 {
			return znode.State{}, false
		}
		return znode.State{Leader: isr[0], ISR: isr}, true
	}
	leads := v.serves(p.leader) && slices.Contains(p.isr, p.leader) // one that was not in sync was not made leader by a controller
	isr := only(p.isr, func(id int32) bool { return v.live(id) || leads && id == p.leader })
	next := p.state()
	next.LeaderEpoch++
	if leads {
		next.ISR = isr
		return next, shrink && len(isr) < len(p.isr)
	}
	if id, ok := v.first(func(id int32) bool { return slices.Contains(isr, id) }); ok {
		next.Leader, next.ISR = id, isr
		return next, true
	}
	if id, ok := v.first(v.live); ok && unclean() {
		next.Leader, next.ISR, next.Recovering = id, []int32{id}, v.recovers
		return next, true
	}
	next.Leader = noLeader
	return next, p.leader != noLeader
}

// only returns the ids of which ok is true, in a slice of its own.
func only(ids []int32, ok func(int32) bool) []int32 {
	return slices.DeleteFunc(slices.Clone(ids), func(id int32) bool { return !ok(id) })
}

// without returns the ids but those in other.
func without(ids, other []int32) []int32 {
	return only(ids, func(id int32) bool { return !slices.Contains(other, id) })
}

// state is the partition as its node says; slices are shared.
func (p *partition) state() znode.State {
	return znode.State{ControllerEpoch: p.controllerEpoch, Leader: p.leader, LeaderEpoch: p.leaderEpoch, ISR: p.isr, Recovering: p.recovering}
}

// statesAnswered looks at a broker's answer to LeaderAndIsr about refs. Those that it leads now can be made known. That a state is
// no news (an equal epoch: STALE_CONTROLLER_EPOCH) is fine. A replica that is refused for another reason (KAFKA_STORAGE_ERROR, data
// of another topic) is offline until the broker starts again. An answer that is an error as a whole is for an earlier registration
// or from an earlier reign; what follows from that comes by way of the store.
func (m *Machine) statesAnswered(id int32, refs []ref) func(kmsg.Response) {
	epochs := make([]int32, len(refs))
	for i, x := range refs {
		epochs[i] = x.part().leaderEpoch
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
			case code == 0 && p.leader == id && p.leaderEpoch == epochs[i]:
				m.handedOver(x)
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
