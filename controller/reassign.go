package controller

import (
	"cmp"
	"maps"
	"slices"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/znode"
	"go.uber.org/zap"
)

// This file moves partitions between brokers (KIP-455). The topic's node first names old and new replicas together; when the new
// ones are all in sync, leadership moves to one of them, the others leave the in-sync replicas and are removed, and at last
// the node names the new ones alone. After kafka.controller.KafkaController.onPartitionReassignment, whose steps A and B these
// are, but for one thing: the node is written last of all, when the removed replicas have answered, so that a controller that takes
// over in between still knows of them.

// move is the reassignment of a partition on its way. Where it is going is in the topic's node.
type move struct {
	stage moveStage
	queue []func() // what waits for its end
}

type moveStage int8

const (
	moveStart     moveStage = iota // the replicas must be told the new assignment
	moveWaiting                    // until the target is in sync
	moveSwitching                  // a replica of the target must lead. From here on the brokers know the target alone
	moveShrinking                  // the others must leave the in-sync replicas
	moveStopping                   // the others are being removed
	moveWriting                    // the node is being written
)

// assignment is who has a partition: all replicas, those of them that are new, those that will go.
type assignment struct{ replicas, adding, removing []int32 }

// origin is what a cancelled reassignment goes back to, target what it is going to.
func (a assignment) origin() []int32 { return without(a.replicas, a.adding) }
func (a assignment) target() []int32 { return without(a.replicas, a.removing) }

// moving says whether the assignment is between two.
func (a assignment) moving() bool { return len(a.adding)+len(a.removing) > 0 }

// to is the assignment on the way from this one to a target; the target's order comes first.
func (a assignment) to(target []int32) assignment {
	origin := a.origin()
	all := slices.Concat(target, without(origin, target))
	return assignment{all, without(all, origin), without(all, target)}
}

func (a assignment) equal(b assignment) bool {
	return slices.Equal(a.replicas, b.replicas) && slices.Equal(a.adding, b.adding) && slices.Equal(a.removing, b.removing)
}

// written is a partition's assignment as the topic's node has it.
func (x ref) written() assignment {
	return assignment{x.part().replicas, x.t.adding[x.p], x.t.removing[x.p]}
}

// assigned is a partition's assignment as the brokers should know it.
func (x ref) assigned() assignment {
	if v := x.t.moves[x.p]; v != nil && v.stage >= moveSwitching {
		return assignment{replicas: x.written().target()}
	}
	return x.written()
}

// resumeMoves makes reassignments of a topic that was read known.
func (t *topic) resumeMoves() {
	for p := range t.parts {
		if x := (ref{t, int32(p)}); x.written().moving() {
			t.setMove(x.p)
		}
	}
}

func (t *topic) setMove(p int32) {
	if t.moves == nil {
		t.moves = map[int32]*move{}
	}
	t.moves[p] = &move{}
}

// advance takes the next step of a partition's reassignment, if it is being reassigned and nothing keeps it from that. It is called
// whenever something about the partition has changed.
func (m *Machine) advance(x ref) {
	v, p := x.t.moves[x.p], x.part()
	if v == nil || x.t.deletion != nil || p.busy || p.version < 0 {
		return
	}
	if v.stage <= moveWaiting && x.caughtUp() {
		v.stage = moveSwitching
	}
	switch v.stage {
	case moveStart:
		m.tellMove(x, v)
	case moveSwitching:
		m.switchLeader(x, v)
	case moveShrinking:
		m.shrinkMove(x, v)
	}
}

func (m *Machine) advanceAll(refs []ref) {
	for _, x := range refs {
		m.advance(x)
	}
}

// caughtUp says whether the whole target is in sync. What is not between two assignments any more (a cancelled reassignment, a new
// order of the same replicas) has nothing to wait for.
func (x ref) caughtUp() bool {
	a := x.written()
	return !a.moving() || len(without(a.target(), x.part().isr)) == 0
}

// tellMove raises the leader epoch and tells all replicas, old and new, the assignment.
func (m *Machine) tellMove(x ref, v *move) {
	next := x.part().state()
	next.LeaderEpoch++
	m.write([]stateWrite{{x: x, state: next, settle: true, then: func(err error) {
		if err != nil || x.t.moves[x.p] != v {
			return // attend comes here again
		}
		v.stage = moveWaiting
		for _, id := range x.written().adding {
			m.orderStateOf(x, id, true)
		}
	}}})
}

