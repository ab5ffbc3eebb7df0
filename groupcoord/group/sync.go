package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/groupcoord/runtime"
	"github.com/gregor-broker/gregor/wire/errcode"
)

// Sync is a SyncGroup request. Its byte slices belong to the group from now on.
type Sync struct {
	Request *kmsg.SyncGroupRequest
	Reply   func(kmsg.Response)
}

// Refuse answers the request with err.
func (s *Sync) Refuse(err error) {
	r := kmsg.NewPtrSyncGroupResponse()
	r.Version, r.ErrorCode = s.Request.Version, errcode.Of(err)
	s.Reply(r)
}

// Sync handles a SyncGroup request: the leader's brings the assignment, which is stored before anyone gets it.
// After GroupMetadataManager.classicGroupSyncToClassicGroup.
func (g *Group) Sync(e *Env, out *runtime.Out, s *Sync) {
	l, r := g.live, s.Request
	if l == nil || l.state == Empty {
		s.Refuse(ErrUnknownMember)
		return
	}
	m, err := l.check(r.MemberID, r.InstanceID)
	switch {
	case err != nil:
		s.Refuse(err)
	case r.Generation != l.generation:
		s.Refuse(ErrIllegalGeneration)
	case differs(r.ProtocolType, l.protocolType), differs(r.Protocol, l.protocol):
		s.Refuse(ErrInconsistent)
	case l.state == PreparingRebalance:
		s.Refuse(ErrRebalancing)
	case l.state == Stable:
		l.synced(m, out)
		resp := kmsg.NewPtrSyncGroupResponse()
		resp.Version = r.Version
		fillSync(resp, l.protocolType, l.protocol, m.assignment)
		// The assignment may not be replicated yet if the group was loaded a moment ago.
		out.Then(func(err error, _ *runtime.Out) {
			if err != nil {
				s.Refuse(err)
				return
			}
			s.Reply(resp)
		})
	default:
		m.answerSyncError(ErrRebalancing) // the client has sent another
		m.sync = waiter{s.Reply, r.Version}
		l.synced(m, out)
		if l.leader == m.id && !l.storing {
			l.storeAssignment(e, out, r.GroupAssignment)
		}
	}
}

func differs(said *string, is string) bool { return said != nil && is != "" && *said != is }

func fillSync(r *kmsg.SyncGroupResponse, protocolType, protocol string, assignment []byte) {
	r.ProtocolType, r.Protocol, r.MemberAssignment = &protocolType, &protocol, assignment
}

// storeAssignment stores what the leader has assigned; then the group is stable and all who wait get theirs.
func (l *live) storeAssignment(e *Env, out *runtime.Out, list []kmsg.SyncGroupRequestGroupAssignment) {
	assigned := make(map[string][]byte, len(list))
	for i := range list {
		assigned[list[i].MemberID] = list[i].MemberAssignment
	}
	l.storing = true
	generation := l.generation
	l.write(e, out, l.value(func(m *Member) []byte { return assigned[m.id] }))
	out.Then(func(err error, out *runtime.Out) {
		if l.group.live != l || l.state != CompletingRebalance || l.generation != generation {
			return // another rebalance has begun meanwhile
		}
		l.storing = false
		if err != nil {
			e.Log.Warn("an assignment could not be stored", zap.String("group", l.group.id), zap.Int32("generation", generation), zap.Error(err))
			l.cancelSync(out, err)
			l.prepare(e, out, "the assignment could not be stored")
			return
		}
		l.assign(out, assigned)
	})
}

// assign hands out the stored assignment. What members said and got is kept in the stored value only, not twice.
func (l *live) assign(out *runtime.Out, assigned map[string][]byte) {
	stored := l.group.stored
	l.moveTo(Stable, out)
	l.support = nil // a stable group may live long
	for i, m := range l.members.list {
		m.assignment = assigned[m.id]
		if stored != nil && stored.Generation == l.generation && i < len(stored.Members) && stored.Members[i].ID == m.id {
			m.assignment = stored.Members[i].Assignment
			if p := slices.IndexFunc(m.protocols, func(p protocol) bool { return p.name == l.protocol }); p >= 0 {
				m.protocols[p].metadata = stored.Members[i].Subscription
			}
		}
		if m.answerSync(func(r *kmsg.SyncGroupResponse) { fillSync(r, l.protocolType, l.protocol, m.assignment) }) {
			m.touch(out) // it could not send heartbeats while it waited
		}
	}
}

// cancelSync takes all assignments back and answers those who wait for theirs with err.
func (l *live) cancelSync(out *runtime.Out, err error) {
	for _, m := range l.members.list {
		m.assignment = nil
		if m.answerSyncError(err) {
			m.touch(out)
		}
	}
}

// Fire is the end of the sync phase: who has not asked for its assignment is removed. After GroupMetadataManager.expirePendingSync.
func (d *syncDue) Fire(e *Env, out *runtime.Out) {
	l := (*live)(d)
	if l.syncGeneration != l.generation || l.state != CompletingRebalance && l.state != Stable || l.owing == 0 {
		return
	}
	for _, m := range slices.Clone(l.members.list) {
		if m.owesSync {
			l.remove(m, out)
		}
	}
	l.prepare(e, out, "members did not ask for their assignment in time")
}
