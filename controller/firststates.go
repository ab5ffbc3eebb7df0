package controller

import (
	"slices"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/znode"
	"go.uber.org/zap"
)

// This file creates the first states of partitions.

// statesPerCommit bounds a commit that creates states: about 20 KB.
const statesPerCommit = 100

// createStates writes the first states of partitions.
func (m *Machine) createStates(refs []ref) {
	var chunks [][]ref
	byTopic(refs, func(t *topic, list []ref) {
		chunks = append(chunks, slices.Collect(slices.Chunk(list, statesPerCommit))...)
	})
	txns := make([]store.Txn, len(chunks))
	states := make([][]znode.State, len(chunks))
	for i, chunk := range chunks {
		t := chunk[0].t
		if !t.hasDir {
			txns[i] = append(txns[i], store.Create(znode.PartitionsPath(t.name), nil, store.Persistent))
			t.hasDir = true // later chunks rely on it; if this one fails the nodes are looked at
		}
		states[i] = make([]znode.State, len(chunk))
		for j, x := range chunk {
			x.part().busy = true
			states[i][j], _ = m.decide(x, false)
			txns[i] = append(txns[i], createState(x, states[i][j])...)
		}
	}
	m.command(txns, func(outcomes []outcome) {
		for i, chunk := range chunks {
			if outcomes[i].err == nil {
				m.statesCreated(chunk, states[i])
			} else {
				m.lookForStates(chunk, outcomes[i])
			}
		}
	})
}

func createState(x ref, s znode.State) []store.Op {
	return []store.Op{store.Create(znode.PartitionPath(x.t.name, x.p), nil, store.Persistent),
		store.Create(znode.StatePath(x.t.name, x.p), s.Encode(), store.Persistent)}
}

// statesCreated takes over states that were created, and gives the orders that create the logs.
func (m *Machine) statesCreated(refs []ref, states []znode.State) {
	for i, x := range refs {
		x.part().take(states[i], 0)
		m.free(x)
		if x.t.deletion == nil {
			m.orderState(x, true, noLeader)
		}
	}
}

// lookForStates finds out which nodes of a failed commit exist, creates the parents that are missing, and goes on from there.
func (m *Machine) lookForStates(refs []ref, o outcome) {
	if o.at < 0 && !o.unknown() {
		m.log.Error("partition states could not be created; trying again", zap.String("topic", refs[0].t.name), zap.Error(o.err))
		m.after(inReign, retryDelay, func() { m.lookForStates(refs, outcome{err: store.ErrUnknown, at: -1}) })
		return
	}
	t := refs[0].t
	paths := []string{znode.TopicPath(t.name), znode.PartitionsPath(t.name)}
	for _, x := range refs {
		paths = append(paths, znode.PartitionPath(t.name, x.p), znode.StatePath(t.name, x.p))
	}
	m.read(inReign, datas(paths...), func(nodes []store.Node) {
		if t.deletion != nil || !nodes[0].Exists {
			for i, x := range refs {
				m.free(x)
				if nodes[3+2*i].Exists {
					x.part().version = nodes[3+2*i].Stat.Version
				}
			}
			return
		}
		var txn store.Txn
		if !nodes[1].Exists {
			txn = append(txn, store.Create(nodes[1].Path, nil, store.Persistent))
		}
		t.hasDir = true
		var missing []ref
		var states []znode.State
		for i, x := range refs {
			dir, state := nodes[2+2*i], nodes[3+2*i]
			if state.Exists {
				if !m.takeState(x, state) {
					return
				}
				m.free(x)
				x.part().again = true
				m.orderState(x, true, noLeader)
				continue
			}
			s, ok := m.decide(x, false)
			if !ok {
				m.free(x)
				continue
			}
			ops := createState(x, s)
			if dir.Exists {
				ops = ops[1:]
			}
			txn, missing, states = append(txn, ops...), append(missing, x), append(states, s)
		}
		if len(missing) == 0 {
			return
		}
		m.command([]store.Txn{txn}, func(outcomes []outcome) {
			if outcomes[0].err == nil {
				m.statesCreated(missing, states)
			} else {
				m.lookForStates(missing, outcomes[0])
			}
		})
	})
}
