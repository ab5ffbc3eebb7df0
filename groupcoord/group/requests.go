package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/groupcoord/runtime"
	"github.com/gregor-broker/gregor/wire/errcode"
)

// Heartbeat keeps a member's session alive and tells whether it must join again.
// After GroupMetadataManager.classicGroupHeartbeatToClassicGroup.
func (g *Group) Heartbeat(out *runtime.Out, memberID string, instanceID *string, generation int32) error {
	l := g.live
	if l == nil {
		return ErrUnknownMember
	}
	m, err := l.check(memberID, instanceID)
	if err != nil {
		return err
	}
	if generation != l.generation {
		return ErrIllegalGeneration
	}
	m.touch(out)
	if l.state == PreparingRebalance {
		return ErrRebalancing
	}
	return nil
}

// Leave removes members; an administrator may name static ones by instance id alone. For one that has not joined with its id yet there
// is a rebalance if pendingToo says so, as in Kafka 4.4.
// After GroupMetadataManager.classicGroupLeaveToClassicGroup.
func (g *Group) Leave(e *Env, out *runtime.Out, pendingToo bool, leaving []kmsg.LeaveGroupRequestMember) []kmsg.LeaveGroupResponseMember {
	answers := make([]kmsg.LeaveGroupResponseMember, 0, len(leaving))
	before, left := g.Size(), false
	for i := range leaving {
		a := kmsg.NewLeaveGroupResponseMember()
		a.MemberID, a.InstanceID = leaving[i].MemberID, leaving[i].InstanceID
		err := g.leave(e, out, &leaving[i])
		a.ErrorCode = errcode.Of(err)
		left = left || err == nil
		answers = append(answers, a)
	}
	pending := g.Size() == before
	if left && g.State() != Empty && (pendingToo || !pending || g.State() == PreparingRebalance) {
		g.live.rebalance(e, out, "members leave")
	}
	return answers
}

func (g *Group) leave(e *Env, out *runtime.Out, r *kmsg.LeaveGroupRequestMember) error {
	l := g.live
	if l == nil {
		return ErrUnknownMember
	}
	var m *Member
	if r.MemberID == "" {
		if r.InstanceID == nil || l.static[*r.InstanceID] == nil {
			return ErrUnknownMember
		}
		m = l.static[*r.InstanceID]
	} else {
		if l.forgetPending(r.MemberID, out) {
			return nil
		}
		var err error
		if m, err = l.check(r.MemberID, r.InstanceID); err != nil {
			return err
		}
	}
	reason := "not provided"
	if r.Reason != nil {
		reason = *r.Reason
	}
	e.Log.Info("member leaves its group", zap.String("group", g.id), zap.String("member", m.id), zap.String("reason", reason))
	l.remove(m, out)
	return nil
}

// CheckCommit says whether someone may commit offsets. A commit with neither generation nor member is allowed while nobody
// is in the group. After ClassicGroup.validateOffsetCommit.
func (g *Group) CheckCommit(memberID string, instanceID *string, generation int32) error {
	l, state := g.live, g.State()
	switch {
	case generation < 0 && state == Empty:
		return nil
	case l == nil:
		return ErrUnknownMember
	case generation >= 0 || memberID != "" || instanceID != nil:
		if _, err := l.check(memberID, instanceID); err != nil {
			return err
		}
		if generation != l.generation {
			return ErrIllegalGeneration
		}
	default:
		return ErrUnknownMember
	}
	if state == CompletingRebalance {
		return ErrRebalancing
	}
	return nil
}

// CheckTxnCommit says whether someone may commit offsets in a transaction. Clients before TxnOffsetCommit v3 name neither
// generation nor member, and a rebalance is no obstacle: what is committed is the end of work that was done before.
func (g *Group) CheckTxnCommit(memberID string, instanceID *string, generation int32) error {
	if generation < 0 && memberID == "" && instanceID == nil {
		return nil
	}
	if err := g.CheckCommit(memberID, instanceID, generation); err != nil && err != error(ErrRebalancing) {
		return err
	}
	return nil
}

// Committed keeps the session of a member alive that has committed offsets.
func (g *Group) Committed(out *runtime.Out, memberID string) {
	if s := g.State(); s != Stable && s != PreparingRebalance {
		return
	}
	if m := g.live.members.get(memberID); m != nil {
		m.touch(out)
	}
}

// CheckOffsetDelete says whether offsets may be deleted at all: of a group with members only if they consume topics.
func (g *Group) CheckOffsetDelete() error {
	if g.State() != Empty && g.live.protocolType != ConsumerProtocol {
		return ErrNotEmpty
	}
	return nil
}

// CheckDelete says whether the group may be deleted.
func (g *Group) CheckDelete() error {
	if g.State() != Empty {
		return ErrNotEmpty
	}
	return nil
}

// Describe fills in a group of a DescribeGroups response. What members said is told of a stable group only, and what they got
// too, unless that is to be told always, as Kafka 4.4 does.
func (g *Group) Describe(always bool, r *kmsg.DescribeGroupsResponseGroup) {
	r.State, r.ProtocolType = g.State().String(), g.ProtocolType()
	if g.live == nil {
		return
	}
	stable := g.live.state == Stable
	if stable {
		r.Protocol = g.live.protocol
	}
	for _, m := range g.live.members.list {
		d := kmsg.NewDescribeGroupsResponseGroupMember()
		d.MemberID, d.InstanceID, d.ClientID, d.ClientHost = m.id, m.instanceID, m.clientID, m.clientHost
		if stable {
			d.ProtocolMetadata = m.metadata(g.live.protocol)
		}
		if stable || always {
			d.MemberAssignment = m.assignment
		}
		r.Members = append(r.Members, d)
	}
}
