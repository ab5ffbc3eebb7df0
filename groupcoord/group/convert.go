package group

import (
	"slices"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/groupcoord/consumer"
	"github.com/gregor-broker/gregor/groupcoord/runtime"
	"github.com/gregor-broker/gregor/groupcoord/schema"
)

// Export returns what a group with members becomes a group of the consumer protocol with.
func (g *Group) Export() *consumer.Conversion {
	l := g.live
	c := &consumer.Conversion{Generation: l.generation, Protocol: l.protocol}
	if c.Protocol == "" {
		c.Protocol = l.selectProtocol()
	}
	for _, m := range l.members.list {
		member := consumer.Converted{
			ID: m.id, InstanceID: m.instanceID, ClientID: m.clientID, ClientHost: m.clientHost,
			RebalanceTimeoutMs: m.rebalanceTimeoutMs, SessionTimeoutMs: m.sessionTimeoutMs, Assignment: m.assignment,
		}
		for _, p := range m.protocols {
			member.Protocols = append(member.Protocols, schema.ClassicProtocol{Name: p.name, Metadata: p.metadata})
		}
		c.Members = append(c.Members, member)
	}
	return c
}

// Size returns the number of members.
func (g *Group) Size() int {
	if g.live == nil {
		return 0
	}
	return g.live.members.len()
}

// Abandon drops the soft side of a group that is a classic one no more. Who waits is told to join again.
func (g *Group) Abandon(out *runtime.Out) {
	if g.live == nil {
		return
	}
	for _, m := range slices.Clone(g.live.members.list) {
		m.answerJoinError(m.id, ErrRebalancing)
		m.answerSyncError(ErrRebalancing)
		out.Stop(&m.timer)
		m.live = nil
	}
	g.Forget(out)
}

// Take makes g the classic group that a group of the consumer protocol becomes, and writes it: stable, with the members and
// what they shall have. After ClassicGroup.fromConsumerGroup.
func (g *Group) Take(e *Env, out *runtime.Out, c *consumer.Conversion) {
	l := &live{group: g, state: Stable, previous: Stable, stateMs: out.Now.WallMs(), generation: c.Generation, protocolType: ConsumerProtocol}
	l.joinTimer.Event, l.syncTimer.Event = (*joinDue)(l), (*syncDue)(l)
	g.live = l
	for i := range c.Members {
		l.add(memberFromConsumer(l, &c.Members[i]))
	}
	l.protocol = l.selectProtocol()
	l.subscribe(e)
	for i, m := range l.members.list {
		m.assignment = schema.AppendAssignment(nil, schema.SubscriptionVersion(m.metadata(l.protocol)), c.Members[i].Assigned)
		m.touch(out)
	}
	l.write(e, out, l.value(func(m *Member) []byte { return m.assignment }))
	e.Log.Info("group is classic now", zap.String("group", g.id), zap.Int32("generation", l.generation), zap.Int("members", l.members.len()))
	if c.Rebalance != "" {
		l.prepare(e, out, c.Rebalance)
	}
}

func memberFromConsumer(l *live, c *consumer.Converted) *Member {
	m := &Member{
		live: l, id: c.ID, clientID: c.ClientID, clientHost: c.ClientHost, instanceID: c.InstanceID,
		sessionTimeoutMs: c.SessionTimeoutMs, rebalanceTimeoutMs: c.RebalanceTimeoutMs,
	}
	for _, p := range c.Protocols {
		m.protocols = append(m.protocols, protocol{p.Name, p.Metadata})
	}
	m.timer.Event = m
	return m
}
