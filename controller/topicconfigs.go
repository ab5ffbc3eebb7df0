package controller

import (
	"maps"
	"slices"

	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A new topic's configuration is not announced: the controller knows it because it created it, and the other brokers read it when an
// order names a topic that they do not know.

// learnTopics reads the configurations of topics that are new to this broker, then calls done.
func (m *Machine) learnTopics(topics []kmsg.LeaderAndISRRequestTopicState, done func()) {
	var letGo func()
	answer := func() {
		letGo()
		m.do(Answer{nil, done})
	}
	letGo = m.hold(answer)
	var entities []string
	news := map[string][16]byte{}
	for i := range topics {
		t := &topics[i]
		if id, known := m.learned[t.Topic]; known && id == t.TopicID {
			continue
		}
		news[t.Topic] = t.TopicID
		if r := m.reign; r == nil || r.topics[t.Topic] == nil || r.topics[t.Topic].id != t.TopicID {
			entities = append(entities, znode.Topics+"/"+t.Topic)
		}
	}
	known := func() {
		maps.Copy(m.learned, news)
		answer()
	}
	if len(entities) == 0 {
		known()
		return
	}
	m.readConfigs(always, entities, known)
}

// forgetTopics drops the configurations of topics that are gone. The active controller does so when it has removed them.
func (m *Machine) forgetTopics(names []string) {
	for _, name := range names {
		if m.reign == nil || m.reign.topics[name] == nil && m.reign.creating[name] == nil {
			delete(m.learned, name)
			m.announce(znode.Topics+"/"+name, nil, false)
		}
	}
}

// uncleanAllowed looks again at partitions without a leader after a change of configurations: one that was not in sync may be
// allowed to lead now. kind and name as for the Observer.
func (m *Machine) uncleanAllowed(kind, name string, values map[string]string) {
	r := m.reign
	if r == nil || !r.loaded {
		return
	}
	leaderless := func(list []ref) []ref {
		return slices.DeleteFunc(list, func(x ref) bool { return x.part().version < 0 || x.part().leader >= 0 })
	}
	switch kind {
	case znode.Topics:
		if t := r.topics[name]; t != nil && m.o.Configs.UncleanElection(values) {
			m.settle(leaderless(t.refs()), false)
		}
	case znode.Brokers: // when the Observer has seen it
		m.after(inReign, 0, func() { m.settle(leaderless(r.allRefs()), false) })
	}
}
