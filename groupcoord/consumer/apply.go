package consumer

import (
	"slices"

	"github.com/gregor-broker/gregor/groupcoord/schema"
)

// Apply takes a record over, a tombstone if value is nil, and returns the version of the value. Tombstones of what never was
// change nothing.
func (g *Group) Apply(key schema.ConsumerKey, value []byte) (version int16, err error) {
	if value == nil {
		g.forget(key)
		return -1, nil
	}
	switch key.Kind {
	case schema.ConsumerGroup:
		v, version, err := schema.DecodeConsumerGroupValue(value)
		if err == nil {
			g.epoch, g.hash = v.Epoch, v.MetadataHash
		}
		return version, err
	case schema.ConsumerTopics:
		g.oldTopics = true
		return 0, nil
	case schema.ConsumerTarget:
		v, version, err := schema.DecodeTargetValue(value)
		if err == nil {
			g.targetEpoch, g.targetMs = v.Epoch, v.TimestampMs
		}
		return version, err
	case schema.ConsumerExpression:
		v, version, err := schema.DecodeExpressionValue(value)
		if err == nil {
			if g.expressions == nil {
				g.expressions = map[string]*schema.ExpressionValue{}
			}
			g.expressions[string(key.Of)] = v
		}
		return version, err
	}
	return g.applyMember(key, value)
}

func (g *Group) applyMember(key schema.ConsumerKey, value []byte) (version int16, err error) {
	switch key.Kind {
	case schema.ConsumerMember:
		v, version, err := schema.DecodeConsumerMemberValue(value)
		if err == nil {
			m := g.ensure(string(key.Of))
			slices.Sort(v.Topics)
			v.Topics = slices.Compact(v.Topics)
			m.present, m.Said = true, *v
		}
		return version, err
	case schema.ConsumerTargetOf:
		v, version, err := schema.DecodeTargetOfValue(value)
		if err == nil {
			m := g.ensure(string(key.Of))
			m.hasTarget, m.target = true, targetFromStored(v)
		}
		return version, err
	default:
		v, version, err := schema.DecodeCurrentValue(value)
		if err == nil {
			m := g.ensure(string(key.Of))
			m.present, m.Epoch, m.PreviousEpoch, m.State = true, v.Epoch, v.PreviousEpoch, knownState(v.State)
			m.Assigned, m.Revoking = fromStored(v.Assigned, v.Epoch), fromStored(v.Revoking, v.Epoch)
		}
		return version, err
	}
}

func knownState(s int8) MemberState {
	if s < int8(MemberStable) || s > int8(Unreleased) {
		return MemberLost
	}
	return MemberState(s)
}

// forget applies a tombstone.
func (g *Group) forget(key schema.ConsumerKey) {
	switch key.Kind {
	case schema.ConsumerTopics:
		g.oldTopics = false
		return
	case schema.ConsumerTarget:
		g.targetEpoch, g.targetMs = -1, 0
		return
	case schema.ConsumerExpression:
		delete(g.expressions, string(key.Of))
		return
	case schema.ConsumerGroup:
		return // the group goes, which its owner sees to
	}
	i, ok := g.place(string(key.Of))
	if !ok {
		return
	}
	m := g.members[i]
	switch key.Kind {
	case schema.ConsumerMember:
		m.present = false
	case schema.ConsumerTargetOf:
		m.hasTarget, m.target = false, nil
	case schema.ConsumerCurrent:
		m.Epoch, m.PreviousEpoch, m.Assigned, m.Revoking = leaving, leaving, nil, nil
	}
	g.tidy(m)
}
