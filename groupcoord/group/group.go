// Package group is the state machine of a classic group: members join, one of them assigns, all get their assignment, and
// who falls silent is removed.
//
// A Group has two sides. Stored is the value of its record in __consumer_offsets, changed by Apply only: the last generation
// whose assignment was stored. The rest is soft: who is a member now, who waits for whom. It may run ahead of what is stored,
// and is rebuilt from it when the partition is loaded, with every member's session starting afresh. A group without members
// has no soft side at all, which keeps 100,000 of them small.
//
// The rules are those of Apache Kafka's GroupMetadataManager (classic part) and ClassicGroup.
package group

import (
	"math"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/groupcoord/runtime"
	"github.com/gregor-broker/gregor/groupcoord/schema"
	"github.com/gregor-broker/gregor/wire/errcode"
)

// ConsumerProtocol is the protocol type of groups whose members consume topics.
const ConsumerProtocol = "consumer"

// What a member is told is wrong.
var (
	ErrUnknownMember     = errcode.New(kerr.UnknownMemberID, "the group has no such member")
	ErrFenced            = errcode.New(kerr.FencedInstanceID, "another member has the same group.instance.id and came later")
	ErrIllegalGeneration = errcode.New(kerr.IllegalGeneration, "the group is not in that generation")
	ErrRebalancing       = errcode.New(kerr.RebalanceInProgress, "the group is rebalancing")
	ErrInconsistent      = errcode.New(kerr.InconsistentGroupProtocol, "the group has another protocol type, or no protocol that all members support")
	ErrMemberIDRequired  = errcode.New(kerr.MemberIDRequired, "join again with the member id given here")
	ErrFull              = errcode.New(kerr.GroupMaxSizeReached, "the group has group.max.size members")
	ErrNotEmpty          = errcode.New(kerr.NonEmptyGroup, "the group has members")
	ErrLongID            = errcode.New(kerr.UnknownServerError, "client id or group.instance.id is so long that the member id would not fit a record")
	ErrUnexpected        = errcode.New(kerr.UnknownServerError, "a member id that was just given out cannot belong to a static member")
)

// Settings are the configuration values of classic groups, named as in Kafka's configuration.
type Settings struct {
	MinSessionTimeout     time.Duration // group.min.session.timeout.ms
	MaxSessionTimeout     time.Duration // group.max.session.timeout.ms
	InitialRebalanceDelay time.Duration // group.initial.rebalance.delay.ms
	MaxSize               int           // group.max.size
}

// DefaultSettings returns Kafka's defaults.
func DefaultSettings() Settings {
	return Settings{
		MinSessionTimeout: 6 * time.Second, MaxSessionTimeout: 30 * time.Minute,
		InitialRebalanceDelay: 3 * time.Second, MaxSize: math.MaxInt32,
	}
}

// newMemberJoinTimeout is how long a new member may wait in its first JoinGroup, since it sends no heartbeats meanwhile.
const newMemberJoinTimeout = 5 * time.Minute

// Env is what the groups of one shard share. Owned by the shard's goroutine.
type Env struct {
	Settings *Settings
	Log      *zap.Logger
	NewID    func() string // a random UUID

	key, value []byte // scratch
}

// State is the state of a classic group.
type State int8

const (
	Empty               State = iota // no members; what a group is born as
	PreparingRebalance               // members are expected to join
	CompletingRebalance              // members wait for the leader's assignment
	Stable
)

