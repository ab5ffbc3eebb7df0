package group

import (
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/groupcoord/runtime"
	"github.com/gregor-broker/gregor/wire/errcode"
)

// Join is a JoinGroup request and who sent it. Its byte slices belong to the group from now on.
type Join struct {
	ClientID, ClientHost string
	Request              *kmsg.JoinGroupRequest
	Reply                func(kmsg.Response)

	protocols []protocol // of the request
}

func (j *Join) waiter() waiter { return waiter{j.Reply, j.Request.Version} }

// rebalanceTimeoutMs is the session's in version 0, which has none.
func (j *Join) rebalanceTimeoutMs() int32 {
	if j.Request.Version == 0 {
		return j.Request.SessionTimeoutMillis
	}
	return j.Request.RebalanceTimeoutMillis
}

// Refuse answers the request with err.
func (j *Join) Refuse(memberID string, err error) {
	r := kmsg.NewPtrJoinGroupResponse()
	r.Version, r.MemberID, r.ErrorCode = j.Request.Version, memberID, errcode.Of(err)
	j.Reply(r)
}

func (j *Join) reason() string {
	if j.Request.Reason == nil || *j.Request.Reason == "" {
		return "not provided"
	}
	return *j.Request.Reason
}

// Join handles a JoinGroup request. It is answered when the join phase of the rebalance that it causes is over.
// After GroupMetadataManager.classicGroupJoinToClassicGroup.
func (g *Group) Join(e *Env, out *runtime.Out, j *Join) {
	id := j.Request.MemberID
	j.protocols = protocolsOf(j.Request)
	if g.live == nil && id != "" {
		err := ErrUnknownMember
		if j.Request.ProtocolType == "" || len(j.protocols) == 0 {
			err = ErrInconsistent
		}
		j.Refuse(id, err)
		return
	}
	l := g.wake(out)
	switch {
	case !l.accepts(e, id):
		if m := l.members.get(id); m != nil {
			l.remove(m, out)
		}
		l.forgetPending(id, out)
		j.Refuse("", ErrFull)
	case !l.supports(j.Request.ProtocolType, j.protocols):
		j.Refuse(id, ErrInconsistent)
	case id == "":
		l.joinNew(e, out, j)
	default:
		l.joinAgain(e, out, j)
	}
}

// accepts says whether the group has room. Members count by who waits while the group rebalances, so that those who join
// last stay outside when group.max.size was lowered.
func (l *live) accepts(e *Env, memberID string) bool {
	m := l.members.get(memberID)
	switch l.state {
	case PreparingRebalance:
		return m != nil && m.awaitsJoin() || l.awaiting < e.Settings.MaxSize
	case CompletingRebalance, Stable:
		return m != nil || l.members.len() < e.Settings.MaxSize
	}
	return true
}

// joinNew handles a JoinGroup without a member id.
func (l *live) joinNew(e *Env, out *runtime.Out, j *Join) {
	instance := j.Request.InstanceID
	id := j.ClientID
	if instance != nil {
		id = *instance
	}
	id += "-" + e.NewID()
	if len(id) > math.MaxInt16 {
		j.Refuse("", ErrLongID)
		return
	}
	if instance == nil {
		if j.Request.Version >= 4 {
			l.promise(out, id, j.Request.SessionTimeoutMillis)
			j.Refuse(id, ErrMemberIDRequired)
			return
		}
		l.admit(e, out, newMember(l, id, j), j)
		return
	}
	if old := l.static[*instance]; old != nil {
		l.replace(e, out, old, id, j)
		return
	}
	l.admit(e, out, newMember(l, id, j), j)
}

// promise gives out a member id, which must be joined with before the session's time is over.
func (l *live) promise(out *runtime.Out, id string, sessionTimeoutMs int32) {
	if l.pending == nil {
		l.pending = map[string]*pendingMember{}
	}
	p := &pendingMember{live: l, id: id}
	p.timer.Event = p
	l.pending[id] = p
	out.Set(&p.timer, ms(sessionTimeoutMs))
}

// admit makes m a member.
func (l *live) admit(e *Env, out *runtime.Out, m *Member, j *Join) {
	if l.state == PreparingRebalance && l.previous == Empty {
		l.joinedMeanwhile = true
	}
	if l.members.len() == 0 {
		l.protocolType = j.Request.ProtocolType
	}
	l.add(m)
	out.Set(&m.timer, newMemberJoinTimeout)
	l.rebalance(e, out, "member "+m.id+" joins; client reason: "+j.reason())
}

