package consumer

import (
	"bytes"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// target is what a member shall have, in which epoch.
type target struct {
	epoch      int32
	partitions Partitions
}

// reconcile leads the member one step on its way to its target, and writes the step. owned is what the member says it still
// uses, nil if it does not say. After GroupMetadataManager.maybeReconcile.
func (t *turn) reconcile(to target, owned []kmsg.ConsumerGroupHeartbeatRequestTopic) error {
	changed := t.named || t.expressed != expressionSame
	if !changed && t.now.reconciled(to.epoch) {
		return nil
	}
	before := t.now
	if err := t.step(to, owned, changed); err != nil {
		return err
	}
	if before.Epoch != t.now.Epoch || before.PreviousEpoch != t.now.PreviousEpoch || before.State != t.now.State ||
		!before.Assigned.equal(t.now.Assigned) || !before.Revoking.equal(t.now.Revoking) {
		t.current(&t.now)
	}
	return nil
}

// step is CurrentAssignmentBuilder.build.
func (t *turn) step(to target, owned []kmsg.ConsumerGroupHeartbeatRequestTopic, changed bool) error {
	v := &t.now
	switch v.State {
	case MemberStable:
		if v.Epoch != to.epoch {
			t.next(v.Epoch, to, owned)
		} else if changed {
			t.drop(owned)
		}
	case Unrevoked:
		if !stillOwns(owned, v.Revoking) {
			t.next(v.Epoch, to, owned)
		} else if changed {
			t.drop(owned)
		}
	case Unreleased:
		t.next(v.Epoch, to, owned)
	default:
		if owned == nil || len(owned) > 0 {
			return fail(kerr.FencedMemberEpoch, "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin.")
		}
		t.next(to.epoch, to, owned)
	}
	return nil
}

// stillOwns reports whether a member may still use any of the partitions.
func stillOwns(owned []kmsg.ConsumerGroupHeartbeatRequestTopic, p Partitions) bool {
	if owned == nil {
		return true
	}
	for i := range owned {
		for _, partition := range owned[i].Partitions {
			if p.has(owned[i].TopicID, partition) {
				return true
			}
		}
	}
	return false
}

// next compares what the member has with what it shall have. What it must give up comes first; only then does it get the
// target's epoch, and with it what is free of the rest.
func (t *turn) next(epoch int32, to target, owned []kmsg.ConsumerGroupHeartbeatRequestTopic) {
	v := &t.now
	wants := t.consumes()
	var kept, revoked []entry
	for _, e := range v.Assigned.entries() {
		if wants(e.topic) && to.partitions.has(e.topic, e.partition) {
			kept = append(kept, e)
		} else {
			revoked = append(revoked, e)
		}
	}
	if revoking := partitionsOf(revoked, true); len(revoking) > 0 && stillOwns(owned, revoking) {
		v.State, v.PreviousEpoch, v.Epoch = Unrevoked, v.Epoch, epoch
		v.Assigned, v.Revoking = partitionsOf(kept, true), revoking
		return
	}
	state, taken := MemberStable, t.takenByOthers()
	for _, e := range to.partitions.entries() {
		switch {
		case !wants(e.topic) || v.Assigned.has(e.topic, e.partition):
		case taken(e.topic, e.partition) && !v.Revoking.has(e.topic, e.partition):
			state = Unreleased
		default:
			e.epoch = to.epoch
			kept = append(kept, e)
		}
	}
	v.State, v.PreviousEpoch, v.Epoch = state, v.Epoch, to.epoch
	v.Assigned, v.Revoking = partitionsOf(kept, true), nil
}

// drop takes from the member what it does not consume any more, within its epoch.
func (t *turn) drop(owned []kmsg.ConsumerGroupHeartbeatRequestTopic) {
	v := &t.now
	wants := t.consumes()
	var kept, dropped []entry
	for _, e := range v.Assigned.entries() {
		if wants(e.topic) {
			kept = append(kept, e)
		} else {
			dropped = append(dropped, e)
		}
	}
	if len(dropped) == 0 {
		return
	}
	revoking := partitionsOf(append(v.Revoking.entries(), dropped...), true)
	v.Assigned, v.PreviousEpoch = partitionsOf(kept, true), v.Epoch
	if stillOwns(owned, revoking) {
		v.State, v.Revoking = Unrevoked, revoking
	}
}

// consumes returns a function that says whether the member consumes a topic.
func (t *turn) consumes() func(Topic) bool {
	ids := t.topicsOf(&t.now)
	compare := func(a, b Topic) int { return bytes.Compare(a[:], b[:]) }
	slices.SortFunc(ids, compare)
	return func(topic Topic) bool {
		_, ok := slices.BinarySearchFunc(ids, topic, compare)
		return ok
	}
}

// takenByOthers returns a function that says whether another member has a partition, or has not given it up yet.
func (t *turn) takenByOthers() func(Topic, int32) bool {
	var taken map[entry]struct{}
	return func(topic Topic, partition int32) bool {
		if taken == nil {
			taken = t.g.taken(func(m *Member) bool { return m.ID != t.now.ID && !sameInstance(&m.View, &t.now) })
		}
		_, ok := taken[entry{topic: topic, partition: partition}]
		return ok
	}
}

// taken returns what the members that count have, or have not given up yet.
func (g *Group) taken(counts func(*Member) bool) map[entry]struct{} {
	taken := map[entry]struct{}{}
	for _, m := range g.members {
		if !m.present || !counts(m) {
			continue
		}
		for _, p := range []Partitions{m.Assigned, m.Revoking} {
			for i := range p {
				for _, partition := range p[i].Partitions {
					taken[entry{topic: p[i].Topic, partition: partition}] = struct{}{}
				}
			}
		}
	}
	return taken
}
