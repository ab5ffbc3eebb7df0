package consumer

import (
	"cmp"
	"maps"
	"slices"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/groupcoord/assignor"
)

// candidate is a member as it will be, and what it was assigned last.
type candidate struct {
	View
	target Partitions
}

// members returns all members as they will be after this request, in order of their ids: the one that it is of as it shall
// be, in place of what it was.
func (t *turn) members() []candidate {
	if t.views != nil {
		return t.views
	}
	target := Partitions(nil)
	for _, m := range t.g.members {
		switch {
		case m.ID == t.now.ID || m.present && sameInstance(&m.View, &t.now):
			target = m.target
		case m.present:
			t.views = append(t.views, candidate{m.View, m.target})
		}
	}
	i, _ := slices.BinarySearchFunc(t.views, t.now.ID, func(c candidate, id string) int { return cmp.Compare(c.ID, id) })
	t.views = slices.Insert(t.views, i, candidate{t.now, target})
	return t.views
}

// candidates returns all members as they are.
func (g *Group) candidates() []candidate {
	list := make([]candidate, 0, len(g.members))
	for _, m := range g.members {
		if m.present {
			list = append(list, candidate{m.View, m.target})
		}
	}
	return list
}

func sameInstance(a, b *View) bool {
	return a.Said.InstanceID != nil && b.Said.InstanceID != nil && *a.Said.InstanceID == *b.Said.InstanceID
}

// subscribe writes what the member says of itself if that is new.
func (t *turn) subscribe() error {
	if t.old.Said.Equal(&t.now.Said) {
		return t.express()
	}
	t.member(&t.now)
	t.named = !slices.Equal(t.old.Said.Topics, t.now.Said.Topics)
	return t.express()
}

// demand is what members consume.
type demand struct {
	byName  map[string]int // members by topic
	byRegex map[string]int // resolved expressions by topic
	regexes map[string]int // members by expression
	members int
}

// demandOf returns what members consume.
func (g *Group) demandOf(members []candidate) demand {
	d := demand{byName: map[string]int{}, byRegex: map[string]int{}, regexes: map[string]int{}, members: len(members)}
	for i := range members {
		for _, topic := range members[i].Said.Topics {
			d.byName[topic]++
		}
		if re := members[i].Said.Regex; re != "" {
			if d.regexes[re]++; d.regexes[re] == 1 && g.expressions[re] != nil {
				for _, topic := range g.expressions[re].Topics {
					d.byRegex[topic]++
				}
			}
		}
	}
	return d
}

// homogeneous reports whether all members consume the same topics, as far as that is quick to say. After
// ConsumerGroup.subscriptionType.
func (d *demand) homogeneous() bool {
	if len(d.regexes) == 0 {
		for _, n := range d.byName {
			if n != d.members {
				return false
			}
		}
		return true
	}
	for _, n := range d.regexes {
		if n != d.members {
			return false
		}
	}
	for _, n := range d.byRegex {
		if n != 1 {
			return false
		}
	}
	return len(d.byName) == 0
}

// topics returns the names of all topics that are consumed, in order.
func (d *demand) topics() []string {
	all := maps.Clone(d.byName)
	for topic := range d.byRegex {
		all[topic] = 1
	}
	return slices.Sorted(maps.Keys(all))
}

// assignorChanged reports whether the group prefers another assignor now.
func (t *turn) assignorChanged() bool {
	before, now := t.old.Said.Assignor, t.now.Said.Assignor
	if before == now || before != nil && now != nil && *before == *now {
		return false
	}
	return t.e.preferred(t.g.candidates()) != t.e.preferred(t.members())
}

// preferred returns the assignor that most members want, of equally many the last by name, as Kafka's hash map has uniform before
// range; the default if nobody wants any.
func (e *Env) preferred(members []candidate) string {
	votes := map[string]int{}
	for i := range members {
		if name := members[i].Said.Assignor; name != nil {
			votes[*name]++
		}
	}
	best := ""
	for name, n := range votes {
		if best == "" || n > votes[best] || n == votes[best] && name > best {
			best = name
		}
	}
	if best == "" || assignor.ByName(best) == nil {
		return e.Settings.Assignors[0]
	}
	return best
}

