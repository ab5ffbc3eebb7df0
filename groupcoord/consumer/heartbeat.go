package consumer

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/groupcoord/runtime"
)

// Caller is who sent a request.
type Caller struct{ ClientID, ClientHost string }

// turn is one request to a group: what it found and what it writes.
type turn struct {
	writer
	g   *Group
	old View // of the member, as it was
	now View // of the member, as it shall be

	// named says that the names of topics that the member consumes have changed; expressed how its regular expression has.
	named     bool
	expressed expression
	views     []candidate // cache of members

	unreadable error // why the expression that the member has sent cannot be subscribed to
}

// Heartbeat handles a ConsumerGroupHeartbeat of a member that joins or stays. What it writes makes the answer true; Settle must
// be called with the returned Followup once that is known. unreadable is what CheckExpression says of the request's expression.
// After GroupMetadataManager.consumerGroupHeartbeat.
func (g *Group) Heartbeat(
	e *Env, out *runtime.Out, who Caller, r *kmsg.ConsumerGroupHeartbeatRequest, unreadable error,
) (*kmsg.ConsumerGroupHeartbeatResponse, *Followup, error) {
	t := &turn{writer: writer{e: e, out: out, group: g.id}, g: g, unreadable: unreadable}
	id := r.MemberID
	if err := g.checkRoom(e, id, r.InstanceID); err != nil {
		return nil, nil, err
	}
	if id == "" {
		id = e.NewID()
	}
	if err := t.find(id, r); err != nil {
		return nil, nil, err
	}
	t.hear(who, r)
	if err := t.subscribe(); err != nil {
		return nil, nil, err
	}
	epoch, err := t.advance(t.named || t.expressed == expressionKnown || t.assignorChanged())
	if err != nil {
		return nil, nil, err
	}
	before := t.now.Assigned
	if err := t.reconcile(epoch, r.Topics); err != nil {
		return nil, nil, err
	}
	resp := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	resp.Version = r.Version
	resp.MemberID, resp.MemberEpoch = &t.now.ID, t.now.Epoch
	times := e.Times(g.id)
	resp.HeartbeatIntervalMillis = int32(times.HeartbeatInterval.Milliseconds())
	full := r.RebalanceTimeoutMillis != -1 && (r.SubscribedTopicNames != nil || r.SubscribedTopicRegex != nil) && r.Topics != nil
	if r.MemberEpoch == joining || full || !before.equal(t.now.Assigned) {
		resp.Assignment = assignmentOf(t.now.Assigned)
	}
	if m := g.member(id); m != nil {
		out.Set(&m.session, times.SessionTimeout)
	}
	return resp, t.followup(times.SessionTimeout), nil
}

func assignmentOf(p Partitions) *kmsg.ConsumerGroupHeartbeatResponseAssignment {
	a := &kmsg.ConsumerGroupHeartbeatResponseAssignment{}
	for i := range p {
		topic := kmsg.NewConsumerGroupHeartbeatResponseAssignmentTopic()
		topic.TopicID, topic.Partitions = p[i].Topic, p[i].Partitions
		a.Topics = append(a.Topics, topic)
	}
	return a
}

// checkRoom says whether someone who may be new fits in.
func (g *Group) checkRoom(e *Env, member string, instance *string) error {
	if g.static(instance) == nil && g.size() >= e.Settings.MaxSize && g.member(member) == nil {
		return fail(kerr.GroupMaxSizeReached, "The consumer group has reached its maximum capacity of %d members.", e.Settings.MaxSize)
	}
	return nil
}

// find finds the member that a heartbeat is of, or makes it.
func (t *turn) find(id string, r *kmsg.ConsumerGroupHeartbeatRequest) error {
	if r.InstanceID != nil {
		return t.findStatic(id, *r.InstanceID, r.MemberEpoch == joining, false, func(v *View) error { return checkEpoch(v, r) })
	}
	if m := t.g.member(id); m != nil {
		t.old = m.View
		return checkEpoch(&t.old, r)
	}
	if r.MemberEpoch != joining {
		return errUnknown(id, t.group)
	}
	t.old = newView(id)
	t.e.Log.Info("member joins its group", zap.String("group", t.group), zap.String("member", id), zap.String("protocol", "consumer"))
	return nil
}

// findStatic finds a member with a group.instance.id. One that joins takes the place of an earlier process of that name,
// if that one has said that it goes.
func (t *turn) findStatic(id, instance string, join, classic bool, check func(*View) error) error {
	m := t.g.static(&instance)
	switch {
	case join && m == nil:
		t.old = newView(id)
		if m := t.g.member(id); m != nil { // it had no instance id, or another
			t.old = m.View
		}
		t.e.Log.Info("static member joins its group", zap.String("group", t.group), zap.String("member", id), zap.String("instance", instance))
	case join:
		if !classic && !m.classic() && m.Epoch != leavingStatic {
			return fail(kerr.UnreleasedInstanceID, "Static member %s with instance id %s cannot join the group because the instance id is owned by %s member.",
				id, instance, m.ID)
		}
		t.replace(m, id)
	case m == nil:
		return fail(kerr.UnknownMemberID, "Instance id %s is unknown.", instance)
	case m.ID != id:
		return errFencedInstance(id, instance, m.ID)
	default:
		t.old = m.View
		return check(&t.old)
	}
	return nil
}

