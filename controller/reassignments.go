package controller

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// This file takes wishes for reassignment: AlterPartitionReassignments, and the old node /admin/reassign_partitions.

func errChanged(topic string) error {
	return fmt.Errorf("the node of topic %s was changed by somebody else", topic)
}

var errNoMove = errcode.New(kerr.NoReassignmentInProgress, "No partition reassignment is in progress.")

// wish is where somebody wants a partition to go.
type wish struct {
	topic      string
	partition  int32
	target     []int32 // nil: cancel
	keepFactor bool    // refuse another replication factor
	done       func(error)
}

// alterReassignments serves AlterPartitionReassignments. It is answered when the new assignments are in the topics' nodes.
func (m *Machine) alterReassignments(r *kmsg.AlterPartitionAssignmentsRequest, done func(*kmsg.AlterPartitionAssignmentsResponse)) {
	resp := r.ResponseKind().(*kmsg.AlterPartitionAssignmentsResponse)
	resp.AllowReplicationFactorChange = r.AllowReplicationFactorChange
	if !m.o.Settings.Embedded {
		r.Topics = lastWishes(r.Topics)
	}
	if !m.active() {
		resp.ErrorCode, resp.ErrorMessage = errNotController.Code(), errcode.Message(errNotController)
		m.do(Answer{resp, func() { done(resp) }})
		return
	}
	var rows [][2]int
	for i := range r.Topics {
		t := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		t.Topic = r.Topics[i].Topic
		t.Partitions = make([]kmsg.AlterPartitionAssignmentsResponseTopicPartition, len(r.Topics[i].Partitions))
		for j := range t.Partitions {
			t.Partitions[j] = kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			t.Partitions[j].Partition = r.Topics[i].Partitions[j].Partition
			rows = append(rows, [2]int{i, j})
		}
		resp.Topics = append(resp.Topics, t)
	}
	q := m.newRequest(len(rows), r.TimeoutMillis, func(i int, code int16, message *string) {
		p := &resp.Topics[rows[i][0]].Partitions[rows[i][1]]
		p.ErrorCode, p.ErrorMessage = code, message
	}, func(m *Machine) { m.do(Answer{resp, func() { done(resp) }}) })
	var wishes []*wish
	for i, at := range rows {
		rp := &r.Topics[at[0]].Partitions[at[1]]
		wishes = append(wishes, &wish{topic: r.Topics[at[0]].Topic, partition: rp.Partition, target: rp.Replicas,
			keepFactor: r.Version >= 1 && !r.AllowReplicationFactorChange, done: func(err error) { q.result(m, i, err) }})
	}
	q.begin(m, max(r.TimeoutMillis, 1))
	m.reassign(wishes)
}

// lastWishes leaves of each partition the last wish, as 3.9 does, for which the wishes are a map.
func lastWishes(topics []kmsg.AlterPartitionAssignmentsRequestTopic) (kept []kmsg.AlterPartitionAssignmentsRequestTopic) {
	place, seen := map[string]int{}, map[string]map[int32]int{}
	for _, rt := range topics {
		for _, rp := range rt.Partitions {
			if seen[rt.Topic] == nil {
				seen[rt.Topic] = map[int32]int{}
				place[rt.Topic] = len(kept)
				t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
				t.Topic = rt.Topic
				kept = append(kept, t)
			}
			of := &kept[place[rt.Topic]]
			if at, again := seen[rt.Topic][rp.Partition]; again {
				of.Partitions[at] = rp
				continue
			}
			seen[rt.Topic][rp.Partition] = len(of.Partitions)
			of.Partitions = append(of.Partitions, rp)
		}
	}
	return kept
}

// reassign begins, replaces and cancels reassignments; the wishes for a topic together.
func (m *Machine) reassign(wishes []*wish) {
	byName := map[string][]*wish{}
	var names []string
	for _, w := range wishes {
		if byName[w.topic] == nil {
			names = append(names, w.topic)
		}
		byName[w.topic] = append(byName[w.topic], w)
	}
	for _, name := range names {
		m.reassignTopic(name, byName[name])
	}
}

