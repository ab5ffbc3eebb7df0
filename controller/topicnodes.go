package controller

import (
	"maps"
	"slices"
	"time"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/znode"
	"go.uber.org/zap"
)

// This file notices what others write into the nodes of topics: old tools that add partitions, and that do not know of topic ids.
// After kafka.controller.KafkaController.processPartitionModifications.

// topicWatchDelay is how long after a topic becomes known its node is watched: a failover with thousands of topics has its orders
// given before. Nothing is missed, since the nodes are read when they are watched.
const topicWatchDelay = 2 * time.Second

// watchLater has a topic's node watched, unless nobody else can write to the store.
func (m *Machine) watchLater(t *topic) {
	r := m.reign
	if m.o.Settings.Embedded {
		return
	}
	r.unwatched = append(r.unwatched, t)
	if len(r.unwatched) > 1 {
		return
	}
	m.after(inReign, topicWatchDelay, func() {
		list := r.unwatched
		r.unwatched = nil
		for _, t := range list {
			if !t.gone {
				t.watched = true
				m.do(Watch{znode.TopicPath(t.name), store.Data})
				m.topicNodeChanged(t.name)
			}
		}
	})
}

// unwatch ends the watch of a topic that is removed, or of a reign that ends.
func (m *Machine) unwatch(t *topic) {
	if t.watched {
		t.watched = false
		m.do(Unwatch{znode.TopicPath(t.name), store.Data})
	}
}

// topicNodeChanged has the nodes of topics read that may have changed, many at once. Most often it was us who changed them.
func (m *Machine) topicNodeChanged(name string) {
	r := m.reign
	if len(r.retry.nodes) == 0 {
		r.retry.nodes = map[string]bool{}
		m.after(inReign, relistDelay, m.readTopicNodes)
	}
	r.retry.nodes[name] = true
}

func (m *Machine) readTopicNodes() {
	r := m.reign
	var paths []string
	var topics []*topic
	for _, name := range slices.Sorted(maps.Keys(r.retry.nodes)) {
		if t := r.topics[name]; t != nil && t.deletion == nil {
			paths, topics = append(paths, znode.TopicPath(name)), append(topics, t)
		}
	}
	r.retry.nodes = nil
	if len(paths) == 0 {
		return
	}
	m.read(inReign, datas(paths...), func(nodes []store.Node) {
		for i, n := range nodes {
			m.compareTopic(topics[i], n)
		}
	})
}

// compareTopic takes over what somebody else wrote into a topic's node, as far as a controller lets others do that: new
// partitions. Everything else it writes over.
func (m *Machine) compareTopic(t *topic, n store.Node) {
	switch {
	case t.gone || t.deletion != nil || !n.Exists: // if somebody else removed it, the list of topics says so
		return
	case t.growing: // a change of ours is under way: what we know is not what it will be
		t.queue = append(t.queue, func() { m.topicNodeChanged(t.name) })
		return
	case n.Stat.Version <= t.version:
		return
	}
	z, err := znode.DecodeTopic(n.Data)
	if err != nil {
		m.log.Error("a topic's node was changed by somebody else and cannot be read", zap.String("path", n.Path), zap.Error(err))
		return
	}
	if z.ID != t.id && z.ID != [16]byte{} {
		m.log.Warn("a topic was replaced in the metadata store by somebody else", zap.String("topic", t.name))
		m.unwatch(t)
		m.reign.remove(t)
		m.topicListChanged()
		return
	}
	t.version = n.Stat.Version
	from := len(t.parts)
	added := z.Replicas[min(from, len(z.Replicas)):]
	for _, replicas := range added {
		t.parts = append(t.parts, partition{replicas: replicas, leader: noLeader, version: -1})
	}
	if len(added) > 0 {
		m.log.Info("partitions were added to a topic in the metadata store", zap.String("topic", t.name), zap.Int("count", len(added)))
		m.settle(t.refs()[from:], false)
	}
	if string(t.node().Encode()) != string(z.Encode()) {
		m.log.Warn("somebody else wrote to a topic's node what only a controller decides; it is written over", zap.String("topic", t.name))
		m.rewriteTopic(t)
	}
}

// rewriteTopic writes a topic's node as it should be.
func (m *Machine) rewriteTopic(t *topic) {
	m.editTopic(&edit{t: t, always: true, apply: func(*znode.Topic) []stateWrite { return nil }, done: func(err error) {
		if err != nil {
			m.log.Warn("a topic's node could not be written; trying again", zap.String("topic", t.name), zap.Error(err))
			m.after(inReign, retryDelay, func() { m.topicNodeChanged(t.name) })
		}
	}})
}