// replace writes that a member has another id from now on, and begins at epoch 0.
func (t *turn) replace(m *Member, id string) {
	t.e.Log.Info("static member comes back", zap.String("group", t.group), zap.Stringp("instance", m.Said.InstanceID),
		zap.String("member", id), zap.String("instead_of", m.ID))
	t.old = m.View
	t.old.ID, t.old.Epoch, t.old.PreviousEpoch = id, 0, 0
	t.removeMember(m.ID)
	t.member(&t.old)
	t.targetOf(id, m.target)
	t.current(&t.old)
}

// checkEpoch says whether a member may go on with the epoch that it has. The one before is fine if the member cannot use
// anything that it must not: then the last answer did not reach it.
func checkEpoch(v *View, r *kmsg.ConsumerGroupHeartbeatRequest) error {
	switch {
	case r.MemberEpoch == joining:
	case r.MemberEpoch > v.Epoch:
		return errFencedEpoch("greater", r.MemberEpoch, v.Epoch)
	case r.MemberEpoch < v.Epoch && (r.MemberEpoch != v.PreviousEpoch || !ownsOnly(r.Topics, v.Assigned)):
		return errFencedEpoch("smaller", r.MemberEpoch, v.Epoch)
	}
	return nil
}

func ownsOnly(owned []kmsg.ConsumerGroupHeartbeatRequestTopic, assigned Partitions) bool {
	for i := range owned {
		for _, p := range owned[i].Partitions {
			if !assigned.has(owned[i].TopicID, p) {
				return false
			}
		}
	}
	return owned != nil
}

// hear takes over what a heartbeat says of its member.
func (t *turn) hear(who Caller, r *kmsg.ConsumerGroupHeartbeatRequest) {
	t.now = t.old
	said := &t.now.Said
	said.ClientID, said.ClientHost, said.Classic = who.ClientID, who.ClientHost, nil
	if r.InstanceID != nil {
		said.InstanceID = r.InstanceID
	}
	if r.RackID != nil {
		said.RackID = r.RackID
	}
	if r.RebalanceTimeoutMillis != -1 {
		said.RebalanceTimeoutMs = r.RebalanceTimeoutMillis
	}
	if r.ServerAssignor != nil {
		said.Assignor = r.ServerAssignor
	}
	if r.SubscribedTopicNames != nil {
		said.Topics = sortedSet(r.SubscribedTopicNames)
	}
	if r.SubscribedTopicRegex != nil {
		said.Regex = *r.SubscribedTopicRegex
	}
}

func sortedSet(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Clip(slices.Compact(list))
}

// Followup is what is to be done once the records of a request are written.
type Followup struct {
	member  string
	session time.Duration
	changed bool // what the member has was written
	resolve bool // expressions are to be resolved
	sync    time.Duration
}

func (t *turn) followup(session time.Duration) *Followup {
	return &Followup{
		member: t.now.ID, session: session, resolve: t.needsResolving(),
		changed: t.old.Epoch != t.now.Epoch || t.old.State != t.now.State || !t.old.Assigned.equal(t.now.Assigned) || !t.old.Revoking.equal(t.now.Revoking),
	}
}

// Settle starts the timers that a request calls for.
func (g *Group) Settle(out *runtime.Out, f *Followup) {
	if f.resolve {
		if g.resolve == nil {
			g.resolve = &runtime.Timer{Event: (*resolveDue)(g)}
		}
		out.Set(g.resolve, 0)
	}
	m := g.member(f.member)
	if m == nil {
		return
	}
	out.Stop(&m.session)
	out.Set(&m.session, f.session)
	if f.sync > 0 {
		c := m.classicTimer()
		out.Stop(&c.join)
		out.Stop(&c.sync)
		out.Set(&c.sync, f.sync)
		return
	}
	if f.changed {
		m.watchRevocation(out)
	}
}

// watchRevocation gives the member its rebalance timeout to give up what it must.
func (m *Member) watchRevocation(out *runtime.Out) {
	out.Stop(&m.rebalance)
	if m.State == Unrevoked && !m.classic() {
		m.rebalanceEpoch = m.Epoch
		out.Set(&m.rebalance, ms(m.Said.RebalanceTimeoutMs))
	}
}

func ms(n int32) time.Duration { return time.Duration(n) * time.Millisecond }
