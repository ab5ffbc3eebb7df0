package controller

import (
	"path"
	"slices"
	"strconv"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/znode"
	"go.uber.org/zap"
)

// This file follows the brokers that come and go. After kafka.controller.KafkaController (processBrokerChange,
// onBrokerStartup, onBrokerFailure, onBrokerUpdate).

// brokersChanged reads all registrations and compares.
func (m *Machine) brokersChanged() {
	r := m.reign
	if !r.loaded || r.retry.brokers {
		r.retry.brokersAgain = r.retry.brokers
		return
	}
	r.retry.brokers, r.retry.brokersAgain = true, false
	m.readRegistrations(func(nodes []store.Node) {
		found := map[int32]*broker{}
		for _, n := range nodes {
			if b := m.decodeBroker(n); b != nil {
				found[b.ID] = b
			}
		}
		m.compareBrokers(found)
		if r.retry.brokers = false; r.retry.brokersAgain {
			m.brokersChanged()
		}
	})
}

// readRegistrations reads the nodes of all brokers.
func (m *Machine) readRegistrations(then func([]store.Node)) {
	m.read(inReign, childrens(znode.BrokerIDsPath), func(nodes []store.Node) {
		var paths []string
		for _, id := range sortedChildren(nodes[0]) {
			paths = append(paths, znode.BrokerIDsPath+"/"+id)
		}
		m.read(inReign, datas(paths...), then)
	})
}

// decodeBroker reads a registration; nil when it is gone or not (yet) complete.
func (m *Machine) decodeBroker(n store.Node) *broker {
	id, err := strconv.ParseInt(path.Base(n.Path), 10, 32)
	if err != nil || !n.Exists || len(n.Data) == 0 {
		return nil
	}
	b, err := znode.DecodeBroker(int32(id), n.Data)
	if err != nil {
		m.log.Error("a broker's registration cannot be read; the broker is left out", zap.String("path", n.Path), zap.Error(err))
		return nil
	}
	return &broker{Broker: b, epoch: n.Stat.Czxid}
}

// compareBrokers acts on the difference. A broker with a new epoch has failed and started again.
func (m *Machine) compareBrokers(found map[int32]*broker) {
	r := m.reign
	var failed, started []int32
	for _, id := range r.brokerIDs() {
		if f := found[id]; f == nil || f.epoch != r.brokers[id].epoch {
			failed = append(failed, id)
		}
	}
	for id, f := range found {
		known := r.brokers[id]
		switch {
		case known == nil || known.epoch != f.epoch:
			started = append(started, id)
		case !slices.Equal(known.Endpoints, f.Endpoints) || known.Rack != f.Rack:
			known.Broker = f.Broker
			r.orders.everybody = true
		}
	}
	slices.Sort(started)
	if len(failed) > 0 {
		m.brokersFailed(failed)
	}
	if len(started) > 0 && m.reign == r {
		m.brokersStarted(started, found)
	}
}

// brokersFailed moves leaderships away from brokers that are gone.
func (m *Machine) brokersFailed(ids []int32) {
	r := m.reign
	m.log.Info("brokers are gone", zap.Int32s("brokers", ids))
	for _, id := range ids {
		delete(r.brokers, id)
		m.do(Unwatch{znode.BrokerPath(id), store.Data})
		m.do(Drop{id})
	}
	r.orders.everybody = true
	concerned := r.onBrokers(ids)
	for _, x := range concerned {
		if _, change := m.decide(x, true); !change {
			r.orders.metadata.add(x) // only its offline replicas are others
		}
	}
	m.settle(concerned, true)
	m.advanceAll(concerned)
	for _, t := range r.topics {
		if t.deletion != nil {
			m.releaseBlocked(t)
		}
	}
}

// brokersStarted tells everybody of new brokers, gives those their replicas, and elects leaders that were missing. Unlike Kafka it
// tells a new broker who lives, then its replicas, then all metadata, as it does at failover: so a broker never names itself a
// leader before it is one.
func (m *Machine) brokersStarted(ids []int32, found map[int32]*broker) {
	r := m.reign
	m.log.Info("brokers have started", zap.Int32s("brokers", ids))
	m.flush() // what concerns the brokers before
	for _, id := range ids {
		r.brokers[id] = found[id]
		m.do(Watch{znode.BrokerPath(id), store.Data})
		m.warnUnmarked(found[id])
	}
	r.orders.everybody = true
	m.flush()
	concerned := r.onBrokers(ids)
	for _, id := range ids {
		r.orders.full[id] = true
	}
	for _, x := range concerned {
		for _, id := range ids {
			if slices.Contains(x.assigned().replicas, id) {
				m.orderStateOf(x, id, false)
			}
		}
		r.orders.metadata.add(x)
	}
	m.settle(concerned, false)
	m.advanceAll(concerned)
	m.resumeDeletions(ids)
	for _, id := range ids {
		m.removeStrays(id)
	}
	m.askForStrays(ids)
}

// onBrokers returns the partitions that have a replica on one of the brokers.
func (r *reign) onBrokers(ids []int32) []ref {
	return slices.DeleteFunc(r.allRefs(), func(x ref) bool {
		return !slices.ContainsFunc(x.part().replicas, func(id int32) bool { return slices.Contains(ids, id) })
	})
}