// switchLeader makes a replica of the target lead. If none can, the reassignment waits.
func (m *Machine) switchLeader(x ref, v *move) {
	p, w := x.part(), m.view(x)
	next := p.state()
	next.LeaderEpoch++
	if !slices.Contains(w.replicas, p.leader) || !w.serves(p.leader) {
		leader, ok := w.first(func(id int32) bool { return w.live(id) && slices.Contains(p.isr, id) })
		if !ok {
			m.waitAgain(x, v)
			return
		}
		next.Leader = leader
	}
	m.write([]stateWrite{{x: x, state: next, settle: true, then: func(err error) {
		if err == nil && v.stage == moveSwitching {
			v.stage = moveShrinking
		}
	}}})
}

// waitAgain takes a reassignment back to where all replicas, old and new, count.
func (m *Machine) waitAgain(x ref, v *move) {
	v.stage = moveWaiting
	m.settle([]ref{x}, false)
	m.releaseMove(v)
}

// shrinkMove takes the replicas that go out of the in-sync ones, and removes them.
func (m *Machine) shrinkMove(x ref, v *move) {
	p, removing := x.part(), x.written().removing
	next := p.state()
	next.LeaderEpoch++
	next.ISR = without(p.isr, removing)
	before := p.leaderEpoch
	switch {
	case len(next.ISR) == 0 || slices.Contains(removing, p.leader) || p.leader < 0:
		m.waitAgain(x, v) // the target has died meanwhile
	case len(next.ISR) == len(p.isr):
		m.stopRemoved(x, v, removing, before)
	default:
		m.write([]stateWrite{{x: x, state: next, settle: true, then: func(err error) {
			if err == nil && x.t.deletion == nil {
				m.stopRemoved(x, v, removing, before)
			}
		}}})
	}
}

// stopRemoved ends the replicas that go, and waits until their brokers have answered or are gone.
func (m *Machine) stopRemoved(x ref, v *move, removing []int32, before int32) {
	v.stage = moveStopping
	wait := &delivery{left: 1, then: []func(){func() {
		v.stage = moveWriting
		m.finishMove(x, v)
	}}}
	m.stopReplicas(x, removing, before, wait)
	m.reign.orders.waits = append(m.reign.orders.waits, wait)
}

// stopReplicas ends replicas that are no longer assigned: first as followers of the epoch before, then with their data.
func (m *Machine) stopReplicas(x ref, ids []int32, before int32, wait *delivery) {
	r := m.reign
	for _, id := range ids {
		if r.strays[id] == nil {
			r.strays[id] = map[ref]struct{}{}
		}
		r.strays[id][x] = struct{}{}
		if b := r.brokers[id]; b != nil {
			delete(b.offline, x)
			r.orders.stops[id] = append(r.orders.stops[id], stop{ref: x, epoch: before}, stop{ref: x, remove: true, epoch: x.part().leaderEpoch, wait: wait})
		}
	}
}

// removeStrays tells a broker that has come back to remove what was reassigned away from it meanwhile. (Kafka leaves it there.)
func (m *Machine) removeStrays(id int32) {
	r := m.reign
	list := slices.SortedFunc(maps.Keys(r.strays[id]), func(a, b ref) int {
		return cmp.Or(cmp.Compare(a.t.name, b.t.name), cmp.Compare(a.p, b.p))
	})
	for _, x := range list {
		switch {
		case x.t.gone || x.t.deletion != nil || slices.Contains(x.part().replicas, id):
			delete(r.strays[id], x)
		default:
			m.removeStray(id, x)
		}
	}
}

// finishMove writes the target alone into the topic's node.
func (m *Machine) finishMove(x ref, v *move) {
	m.editTopic(&edit{t: x.t,
		apply: func(z *znode.Topic) []stateWrite {
			z.Replicas[x.p] = x.written().target()
			delete(z.Adding, x.p)
			delete(z.Removing, x.p)
			return nil
		},
		done: func(err error) {
			switch {
			case x.t.deletion != nil:
			case err != nil:
				m.log.Error("the end of a reassignment could not be written; trying again", zap.String("topic", x.t.name), zap.Int32("partition", x.p), zap.Error(err))
				m.after(inReign, retryDelay, func() { m.finishMove(x, v) })
				return
			default:
				m.log.Info("a partition has been reassigned", zap.String("topic", x.t.name), zap.Int32("partition", x.p), zap.Int32s("replicas", x.part().replicas))
				delete(x.t.moves, x.p)
				m.reign.orders.metadata.add(x)
				m.settle([]ref{x}, false)
			}
			m.trimReassignNode()
			m.releaseMove(v)
		}})
}