func (m *Machine) reassignTopic(name string, wishes []*wish) {
	t := m.reign.topics[name]
	if t == nil || t.deletion != nil {
		for _, w := range wishes {
			w.done(m.withoutPartition(w))
		}
		return
	}
	b := &beginning{t: t, wishes: wishes}
	m.editTopic(&edit{t: t, apply: func(z *znode.Topic) []stateWrite { return m.planMoves(b, z) }, done: func(err error) { m.begun(b, err) }})
}

// beginning is the change of a topic's node that begins reassignments.
type beginning struct {
	t      *topic
	wishes []*wish
	plans  []plan  // those of the wishes that are granted
	later  []*wish // for partitions of which another is granted now
	refuse []func()
}

// plan is a granted wish.
type plan struct {
	*wish
	from, to assignment
	dropped  []int32 // replicas that only the reassignment that is replaced had brought
	before   int32   // leader epoch
	nothing  bool    // it is so already
}

// planMoves decides about the wishes and puts what is granted into the node. Wishes that must wait, for a commit or for the last steps
// of a reassignment that is there, come again by themselves.
func (m *Machine) planMoves(b *beginning, z *znode.Topic) []stateWrite {
	b.plans, b.refuse = nil, nil
	wishes := b.wishes
	b.wishes = nil
	var states []stateWrite
	seen := map[int32]bool{}
	for _, w := range wishes {
		x := ref{b.t, w.partition}
		if seen[w.partition] {
			b.later = append(b.later, w)
			continue
		}
		if w.partition >= 0 && int(w.partition) < len(b.t.parts) {
			again := func() { m.reassign([]*wish{w}) }
			if v := b.t.moves[x.p]; v != nil && v.stage >= moveSwitching {
				v.queue = append(v.queue, again)
				continue
			}
			if x.part().busy {
				m.whenIdle(x, again)
				continue
			}
		}
		b.wishes = append(b.wishes, w)
		p, state, err := m.planMove(x, w)
		if err != nil {
			b.refuse = append(b.refuse, func() { w.done(err) })
			continue
		}
		seen[x.p] = true
		b.plans = append(b.plans, p)
		z.Replicas[x.p] = p.to.replicas
		setOrDelete(z.Adding, x.p, p.to.adding)
		setOrDelete(z.Removing, x.p, p.to.removing)
		if state != nil {
			states = append(states, *state)
		}
	}
	return states
}

func setOrDelete(to map[int32][]int32, p int32, ids []int32) {
	if len(ids) == 0 {
		delete(to, p)
	} else {
		to[p] = ids
	}
}

// planMove decides about one wish. If there is something to do it also returns the state that goes with it.
func (m *Machine) planMove(x ref, w *wish) (plan, *stateWrite, error) {
	if x.p < 0 || int(x.p) >= len(x.t.parts) || x.part().version < 0 {
		return plan{}, nil, m.withoutPartition(w)
	}
	p, from, target := x.part(), x.written(), w.target
	if target == nil {
		if !from.moving() {
			return plan{}, nil, errNoMove
		}
		target = from.origin()
	}
	to := from.to(target)
	if err := m.validTarget(x, w, from, to, target); err != nil {
		return plan{}, nil, err
	}
	n := plan{wish: w, from: from, to: to, dropped: without(from.replicas, to.replicas), before: p.leaderEpoch, nothing: from.equal(to)}
	isr := without(p.isr, n.dropped)
	switch {
	case n.nothing:
		return n, nil, nil
	case len(isr) == len(p.isr) && !slices.Contains(n.dropped, p.leader):
		return n, &stateWrite{x: x, keep: true}, nil // the reassignment that is replaced must not go on while the node is being written
	}
	if len(isr) == 0 {
		return n, nil, errcode.Newf(kerr.InvalidReplicaAssignment,
			"Unable to revert partition assignment for %s-%d because it would require an unclean leader election.", x.t.name, x.p)
	}
	next := p.state()
	next.LeaderEpoch++
	next.ISR = isr
	if slices.Contains(n.dropped, p.leader) {
		next.Leader = noLeader
		for _, id := range to.replicas {
			if slices.Contains(isr, id) && m.reign.live(id, x) {
				next.Leader = id
				break
			}
		}
	}
	return n, &stateWrite{x: x, state: next, settle: true}, nil
}

