package groupcoord

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/groupcoord/consumer"
	"github.com/gregor-broker/gregor/groupcoord/group"
	"github.com/gregor-broker/gregor/groupcoord/runtime"
	"github.com/gregor-broker/gregor/groupcoord/schema"
	"github.com/gregor-broker/gregor/wire/errcode"
)

// Epochs of a heartbeat that say what it is.
const (
	epochJoin        = 0
	epochLeave       = -1
	epochLeaveStatic = -2
)

// ConsumerGroupHeartbeat lets its sender join, stay in or leave a group of the consumer protocol (KIP-848), and tells what it
// shall have. v1 the client makes the member id; regular expressions.
func (c *Coordinator) ConsumerGroupHeartbeat(who Caller, r *kmsg.ConsumerGroupHeartbeatRequest, reply func(kmsg.Response)) {
	ev := &consumerHeartbeat{who: who, request: r, reply: reply}
	if err := c.checkHeartbeat(r); err != nil {
		ev.Refuse(err)
		return
	}
	if re := r.SubscribedTopicRegex; re != nil && *re != "" {
		c.checks.do(func(stop func() bool) {
			if stop() {
				ev.Refuse(runtime.ErrNotCoordinator)
				return
			}
			ev.unreadable = consumer.CheckExpression(*re)
			c.submit(r.Group, ev)
		})
		return
	}
	c.submit(r.Group, ev)
}

// checkHeartbeat is GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid.
func (c *Coordinator) checkHeartbeat(r *kmsg.ConsumerGroupHeartbeatRequest) error {
	invalid := func(text string) error { return errcode.New(kerr.InvalidRequest, text) }
	blank := func(s *string) bool { return s != nil && strings.TrimSpace(*s) == "" }
	switch {
	case (r.Version >= 1 || r.MemberEpoch > epochJoin || r.MemberEpoch == epochLeave) && blank(&r.MemberID):
		return invalid("MemberId can't be empty.")
	case blank(&r.Group):
		return invalid("GroupId can't be empty.")
	case blank(r.InstanceID):
		return invalid("InstanceId can't be empty.")
	case blank(r.RackID):
		return invalid("RackId can't be empty.")
	case r.MemberEpoch == epochJoin && r.RebalanceTimeoutMillis == -1:
		return invalid("RebalanceTimeoutMs must be provided in first request.")
	case r.MemberEpoch == epochJoin && (r.Topics == nil || len(r.Topics) > 0):
		return invalid("TopicPartitions must be empty when (re-)joining.")
	case r.MemberEpoch == epochJoin && r.SubscribedTopicNames == nil && r.SubscribedTopicRegex == nil:
		return invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
	case r.MemberEpoch == epochLeaveStatic && r.InstanceID == nil:
		return invalid("InstanceId can't be null.")
	case r.MemberEpoch < epochLeaveStatic:
		return invalid("MemberEpoch is invalid.")
	}
	if known := c.o.Config.Consumer.Assignors; r.ServerAssignor != nil && !slices.Contains(known, *r.ServerAssignor) {
		return errcode.New(kerr.UnsupportedAssignor, "ServerAssignor "+*r.ServerAssignor+" is not supported. Supported assignors: "+strings.Join(known, ", ")+".")
	}
	return nil
}

type consumerHeartbeat struct {
	who        Caller
	request    *kmsg.ConsumerGroupHeartbeatRequest
	reply      func(kmsg.Response)
	unreadable error // what is wrong with the regular expression
}

// Refuse implements runtime.Event.
func (ev *consumerHeartbeat) Refuse(err error) {
	r := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	r.Version, r.ErrorCode, r.ErrorMessage = ev.request.Version, errcode.Of(err), errcode.Message(err)
	ev.reply(r)
}

