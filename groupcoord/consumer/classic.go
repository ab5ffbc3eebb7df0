package consumer

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/groupcoord/runtime"
	"github.com/gregor-broker/gregor/groupcoord/schema"
	"github.com/gregor-broker/gregor/wire/errcode"
)

var errInconsistent = errcode.New(kerr.InconsistentGroupProtocol, "the group has another protocol type, or no protocol that all classic members support")

func (m *Member) classicTimer() *classicTimers {
	if m.classicTimers == nil {
		m.classicTimers = &classicTimers{}
		m.classicTimers.join.Event, m.classicTimers.sync.Event = (*joinDue)(m), (*syncDue)(m)
	}
	return m.classicTimers
}

// Join is what JoinGroup of a member of the classic protocol led to.
type Join struct {
	Response *kmsg.JoinGroupResponse
	Followup *Followup // nil: nothing was written
	// Downgrade, if not nil, says that the group becomes a classic one with this: its last member of the consumer protocol
	// has been replaced.
	Downgrade *Conversion
}

// Join lets a member of the classic protocol into the group. It is a member like the others, to whom each step is told by
// REBALANCE_IN_PROGRESS and a new generation, which is its epoch. After GroupMetadataManager.classicGroupJoinToConsumerGroup.
func (g *Group) Join(e *Env, out *runtime.Out, who Caller, r *kmsg.JoinGroupRequest, classicMax int) (*Join, error) {
	id := r.MemberID
	switch {
	case e.Settings.Migration == NoMigration:
		return nil, errInconsistent
	case id == "":
		id = e.NewID()
	}
	if err := g.checkRoom(e, id, r.InstanceID); err != nil {
		return nil, err
	}
	if !g.supports(r) {
		return nil, errInconsistent
	}
	if r.MemberID == "" && r.InstanceID == nil && r.Version >= 4 {
		return &Join{Response: joinResponse(r, &View{ID: id}, kerr.MemberIDRequired.Code)}, nil
	}
	t := &turn{writer: writer{e: e, out: out, group: g.id}, g: g}
	if err := t.findClassic(id, r); err != nil {
		return nil, err
	}
	said, err := schema.DecodeSubscription(r.Protocols[0].Metadata)
	if err != nil {
		return nil, errInconsistent
	}
	t.hearClassic(who, r, said)
	return t.join(r, said, classicMax)
}

func joinResponse(r *kmsg.JoinGroupRequest, v *View, code int16) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.Version, resp.MemberID, resp.ErrorCode = r.Version, v.ID, code
	if code == 0 {
		protocolType, protocol := ProtocolType, v.Said.Classic.Protocols[0].Name
		resp.Generation, resp.ProtocolType, resp.Protocol = v.Epoch, &protocolType, &protocol
	}
	return resp
}

// supports reports whether the classic members have a protocol in common with one that joins.
func (g *Group) supports(r *kmsg.JoinGroupRequest) bool {
	if r.ProtocolType != ProtocolType || len(r.Protocols) == 0 {
		return false
	}
	classic, votes := 0, map[string]int{}
	for _, m := range g.members {
		if m.present && m.classic() {
			classic++
			for _, p := range m.Said.Classic.Protocols {
				votes[p.Name]++
			}
		}
	}
	for _, p := range r.Protocols {
		if votes[p.Name] == classic {
			return true
		}
	}
	return false
}

func (t *turn) findClassic(id string, r *kmsg.JoinGroupRequest) error {
	if r.InstanceID != nil {
		return t.findStatic(id, *r.InstanceID, r.MemberID == "", true, func(*View) error { return nil })
	}
	t.old = newView(id)
	if m := t.g.member(id); m != nil {
		t.old = m.View
	}
	t.e.Log.Info("member joins its group", zap.String("group", t.group), zap.String("member", id), zap.String("protocol", "classic"))
	return nil
}

