package controller

import (
	"path"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/znode"
	"go.uber.org/zap"
)

// This file is the failover: a new reign reads what is there and gives the first orders.
// After kafka.controller.KafkaController.onControllerFailover.

// load reads the lists, then what they name, then every partition's state: three rounds whatever the size.
func (m *Machine) load() {
	m.dropNotifications()
	m.read(inReign, childrens(znode.BrokerIDsPath, znode.TopicsPath, znode.DeleteTopicsPath), func(nodes []store.Node) {
		var paths []string
		for _, id := range sortedChildren(nodes[0]) {
			paths = append(paths, znode.BrokerIDsPath+"/"+id)
			m.do(Watch{znode.BrokerIDsPath + "/" + id, store.Data})
		}
		brokers := len(paths)
		for _, name := range sortedChildren(nodes[1]) {
			paths = append(paths, znode.TopicPath(name))
		}
		deleted := sortedChildren(nodes[2])
		m.read(inReign, datas(paths...), func(nodes []store.Node) {
			for _, n := range nodes[:brokers] {
				if b := m.decodeBroker(n); b != nil {
					m.reign.brokers[b.ID] = b
				}
			}
			topics := m.decodeTopics(nodes[brokers:])
			m.giveIDs(topics, m.load, func() { m.loadStates(topics, func() { m.startReign(deleted) }) })
		})
	})
}

func (m *Machine) decodeTopics(nodes []store.Node) []*topic {
	var topics []*topic
	for _, n := range nodes {
		if !n.Exists {
			continue
		}
		z, err := znode.DecodeTopic(n.Data)
		if err == nil {
			err = ValidTopicName(path.Base(n.Path))
		}
		if err != nil {
			m.log.Error("a topic in the metadata store cannot be read; it is left alone", zap.String("path", n.Path), zap.Error(err))
			continue
		}
		topics = append(topics, newTopic(path.Base(n.Path), n.Stat.Version, z))
	}
	return topics
}

// giveIDs makes up ids for topics that an old controller created without. If that fails, later is called later.
func (m *Machine) giveIDs(topics []*topic, later, then func()) {
	var txns []store.Txn
	var without []*topic
	for _, t := range topics {
		if t.id == [16]byte{} {
			t.id = m.newID()
			without = append(without, t)
			txns = append(txns, store.Txn{store.Set(znode.TopicPath(t.name), t.node().Encode(), t.version)})
		}
	}
	if len(txns) == 0 {
		then()
		return
	}
	m.command(txns, func(outcomes []outcome) {
		for i, o := range outcomes {
			if o.err != nil { // perhaps done, perhaps not: read again
				m.log.Warn("a topic's id could not be written; trying again", zap.String("topic", without[i].name), zap.Error(o.err))
				m.after(inReign, retryDelay, later)
				return
			}
			without[i].version = o.results[0].Stat.Version
		}
		then()
	})
}

// loadStates reads the states of topics, and the configurations of those that this broker does not know yet, and adds the topics to the
// reign.
func (m *Machine) loadStates(topics []*topic, then func()) {
	left := 2
	done := func() {
		if left--; left == 0 {
			then()
		}
	}
	m.learnUnknown(topics, done)
	m.readStates(topics, done)
}

// learnUnknown reads the configurations of topics that are not known as they are now: a broker without replicas of a topic was not told
// of it. Elections look at them.
func (m *Machine) learnUnknown(topics []*topic, then func()) {
	var entities []string
	for _, t := range topics {
		if id, known := m.learned[t.name]; !known || id != t.id {
			entities = append(entities, znode.Topics+"/"+t.name)
		}
	}
	m.readConfigs(inReign, entities, then)
}

func (m *Machine) readStates(topics []*topic, then func()) {
	var paths []string
	for _, t := range topics {
		for p := range t.parts {
			paths = append(paths, znode.StatePath(t.name, int32(p)))
		}
	}
	m.read(inReign, datas(paths...), func(nodes []store.Node) {
		for _, t := range topics {
			for p := range t.parts {
				n, x := nodes[p], ref{t, int32(p)}
				if !n.Exists {
					continue
				}
				if !m.takeState(x, n) {
					return
				}
				m.noteReturned(x, n.Stat.Mzxid)
			}
			nodes = nodes[len(t.parts):]
			if m.reign.topics[t.name] == nil {
				m.reign.add(t)
				m.watchLater(t)
			}
		}
		then()
	})
}

// takeState takes a state that was read. It reports false when the state ended the reign.
func (m *Machine) takeState(r ref, n store.Node) bool {
	s, err := znode.DecodeState(n.Data)
	if err != nil {
		m.log.Error("a partition's state in the metadata store cannot be read; the partition is left alone", zap.String("path", n.Path), zap.Error(err))
		return true
	}
	if s.ControllerEpoch > m.reign.epoch {
		m.log.Warn("a partition's state was written by a later controller; this one gives up", zap.String("path", n.Path))
		m.resign()
		m.elect()
		return false
	}
	r.t.hasDir = true
	r.part().take(s, n.Stat.Version)
	return true
}

// startReign gives the first orders: which brokers live; the replicas of each; then elections and deletions.
func (m *Machine) startReign(deleted []string) {
	r := m.reign
	r.loaded = true
	left := 2
	answered := func() {
		if left--; left == 0 {
			m.becomeReady()
		}
	}
	r.orders.everybody = true
	r.orders.then = append(r.orders.then, answered)
	m.flush()
	var all []ref
	for _, name := range r.topicNames() {
		all = append(all, r.topics[name].refs()...)
	}
	m.markDeleted(deleted)
	for _, x := range all {
		m.orderState(x, false, noLeader)
	}
	m.withdrawReturned()
	m.settle(all, true) // brokers may have died between two reigns
	m.advanceAll(all)
	// When our own replicas have answered, clients are told of those that we lead.
	r.orders.then = append(r.orders.then, func() { r.orders.then = append(r.orders.then, answered) })
	m.brokersChanged() // whoever came or went while the reading was under way
	m.topicListChanged()
	m.preferredNodeChanged()
	m.reassignNodeChanged()
	m.scheduleBalance(firstBalance)
	m.askForStrays(r.brokerIDs())
	for _, id := range r.brokerIDs() {
		m.warnUnmarked(r.brokers[id])
	}
	early := r.early
	r.early = nil
	for _, run := range early {
		run()
	}
}
