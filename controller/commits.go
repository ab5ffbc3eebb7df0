package controller

import (
	"slices"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/znode"
	"go.uber.org/zap"
)

// This file writes partition states: at most one commit at a time for each partition, and what could not be written, for whatever
// reason, is read back before anything else is done with it.

// stateWrite is a new state for a partition that is not busy.
type stateWrite struct {
	x      ref
	state  znode.State
	quiet  bool        // the replicas need no order: only the in-sync replicas have changed, and the leader asked for it
	keep   bool        // nothing is written, but nothing else may be meanwhile (only with a change of the topic's node)
	settle bool        // if it fails, look again at where the partition should be
	then   func(error) // if not nil: called when it is written and in the orders (nil), or has failed and was read back
}

// write commits states.
func (m *Machine) write(list []stateWrite) {
	if len(list) == 0 {
		return
	}
	began := m.now
	elects := slices.ContainsFunc(list, func(w stateWrite) bool { return w.state.Leader != w.x.part().leader })
	txns := make([]store.Txn, len(list))
	for i := range list {
		w := &list[i]
		p := w.x.part()
		p.busy = true
		w.state.ControllerEpoch = m.reign.epoch
		txns[i] = store.Txn{store.Set(znode.StatePath(w.x.t.name, w.x.p), w.state.Encode(), p.version)}
	}
	m.command(txns, func(outcomes []outcome) {
		if elects && m.elected != nil {
			m.elected(m.now.Sub(began))
		}
		m.written(list, outcomes)
	})
}

// written takes over what was written. What was not is read back.
func (m *Machine) written(list []stateWrite, outcomes []outcome) {
	var lost []ref
	failed := false
	for i, w := range list {
		o := outcomes[i]
		if o.err == nil {
			m.taken(w, o.results[0].Stat.Version)
			continue
		}
		failed = failed || o.at < 0 && !o.unknown()
		lost = append(lost, w.x)
		w.x.part().again = w.x.part().again || w.settle
		if w.then != nil {
			m.whenIdle(w.x, func() { w.then(o.err) })
		}
	}
	m.readBack(lost, failed)
}

// taken takes over a state that is in the store and tells the brokers.
func (m *Machine) taken(w stateWrite, version int32) {
	p := w.x.part()
	former := p.leader
	if id := w.state.Leader; id >= 0 && !slices.Contains(p.isr, id) {
		m.uncleanElections.Add(1)
		m.log.Warn("a replica leads that was not in sync: what only those in sync had is lost", zap.String("topic", w.x.t.name),
			zap.Int32("partition", w.x.p), zap.Int32("leader_epoch", w.state.LeaderEpoch), zap.Int32("broker", id), zap.Int32s("former_isr", p.isr))
	}
	p.take(w.state, version)
	delete(m.reign.returned, w.x)
	m.free(w.x)
	switch {
	case w.x.t.deletion != nil:
	case w.quiet:
		m.reign.orders.metadata.add(w.x)
	default:
		m.orderState(w.x, false, former)
	}
	if w.then != nil {
		w.then(nil)
	}
}

// readBack reads states that are not known for sure and takes them over. late: the store is in trouble, so not at once.
func (m *Machine) readBack(refs []ref, late bool) {
	if len(refs) == 0 {
		return
	}
	paths := make([]string, len(refs))
	for i, x := range refs {
		x.part().busy = true
		paths[i] = znode.StatePath(x.t.name, x.p)
	}
	if late {
		m.log.Error("partition states could not be written; trying again", zap.Int("partitions", len(refs)))
		m.after(inReign, retryDelay, func() { m.readBack(refs, false) })
		return
	}
	m.read(inReign, datas(paths...), func(nodes []store.Node) {
		for i, x := range refs {
			p := x.part()
			before, former := p.version, p.leader
			switch n := nodes[i]; {
			case x.t.deletion != nil:
			case !n.Exists:
				p.version, p.again = -1, true
			case !m.takeState(x, n):
				return
			default:
				m.orderState(x, before < 0, former)
			}
			m.free(x)
		}
	})
}

// free says that a partition's commit is done; attend follows before the turn ends.
func (m *Machine) free(x ref) {
	x.part().busy = false
	m.reign.freed = append(m.reign.freed, x)
}

// whenIdle calls f when no commit for the partition is under way and what is known of it is true: at once, or later in
// the order of the calls. f must look whether the topic is being deleted.
func (m *Machine) whenIdle(x ref, f func()) {
	r := m.reign
	if x.part().busy || len(r.idle[x]) > 0 {
		r.idle[x] = append(r.idle[x], f)
		return
	}
	f()
}

// attend goes on with partitions whose commits are done: first what waits for that, then elections that became due, then
// reassignments.
func (m *Machine) attend() {
	for r := m.reign; r != nil && m.reign == r && len(r.freed) > 0; {
		list := r.freed
		r.freed = nil
		var again []ref
		for _, x := range list {
			m.runIdle(x)
			switch p := x.part(); {
			case m.reign != r:
				return
			case x.t.deletion != nil:
				m.maybeRemove(x.t)
			case p.busy:
			case p.again:
				p.again = false
				again = append(again, x)
			default:
				m.advance(x)
			}
		}
		m.settle(again, true)
		for _, x := range again {
			if !x.part().busy {
				m.advance(x)
			}
		}
	}
}

// runIdle runs what waits for a partition, until one of them makes it busy again.
func (m *Machine) runIdle(x ref) {
	r := m.reign
	for m.reign == r && !x.part().busy && len(r.idle[x]) > 0 {
		f := r.idle[x][0]
		if r.idle[x] = r.idle[x][1:]; len(r.idle[x]) == 0 {
			delete(r.idle, x)
		}
		f()
	}
}

// change is what becomes of partitions when somebody asks for it.
type change struct {
	next  func(x ref) (znode.State, bool) // the state that it should have now; false: it has it, or cannot have it
	quiet bool
	then  func(x ref) // called once for each, when next has become true or said false
}

// alter changes partitions. One that has another commit under way waits for that; what could not be written is looked at again.
func (m *Machine) alter(refs []ref, c change) {
	var idle []ref
	for _, x := range refs {
		if x.part().busy || len(m.reign.idle[x]) > 0 {
			m.whenIdle(x, func() { m.alterIdle([]ref{x}, c) })
		} else {
			idle = append(idle, x)
		}
	}
	m.alterIdle(idle, c)
}

func (m *Machine) alterIdle(refs []ref, c change) {
	var writes []stateWrite
	for _, x := range refs {
		next, ok := c.next(x)
		if !ok {
			c.then(x)
			continue
		}
		writes = append(writes, stateWrite{x: x, state: next, quiet: c.quiet, then: func(err error) {
			if err != nil {
				m.alterIdle([]ref{x}, c)
			} else {
				c.then(x)
			}
		}})
	}
	m.write(writes)
}
