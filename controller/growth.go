package controller

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gregor-broker/gregor/controller/placement"
	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// createPartitions serves CreatePartitions. Words and order as kafka.server.ZkAdminManager.createPartitions in 3.9.
func (m *Machine) createPartitions(r *kmsg.CreatePartitionsRequest, permit Permit, done func(*kmsg.CreatePartitionsResponse)) {
	resp := r.ResponseKind().(*kmsg.CreatePartitionsResponse)
	name := func(t *kmsg.CreatePartitionsRequestTopic) string { return t.Topic }
	twice, topics := duplicates(r.Topics, name), once(r.Topics, name)
	for i := range topics {
		rt := kmsg.NewCreatePartitionsResponseTopic()
		rt.Topic = topics[i].Topic
		resp.Topics = append(resp.Topics, rt)
	}
	q := m.newRequest(len(topics), r.TimeoutMillis, func(i int, code int16, message *string) {
		resp.Topics[i].ErrorCode, resp.Topics[i].ErrorMessage = code, message
	}, func(m *Machine) { m.do(Answer{resp, func() { done(resp) }}) })
	if !m.active() {
		q.abandon(m)
		return
	}
	var list []*growth
	for i := range topics {
		g := &growth{request: &topics[i], q: q, i: i}
		if twice[g.request.Topic] {
			q.result(m, i, errcode.New(kerr.InvalidRequest, "Duplicate topic in request."))
		} else if err := m.plan(g); err != nil || r.ValidateOnly {
			q.result(m, i, err)
		} else if err := permit.take(len(g.added)); err != nil {
			q.result(m, i, err)
		} else if g.t.growing {
			g.t.queue = append(g.t.queue, func() { m.replan(g) })
		} else {
			list = append(list, g)
		}
	}
	q.begin(m, r.TimeoutMillis)
	m.grow(list)
}

// growth is a topic that gets partitions.
type growth struct {
	request *kmsg.CreatePartitionsRequestTopic
	q       *request
	i       int
	t       *topic
	added   [][]int32
}

// replan checks again after another change of the same topic.
func (m *Machine) replan(g *growth) {
	if err := m.plan(g); err != nil {
		g.q.result(m, g.i, err)
	} else {
		m.grow([]*growth{g})
	}
}

// plan checks a request and decides where the new partitions go.
func (m *Machine) plan(g *growth) error {
	rt, r := g.request, m.reign
	t := r.topics[rt.Topic]
	switch {
	case t == nil:
		return errcode.Newf(kerr.UnknownTopicOrPartition, "The topic '%s' does not exist.", rt.Topic)
	case t.deletion != nil:
		return errcode.New(kerr.InvalidTopicException, "The topic is queued for deletion.")
	case len(t.adding)+len(t.removing)+len(t.moves) > 0:
		return errcode.Newf(kerr.ReassignmentInProgress, "A partition reassignment is in progress for the topic '%s'.", rt.Topic)
	}
	g.t = t
	old := int32(len(t.parts))
	switch {
	case rt.Count < old:
		return errcode.Newf(kerr.InvalidPartitions, "Topic currently has %d partitions, which is higher than the requested %d.", old, rt.Count)
	case rt.Count == old:
		return errcode.Newf(kerr.InvalidPartitions, "Topic already has %d partitions.", old)
	case rt.Count > maxPartitions:
		return errcode.Newf(kerr.InvalidPartitions, "%d partitions are more than the %d that one topic can have.", rt.Count, maxPartitions)
	case m.o.Settings.RefuseUnknownReplicas && rt.Count-old > maxPartitionsAtOnce:
		return errcode.New(kerr.PolicyViolation, "Unable to perform excessively large batch operation.")
	}
	if rt.Assignment != nil {
		return m.planManual(g, old)
	}
	candidates := r.candidates()
	first := t.parts[0].replicas
	start := max(0, slices.IndexFunc(candidates, func(b placement.Broker) bool { return b.ID >= first[0] }))
	var err error
	g.added, err = placement.Replicas(candidates, rt.Count-old, int16(len(first)), placement.Start{First: start, Shift: start}, old)
	return err
}