func (m *Machine) releaseMove(v *move) {
	queue := v.queue
	v.queue = nil
	for _, f := range queue {
		f()
	}
}

// edit is a change of a topic's node.
type edit struct {
	t      *topic
	apply  func(*znode.Topic) []stateWrite // changes what the node should say; states that must change with it, of partitions that are idle
	always bool                            // write, whatever apply changed
	done   func(error)                     // called once. nil: what apply made is in the node, or the topic is being deleted
}

// editTopic changes a topic's node, one change at a time.
func (m *Machine) editTopic(e *edit) {
	t := e.t
	switch {
	case t.deletion != nil || t.gone:
		e.done(nil)
		return
	case t.growing:
		t.queue = append(t.queue, func() { m.editTopic(e) })
		return
	}
	z := t.node()
	z.Adding, z.Removing = cloneMap(z.Adding), cloneMap(z.Removing)
	states := e.apply(&z)
	data := z.Encode()
	if !e.always && len(states) == 0 && string(data) == string(t.node().Encode()) {
		e.done(nil)
		return
	}
	t.growing = true
	txn := store.Txn{store.Set(znode.TopicPath(t.name), data, t.version)}
	var refs []ref
	for i := range states {
		w := &states[i]
		refs = append(refs, w.x)
		w.x.part().busy = true
		w.state.ControllerEpoch = m.reign.epoch
		if !w.keep {
			txn = append(txn, store.Set(znode.StatePath(t.name, w.x.p), w.state.Encode(), w.x.part().version))
		}
	}
	m.command([]store.Txn{txn}, func(outcomes []outcome) {
		switch o := outcomes[0]; {
		case o.err == nil:
			m.edited(e, z, o.results[0].Stat.Version)
			results := o.results[1:]
			for _, w := range states {
				if w.keep {
					m.free(w.x)
					continue
				}
				m.taken(w, results[0].Stat.Version)
				results = results[1:]
			}
			m.endEdit(e, nil)
		case o.unknown(), o.at >= 0:
			m.lookForEdit(e, z, refs)
		default:
			m.readBack(refs, true)
			m.endEdit(e, o.err)
		}
	})
}

func cloneMap(old map[int32][]int32) map[int32][]int32 {
	next := make(map[int32][]int32, len(old))
	for k, v := range old {
		next[k] = v
	}
	return next
}

// edited takes over what the node says now.
func (m *Machine) edited(e *edit, z znode.Topic, version int32) {
	t := e.t
	t.version, t.adding, t.removing = version, z.Adding, z.Removing
	for p, replicas := range z.Replicas {
		t.parts[p].replicas = replicas
	}
}

func (m *Machine) endEdit(e *edit, err error) {
	e.done(err)
	m.endGrowing(e.t)
}

// lookForEdit reads a topic back. States that went with the change are read back too.
func (m *Machine) lookForEdit(e *edit, want znode.Topic, refs []ref) {
	m.read(inReign, datas(znode.TopicPath(e.t.name)), func(nodes []store.Node) {
		n, again := nodes[0], false
		z, err := znode.DecodeTopic(n.Data)
		switch {
		case n.Exists && err == nil && string(z.Encode()) == string(want.Encode()):
			m.edited(e, want, n.Stat.Version)
		case n.Exists && err == nil && string(z.Encode()) == string(e.t.node().Encode()):
			e.t.version, again = n.Stat.Version, true
		default:
			m.readBack(refs, false)
			m.endEdit(e, errChanged(e.t.name))
			return
		}
		m.readBack(refs, false)
		if again { // when the states are known
			m.whenAllIdle(refs, func() {
				e.t.growing = false
				m.editTopic(e)
				if !e.t.growing {
					m.endGrowing(e.t)
				}
			})
			return
		}
		m.whenAllIdle(refs, func() { m.endEdit(e, nil) })
	})
}

// whenAllIdle calls f when none of the partitions has a commit under way any more.
func (m *Machine) whenAllIdle(refs []ref, f func()) {
	if len(refs) == 0 {
		f()
		return
	}
	m.whenIdle(refs[0], func() { m.whenAllIdle(refs[1:], f) })
}