// withoutPartition is why a wish for a partition that there is not cannot be granted. 3.9 looks at the wish first.
func (m *Machine) withoutPartition(w *wish) error {
	switch {
	case m.o.Settings.Embedded:
		return errNoPartition
	case w.target == nil:
		return errNoMove
	}
	return cmp.Or(possible(w.target), error(errNoPartition))
}

// possible says why no partition can have a list of replicas.
func possible(target []int32) error {
	switch {
	case len(target) == 0:
		return errcode.Newf(kerr.InvalidReplicaAssignment, "Empty replica list specified in partition reassignment.")
	case len(slices.Compact(slices.Sorted(slices.Values(target)))) != len(target):
		return errcode.Newf(kerr.InvalidReplicaAssignment, "Duplicate replica ids in partition reassignment replica list: %s", commas(target))
	case slices.Min(target) < 0:
		return errcode.Newf(kerr.InvalidReplicaAssignment, "Invalid broker id in replica list: %s", commas(target))
	}
	return nil
}

// validTarget says why a partition cannot go to a target. Words as kafka.controller.KafkaController.validateReplicas.
func (m *Machine) validTarget(x ref, w *wish, from, to assignment, target []int32) error {
	refuse := func(format string, args ...any) error {
		return errcode.Newf(kerr.InvalidReplicaAssignment, format, args...)
	}
	if err := possible(target); err != nil {
		return err
	}
	if w.target != nil {
		for _, id := range to.adding {
			if b := m.reign.brokers[id]; b == nil || b.stopping {
				return refuse("Replica assignment has brokers that are not alive. Replica list: %s, live broker list: %s",
					commas(to.adding), commas(m.reign.brokerIDs()))
			}
		}
	}
	if now := len(from.target()); w.keepFactor && w.target != nil && now != len(target) {
		return errcode.Newf(kerr.InvalidReplicationFactor, "The replication factor is changed from %d to %d", now, len(target))
	}
	return nil
}

// begun goes on with the reassignments whose beginning is in the node.
func (m *Machine) begun(b *beginning, err error) {
	defer m.reassign(b.later)
	for _, refuse := range b.refuse {
		refuse()
	}
	if b.t.deletion != nil {
		err = errNoPartition
	}
	for _, p := range b.plans {
		x := ref{b.t, p.partition}
		if err == nil && !p.nothing {
			m.log.Info("a partition is being reassigned", zap.String("topic", b.t.name), zap.Int32("partition", p.partition),
				zap.Int32s("from", p.from.replicas), zap.Int32s("to", p.to.target()))
			x.t.setMove(x.p)
			m.stopReplicas(x, p.dropped, p.before, nil)
			m.advance(x)
		}
		p.done(err)
	}
	m.trimReassignNode()
}

// listReassignments serves ListPartitionReassignments.
func (m *Machine) listReassignments(r *kmsg.ListPartitionReassignmentsRequest, done func(*kmsg.ListPartitionReassignmentsResponse)) {
	resp := r.ResponseKind().(*kmsg.ListPartitionReassignmentsResponse)
	if !m.active() {
		resp.ErrorCode, resp.ErrorMessage = errNotController.Code(), errcode.Message(errNotController)
	} else {
		var names []string
		asked := map[string][]int32{}
		for _, rt := range r.Topics {
			asked[rt.Topic] = append(asked[rt.Topic], rt.Partitions...)
		}
		for _, name := range m.reign.topicNames() {
			if _, ok := asked[name]; ok || r.Topics == nil {
				names = append(names, name)
			}
		}
		for _, name := range names {
			if t := m.reign.topics[name].listMoves(asked[name], r.Topics == nil); len(t.Partitions) > 0 {
				resp.Topics = append(resp.Topics, t)
			}
		}
	}
	m.do(Answer{resp, func() { done(resp) }})
}

