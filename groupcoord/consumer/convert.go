package consumer

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/groupcoord/runtime"
	"github.com/gregor-broker/gregor/groupcoord/schema"
)

// Conversion is a group on its way from one protocol to the other: what both have.
type Conversion struct {
	Generation int32
	Protocol   string // chosen by a classic group; "" not yet
	Members    []Converted
	Rebalance  string // why the classic group must rebalance at once; "" it need not
}

// Converted is a member of the classic protocol in a group that is converted.
type Converted struct {
	ID                 string
	InstanceID         *string
	ClientID           string
	ClientHost         string
	RebalanceTimeoutMs int32
	SessionTimeoutMs   int32
	Protocols          []schema.ClassicProtocol
	Assignment         []byte                   // of a classic group, in the consumer protocol's format
	Assigned           []schema.NamedPartitions // of a consumer group
}

// DowngradesWithout reports whether the group shall become a classic one when members go: when all others speak the
// classic protocol. After GroupMetadataManager.validateOnlineDowngradeWithFencedMembers.
func (g *Group) DowngradesWithout(e *Env, gone []*Member, classicMax int) bool {
	left := 0
	for _, m := range g.members {
		if !m.present || slices.Contains(gone, m) {
			continue
		}
		if !m.classic() {
			return false
		}
		left++
	}
	return left > 0 && g.mayDowngrade(e, left, classicMax)
}

// downgradesReplacing reports whether the group shall become a classic one when a member of the classic protocol takes the
// place of m.
func (g *Group) downgradesReplacing(e *Env, m *Member, classicMax int) bool {
	for _, o := range g.members {
		if o.present && (o == m) == o.classic() {
			return false
		}
	}
	return g.mayDowngrade(e, g.size(), classicMax)
}

func (g *Group) mayDowngrade(e *Env, members, classicMax int) bool {
	switch {
	case !e.Settings.Migration.Downgrades():
		e.Log.Info("a group stays one of the consumer protocol though its members speak the classic one: the policy forbids downgrades", zap.String("group", g.id))
		return false
	case members > classicMax:
		e.Log.Info("a group stays one of the consumer protocol though its members speak the classic one: it has more than group.max.size", zap.String("group", g.id))
		return false
	}
	return true
}

// ToClassic writes that the group is gone, and returns what the classic group that takes its place begins with.
func (g *Group) ToClassic(e *Env, out *runtime.Out, gone []*Member) *Conversion {
	g.Stop(out)
	return g.toClassic(&writer{e: e, out: out, group: g.id}, gone, nil, g.epoch)
}

// toClassic does so; joining, if not nil, is a static member that replaces another.
func (g *Group) toClassic(w *writer, gone []*Member, joining *View, epoch int32) *Conversion {
	c := &Conversion{Generation: epoch}
	replaced := ""
	for _, m := range g.members {
		if !m.present || slices.Contains(gone, m) {
			continue
		}
		v := &m.View
		if joining != nil && sameInstance(v, joining) {
			replaced, v = m.ID, joining
		}
		c.Members = append(c.Members, w.e.converted(v, m.target))
	}
	g.Stop(w.out)
	if joining == nil {
		g.forgetAs(w, "", "")
	} else {
		g.forgetAs(w, replaced, joining.ID)
	}
	w.e.Log.Info("group becomes a classic one", zap.String("group", g.id), zap.Int("members", len(c.Members)))
	return c
}

func (e *Env) converted(v *View, target Partitions) Converted {
	return Converted{
		ID: v.ID, InstanceID: v.Said.InstanceID, ClientID: v.Said.ClientID, ClientHost: v.Said.ClientHost,
		RebalanceTimeoutMs: v.Said.RebalanceTimeoutMs, SessionTimeoutMs: v.Said.Classic.SessionTimeoutMs,
		Protocols: v.Said.Classic.Protocols, Assigned: e.named(target),
	}
}

// FromClassic writes a group that takes the place of a classic one, and returns it. Its members keep what they have: their
// generation is their epoch. After ConsumerGroup.fromClassicGroup.
func FromClassic(e *Env, out *runtime.Out, id string, c *Conversion) (*Group, []*Followup, error) {
	g := New(id)
	views, err := e.viewsOf(c)
	if err != nil {
		e.Log.Warn("a classic group cannot become one of the consumer protocol", zap.String("group", id), zap.Error(err))
		return nil, nil, err
	}
	w := writer{e: e, out: out, group: id, draft: g}
	candidates := make([]candidate, len(views))
	for i := range views {
		w.member(&views[i])
		candidates[i] = candidate{View: views[i]}
	}
	d := g.demandOf(candidates)
	w.groupRecord(c.Generation, e.hashOf(d.topics()))
	for i := range views {
		w.targetOf(views[i].ID, views[i].Assigned.bare())
	}
	w.target(c.Generation, 0)
	var follow []*Followup
	for i := range views {
		w.current(&views[i])
		follow = append(follow, &Followup{member: views[i].ID, session: ms(views[i].Said.Classic.SessionTimeoutMs)})
	}
	e.Log.Info("classic group becomes one of the consumer protocol", zap.String("group", id), zap.Int("members", len(views)))
	return g, follow, nil
}

func (e *Env) viewsOf(c *Conversion) ([]View, error) {
	views := make([]View, 0, len(c.Members))
	for i := range c.Members {
		m := &c.Members[i]
		v := newView(m.ID)
		v.Epoch, v.PreviousEpoch = c.Generation, c.Generation
		v.Said.InstanceID, v.Said.ClientID, v.Said.ClientHost = m.InstanceID, m.ClientID, m.ClientHost
		v.Said.RebalanceTimeoutMs = m.RebalanceTimeoutMs
		v.Said.Classic = &schema.ClassicMember{SessionTimeoutMs: m.SessionTimeoutMs, Protocols: m.Protocols}
		if err := e.readEmbedded(&v, m, c.Protocol); err != nil {
			return nil, err
		}
		views = append(views, v)
	}
	return views, nil
}

// readEmbedded reads what a classic member said and got in the consumer protocol's format.
func (e *Env) readEmbedded(v *View, m *Converted, protocol string) error {
	for _, p := range m.Protocols {
		if p.Name != protocol {
			continue
		}
		s, err := schema.DecodeSubscription(p.Metadata)
		if err != nil {
			return fail(kerr.GroupIDNotFound, "Cannot upgrade classic group %s to consumer group because the embedded consumer protocol is malformed.", m.ID)
		}
		v.Said.Topics = sortedSet(s.Topics)
		if s.Rack != nil && *s.Rack != "" {
			v.Said.RackID = s.Rack
		}
	}
	if len(m.Assignment) == 0 {
		return nil
	}
	assigned, userData, err := schema.DecodeAssignment(m.Assignment)
	switch {
	case err != nil:
		return fail(kerr.GroupIDNotFound, "Cannot upgrade classic group %s to consumer group because the embedded consumer protocol is malformed.", m.ID)
	case len(userData) > 0:
		return fail(kerr.GroupIDNotFound, "Cannot upgrade classic group %s to consumer group because an unsupported custom assignor is in use. "+
			"Please refer to the documentation or switch to a default assignor before re-attempting the upgrade.", m.ID)
	}
	var list []entry
	for _, t := range assigned {
		if id, ok := e.Metadata.TopicID(t.Topic); ok {
			for _, p := range t.Partitions {
				list = append(list, entry{id, p, v.Epoch})
			}
		}
	}
	v.Assigned = partitionsOf(list, true)
	return nil
}
