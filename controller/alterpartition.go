package controller

import (
	"slices"

	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// This file serves AlterPartition: the leaders of partitions ask for other in-sync replicas. The leader epoch stays, the
// partition epoch (the version of the node) rises; every broker's metadata is told, the replicas are not.
// After kafka.controller.KafkaController.tryProcessAlterPartition.

// proposal is what a leader wants for one partition.
type proposal struct {
	version        int16 // of the request
	leader         int32
	leaderEpoch    int32
	partitionEpoch int32
	isr            []int32
	epochs         map[int32]int64 // broker epochs of members, where the leader knows them
	recovering     bool
}

// alterPartition serves AlterPartition. It is answered when all of it is written or refused.
func (m *Machine) alterPartition(r *kmsg.AlterPartitionRequest, done func(*kmsg.AlterPartitionResponse)) {
	resp := r.ResponseKind().(*kmsg.AlterPartitionResponse)
	answer := func() { m.do(Answer{resp, func() { done(resp) }}) }
	if !m.active() {
		resp.ErrorCode = kerr.NotController.Code
		answer()
		return
	}
	if b := m.reign.brokers[r.BrokerID]; b == nil || b.epoch != r.BrokerEpoch {
		m.log.Info("in-sync replicas proposed by a broker that is not registered so are ignored", zap.Int32("broker", r.BrokerID))
		resp.ErrorCode = kerr.StaleBrokerEpoch.Code
		answer()
		return
	}
	var refs []ref
	proposals := map[ref]*proposal{}
	answers := map[ref]*kmsg.AlterPartitionResponseTopicPartition{}
	for i := range r.Topics {
		rt := &r.Topics[i]
		t, unknown := m.proposedTopic(rt, r.Version)
		answered := kmsg.NewAlterPartitionResponseTopic()
		answered.Topic, answered.TopidID = rt.Topic, rt.TopicID
		answered.Partitions = make([]kmsg.AlterPartitionResponseTopicPartition, len(rt.Partitions))
		for j := range rt.Partitions {
			a := &answered.Partitions[j]
			*a = kmsg.NewAlterPartitionResponseTopicPartition()
			a.Partition = rt.Partitions[j].Partition
			switch x := (ref{t, a.Partition}); {
			case t == nil:
				a.ErrorCode = unknown
			case a.Partition < 0 || int(a.Partition) >= len(t.parts):
				a.ErrorCode = kerr.UnknownTopicOrPartition.Code
			case proposals[x] != nil:
				a.ErrorCode = kerr.InvalidRequest.Code
			default:
				refs = append(refs, x)
				proposals[x], answers[x] = newProposal(r, &rt.Partitions[j]), a
			}
		}
		resp.Topics = append(resp.Topics, answered)
	}
	q := m.newRequest(len(refs), leaderTimeoutMs, func(i int, code int16, _ *string) { answers[refs[i]].ErrorCode = code }, func(*Machine) { answer() })
	index := map[ref]int{}
	for i, x := range refs {
		index[x] = i
	}
	q.begin(m, leaderTimeoutMs)
	m.alter(refs, change{quiet: true,
		next: func(x ref) (znode.State, bool) {
			next, same, err := m.judge(x, proposals[x])
			if err != nil {
				q.result(m, index[x], err)
			}
			return next, err == nil && !same
		},
		then: func(x ref) {
			if q.open[index[x]] {
				showPartition(answers[x], x.part())
				q.result(m, index[x], nil)
			}
		}})
}

// leaderTimeoutMs is how long a leader waits for the answer to AlterPartition, and a broker for that to its shutdown.
const leaderTimeoutMs = 30_000

// proposedTopic finds the topic of a proposal, or says what its partitions are answered.
func (m *Machine) proposedTopic(rt *kmsg.AlterPartitionRequestTopic, version int16) (*topic, int16) {
	if version < 2 {
		return m.reign.topics[rt.Topic], kerr.UnknownTopicOrPartition.Code
	}
	return m.reign.ids[rt.TopicID], kerr.UnknownTopicID.Code
}

func newProposal(r *kmsg.AlterPartitionRequest, rp *kmsg.AlterPartitionRequestTopicPartition) *proposal {
	p := &proposal{version: r.Version, leader: r.BrokerID, leaderEpoch: rp.LeaderEpoch, partitionEpoch: rp.PartitionEpoch, isr: rp.NewISR,
		recovering: rp.LeaderRecoveryState == 1}
	if r.Version < 3 {
		return p
	}
	p.isr, p.epochs = nil, map[int32]int64{}
	for _, member := range rp.NewEpochISR {
		p.isr = append(p.isr, member.BrokerID)
		p.epochs[member.BrokerID] = member.BrokerEpoch
	}
	return p
}

var (
	errAhead      = errcode.New(kerr.NotController, "the leader knows more than this controller")
	errBadISR     = errcode.New(kerr.InvalidRequest, "the in-sync replicas must be assigned ones and the leader one of them")
	errRecovering = errcode.New(kerr.InvalidRequest, "a leader that recovers is the only in-sync replica, and one that has recovered stays so")
)

// judge says what a proposal makes of a partition as it is: a new state, the same one (the answer to an earlier try was lost), or an
// error.
func (m *Machine) judge(x ref, w *proposal) (next znode.State, same bool, err error) {
	p := x.part()
	switch {
	case x.t.deletion != nil || p.version < 0:
		return next, false, kerr.UnknownTopicOrPartition
	case w.partitionEpoch > p.version || w.leaderEpoch > p.leaderEpoch:
		return next, false, errAhead
	case w.leaderEpoch < p.leaderEpoch:
		return next, false, kerr.FencedLeaderEpoch
	case w.leader == p.leader && w.recovering == p.recovering && slices.Equal(w.isr, p.isr):
		return next, true, nil
	case w.partitionEpoch < p.version:
		return next, false, kerr.InvalidUpdateVersion
	case w.leader != p.leader || !m.validISR(x, w):
		return next, false, errBadISR
	case w.recovering && (len(w.isr) > 1 || !p.recovering):
		return next, false, errRecovering
	}
	if id, ok := m.ineligible(x, w); ok {
		m.log.Info("a replica that is not alive cannot become in-sync", zap.String("topic", x.t.name), zap.Int32("partition", x.p), zap.Int32("broker", id))
		if w.version < 2 {
			return next, false, kerr.OperationNotAttempted
		}
		return next, false, kerr.IneligibleReplica
	}
	next = p.state()
	next.ISR, next.Recovering = w.isr, w.recovering
	return next, false, nil
}

func (m *Machine) validISR(x ref, w *proposal) bool {
	seen := map[int32]bool{}
	for _, id := range w.isr {
		if seen[id] || !slices.Contains(x.assigned().replicas, id) {
			return false
		}
		seen[id] = true
	}
	return seen[w.leader]
}

// ineligible finds a member that does not live, shuts down, or has been restarted since the leader heard from it.
func (m *Machine) ineligible(x ref, w *proposal) (int32, bool) {
	for _, id := range w.isr {
		epoch, known := w.epochs[id]
		if b := m.reign.brokers[id]; b == nil || b.stopping || known && epoch >= 0 && epoch != b.epoch {
			return id, true
		}
	}
	return -1, false
}

// showPartition puts a partition as it is into an answer.
func showPartition(a *kmsg.AlterPartitionResponseTopicPartition, p *partition) {
	a.LeaderID, a.LeaderEpoch, a.ISR, a.PartitionEpoch = p.leader, p.leaderEpoch, p.isr, p.version
	if p.recovering {
		a.LeaderRecoveryState = 1
	}
}
