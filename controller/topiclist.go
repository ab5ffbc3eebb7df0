package controller

import (
	"time"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/znode"
	"go.uber.org/zap"
)

// relistDelay is how long after a change the list of topics is read again. Our own changes need no reading; those of others (old
// tools that write to the store) are rare, and one reading serves all that came in between.
const relistDelay = 200 * time.Millisecond

// topicListChanged looks for topics that somebody else created, marked for deletion, or removed.
func (m *Machine) topicListChanged() {
	r := m.reign
	if r.retry.topics {
		return
	}
	r.retry.topics = true
	m.after(inReign, relistDelay, func() {
		r.retry.topics = false
		if !r.loaded {
			return // loading reads all of them
		}
		m.read(inReign, childrens(znode.TopicsPath, znode.DeleteTopicsPath), func(nodes []store.Node) {
			m.compareTopics(sortedChildren(nodes[0]), sortedChildren(nodes[1]))
		})
	})
}

// compareTopics reads the nodes of topics about which the list and we disagree, since the list may be older than what we know.
func (m *Machine) compareTopics(listed, marked []string) {
	r := m.reign
	present := make(map[string]bool, len(listed))
	var paths []string
	var known []*topic // by path, nil where the topic is unknown
	for _, name := range listed {
		present[name] = true
		if r.topics[name] == nil && r.creating[name] == nil {
			paths, known = append(paths, znode.TopicPath(name)), append(known, nil)
		}
	}
	for _, name := range r.topicNames() {
		if t := r.topics[name]; !present[name] && t.deletion == nil {
			paths, known = append(paths, znode.TopicPath(name)), append(known, t)
		}
	}
	if len(paths) == 0 {
		m.markDeleted(r.stillUnknownOrKept(marked))
		return
	}
	m.read(inReign, datas(paths...), func(nodes []store.Node) {
		var fresh []store.Node
		for i, n := range nodes {
			switch t := known[i]; {
			case t == nil && n.Exists:
				fresh = append(fresh, n)
			case t != nil && !n.Exists && !t.gone && t.deletion == nil:
				m.log.Warn("a topic was removed from the metadata store by somebody else", zap.String("topic", t.name))
				m.unwatch(t)
				r.remove(t)
			}
		}
		topics := m.decodeTopics(fresh)
		m.giveIDs(topics, m.topicListChanged, func() {
			m.loadTopics(topics, func() { m.markDeleted(r.stillUnknownOrKept(marked)) })
		})
	})
}

// loadTopics takes over topics of others, with their configuration.
func (m *Machine) loadTopics(topics []*topic, then func()) {
	r := m.reign
	entities := make([]string, len(topics))
	for i, t := range topics {
		entities[i] = znode.Topics + "/" + t.name
	}
	m.readConfigs(inReign, entities, func() {
		m.loadStates(topics, func() {
			for _, t := range topics {
				if r.topics[t.name] != t {
					continue // two readings of the list met
				}
				for _, x := range t.refs() {
					m.orderState(x, true, noLeader)
				}
				m.settle(t.refs(), false)
				m.advanceAll(t.refs())
			}
			then()
		})
	})
}

// stillUnknownOrKept leaves out marks of topics that are being created or deleted by us: those are ours to handle.
func (r *reign) stillUnknownOrKept(marked []string) []string {
	var names []string
	for _, name := range marked {
		if t := r.topics[name]; r.creating[name] == nil && (t == nil || t.deletion == nil) {
			names = append(names, name)
		}
	}
	return names
}