func (m *machine) consumerHeartbeat(ev *consumerHeartbeat, out *runtime.Out) {
	r := ev.request
	if r.MemberEpoch == epochLeave || r.MemberEpoch == epochLeaveStatic {
		m.consumerLeave(ev, out)
		return
	}
	g, followups, err := m.consumerGroup(out, r.Group, r.MemberEpoch == epochJoin)
	if err != nil {
		ev.Refuse(err)
		return
	}
	resp, followup, err := g.Heartbeat(&m.consumers, out, consumer.Caller(ev.who), r, ev.unreadable)
	if err != nil {
		out.Drop()
		ev.Refuse(err)
		return
	}
	if e := m.groups[r.Group]; e != nil && e.consumer == nil {
		e.Abandon(out) // it is no classic group any more
	}
	out.Then(func(err error, out *runtime.Out) {
		m.settle(out, r.Group, append(followups, followup))
		if err != nil {
			ev.Refuse(err)
			return
		}
		ev.reply(resp)
	})
}

// consumerGroup returns a group of the consumer protocol that someone joins (create) or is in. One that joins makes it, and
// turns a classic group into one if that has no members, or if the policy allows it; the records that do so are written, and
// what is returned is the group as they make it. After GroupMetadataManager.getOrMaybeCreateConsumerGroup.
func (m *machine) consumerGroup(out *runtime.Out, id string, create bool) (*consumer.Group, []*consumer.Followup, error) {
	e := m.groups[id]
	switch {
	case e != nil && e.consumer != nil:
		return e.consumer, nil, nil
	case !create && e == nil:
		return nil, nil, errcode.New(kerr.GroupIDNotFound, "Consumer group "+id+" not found.")
	case !create:
		return nil, nil, errcode.New(kerr.GroupIDNotFound, "Group "+id+" is not a consumer group.")
	case e == nil:
		return consumer.New(id), nil, nil
	case e.Group.State() == group.Empty:
		m.key = schema.AppendGroupKey(m.key[:0], id)
		out.Write(m.key, nil)
		return consumer.New(id), nil, nil
	}
	if err := m.checkUpgrade(e); err != nil {
		return nil, nil, err
	}
	m.key = schema.AppendGroupKey(m.key[:0], id)
	out.Write(m.key, nil)
	g, followups, err := consumer.FromClassic(&m.consumers, out, id, e.Export())
	if err != nil {
		out.Drop()
	}
	return g, followups, err
}

// checkUpgrade is GroupMetadataManager.validateOnlineUpgrade.
func (m *machine) checkUpgrade(e *entry) error {
	text := ""
	switch {
	case !m.settings.Consumer.Migration.Upgrades():
		text = "online upgrade is disabled."
	case e.Group.ProtocolType() != group.ConsumerProtocol:
		text = "the group does not use the consumer embedded protocol."
	case e.Size() > m.settings.Consumer.MaxSize:
		text = "the group size exceeds the consumer group maximum size."
	default:
		return nil
	}
	m.log.Info("a classic group cannot become one of the consumer protocol", zap.String("group", e.ID()), zap.String("because", text))
	return errcode.New(kerr.GroupIDNotFound, "Cannot upgrade classic group "+e.ID()+" to consumer group because "+text)
}

// settle starts the timers that a request calls for, or makes good that it was refused.
func (m *machine) settle(out *runtime.Out, id string, followups []*consumer.Followup) {
	if e := m.groups[id]; e != nil && e.consumer != nil {
		for _, f := range followups {
			e.consumer.Settle(out, f)
		}
		return
	}
	m.restore(out, id)
}

// restore rebuilds the soft side of a classic group that was given up for a change that did not come about.
func (m *machine) restore(out *runtime.Out, id string) {
	if e := m.groups[id]; e != nil && e.consumer == nil && !e.Soft() {
		e.Group.Loaded(&m.env, out)
		m.vacate(e)
	}
}

func (m *machine) consumerLeave(ev *consumerHeartbeat, out *runtime.Out) {
	r := ev.request
	e, err := m.consumerOf(r.Group)
	if err != nil {
		ev.Refuse(err)
		return
	}
	member, err := e.consumer.Leaver(r)
	if err != nil {
		ev.Refuse(err)
		return
	}
	if r.MemberEpoch == epochLeaveStatic && r.InstanceID != nil {
		e.consumer.Pause(&m.consumers, out, member)
	} else {
		m.log.Info("member leaves its group", zap.String("group", r.Group), zap.String("member", member.ID))
		m.removeConsumers(out, e, []*consumer.Member{member})
	}
	resp := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	resp.Version, resp.MemberID, resp.MemberEpoch = r.Version, &r.MemberID, r.MemberEpoch
	out.Then(func(err error, _ *runtime.Out) {
		if err != nil {
			ev.Refuse(err)
			return
		}
		ev.reply(resp)
	})
}