// hearClassic takes over what a JoinGroup says of its member.
func (t *turn) hearClassic(who Caller, r *kmsg.JoinGroupRequest, s *schema.Subscription) {
	t.now = t.old
	said := &t.now.Said
	said.ClientID, said.ClientHost, said.Regex, said.Topics = who.ClientID, who.ClientHost, "", sortedSet(s.Topics)
	if r.InstanceID != nil {
		said.InstanceID = r.InstanceID
	}
	if s.Rack != nil && *s.Rack != "" {
		said.RackID = s.Rack
	}
	if r.RebalanceTimeoutMillis != -1 {
		said.RebalanceTimeoutMs = r.RebalanceTimeoutMillis
	}
	said.Classic = &schema.ClassicMember{SessionTimeoutMs: r.SessionTimeoutMillis}
	for i := range r.Protocols {
		said.Classic.Protocols = append(said.Classic.Protocols, schema.ClassicProtocol{Name: r.Protocols[i].Name, Metadata: r.Protocols[i].Metadata})
	}
}

func (t *turn) join(r *kmsg.JoinGroupRequest, said *schema.Subscription, classicMax int) (*Join, error) {
	existing := t.g.static(r.InstanceID)
	downgrade := existing != nil && t.g.downgradesReplacing(t.e, existing, classicMax)
	if err := t.subscribe(); err != nil {
		return nil, err
	}
	bump := t.named || t.expressed != expressionSame
	owned := t.ownedBy(said)
	j := &Join{}
	if downgrade {
		epoch := t.g.epoch
		if version := t.e.Metadata.TopicsVersion(); bump || t.g.refreshed != version {
			epoch = t.refresh(bump)
		}
		stale := t.g.targetEpoch < epoch
		if !stale {
			if err := t.reconcile(target{t.g.targetEpoch, t.lastTarget()}, owned); err != nil {
				return nil, err
			}
		}
		j.Downgrade = t.g.toClassic(&t.writer, nil, &t.now, epoch)
		if stale {
			j.Downgrade.Rebalance = "the group becomes classic again, with an assignment that is not of its last epoch"
		}
	} else {
		to, err := t.advance(bump)
		if err == nil {
			err = t.reconcile(to, owned)
		}
		if err != nil {
			return nil, err
		}
	}
	j.Response = joinResponse(r, &t.now, 0)
	j.Followup = t.followup(ms(r.SessionTimeoutMillis))
	j.Followup.sync = ms(r.RebalanceTimeoutMillis)
	return j, nil
}

// ownedBy returns what a subscription says that its member has, by topic ids; not nil.
func (t *turn) ownedBy(s *schema.Subscription) []kmsg.ConsumerGroupHeartbeatRequestTopic {
	owned := []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	for _, o := range s.Owned {
		if id, ok := t.e.Metadata.TopicID(o.Topic); ok {
			owned = append(owned, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: id, Partitions: o.Partitions})
		}
	}
	return owned
}

// classicMember finds the member that a request of the classic protocol is of.
func (g *Group) classicMember(id string, instance *string, generation int32) (*Member, error) {
	m := g.member(id)
	if instance != nil {
		if m = g.static(instance); m != nil && m.ID != id {
			return nil, errFencedInstance(id, *instance, m.ID)
		}
	}
	switch {
	case m == nil:
		return nil, errUnknown(id, g.id)
	case !m.classic():
		return nil, fail(kerr.UnknownMemberID, "Member %s does not use the classic protocol.", id)
	case m.Epoch != generation:
		return nil, fail(kerr.IllegalGeneration, "The request generation id %d is not equal to the member epoch %d of member %s.", generation, m.Epoch, id)
	}
	return m, nil
}