// advance raises the group's epoch if bump says so or topics have changed, computes the target assignment if it is of an
// earlier epoch, and returns what the member shall have in which epoch.
func (t *turn) advance(bump bool) (target, error) {
	epoch := t.g.epoch
	if version := t.e.Metadata.TopicsVersion(); bump || t.g.refreshed != version {
		epoch = t.refresh(bump)
		t.g.refreshed = version
	}
	interval := t.e.Times(t.group).AssignmentInterval
	tooSoon := t.g.targetMs != 0 && interval != 0 && t.out.Now.WallMs() < t.g.targetMs+interval.Milliseconds()
	if t.g.targetEpoch >= epoch || tooSoon {
		return target{t.g.targetEpoch, t.lastTarget()}, nil
	}
	return t.assign(epoch)
}

// lastTarget is what the member was assigned last; one that comes back gets what it had.
func (t *turn) lastTarget() Partitions {
	if m := t.g.static(t.now.Said.InstanceID); m != nil {
		return m.target
	}
	if i, ok := t.g.place(t.now.ID); ok {
		return t.g.members[i].target
	}
	return nil
}

// refresh computes the hash of the topics that members consume, and raises the epoch if it is another, or if bump says so.
func (t *turn) refresh(bump bool) int32 {
	epoch := t.g.epoch
	d := t.g.demandOf(t.members())
	hash := t.e.hashOf(d.topics())
	if bump || hash != t.g.hash {
		epoch++
		t.groupRecord(epoch, hash)
		t.e.Log.Info("group has a new epoch", zap.String("group", t.group), zap.Int32("epoch", epoch))
	}
	if t.g.oldTopics {
		t.writeNoTopics()
	}
	return epoch
}

// assign computes the target assignment for an epoch.
func (t *turn) assign(epoch int32) (target, error) {
	members := t.members()
	d := t.g.demandOf(members)
	name := t.e.preferred(members)
	spec := &assignor.Group{Homogeneous: d.homogeneous(), Partitions: func(id Topic) int32 {
		topic, _ := t.e.Metadata.TopicName(id)
		return t.e.Metadata.PartitionCount(topic)
	}}
	for i := range members {
		m := assignor.Member{ID: members[i].ID, InstanceID: members[i].Said.InstanceID, Before: members[i].target}
		m.Topics = t.topicsOf(&members[i].View)
		spec.Members = append(spec.Members, m)
	}
	assigned := assignor.ByName(name)(spec)
	var mine Partitions
	for i := range members {
		next := Partitions(assigned[i])
		if members[i].ID == t.now.ID {
			mine = next
		}
		if !next.equal(members[i].target) || !t.hasTarget(members[i].ID) {
			t.targetOf(members[i].ID, next)
		}
	}
	t.target(epoch, t.out.Now.WallMs())
	t.e.Log.Info("group has a new target assignment", zap.String("group", t.group), zap.Int32("epoch", epoch),
		zap.Int("members", len(members)), zap.String("assignor", name))
	return target{epoch, mine}, nil
}

func (t *turn) hasTarget(id string) bool {
	i, ok := t.g.place(id)
	return ok && t.g.members[i].hasTarget
}

// topicsOf returns the ids of the existing topics that a member consumes, each once.
func (t *turn) topicsOf(v *View) []Topic {
	names := v.Said.Topics
	if x := t.g.expressions[v.Said.Regex]; v.Said.Regex != "" && x != nil {
		names = sortedSet(append(slices.Clone(names), x.Topics...))
	}
	var ids []Topic
	for _, name := range names {
		if id, ok := t.e.Metadata.TopicID(name); ok {
			ids = append(ids, id)
		}
	}
	return ids
}