// consumerOf returns an existing group of the consumer protocol.
func (m *machine) consumerOf(id string) (*entry, error) {
	e := m.groups[id]
	switch {
	case e == nil:
		return nil, errcode.New(kerr.GroupIDNotFound, "Group "+id+" not found.")
	case e.consumer == nil:
		return nil, errcode.New(kerr.GroupIDNotFound, "Group "+id+" is not a consumer group.")
	}
	return e, nil
}

// removeConsumers writes that members are gone. If all others speak the classic protocol, the group becomes a classic one.
func (m *machine) removeConsumers(out *runtime.Out, e *entry, members []*consumer.Member) {
	if len(members) > 0 && e.consumer.DowngradesWithout(&m.consumers, members, m.settings.Group.MaxSize) {
		c := e.consumer.ToClassic(&m.consumers, out, members)
		c.Rebalance = "the group becomes classic again, as the last member of the consumer protocol is gone"
		m.downgrade(out, e, c)
		return
	}
	e.consumer.Remove(&m.consumers, out, members)
	m.goOn(out, e.ID())
}

// downgrade makes a group of the consumer protocol a classic one, once the records of both that are written are applied.
func (m *machine) downgrade(out *runtime.Out, e *entry, c *consumer.Conversion) {
	e.Take(&m.env, out, c)
	id := e.ID()
	out.Then(func(err error, out *runtime.Out) {
		if e := m.groups[id]; err != nil && e != nil && e.consumer != nil {
			e.Abandon(out)
			e.consumer.Loaded(&m.consumers, out)
		}
	})
}

// goOn starts the sessions of members anew that were to be removed, if that was refused.
func (m *machine) goOn(out *runtime.Out, id string) {
	out.Then(func(err error, out *runtime.Out) {
		if e := m.groups[id]; err != nil && e != nil && e.consumer != nil {
			e.consumer.Loaded(&m.consumers, out)
		}
	})
}

// expired removes a member whose time is over.
func (m *machine) expired(ev consumer.Due, out *runtime.Out) {
	member, why := ev.Expired()
	if member == nil {
		return
	}
	e := m.groups[member.Group().ID()]
	if e == nil || e.consumer != member.Group() || !member.Present() {
		return
	}
	m.log.Info("member is removed from its group", zap.String("group", e.ID()), zap.String("member", member.ID), zap.String("because", why))
	m.removeConsumers(out, e, []*consumer.Member{member})
}

// resolve has it found out, elsewhere, what the regular expressions of a group stand for.
func (m *machine) resolve(ev consumer.Resolution) {
	if m.has(ev.Whose()) {
		m.elsewhere(ev.Whose().Resolve(&m.consumers))
	}
}

// resolved is the event of what resolve has asked for.
type resolved struct{ *consumer.Resolved }

// Refuse does nothing: whoever coordinates the group resolves its expressions anew.
func (resolved) Refuse(error) {}

func (m *machine) resolved(ev resolved, out *runtime.Out) {
	if m.has(ev.Group()) {
		ev.Group().TakeOver(&m.consumers, out, ev.Resolved)
	}
}

// has reports whether g is a group still.
func (m *machine) has(g *consumer.Group) bool {
	e := m.groups[g.ID()]
	return e != nil && e.consumer == g
}

// joinConsumers handles a JoinGroup to a group of the consumer protocol.
func (m *machine) joinConsumers(ev *join, out *runtime.Out, e *entry) {
	r, id := ev.Request, ev.Request.Group
	j, err := e.consumer.Join(&m.consumers, out, consumer.Caller{ClientID: ev.ClientID, ClientHost: ev.ClientHost}, r, m.settings.Group.MaxSize)
	if err != nil {
		out.Drop()
		ev.Join.Refuse("", err)
		return
	}
	if j.Downgrade != nil {
		m.downgrade(out, e, j.Downgrade)
	}
	out.Then(func(err error, out *runtime.Out) {
		if j.Downgrade == nil && j.Followup != nil {
			m.settle(out, id, []*consumer.Followup{j.Followup})
		}
		if err != nil {
			ev.Refuse(err)
			return
		}
		ev.Reply(j.Response)
	})
}

