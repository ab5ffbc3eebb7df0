package groupcoord

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/groupcoord/group"
	"github.com/gregor-broker/gregor/groupcoord/runtime"
	"github.com/gregor-broker/gregor/wire/errcode"
)

var (
	errInvalidGroup   = errcode.New(kerr.InvalidGroupID, "the group id is empty")
	errSessionTimeout = errcode.New(kerr.InvalidSessionTimeout, "the session timeout is outside of group.min.session.timeout.ms and group.max.session.timeout.ms")
)

// JoinGroup makes the caller a member. It is answered when the group's join phase is over.
// v1 rebalance timeout · v4 MEMBER_ID_REQUIRED (KIP-394) · v5 group.instance.id (KIP-345) · v8 reason · v9 SkipAssignment.
func (c *Coordinator) JoinGroup(who Caller, r *kmsg.JoinGroupRequest, reply func(kmsg.Response)) {
	ev := &join{group.Join{ClientID: who.ClientID, ClientHost: who.ClientHost, Request: r, Reply: reply}}
	timeout, s := time.Duration(r.SessionTimeoutMillis)*time.Millisecond, &c.o.Config.Group
	switch {
	case r.Group == "":
		ev.Refuse(errInvalidGroup)
	case timeout < s.MinSessionTimeout || timeout > s.MaxSessionTimeout:
		ev.Refuse(errSessionTimeout)
	default:
		for i := range r.Protocols {
			r.Protocols[i].Metadata = append([]byte{}, r.Protocols[i].Metadata...)
		}
		c.submit(r.Group, ev)
	}
}

type join struct{ group.Join }

// Refuse implements runtime.Event.
func (ev *join) Refuse(err error) { ev.Join.Refuse(ev.Request.MemberID, err) }

func (m *machine) join(ev *join, out *runtime.Out) {
	e := m.groups[ev.Request.Group]
	if e == nil {
		if ev.Request.MemberID != "" {
			ev.Refuse(group.ErrUnknownMember)
			return
		}
		e = m.entry(ev.Request.Group)
	}
	if e.consumer != nil && !e.consumer.Empty() {
		m.joinConsumers(ev, out, e)
		return
	}
	if e.consumer != nil {
		m.joinEmptied(ev, out, e)
		return
	}
	e.Join(&m.env, out, &ev.Join)
}

// SyncGroup brings the leader's assignment and gets the caller's own.
// v3 group.instance.id · v5 protocol type and name must be given.
func (c *Coordinator) SyncGroup(_ Caller, r *kmsg.SyncGroupRequest, reply func(kmsg.Response)) {
	ev := &sync{group.Sync{Request: r, Reply: reply}}
	switch {
	case r.Version >= 5 && (r.ProtocolType == nil || r.Protocol == nil):
		ev.Refuse(group.ErrInconsistent)
	case r.Group == "":
		ev.Refuse(errInvalidGroup)
	default:
		for i := range r.GroupAssignment {
			r.GroupAssignment[i].MemberAssignment = append([]byte{}, r.GroupAssignment[i].MemberAssignment...)
		}
		c.submit(r.Group, ev)
	}
}

type sync struct{ group.Sync }

func (m *machine) sync(ev *sync, out *runtime.Out) {
	e := m.groups[ev.Request.Group]
	if e == nil {
		ev.Refuse(group.ErrUnknownMember)
		return
	}
	switch {
	case e.consumer == nil:
		e.Sync(&m.env, out, &ev.Sync)
	case e.consumer.Empty():
		ev.Refuse(group.ErrUnknownMember)
	default:
		m.syncConsumers(ev, out, e)
	}
}

// Heartbeat keeps the caller's session alive. While the partition is loading it succeeds, as the session has just begun anew.
func (c *Coordinator) Heartbeat(_ Caller, r *kmsg.HeartbeatRequest, reply func(kmsg.Response)) {
	ev := &heartbeat{r, reply}
	if r.Group == "" {
		ev.answer(errInvalidGroup)
		return
	}
	c.submit(r.Group, ev)
}

type heartbeat struct {
	request *kmsg.HeartbeatRequest
	reply   func(kmsg.Response)
}

// Refuse implements runtime.Event.
func (ev *heartbeat) Refuse(err error) {
	if errors.Is(err, kerr.CoordinatorLoadInProgress) {
		err = nil
	}
	ev.answer(err)
}

func (ev *heartbeat) answer(err error) {
	r := kmsg.NewPtrHeartbeatResponse()
	r.Version, r.ErrorCode = ev.request.Version, errcode.Of(err)
	ev.reply(r)
}

func (m *machine) heartbeat(ev *heartbeat, out *runtime.Out) {
	r := ev.request
	e := m.groups[r.Group]
	if e == nil {
		ev.answer(group.ErrUnknownMember)
		return
	}
	if e.consumer != nil {
		ev.answer(e.consumer.ClassicHeartbeat(out, r))
		return
	}
	ev.answer(e.Heartbeat(out, r.MemberID, r.InstanceID, r.Generation))
}

// LeaveGroup ends memberships. v3 several members, also by group.instance.id alone · v5 reasons.
func (c *Coordinator) LeaveGroup(_ Caller, r *kmsg.LeaveGroupRequest, reply func(kmsg.Response)) {
	ev := &leave{r, r.Members, reply}
	if r.Version < 3 {
		one := kmsg.NewLeaveGroupRequestMember()
		one.MemberID = r.MemberID
		ev.members = []kmsg.LeaveGroupRequestMember{one}
	}
	if r.Group == "" {
		ev.Refuse(errInvalidGroup)
		return
	}
	c.submit(r.Group, ev)
}

type leave struct {
	request *kmsg.LeaveGroupRequest
	members []kmsg.LeaveGroupRequestMember
	reply   func(kmsg.Response)
}

// Refuse implements runtime.Event.
func (ev *leave) Refuse(err error) { ev.answer(err, nil) }

func (ev *leave) answer(err error, members []kmsg.LeaveGroupResponseMember) {
	r := kmsg.NewPtrLeaveGroupResponse()
	r.Version, r.ErrorCode = ev.request.Version, errcode.Of(err)
	if r.Version >= 3 {
		r.Members = members
	} else if err == nil && len(members) > 0 {
		r.ErrorCode = members[0].ErrorCode
	}
	ev.reply(r)
}

func (m *machine) leave(ev *leave, out *runtime.Out) {
	e := m.groups[ev.request.Group]
	if e != nil && e.consumer != nil {
		m.leaveConsumers(ev, out, e)
		return
	}
	if e != nil {
		ev.answer(nil, e.Leave(&m.env, out, m.settings.Kafka4, ev.members))
		return
	}
	members := make([]kmsg.LeaveGroupResponseMember, len(ev.members))
	for i := range members {
		members[i].MemberID, members[i].InstanceID = ev.members[i].MemberID, ev.members[i].InstanceID
		members[i].ErrorCode = kerr.UnknownMemberID.Code
	}
	ev.answer(nil, members)
}

// joinEmptied handles a JoinGroup to a group of the consumer protocol without members: it becomes a classic one, of which
// nothing but the offsets is left.
func (m *machine) joinEmptied(ev *join, out *runtime.Out, e *entry) {
	if ev.Request.MemberID != "" {
		ev.Refuse(group.ErrUnknownMember)
		return
	}
	e.consumer.Forget(&m.consumers, out)
	e.Join(&m.env, out, &ev.Join)
	id := e.ID()
	out.Then(func(err error, out *runtime.Out) {
		if e := m.groups[id]; err != nil && e != nil && e.consumer != nil {
			e.Abandon(out)
		}
	})
}