// Sync returns the assignment of a member of the classic protocol, in its format.
// After GroupMetadataManager.classicGroupSyncToConsumerGroup.
func (g *Group) Sync(e *Env, out *runtime.Out, r *kmsg.SyncGroupRequest) ([]byte, error) {
	m, err := g.classicMember(r.MemberID, r.InstanceID, r.Generation)
	if err != nil {
		return nil, err
	}
	protocol := m.Said.Classic.Protocols[0]
	if r.ProtocolType != nil && *r.ProtocolType != ProtocolType || r.Protocol != nil && *r.Protocol != protocol.Name {
		return nil, errInconsistent
	}
	if g.targetEpoch > m.Epoch && m.State != Unrevoked {
		m.expectJoin(out)
		return nil, fail(kerr.RebalanceInProgress, "A new rebalance is triggered in group %s and member %s should rejoin to catch up.", g.id, m.ID)
	}
	out.Stop(&m.classicTimer().sync)
	m.touchClassic(out)
	return schema.AppendAssignment(nil, schema.SubscriptionVersion(protocol.Metadata), e.named(m.Assigned)), nil
}

// named returns partitions by the names of their topics, without those that do not exist.
func (e *Env) named(p Partitions) []schema.NamedPartitions {
	var list []schema.NamedPartitions
	for i := range p {
		if name, ok := e.Metadata.TopicName(p[i].Topic); ok {
			list = append(list, schema.NamedPartitions{Topic: name, Partitions: p[i].Partitions})
		}
	}
	return list
}

func (m *Member) touchClassic(out *runtime.Out) {
	out.Stop(&m.session)
	out.Set(&m.session, ms(m.Said.Classic.SessionTimeoutMs))
}

// expectJoin gives a member its rebalance timeout to join again, unless it runs already.
func (m *Member) expectJoin(out *runtime.Out) {
	if c := m.classicTimer(); !c.join.Pending() {
		out.Set(&c.join, time.Duration(m.Said.RebalanceTimeoutMs)*time.Millisecond)
	}
}

// ClassicHeartbeat keeps the session of a member of the classic protocol alive, and tells whether it must join again.
// After GroupMetadataManager.classicGroupHeartbeatToConsumerGroup.
func (g *Group) ClassicHeartbeat(out *runtime.Out, r *kmsg.HeartbeatRequest) error {
	m, err := g.classicMember(r.MemberID, r.InstanceID, r.Generation)
	if err != nil {
		return err
	}
	m.touchClassic(out)
	if m.Epoch < g.targetEpoch || m.State == Unrevoked || m.State == Unreleased && !g.waits(m) {
		m.expectJoin(out)
		return fail(kerr.RebalanceInProgress, "the member has to join again")
	}
	return nil
}

// waits reports whether others still have what the member shall have.
func (g *Group) waits(m *Member) bool {
	taken := g.taken(func(o *Member) bool { return o != m })
	for _, e := range m.target.entries() {
		if _, ok := taken[entry{topic: e.topic, partition: e.partition}]; ok && !m.Assigned.has(e.topic, e.partition) {
			return true
		}
	}
	return false
}

// ClassicLeavers returns the members that a LeaveGroup is of, and the answers. After
// GroupMetadataManager.classicGroupLeaveToConsumerGroup.
func (g *Group) ClassicLeavers(e *Env, leaving []kmsg.LeaveGroupRequestMember) ([]*Member, []kmsg.LeaveGroupResponseMember) {
	var members []*Member
	answers := make([]kmsg.LeaveGroupResponseMember, 0, len(leaving))
	for i := range leaving {
		a := kmsg.NewLeaveGroupResponseMember()
		a.MemberID, a.InstanceID = leaving[i].MemberID, leaving[i].InstanceID
		m, err := g.leaver(leaving[i].MemberID, leaving[i].InstanceID, leaving[i].MemberID == "")
		a.ErrorCode = errcode.Of(err)
		answers = append(answers, a)
		if err != nil || slices.Contains(members, m) {
			continue
		}
		e.Log.Info("member leaves its group", zap.String("group", g.id), zap.String("member", m.ID), zap.Stringp("reason", leaving[i].Reason))
		members = append(members, m)
	}
	return members, answers
}