// syncConsumers handles a SyncGroup to a group of the consumer protocol.
func (m *machine) syncConsumers(ev *sync, out *runtime.Out, e *entry) {
	assignment, err := e.consumer.Sync(&m.consumers, out, ev.Request)
	if err != nil {
		ev.Refuse(err)
		return
	}
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.Version, resp.ProtocolType, resp.Protocol = ev.Request.Version, ev.Request.ProtocolType, ev.Request.Protocol
	resp.MemberAssignment = assignment
	out.Then(func(err error, _ *runtime.Out) {
		if err != nil {
			ev.Refuse(err)
			return
		}
		ev.Reply(resp)
	})
}

// leaveConsumers handles a LeaveGroup to a group of the consumer protocol.
func (m *machine) leaveConsumers(ev *leave, out *runtime.Out, e *entry) {
	members, answers := e.consumer.ClassicLeavers(&m.consumers, ev.members)
	m.removeConsumers(out, e, members)
	out.Then(func(err error, _ *runtime.Out) {
		if err != nil {
			ev.Refuse(err)
			return
		}
		ev.answer(nil, answers)
	})
}

func (m *machine) applyConsumer(r *runtime.Record) (version int16, err error) {
	key, err := schema.DecodeConsumerKey(r.Key)
	if err != nil {
		return -1, err
	}
	e := m.groups[string(key.Group)]
	if r.Value == nil && (e == nil || e.consumer == nil) {
		return -1, nil
	}
	if e == nil {
		e = m.entry(string(key.Group))
	}
	if e.consumer == nil {
		e.Apply(nil)
		e.consumer = consumer.New(e.ID())
	}
	version, err = e.consumer.Apply(key, r.Value)
	if key.Kind == schema.ConsumerGroup && r.Value == nil {
		e.consumer = nil
		m.vacate(e)
	}
	return version, err
}

// ConsumerGroupDescribe tells all of groups of the consumer protocol. AuthorizedOperations are left for the caller to fill in.
func (c *Coordinator) ConsumerGroupDescribe(_ Caller, r *kmsg.ConsumerGroupDescribeRequest, reply func(kmsg.Response)) {
	resp := kmsg.NewPtrConsumerGroupDescribeResponse()
	resp.Version = r.Version
	resp.Groups = make([]kmsg.ConsumerGroupDescribeResponseGroup, len(r.Groups))
	for i, id := range r.Groups {
		resp.Groups[i].Default()
		resp.Groups[i].Group = id
	}
	parts := c.byPartition(r.Groups)
	all := runtime.NewGather(len(parts), func() { reply(resp) })
	for p, indexes := range parts {
		c.send(p, &consumerDescribe{resp, indexes, all.Done})
	}
}

// consumerDescribe is the part of a ConsumerGroupDescribe request that one partition answers.
type consumerDescribe struct {
	response *kmsg.ConsumerGroupDescribeResponse
	indexes  []int
	done     func()
}

// Refuse implements runtime.Event.
func (ev *consumerDescribe) Refuse(err error) {
	for _, i := range ev.indexes {
		ev.fail(i, err)
	}
	ev.done()
}

func (ev *consumerDescribe) fail(i int, err error) {
	g := kmsg.NewConsumerGroupDescribeResponseGroup()
	g.Group, g.ErrorCode = ev.response.Groups[i].Group, errcode.Of(err)
	if g.ErrorCode == kerr.GroupIDNotFound.Code {
		g.ErrorMessage = errcode.Message(err)
	}
	ev.response.Groups[i] = g
}

func (m *machine) consumerDescribe(ev *consumerDescribe, out *runtime.Out) {
	for _, i := range ev.indexes {
		g := &ev.response.Groups[i]
		if g.Group == "" {
			ev.fail(i, errInvalidGroup)
			continue
		}
		e, err := m.consumerOf(g.Group)
		if err != nil {
			ev.fail(i, err)
			continue
		}
		e.consumer.Describe(&m.consumers, g)
	}
	out.Then(func(err error, _ *runtime.Out) {
		if err != nil {
			ev.Refuse(err)
			return
		}
		ev.done()
	})
}
