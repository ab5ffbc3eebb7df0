package group

import (
	"bytes"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/groupcoord/runtime"
	"github.com/gregor-broker/gregor/groupcoord/schema"
	"github.com/gregor-broker/gregor/wire/errcode"
)

// Member is one member of a group, and the event of its session's end.
type Member struct {
	live                     *live // nil once it is removed
	id, clientID, clientHost string
	instanceID               *string // nil for a dynamic member
	sessionTimeoutMs         int32
	rebalanceTimeoutMs       int32
	protocols                []protocol // in order of preference
	assignment               []byte
	fresh                    bool // has not completed a join yet: may expire while it waits in JoinGroup
	owesSync                 bool // was told a generation and has not asked for its assignment
	join, sync               waiter
	timer                    runtime.Timer
}

// protocol is one that a member supports, with what it wants the leader to know.
type protocol struct {
	name     string
	metadata []byte
}

// waiter is a request that is answered later; reply is nil if there is none.
type waiter struct {
	reply   func(kmsg.Response)
	version int16
}

func newMember(l *live, id string, j *Join) *Member {
	m := &Member{
		live: l, id: id, clientID: j.ClientID, clientHost: j.ClientHost, instanceID: j.Request.InstanceID,
		sessionTimeoutMs: j.Request.SessionTimeoutMillis, rebalanceTimeoutMs: j.rebalanceTimeoutMs(),
		protocols: j.protocols, fresh: true, join: j.waiter(),
	}
	m.timer.Event = m
	return m
}

func memberFromStored(l *live, v *schema.GroupValue, s *schema.Member) *Member {
	m := &Member{
		live: l, id: s.ID, clientID: s.ClientID, clientHost: s.ClientHost, instanceID: s.InstanceID,
		sessionTimeoutMs: s.SessionTimeoutMs, rebalanceTimeoutMs: s.RebalanceTimeoutMs, assignment: s.Assignment,
	}
	if m.rebalanceTimeoutMs == -1 {
		m.rebalanceTimeoutMs = m.sessionTimeoutMs
	}
	if v.Protocol != nil {
		m.protocols = []protocol{{*v.Protocol, s.Subscription}}
	}
	m.timer.Event = m
	return m
}

// protocolsOf returns the protocols of a request. Of two with the same name the first counts.
func protocolsOf(r *kmsg.JoinGroupRequest) []protocol {
	list := make([]protocol, 0, len(r.Protocols))
	seen := make(map[string]struct{}, len(r.Protocols))
	for i := range r.Protocols {
		p := &r.Protocols[i]
		if _, ok := seen[p.Name]; !ok {
			seen[p.Name] = struct{}{}
			list = append(list, protocol{p.Name, p.Metadata})
		}
	}
	return list
}

// metadata returns what the member said for a protocol, nil if it does not support it.
func (m *Member) metadata(name string) []byte {
	for i := range m.protocols {
		if m.protocols[i].name == name {
			return m.protocols[i].metadata
		}
	}
	return nil
}

// matches reports whether the member would join with just the same protocols again.
func (m *Member) matches(list []protocol) bool {
	return slices.EqualFunc(m.protocols, list, func(a, b protocol) bool {
		return a.name == b.name && bytes.Equal(a.metadata, b.metadata)
	})
}

// touch starts the member's session anew.
func (m *Member) touch(out *runtime.Out) { out.Set(&m.timer, ms(m.sessionTimeoutMs)) }

func ms(n int32) time.Duration { return time.Duration(n) * time.Millisecond }

func (m *Member) awaitsJoin() bool { return m.join.reply != nil }
func (m *Member) awaitsSync() bool { return m.sync.reply != nil }

// setJoin makes w the member's waiting JoinGroup. An earlier one that still waits is answered: the client has sent another.
func (m *Member) setJoin(w waiter) {
	m.answerJoinError(m.id, ErrRebalancing)
	m.join = w
	if w.reply != nil {
		m.live.awaiting++
	}
}

// answerJoin answers the waiting JoinGroup, if there is one.
func (m *Member) answerJoin(fill func(r *kmsg.JoinGroupResponse)) {
	w := m.join
	if w.reply == nil {
		return
	}
	m.join = waiter{}
	m.live.awaiting--
	r := kmsg.NewPtrJoinGroupResponse()
	r.Version = w.version
	fill(r)
	w.reply(r)
}

func (m *Member) answerJoinError(memberID string, err error) {
	m.answerJoin(func(r *kmsg.JoinGroupResponse) { r.MemberID, r.ErrorCode = memberID, errcode.Of(err) })
}

// answerSync answers the waiting SyncGroup, if there is one, and reports whether there was.
func (m *Member) answerSync(fill func(r *kmsg.SyncGroupResponse)) bool {
	w := m.sync
	if w.reply == nil {
		return false
	}
	m.sync = waiter{}
	r := kmsg.NewPtrSyncGroupResponse()
	r.Version = w.version
	fill(r)
	w.reply(r)
	return true
}

func (m *Member) answerSyncError(err error) bool {
	return m.answerSync(func(r *kmsg.SyncGroupResponse) { r.ErrorCode = errcode.Of(err) })
}

// Fire is the end of the member's session, unless the member waits for an answer of ours.
func (m *Member) Fire(e *Env, out *runtime.Out) {
	l := m.live
	if l == nil || !m.fresh && (m.awaitsJoin() || m.awaitsSync()) {
		return
	}
	l.remove(m, out)
	switch {
	case l.state == Stable || l.state == CompletingRebalance:
		l.prepare(e, out, "the session of member "+m.id+" has ended")
	case l.state == PreparingRebalance && l.allJoined():
		l.completeJoin(e, out)
	}
}

// pendingMember is someone who was given a member id and has not joined with it, and the event of its being forgotten.
type pendingMember struct {
	live  *live
	id    string
	timer runtime.Timer
}

// Fire forgets the pending member.
func (p *pendingMember) Fire(e *Env, out *runtime.Out) {
	l := p.live
	delete(l.pending, p.id)
	if l.state == PreparingRebalance && l.allJoined() {
		l.completeJoin(e, out)
	}
}

// memberSet keeps members in the order in which they came, so that a group behaves the same way each time.
type memberSet struct {
	list []*Member
	byID map[string]*Member // once there are many
}

// manyMembers is from how many members on a map is worth its memory.
const manyMembers = 16

func (s *memberSet) len() int { return len(s.list) }

func (s *memberSet) get(id string) *Member {
	if s.byID != nil {
		return s.byID[id]
	}
	for _, m := range s.list {
		if m.id == id {
			return m
		}
	}
	return nil
}

func (s *memberSet) add(m *Member) {
	s.list = append(s.list, m)
	if s.byID == nil && len(s.list) > manyMembers {
		s.byID = make(map[string]*Member, 2*manyMembers)
		for _, m := range s.list {
			s.byID[m.id] = m
		}
	} else if s.byID != nil {
		s.byID[m.id] = m
	}
}

func (s *memberSet) remove(m *Member) {
	if i := slices.Index(s.list, m); i >= 0 {
		s.list = slices.Delete(s.list, i, i+1)
	}
	delete(s.byID, m.id)
}

// rename gives a member another id.
func (s *memberSet) rename(m *Member, id string) {
	if s.byID != nil {
		delete(s.byID, m.id)
		s.byID[id] = m
	}
	m.id = id
}