func (m *Machine) planManual(g *growth, old int32) error {
	rt := g.request
	refuse := func(format string, args ...any) error {
		return errcode.Newf(kerr.InvalidReplicaAssignment, format, args...)
	}
	var unknown, bad, factors []string
	factor := len(g.t.parts[0].replicas)
	for i, a := range rt.Assignment {
		for _, id := range a.Replicas {
			if text := fmt.Sprint(id); m.reign.brokers[id] == nil && !slices.Contains(unknown, text) {
				unknown = append(unknown, text)
			}
		}
		if len(a.Replicas) != factor {
			bad, factors = append(bad, fmt.Sprint(int(old)+i)), append(factors, fmt.Sprint(len(a.Replicas)))
		}
	}
	if len(unknown) > 0 {
		return refuse("Unknown broker(s) in replica assignment: %s.", strings.Join(unknown, ", "))
	}
	if increase := int(rt.Count - old); len(rt.Assignment) != increase {
		return refuse("Increasing the number of partitions by %d but %d assignments provided.", increase, len(rt.Assignment))
	}
	g.added = nil
	for i, a := range rt.Assignment {
		p := int(old) + i
		if len(a.Replicas) == 0 {
			return refuse("Cannot have replication factor of 0 for partition id %d.", p)
		}
		if distinct := slices.Compact(slices.Sorted(slices.Values(a.Replicas))); len(distinct) != len(a.Replicas) {
			return refuse("Duplicate brokers not allowed in replica assignment: %s for partition id %d.", commas(a.Replicas), p)
		}
		g.added = append(g.added, slices.Clone(a.Replicas))
	}
	if len(bad) > 0 {
		return refuse("Inconsistent replication factor between partitions, partition 0 has %d while partitions [%s] have "+
			"replication factors [%s], respectively.", factor, strings.Join(bad, ", "), strings.Join(factors, ", "))
	}
	return nil
}

func commas(ids []int32) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(ids), " ", ", "), "[]")
}

// grow writes the topics' nodes; the states of the new partitions follow.
func (m *Machine) grow(list []*growth) {
	if len(list) == 0 {
		return
	}
	txns := make([]store.Txn, len(list))
	for i, g := range list {
		g.t.growing = true
		z := g.t.node()
		z.Replicas = append(z.Replicas, g.added...)
		txns[i] = store.Txn{store.Set(znode.TopicPath(g.t.name), z.Encode(), g.t.version)}
	}
	m.command(txns, func(outcomes []outcome) {
		var unsure []*growth
		for i, g := range list {
			switch o := outcomes[i]; {
			case o.err == nil:
				m.grown(g, o.results[0].Stat.Version)
			case o.unknown(), o.at >= 0:
				unsure = append(unsure, g)
			default:
				g.q.result(m, g.i, o.err)
				m.endGrowing(g.t)
			}
		}
		m.lookForGrowth(unsure)
	})
}

// lookForGrowth reads topics back: one that has become what we wanted is done, another is tried again from what it is.
func (m *Machine) lookForGrowth(list []*growth) {
	if len(list) == 0 {
		return
	}
	paths := make([]string, len(list))
	for i, g := range list {
		paths[i] = znode.TopicPath(g.t.name)
	}
	m.read(inReign, datas(paths...), func(nodes []store.Node) {
		for i, g := range list {
			n, want := nodes[i], g.t.node()
			want.Replicas = append(want.Replicas, g.added...)
			z, err := znode.DecodeTopic(n.Data)
			switch {
			case n.Exists && err == nil && z.ID == g.t.id && slices.EqualFunc(z.Replicas, want.Replicas, slices.Equal):
				m.grown(g, n.Stat.Version)
			case n.Exists && err == nil && z.ID == g.t.id && slices.EqualFunc(z.Replicas, g.t.node().Replicas, slices.Equal):
				g.t.version = n.Stat.Version
				m.grow([]*growth{g})
			default:
				g.q.result(m, g.i, errChanged(g.t.name))
				m.endGrowing(g.t)
			}
		}
	})
}

// grown takes over a topic's new partitions and creates their states.
func (m *Machine) grown(g *growth, version int32) {
	t := g.t
	from := int32(len(t.parts))
	t.version = version
	for _, replicas := range g.added {
		t.parts = append(t.parts, partition{replicas: replicas, leader: noLeader, version: -1})
	}
	m.settle(t.refs()[from:], false)
	if g.q.begun(m, g.i) {
		m.await(t, from, int32(len(t.parts)), func() { g.q.result(m, g.i, nil) })
	}
	m.endGrowing(t)
}

// endGrowing lets the next change of the topic's node begin.
func (m *Machine) endGrowing(t *topic) {
	t.growing = false
	for len(t.queue) > 0 && !t.growing {
		next := t.queue[0]
		t.queue = t.queue[1:]
		next()
	}
}
