package consumer

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/groupcoord/runtime"
	"github.com/gregor-broker/gregor/groupcoord/schema"
)

// Leaver returns the member that a heartbeat with epoch -1 or -2 is of. Only a static member may go with -2, and keeps its
// place for as long as its session lasts.
func (g *Group) Leaver(r *kmsg.ConsumerGroupHeartbeatRequest) (*Member, error) {
	return g.leaver(r.MemberID, r.InstanceID, false)
}

// leaver returns the member of an id, or, if instance is not nil, the static one, which must have that id unless anyID.
func (g *Group) leaver(id string, instance *string, anyID bool) (*Member, error) {
	if instance == nil {
		if m := g.member(id); m != nil {
			return m, nil
		}
		return nil, errUnknown(id, g.id)
	}
	m := g.static(instance)
	switch {
	case m == nil:
		return nil, fail(kerr.UnknownMemberID, "Instance id %s is unknown.", *instance)
	case !anyID && m.ID != id:
		return nil, errFencedInstance(id, *instance, m.ID)
	}
	return m, nil
}

// Pause writes that a static member has gone and will come back.
func (g *Group) Pause(e *Env, out *runtime.Out, m *Member) {
	e.Log.Info("static member pauses", zap.String("group", g.id), zap.String("member", m.ID), zap.Stringp("instance", m.Said.InstanceID))
	v := m.View
	v.Epoch, v.Assigned, v.Revoking = leavingStatic, v.Assigned.since(0), nil
	w := writer{e: e, out: out, group: g.id}
	w.current(&v)
}

// Remove writes that members are gone, and that the group has another epoch for it.
// After GroupMetadataManager.consumerGroupFenceMembers.
func (g *Group) Remove(e *Env, out *runtime.Out, members []*Member) {
	if len(members) == 0 {
		return
	}
	w := writer{e: e, out: out, group: g.id}
	for _, m := range members {
		w.removeMember(m.ID)
		m.stop(out)
	}
	var stay []candidate
	for _, c := range g.candidates() {
		if !slices.ContainsFunc(members, func(m *Member) bool { return m.ID == c.ID }) {
			stay = append(stay, c)
		}
	}
	d := g.demandOf(stay)
	for _, re := range sortedKeys(regexesOf(members)) {
		if d.regexes[re] == 0 {
			w.write(schema.ConsumerExpression, re, nil)
		}
	}
	epoch := g.epoch + 1
	w.groupRecord(epoch, e.hashOf(d.topics()))
	if len(stay) == 0 {
		w.target(epoch, 0)
	}
	e.Log.Info("group has a new epoch: members are gone", zap.String("group", g.id), zap.Int32("epoch", epoch), zap.Int("gone", len(members)))
}

func regexesOf(members []*Member) map[string]bool {
	set := map[string]bool{}
	for _, m := range members {
		if m.Said.Regex != "" {
			set[m.Said.Regex] = true
		}
	}
	return set
}

// stop forgets the member's timers.
func (m *Member) stop(out *runtime.Out) {
	out.Stop(&m.session)
	out.Stop(&m.rebalance)
	if m.classicTimers != nil {
		out.Stop(&m.classicTimers.join)
		out.Stop(&m.classicTimers.sync)
	}
}

// Forget writes that the group and its members are deleted.
func (g *Group) Forget(e *Env, out *runtime.Out) {
	for _, m := range g.members {
		m.stop(out)
	}
	g.forgetAs(&writer{e: e, out: out, group: g.id}, "", "")
}

// forgetAs writes tombstones for all records of the group; those of member instead get the id of its replacement.
func (g *Group) forgetAs(w *writer, member, replacement string) {
	if g.resolve != nil {
		w.out.Stop(g.resolve)
	}
	for _, kind := range []schema.Type{schema.ConsumerCurrent, schema.ConsumerTargetOf, schema.ConsumerTarget, schema.ConsumerMember} {
		if kind == schema.ConsumerTarget {
			w.write(kind, "", nil)
			continue
		}
		for _, m := range g.members {
			id := m.ID
			if id == member {
				id = replacement
			}
			w.write(kind, id, nil)
		}
	}
	for re := range g.expressions {
		w.write(schema.ConsumerExpression, re, nil)
	}
	w.writeNoTopics()
	w.write(schema.ConsumerGroup, "", nil)
}

// Loaded starts the members' sessions.
func (g *Group) Loaded(e *Env, out *runtime.Out) {
	for _, m := range g.members {
		if m.present {
			out.Set(&m.session, e.Times(g.id).SessionTimeout)
			m.watchRevocation(out)
		}
	}
}

// Stop forgets all timers.
func (g *Group) Stop(out *runtime.Out) {
	for _, m := range g.members {
		m.stop(out)
	}
	if g.resolve != nil {
		out.Stop(g.resolve)
	}
}

// Due is the event of a member's timer: it may have to go.
type Due interface {
	// Expired tells whose time is over, and why; nil if it does not matter any more.
	Expired() (m *Member, why string)
}

type (
	sessionDue   Member
	rebalanceDue Member
	joinDue      Member
	syncDue      Member
)

// Group returns the group that a member belongs to.
func (m *Member) Group() *Group { return m.group }

// Present reports whether m is still a member.
func (m *Member) Present() bool { return m.group.member(m.ID) == m }

// Expired implements Due.
func (d *sessionDue) Expired() (*Member, string) { return (*Member)(d), "the member session expired" }

// Expired implements Due.
func (d *rebalanceDue) Expired() (*Member, string) {
	m := (*Member)(d)
	if m.Epoch != m.rebalanceEpoch {
		return nil, ""
	}
	return m, fmt.Sprintf("it did not give up partitions in epoch %d within %d ms", m.Epoch, m.Said.RebalanceTimeoutMs)
}

// Expired implements Due.
func (d *joinDue) Expired() (*Member, string) {
	return (*Member)(d), "the classic member failed to join within the rebalance timeout"
}

// Expired implements Due.
func (d *syncDue) Expired() (*Member, string) {
	return (*Member)(d), "the member failed to sync within timeout"
}

// Resolution is the event of a group whose regular expressions are to be resolved.
type Resolution interface{ Whose() *Group }

// Whose implements Resolution.
func (d *resolveDue) Whose() *Group { return (*Group)(d) }