// joinAgain handles a JoinGroup with a member id.
func (l *live) joinAgain(e *Env, out *runtime.Out, j *Join) {
	id := j.Request.MemberID
	if l.pending[id] != nil {
		if j.Request.InstanceID != nil {
			j.Refuse("", ErrUnexpected)
			return
		}
		l.forgetPending(id, out)
		l.admit(e, out, newMember(l, id, j), j)
		return
	}
	m, err := l.check(id, j.Request.InstanceID)
	if err != nil {
		j.Refuse(id, err)
		return
	}
	unchanged := m.matches(j.protocols)
	switch {
	case l.state == CompletingRebalance && unchanged:
		// The answer was lost: give it again.
		m.setJoin(j.waiter())
		l.tellGeneration(m)
	case l.state == Stable && unchanged && l.leader != id:
		m.setJoin(j.waiter())
		m.answerJoin(func(r *kmsg.JoinGroupResponse) { l.fill(r, m, false) })
	default:
		l.update(m, j)
		l.rebalance(e, out, "member "+id+" joins again; client reason: "+j.reason())
	}
}

// update takes what a member says when it joins again.
func (l *live) update(m *Member, j *Join) {
	l.count(m, -1)
	m.protocols = j.protocols
	l.count(m, 1)
	m.sessionTimeoutMs, m.rebalanceTimeoutMs = j.Request.SessionTimeoutMillis, j.rebalanceTimeoutMs()
	m.setJoin(j.waiter())
}

// replace gives the place of a static member to a new process with the same group.instance.id. Whoever still uses the old
// member id is fenced. After GroupMetadataManager.updateStaticMemberThenRebalanceOrCompleteJoin.
func (l *live) replace(e *Env, out *runtime.Out, m *Member, id string, j *Join) {
	before := *m
	oldLeader := l.leader
	m.answerJoinError(m.id, ErrFenced)
	m.answerSyncError(ErrFenced)
	if l.leader == m.id {
		l.leader = id
	}
	l.members.rename(m, id)
	l.clearOwing(m)
	l.update(m, j)
	m.fresh = false
	m.touch(out)
	switch l.state {
	case Stable:
		if l.selectProtocol() == l.protocol {
			l.storeReplaced(e, out, m, &before, oldLeader)
			return
		}
		l.rebalance(e, out, "static member "+id+" joins with other protocols; client reason: "+j.reason())
	case CompletingRebalance:
		// The leader may have been given the old id already.
		l.prepare(e, out, "static member "+id+" replaces one; client reason: "+j.reason())
	default:
		l.maybeCompleteJoin(e, out)
	}
}

// storeReplaced stores the new id of a static member, then answers its JoinGroup with the generation as it stands.
func (l *live) storeReplaced(e *Env, out *runtime.Out, m, before *Member, oldLeader string) {
	e.Log.Debug("a static member was replaced without a rebalance", zap.String("group", l.group.id), zap.String("member", m.id))
	id, generation := m.id, l.generation
	l.write(e, out, l.value(func(m *Member) []byte { return m.assignment }))
	out.Then(func(err error, out *runtime.Out) {
		if m.live != l || m.id != id || l.state != Stable || l.generation != generation {
			return // a rebalance has begun, which answers; or the member is gone
		}
		if err == nil {
			m.answerJoin(func(r *kmsg.JoinGroupResponse) {
				// The new process may lead, but must not assign: the assignment stands. Before version 9 that can only be
				// said by naming the old leader.
				l.fill(r, m, r.Version >= 9 && l.leader == id)
				r.SkipAssignment = len(r.Members) > 0
				if r.Version < 9 {
					r.LeaderID = oldLeader
				}
			})
			return
		}
		l.restore(out, m, before, oldLeader, err)
	})
}

// restore takes a replacement back that could not be stored.
func (l *live) restore(out *runtime.Out, m, before *Member, oldLeader string, err error) {
	m.answerJoin(func(r *kmsg.JoinGroupResponse) {
		l.fill(r, m, false)
		r.MemberID, r.LeaderID, r.ErrorCode = "", oldLeader, errcode.Of(err)
	})
	if l.leader == m.id {
		l.leader = before.id
	}
	l.members.rename(m, before.id)
	l.count(m, -1)
	m.protocols = before.protocols
	l.count(m, 1)
	m.sessionTimeoutMs, m.rebalanceTimeoutMs = before.sessionTimeoutMs, before.rebalanceTimeoutMs
	m.touch(out)
}
