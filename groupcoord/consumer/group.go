// Package consumer is the state machine of a group of the consumer protocol (KIP-848): members say what they want in
// heartbeats, the coordinator decides who shall have what (the target assignment) and leads each member there, first to give
// up what it must, then to take what is free.
//
// All of a Group is stored, except timers: handlers never change it. They compute the records that make it what it shall
// be; Apply takes them over, the same when they are written and when they are read again. Handlers work on Views, which are
// values, so a request that is refused by the log leaves nothing behind.
//
// The rules are those of Apache Kafka 4.4's GroupMetadataManager (consumer part), ConsumerGroup and CurrentAssignmentBuilder.
package consumer

import (
	"cmp"
	"slices"

	"github.com/gregor-broker/gregor/groupcoord/runtime"
	"github.com/gregor-broker/gregor/groupcoord/schema"
)

// ProtocolType is the protocol type of all groups here.
const ProtocolType = "consumer"

// MemberState is how far a member is on its way to its target assignment.
type MemberState int8

// The states, as they are stored.
const (
	MemberStable MemberState = 0   // has what it shall have in its epoch
	Unrevoked    MemberState = 1   // must give up partitions before it may go on to the next epoch
	Unreleased   MemberState = 2   // waits for partitions that others still have
	MemberLost   MemberState = 127 // written by a newer broker: what the member has is not known
)

// Epochs that mean something else.
const (
	joining       = 0
	leaving       = -1
	leavingStatic = -2
)

// View is what is known of a member. A value: handlers change a copy.
type View struct {
	ID            string
	Epoch         int32
	PreviousEpoch int32 // accepted too, as an answer may have been lost
	State         MemberState
	Said          schema.ConsumerMemberValue
	Assigned      Partitions // what it may use
	Revoking      Partitions // what it must give up and may still have
}

// newView is a member that has not said anything yet.
func newView(id string) View {
	return View{ID: id, PreviousEpoch: -1, Said: schema.ConsumerMemberValue{RebalanceTimeoutMs: -1}}
}

// classic reports whether the member speaks the classic protocol.
func (v *View) classic() bool { return v.Said.Classic != nil }

// reconciled reports whether the member has reached a target assignment.
func (v *View) reconciled(targetEpoch int32) bool {
	return v.State == MemberStable && v.Epoch == targetEpoch
}

// Member is a member, or what is left or known of one: records may come in any order when the log was compacted.
type Member struct {
	View
	present   bool // it is a member; else there is only a target
	hasTarget bool
	target    Partitions

	group          *Group
	session        runtime.Timer
	rebalance      runtime.Timer
	rebalanceEpoch int32          // that rebalance belongs to
	classicTimers  *classicTimers // of a member that speaks the classic protocol, once needed
}

// classicTimers are how long a member of the classic protocol may take to join and to sync.
type classicTimers struct{ join, sync runtime.Timer }

// Group is a group of the consumer protocol. Owned by the shard's goroutine.
type Group struct {
	id          string
	epoch       int32 // of its members and what they want
	hash        int64 // of the topics that its members consume
	targetEpoch int32 // that the target assignment is of
	targetMs    int64 // when it was computed; 0 unknown
	oldTopics   bool  // a record is stored that Kafka before 4.1 wrote, to be deleted
	members     []*Member
	expressions map[string]*schema.ExpressionValue // what regular expressions stand for

	refreshed int64          // soft: version of the metadata that hash is of
	resolve   *runtime.Timer // soft: when expressions are to be resolved
	resolving bool           // soft: that is being done
}

// New returns a group without members, as it is before its first record.
func New(id string) *Group { return &Group{id: id, epoch: 1, targetEpoch: 1} }

// ID returns the group's id.
func (g *Group) ID() string { return g.id }

// place returns where a member is, or would be.
func (g *Group) place(id string) (int, bool) {
	return slices.BinarySearchFunc(g.members, id, func(m *Member, id string) int { return cmp.Compare(m.ID, id) })
}

// member returns a member, nil if there is none of that id.
func (g *Group) member(id string) *Member {
	if i, ok := g.place(id); ok && g.members[i].present {
		return g.members[i]
	}
	return nil
}

// static returns the member with a group.instance.id, nil if there is none.
func (g *Group) static(instance *string) *Member {
	if instance == nil {
		return nil
	}
	for _, m := range g.members {
		if m.present && m.Said.InstanceID != nil && *m.Said.InstanceID == *instance {
			return m
		}
	}
	return nil
}

// size returns the number of members.
func (g *Group) size() int {
	n := 0
	for _, m := range g.members {
		if m.present {
			n++
		}
	}
	return n
}

// Empty reports whether the group has no members.
func (g *Group) Empty() bool { return g.size() == 0 }

// ensure returns what is known of a member, made if that is nothing.
func (g *Group) ensure(id string) *Member {
	i, ok := g.place(id)
	if !ok {
		m := &Member{View: newView(id), group: g}
		m.session.Event, m.rebalance.Event = (*sessionDue)(m), (*rebalanceDue)(m)
		g.members = slices.Insert(g.members, i, m)
	}
	return g.members[i]
}

// tidy forgets a member of which nothing is left.
func (g *Group) tidy(m *Member) {
	if m.present || m.hasTarget {
		return
	}
	if i, ok := g.place(m.ID); ok {
		g.members = slices.Delete(g.members, i, i+1)
	}
}

// State is the state that tools show.
type State string

// The states. Dead is what a group that does not exist is called.
const (
	Empty       State = "Empty"
	Assigning   State = "Assigning"   // the target assignment is of an earlier epoch
	Reconciling State = "Reconciling" // members are on their way to it
	Stable      State = "Stable"
)

// State returns the group's state.
func (g *Group) State() State {
	state := Empty
	for _, m := range g.members {
		switch {
		case !m.present:
		case g.epoch > g.targetEpoch:
			return Assigning
		case !m.reconciled(g.targetEpoch):
			return Reconciling
		default:
			state = Stable
		}
	}
	return state
}

// Subscribed reports whether a member consumes the topic, by name or by a regular expression that it matches.
func (g *Group) Subscribed(topic string) bool {
	for _, m := range g.members {
		if m.present && slices.Contains(m.Said.Topics, topic) {
			return true
		}
	}
	for _, x := range g.expressions {
		if slices.Contains(x.Topics, topic) {
			return true
		}
	}
	return false
}
