package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/groupcoord/runtime"
)

// rebalance begins a rebalance, or ends its join phase if one is under way and all have joined.
func (l *live) rebalance(e *Env, out *runtime.Out, reason string) {
	if l.state != PreparingRebalance {
		l.prepare(e, out, reason)
		return
	}
	l.maybeCompleteJoin(e, out)
}

// prepare begins a rebalance. After GroupMetadataManager.prepareRebalance.
func (l *live) prepare(e *Env, out *runtime.Out, reason string) {
	if l.state == CompletingRebalance {
		l.cancelSync(out, ErrRebalancing)
	}
	l.clearAllOwing(out)
	initial := l.state == Empty
	l.moveTo(PreparingRebalance, out)
	e.Log.Info("group rebalances", zap.String("group", l.group.id), zap.Int32("generation", l.generation), zap.String("reason", reason))
	if initial {
		delay := e.Settings.InitialRebalanceDelay
		l.initialDelay, l.initialLeft = delay, max(l.rebalanceTimeout()-delay, 0)
		l.joinedMeanwhile = false
		out.Set(&l.joinTimer, delay)
		return
	}
	if l.allJoined() {
		l.completeJoin(e, out)
		return
	}
	out.Stop(&l.joinTimer)
	out.Set(&l.joinTimer, l.rebalanceTimeout())
}

func (l *live) clearAllOwing(out *runtime.Out) {
	for _, m := range l.members.list {
		l.clearOwing(m)
	}
	out.Stop(&l.syncTimer)
}

// Fire is the end of the join phase; a group's first one is prolonged while members keep coming.
func (d *joinDue) Fire(e *Env, out *runtime.Out) {
	l := (*live)(d)
	if l.state != PreparingRebalance {
		return
	}
	if l.previous == Empty && l.joinedMeanwhile && l.initialLeft > 0 {
		l.joinedMeanwhile = false
		delay := min(e.Settings.InitialRebalanceDelay, l.initialLeft)
		l.initialLeft = max(l.initialLeft-l.initialDelay, 0)
		l.initialDelay = delay
		out.Set(&l.joinTimer, delay)
		return
	}
	l.completeJoin(e, out)
}

// maybeCompleteJoin ends the join phase if all have joined, unless it is the group's first, which lasts its time.
func (l *live) maybeCompleteJoin(e *Env, out *runtime.Out) {
	if l.state == PreparingRebalance && l.previous != Empty && l.allJoined() {
		l.completeJoin(e, out)
	}
}

// completeJoin ends the join phase: who did not come is removed, the others learn the new generation.
// After GroupMetadataManager.completeClassicGroupJoin.
func (l *live) completeJoin(e *Env, out *runtime.Out) {
	out.Stop(&l.joinTimer)
	for _, m := range slices.Clone(l.members.list) {
		if !m.awaitsJoin() && m.instanceID == nil {
			l.remove(m, out)
		}
	}
	if l.members.len() > 0 && !l.electJoined() {
		e.Log.Warn("no member of the group has joined, only static ones are left: waiting on", zap.String("group", l.group.id))
		out.Set(&l.joinTimer, l.rebalanceTimeout())
		return
	}
	l.generation++
	if l.members.len() == 0 {
		l.becomeEmpty(e, out)
		return
	}
	l.protocol = l.selectProtocol()
	l.subscribe(e)
	l.moveTo(CompletingRebalance, out)
	l.storing = false
	e.Log.Info("group has a new generation", zap.String("group", l.group.id), zap.Int32("generation", l.generation),
		zap.Int("members", l.members.len()), zap.String("protocol", l.protocol), zap.String("leader", l.leader))
	for _, m := range l.members.list {
		l.tellGeneration(m)
		m.touch(out)
		m.fresh = false
		if !m.owesSync {
			m.owesSync = true
			l.owing++
		}
	}
	l.syncGeneration = l.generation
	out.Stop(&l.syncTimer)
	out.Set(&l.syncTimer, l.rebalanceTimeout())
}

// electJoined makes sure that the leader is one of those who have joined; false if nobody has.
func (l *live) electJoined() bool {
	if m := l.members.get(l.leader); m != nil && m.awaitsJoin() {
		return true
	}
	for _, m := range l.members.list {
		if m.awaitsJoin() {
			l.leader = m.id
			return true
		}
	}
	return false
}

// becomeEmpty stores that the group has no members any more. Until that is replicated the soft side stays.
func (l *live) becomeEmpty(e *Env, out *runtime.Out) {
	l.protocol, l.leader = "", ""
	l.subscribe(e)
	l.moveTo(Empty, out)
	e.Log.Info("group is empty", zap.String("group", l.group.id), zap.Int32("generation", l.generation))
	generation := l.generation
	l.write(e, out, l.value(func(*Member) []byte { return nil }))
	out.Then(func(err error, out *runtime.Out) {
		if err != nil {
			e.Log.Warn("it could not be stored that a group is empty", zap.String("group", l.group.id), zap.Error(err))
			return
		}
		if g := l.group; g.live == l && g.Idle() && l.generation == generation && g.stored != nil && g.stored.Generation == generation {
			g.Forget(out)
		}
	})
}

// tellGeneration answers a member's JoinGroup with the generation, and its leader's with all members.
func (l *live) tellGeneration(m *Member) {
	m.answerJoin(func(r *kmsg.JoinGroupResponse) { l.fill(r, m, l.leader == m.id) })
}

func (l *live) fill(r *kmsg.JoinGroupResponse, m *Member, withMembers bool) {
	r.Generation, r.MemberID, r.LeaderID = l.generation, m.id, l.leader
	protocolType, protocol := l.protocolType, l.protocol
	r.ProtocolType, r.Protocol = &protocolType, &protocol
	if !withMembers {
		return
	}
	for _, m := range l.members.list {
		entry := kmsg.NewJoinGroupResponseMember()
		entry.MemberID, entry.InstanceID, entry.ProtocolMetadata = m.id, m.instanceID, m.metadata(l.protocol)
		r.Members = append(r.Members, entry)
	}
}