func (t *topic) listMoves(asked []int32, all bool) kmsg.ListPartitionReassignmentsResponseTopic {
	list := kmsg.NewListPartitionReassignmentsResponseTopic()
	list.Topic = t.name
	for _, x := range t.refs() {
		a := x.written()
		if t.deletion != nil || !a.moving() || !all && !slices.Contains(asked, x.p) {
			continue
		}
		p := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
		p.Partition, p.Replicas, p.AddingReplicas, p.RemovingReplicas = x.p, a.replicas, a.adding, a.removing
		list.Partitions = append(list.Partitions, p)
	}
	return list
}

// reassignNodeChanged serves the old tools: a node that lists partitions with their new replicas. Entries go when they are done or
// refused, the node with the last one.
func (m *Machine) reassignNodeChanged() {
	m.read(inReign, datas(znode.ReassignPath), func(nodes []store.Node) {
		if !nodes[0].Exists || !m.reign.loaded {
			return
		}
		list, err := znode.DecodeReassignments(nodes[0].Data)
		if err != nil {
			m.log.Error("the wish for reassignments cannot be read; it is removed", zap.String("path", znode.ReassignPath), zap.Error(err))
		}
		left := 1
		done := func() {
			if left--; left == 0 {
				m.reign.reassignNode = true
				m.trimReassignNode()
			}
		}
		var wishes []*wish
		for _, e := range list {
			if m.isMoving(e) {
				continue
			}
			left++
			wishes = append(wishes, &wish{topic: e.Topic, partition: e.Partition, target: append([]int32{}, e.Replicas...), done: func(err error) {
				if err != nil {
					m.log.Warn("a wish for a reassignment is refused", zap.String("topic", e.Topic), zap.Int32("partition", e.Partition), zap.Error(err))
				}
				done()
			}})
		}
		m.reassign(wishes)
		done()
	})
}

// isMoving says whether an entry of the node is under way.
func (m *Machine) isMoving(e znode.Reassignment) bool {
	t := m.reign.topics[e.Topic]
	return t != nil && t.deletion == nil && t.moves[e.Partition] != nil && slices.Equal(ref{t, e.Partition}.written().target(), e.Replicas)
}

// trimReassignNode removes what is not under way from the node.
func (m *Machine) trimReassignNode() {
	if m.reign == nil || !m.reign.reassignNode {
		return
	}
	if r := m.reign; r.retry.trim {
		r.retry.trimAgain = true
		return
	}
	m.reign.retry.trim, m.reign.retry.trimAgain = true, false
	m.read(inReign, datas(znode.ReassignPath), func(nodes []store.Node) {
		n := nodes[0]
		if !n.Exists {
			m.trimmed(true)
			return
		}
		list, _ := znode.DecodeReassignments(n.Data)
		keep := slices.DeleteFunc(slices.Clone(list), func(e znode.Reassignment) bool { return !m.isMoving(e) })
		slices.SortStableFunc(keep, func(a, b znode.Reassignment) int {
			return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
		})
		op := store.Set(n.Path, znode.EncodeReassignments(keep), n.Stat.Version)
		if len(keep) == 0 {
			op = store.Delete(n.Path, n.Stat.Version)
		} else if len(keep) == len(list) {
			m.trimmed(false)
			return
		}
		m.command([]store.Txn{{op}}, func(outcomes []outcome) {
			if outcomes[0].err != nil {
				m.reign.retry.trimAgain = true
			}
			m.trimmed(outcomes[0].err == nil && len(keep) == 0)
		})
	})
}

func (m *Machine) trimmed(gone bool) {
	r := m.reign
	r.retry.trim = false
	if gone {
		r.reassignNode = false
	} else if r.retry.trimAgain {
		m.trimReassignNode()
	}
}