// String returns Kafka's name of the state.
func (s State) String() string {
	return [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable"}[s]
}

// Dead is the name of the state of a group that does not exist.
const Dead = "Dead"

// Group is one classic group. Owned by the shard's goroutine. It must not be copied once Join was called.
type Group struct {
	id     string
	stored *schema.GroupValue // nil: nothing is stored
	live   *live              // nil: Empty, as stored
}

// Make returns a group of which nothing is known but the id.
func Make(id string) Group { return Group{id: id} }

// ID returns the group's id.
func (g *Group) ID() string { return g.id }

// Apply changes what is stored; nil deletes it.
func (g *Group) Apply(v *schema.GroupValue) { g.stored = v }

// Stored returns what is stored, nil for nothing.
func (g *Group) Stored() *schema.GroupValue { return g.stored }

// Soft reports whether the group is more than what is stored of it.
func (g *Group) Soft() bool { return g.live != nil }

// State returns the group's state.
func (g *Group) State() State {
	if g.live == nil {
		return Empty
	}
	return g.live.state
}

// ProtocolType returns what the members are, "" for a group that never had any.
func (g *Group) ProtocolType() string {
	switch {
	case g.live != nil:
		return g.live.protocolType
	case g.stored != nil:
		return g.stored.ProtocolType
	}
	return ""
}

// stateMs is when the group came to its state, -1 if that is not known.
func (g *Group) stateMs() int64 {
	switch {
	case g.live != nil:
		return g.live.stateMs
	case g.stored != nil:
		return g.stored.StateMs
	}
	return -1
}

// Subscribed reports whether the members consume the topic. A group of consumers whose subscriptions cannot be read counts
// as subscribed to everything, any other group to nothing.
func (g *Group) Subscribed(topic string) bool {
	if g.live == nil {
		return false
	}
	if g.live.subscribed != nil {
		_, ok := slices.BinarySearch(g.live.subscribed, topic)
		return ok
	}
	return g.live.protocolType == ConsumerProtocol && g.live.state != Empty
}

// Retention tells from when on the age of an offset counts: from its commit, or from since if that is not -1. ok is false
// while no offset of the group may expire. After ClassicGroup.offsetExpirationCondition.
func (g *Group) Retention() (since int64, ok bool) {
	switch {
	case g.ProtocolType() == "":
		return -1, true
	case g.State() == Empty:
		return g.stateMs(), true
	case g.live.protocolType == ConsumerProtocol && g.live.subscribed != nil && g.live.state == Stable:
		return -1, true
	}
	return 0, false
}

// Idle reports whether the group has neither members nor anyone who was told to join.
func (g *Group) Idle() bool {
	return g.live == nil || g.live.state == Empty && len(g.live.pending) == 0
}

// Forget drops the soft side of a group without members.
func (g *Group) Forget(out *runtime.Out) {
	if g.live == nil {
		return
	}
	for _, p := range g.live.pending {
		out.Stop(&p.timer)
	}
	out.Stop(&g.live.joinTimer)
	out.Stop(&g.live.syncTimer)
	g.live = nil
}

// Loaded builds the soft side from what is stored. All sessions start now.
func (g *Group) Loaded(e *Env, out *runtime.Out) {
	if g.stored == nil || len(g.stored.Members) == 0 {
		return
	}
	l := g.wake(out)
	l.state = Stable
	for i := range g.stored.Members {
		l.add(memberFromStored(l, g.stored, &g.stored.Members[i]))
	}
	if g.stored.Leader != nil && l.members.get(*g.stored.Leader) != nil {
		l.leader = *g.stored.Leader
	}
	l.subscribe(e)
	for _, m := range l.members.list {
		m.touch(out)
	}
	if l.members.len() > e.Settings.MaxSize {
		l.prepare(e, out, "the group was loaded with more than group.max.size members")
	}
}

// wake returns the soft side, made from what is stored if there is none.
func (g *Group) wake(out *runtime.Out) *live {
	if g.live != nil {
		return g.live
	}
	l := &live{group: g, stateMs: out.Now.WallMs()}
	l.joinTimer.Event, l.syncTimer.Event = (*joinDue)(l), (*syncDue)(l)
	if v := g.stored; v != nil {
		l.generation, l.protocolType, l.stateMs = v.Generation, v.ProtocolType, v.StateMs
		if v.Protocol != nil {
			l.protocol = *v.Protocol
		}
	}
	g.live = l
	return l
}

// Unloaded answers everyone who waits with err.
func (g *Group) Unloaded(err error) {
	if g.live == nil {
		return
	}
	for _, m := range g.live.members.list {
		m.answerJoinError(m.id, err)
		m.answerSyncError(err)
	}
}
