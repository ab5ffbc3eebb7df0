package group

import (
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/groupcoord/runtime"
	"github.com/gregor-broker/gregor/groupcoord/schema"
)

// live is the soft side of a group.
type live struct {
	group           *Group
	state, previous State
	stateMs         int64 // when it came to its state
	generation      int32
	protocolType    string
	protocol        string // chosen for the generation; "" without members
	leader          string // member id; "" without members

	members  memberSet
	static   map[string]*Member        // by group.instance.id
	pending  map[string]*pendingMember // by member id
	support  map[string]int            // members by protocol; nil until it is asked for
	awaiting int                       // members whose JoinGroup waits

	subscribed []string // topics of the generation, sorted; nil if not known
	owing      int      // members that owe a SyncGroup
	storing    bool     // the generation's assignment is on its way to the log

	joinTimer, syncTimer runtime.Timer
	initialDelay         time.Duration // of the first rebalance: the current delay, 0 in any other
	initialLeft          time.Duration // and by how much it may still be prolonged
	joinedMeanwhile      bool          // someone joined during the current delay
	syncGeneration       int32         // that syncTimer belongs to
}

// Due is the event of a group's timer.
type Due interface {
	Fire(e *Env, out *runtime.Out)
}

type (
	joinDue live // the join phase is over
	syncDue live // the sync phase is over
)

// moveTo changes the state.
func (l *live) moveTo(s State, out *runtime.Out) {
	l.previous, l.state, l.stateMs = l.state, s, out.Now.WallMs()
}

// supports reports whether a member with these protocols could join: the group has its type and all members one in common.
func (l *live) supports(protocolType string, list []protocol) bool {
	if l.state == Empty {
		return protocolType != "" && len(list) > 0
	}
	if protocolType != l.protocolType {
		return false
	}
	l.tally()
	for i := range list {
		if l.support[list[i].name] == l.members.len() {
			return true
		}
	}
	return false
}

// tally counts the members of each protocol, unless that is done.
func (l *live) tally() {
	if l.support != nil {
		return
	}
	l.support = map[string]int{}
	for _, m := range l.members.list {
		l.count(m, 1)
	}
}

// add makes m a member. The first one decides the protocol type and is the leader.
func (l *live) add(m *Member) {
	if m.instanceID != nil {
		if l.static == nil {
			l.static = map[string]*Member{}
		}
		l.static[*m.instanceID] = m
	}
	if l.leader == "" {
		l.leader = m.id
	}
	l.members.add(m)
	l.count(m, 1)
	if m.awaitsJoin() {
		l.awaiting++
	}
}

// count adds n to the number of members of each protocol that m supports.
func (l *live) count(m *Member, n int) {
	if l.support == nil {
		return
	}
	for i := range m.protocols {
		name := m.protocols[i].name
		if l.support[name] += n; l.support[name] == 0 {
			delete(l.support, name)
		}
	}
}

// remove ends a membership. Who still waits for an answer is told so; its client will join again.
func (l *live) remove(m *Member, out *runtime.Out) {
	out.Stop(&m.timer)
	m.answerJoinError("", ErrUnknownMember)
	m.answerSyncError(ErrUnknownMember)
	l.clearOwing(m)
	l.members.remove(m)
	l.count(m, -1)
	if m.instanceID != nil && l.static[*m.instanceID] == m {
		delete(l.static, *m.instanceID)
	}
	if l.leader == m.id {
		l.leader = ""
		if l.members.len() > 0 {
			l.leader = l.members.list[0].id
		}
	}
	m.live = nil
}

// forgetPending takes an id back that was given out.
func (l *live) forgetPending(id string, out *runtime.Out) bool {
	p := l.pending[id]
	if p == nil {
		return false
	}
	out.Stop(&p.timer)
	delete(l.pending, id)
	return true
}

func (l *live) clearOwing(m *Member) {
	if m.owesSync {
		m.owesSync = false
		l.owing--
	}
}

// synced notes that m has asked for its assignment.
func (l *live) synced(m *Member, out *runtime.Out) {
	l.clearOwing(m)
	if l.owing == 0 {
		out.Stop(&l.syncTimer)
	}
}

// rebalanceTimeout is the longest of the members'.
func (l *live) rebalanceTimeout() time.Duration {
	longest := int32(0)
	for _, m := range l.members.list {
		longest = max(longest, m.rebalanceTimeoutMs)
	}
	return ms(longest)
}

func (l *live) allJoined() bool { return l.members.len() == l.awaiting && len(l.pending) == 0 }

// selectProtocol returns the protocol with the most votes: each member votes for the first of its protocols that all
// support. Of equally many votes the one that an earlier member named first wins.
func (l *live) selectProtocol() string {
	l.tally()
	votes, best := map[string]int{}, ""
	for _, m := range l.members.list {
		for i := range m.protocols {
			name := m.protocols[i].name
			if l.support[name] == l.members.len() {
				votes[name]++
				break
			}
		}
	}
	for _, m := range l.members.list {
		for i := range m.protocols {
			if name := m.protocols[i].name; votes[name] > votes[best] {
				best = name
			}
		}
	}
	return best
}

// subscribe notes which topics the members of the generation consume. After ClassicGroup.computeSubscribedTopics.
func (l *live) subscribe(e *Env) {
	l.subscribed = nil
	if l.protocolType != ConsumerProtocol || l.members.len() > 0 && l.protocol == "" {
		return
	}
	topics := []string{}
	for _, m := range l.members.list {
		list, err := schema.SubscribedTopics(m.metadata(l.protocol))
		if err != nil {
			e.Log.Warn("a member's subscription cannot be read: offsets of its group will not expire while it has members",
				zap.String("group", l.group.id), zap.String("member", m.id), zap.String("client_id", m.clientID))
			return
		}
		topics = append(topics, list...)
	}
	slices.Sort(topics)
	l.subscribed = slices.Clip(slices.Compact(topics))
}

// check says whether someone is the member it claims to be.
func (l *live) check(memberID string, instanceID *string) (*Member, error) {
	if instanceID != nil {
		switch m := l.static[*instanceID]; {
		case m == nil:
			return nil, ErrUnknownMember
		case m.id != memberID:
			return nil, ErrFenced
		}
	}
	if m := l.members.get(memberID); m != nil {
		return m, nil
	}
	return nil, ErrUnknownMember
}

// value returns what would be stored of the group with the given assignments, nil for none.
func (l *live) value(assignment func(m *Member) []byte) *schema.GroupValue {
	v := &schema.GroupValue{ProtocolType: l.protocolType, Generation: l.generation, StateMs: l.stateMs}
	if l.protocol != "" {
		v.Protocol = &l.protocol
	}
	if l.leader != "" {
		v.Leader = &l.leader
	}
	for _, m := range l.members.list {
		v.Members = append(v.Members, schema.Member{
			ID: m.id, InstanceID: m.instanceID, ClientID: m.clientID, ClientHost: m.clientHost,
			RebalanceTimeoutMs: m.rebalanceTimeoutMs, SessionTimeoutMs: m.sessionTimeoutMs,
			Subscription: m.metadata(l.protocol), Assignment: assignment(m),
		})
	}
	return v
}

// write stores v.
func (l *live) write(e *Env, out *runtime.Out, v *schema.GroupValue) {
	e.key = schema.AppendGroupKey(e.key[:0], l.group.id)
	e.value = v.Append(e.value[:0], schema.GroupVersion)
	out.Write(e.key, e.value)
	if cap(e.value) > 1<<20 {
		e.value = nil
	}
}
