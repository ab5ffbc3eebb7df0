package controller

import (
	"slices"
	"time"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// This file holds the elections that somebody asks for: ElectLeaders, the old node /admin/preferred_replica_election, and the
// automatic balancing. After kafka.controller.KafkaController (processReplicaLeaderElection, checkAndTriggerAutoLeaderRebalance).

// uncleanElection is ElectLeaders' type for an election among all that live; 0 is for the preferred replica.
const uncleanElection = 1

var (
	errNoPartition  = errcode.New(kerr.UnknownTopicOrPartition, "The partition does not exist.")
	errTopicDeleted = errcode.New(kerr.InvalidTopicException, "The topic is being deleted")
	errElectionType = errcode.New(kerr.InvalidRequest, "There is no election of this type.")
)

// electLeaders serves ElectLeaders. It is answered when the new leaders serve, or when the request's time is over. Asked for all
// partitions it leaves out those where there was nothing to do.
func (m *Machine) electLeaders(r *kmsg.ElectLeadersRequest, done func(*kmsg.ElectLeadersResponse)) {
	resp := r.ResponseKind().(*kmsg.ElectLeadersResponse)
	all := r.Topics == nil
	results := newElectionResults(r, resp, m.o.Settings.Embedded)
	answer := func(m *Machine) {
		results.fill()
		m.do(Answer{resp, func() { done(resp) }})
	}
	switch {
	case !m.active():
		resp.ErrorCode = kerr.NotController.Code
	case r.ElectionType != 0 && r.ElectionType != uncleanElection && (all || len(r.Topics) > 0 || !m.o.Settings.Embedded):
		resp.ErrorCode = errElectionType.Code()
	case all:
		for _, x := range m.reign.allRefs() {
			results.add(x.t.name, x.p)
		}
	}
	q := m.newRequest(len(results.rows), r.TimeoutMillis, results.set, answer)
	if !m.active() {
		q.abandon(m)
		return
	}
	var refs []ref
	index := map[ref]int{}
	for i, row := range results.rows {
		x, err := m.electable(row.topic, row.partition, r.ElectionType)
		if _, twice := index[x]; twice && err == nil {
			err = kerr.ElectionNotNeeded // the first time is enough
		}
		if err != nil {
			q.result(m, i, err)
			continue
		}
		index[x] = i
		refs = append(refs, x)
	}
	q.begin(m, r.TimeoutMillis)
	unclean := r.ElectionType == uncleanElection
	m.alter(refs, change{
		next: func(x ref) (znode.State, bool) {
			next, err := m.election(x, unclean)
			if err != nil && q.open[index[x]] {
				q.result(m, index[x], err)
			}
			return next, err == nil
		},
		then: func(x ref) {
			if q.open[index[x]] && q.begun(m, index[x]) {
				m.await(x.t, x.p, x.p+1, func() { q.result(m, index[x], nil) })
			}
		}})
}

// electable finds a partition of which an election can be asked.
func (m *Machine) electable(topic string, partition int32, kind int8) (ref, error) {
	t := m.reign.topics[topic]
	switch {
	case kind != 0 && kind != uncleanElection:
		return ref{}, errElectionType
	case t == nil || partition < 0 || int(partition) >= len(t.parts):
		return ref{}, errNoPartition
	case t.deletion != nil:
		return ref{}, errTopicDeleted
	}
	return ref{t, partition}, nil
}

// election is the outcome of an election that somebody asked for, or why there is none.
func (m *Machine) election(x ref, unclean bool) (znode.State, error) {
	p, v := x.part(), m.view(x)
	next := p.state()
	next.LeaderEpoch++
	failed := kerr.PreferredLeaderNotAvailable
	if unclean {
		failed = kerr.EligibleLeadersNotAvailable
	}
	inSync := func(id int32) bool { return v.live(id) && slices.Contains(p.isr, id) }
	switch {
	case x.t.deletion != nil:
		return next, errTopicDeleted
	case p.version < 0:
	case !unclean && p.leader == v.replicas[0], unclean && p.leader >= 0 && v.serves(p.leader):
		return next, kerr.ElectionNotNeeded
	case !unclean && inSync(v.replicas[0]):
		next.Leader = v.replicas[0]
		return next, nil
	case !unclean:
	default:
		if id, ok := v.first(inSync); ok {
			next.Leader, next.ISR = id, only(p.isr, v.live)
			return next, nil
		}
		if id, ok := v.first(v.live); ok {
			next.Leader, next.ISR, next.Recovering = id, []int32{id}, v.recovers
			return next, nil
		}
	}
	return next, errcode.Newf(failed, "Failed to elect leader for partition %s-%d under strategy %s", x.t.name, x.p, strategy(unclean))
}

// strategy is Kafka's name for an election, which tools print.
func strategy(unclean bool) string {
	if unclean {
		return "OfflinePartitionLeaderElectionStrategy(true)"
	}
	return "PreferredReplicaPartitionLeaderElectionStrategy"
}

// preferred elects preferred replicas where that is possible.
func (m *Machine) preferred(refs []ref, then func()) {
	left := len(refs)
	if left == 0 {
		then()
		return
	}
	m.alter(refs, change{
		next: func(x ref) (znode.State, bool) {
			next, err := m.election(x, false)
			return next, err == nil
		},
		then: func(ref) {
			if left--; left == 0 {
				then()
			}
		}})
}

// firstBalance is how long after its election a controller looks at the balance of leaders.
const firstBalance = 5 * time.Second

// scheduleBalance plans the next look at who leads.
func (m *Machine) scheduleBalance(d time.Duration) {
	if !m.o.Settings.AutoLeaderRebalance {
		return
	}
	m.after(inReign, d, func() {
		m.preferred(m.unbalanced(), func() {})
		m.scheduleBalance(m.o.Settings.LeaderImbalanceCheckInterval)
	})
}

// unbalanced returns the partitions that should go back to preferred leaders who lead too few of theirs.
func (m *Machine) unbalanced() []ref {
	total, away := map[int32]int{}, map[int32][]ref{}
	for _, x := range m.reign.allRefs() {
		p := x.part()
		if x.t.deletion != nil || p.version < 0 {
			continue
		}
		preferred := p.replicas[0]
		if total[preferred]++; p.leader != preferred {
			away[preferred] = append(away[preferred], x)
		}
	}
	var refs []ref
	for _, id := range m.reign.brokerIDs() {
		if len(away[id])*100 > m.o.Settings.LeaderImbalancePercent*total[id] {
			refs = append(refs, slices.DeleteFunc(away[id], func(x ref) bool {
				_, err := m.election(x, false)
				return err != nil
			})...)
		}
	}
	if len(refs) > 0 {
		m.log.Info("leaderships go back to the preferred replicas", zap.Int("partitions", len(refs)))
	}
	return refs
}

// preferredNodeChanged serves the old tools' wish for preferred leaders: a node that lists partitions, which goes when they have
// been looked at.
func (m *Machine) preferredNodeChanged() {
	m.read(inReign, datas(znode.PreferredPath), func(nodes []store.Node) {
		n := nodes[0]
		if !n.Exists || !m.reign.loaded {
			return
		}
		list, err := znode.DecodePartitions(n.Data)
		if err != nil {
			m.log.Error("a wish for preferred leaders cannot be read; it is removed", zap.String("path", n.Path), zap.Error(err))
		}
		var refs []ref
		for _, e := range list {
			if x, err := m.electable(e.Topic, e.Partition, 0); err == nil && !slices.Contains(refs, x) {
				refs = append(refs, x)
			}
		}
		m.preferred(refs, func() {
			m.command([]store.Txn{{store.Delete(n.Path, n.Stat.Version)}}, func([]outcome) {})
		})
	})
}
