// Package replica owns the partitions that this broker holds a replica of: who leads each, how far it is committed, and
// everything that clients do with its records.
//
// A partition's role (leader, epochs, in-sync replicas) is an immutable snapshot that changes with the controller's
// orders; the log publishes its offsets itself. So producing and fetching take no lock but the log's own for an append.
// What must wait (a Fetch for bytes, a Produce for the high watermark) lies in the purgatory, on lists that belong to
// the partition, and is woken by whoever changes it.
package replica

import (
	"maps"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/broker/purgatory"
	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/wire/clock"
)

// Options are what a Manager works with. Known, MinISR, ConfigFor and OnLeader may be nil.
type Options struct {
	BrokerID int32
	Logs     *log.Manager
	Clock    clock.Clock
	Logger   *zap.Logger
	// Pool runs a function on a handler goroutine, never before it returns, and never blocks.
	Pool func(func())
	// ConfigFor returns a topic's log configuration.
	ConfigFor func(topic string) *log.Config
	// MinISR returns a topic's min.insync.replicas.
	MinISR func(topic string) int
	// Known says whether the cluster has a partition that this broker may not hold.
	Known func(topic string, partition int32) bool
	// OnLeader is told, after the order that caused it, that this broker began or ceased to lead a partition. Calls come
	// one at a time, in the order of the orders.
	OnLeader func(tp log.TopicPartition, leaderEpoch int32, leader bool)
}

// Manager holds the partitions. Safe for concurrent use.
type Manager struct {
	options   Options
	logs      *log.Manager
	clock     clock.Clock
	logger    *zap.Logger
	purgatory *purgatory.Purgatory

	// topics is replaced whole when partitions come or go, so that looking one up costs no lock.
	topics atomic.Pointer[map[string][]*Partition] // [partition], nil where none is held

	// orders makes the controller's orders follow one another. It is held while logs are created and deleted;
	// nothing that serves clients takes it.
	orders struct {
		sync.Mutex
		controllerEpoch int32
	}
}

// New returns a manager without partitions: the controller's orders bring them.
func New(o Options) *Manager {
	if o.ConfigFor == nil {
		o.ConfigFor = func(string) *log.Config { return log.DefaultConfig() }
	}
	if o.MinISR == nil {
		o.MinISR = func(string) int { return 1 }
	}
	if o.Known == nil {
		o.Known = func(string, int32) bool { return false }
	}
	if o.OnLeader == nil {
		o.OnLeader = func(log.TopicPartition, int32, bool) {}
	}
	m := &Manager{options: o, logs: o.Logs, clock: o.Clock, logger: o.Logger, purgatory: purgatory.New(o.Clock, o.Pool)}
	m.topics.Store(&map[string][]*Partition{})
	return m
}

// Close answers what waits and lets nothing wait any more. The logs are not its own to close.
func (m *Manager) Close() { m.purgatory.Close() }

// ConfigChanged makes the partitions of a topic take its current configuration.
func (m *Manager) ConfigChanged(topic string) {
	c, minISR := m.options.ConfigFor(topic), m.options.MinISR(topic)
	for _, p := range (*m.topics.Load())[topic] {
		if p != nil {
			p.log.SetConfig(c)
			p.minISR.Store(int32(minISR))
			p.advance() // a smaller min.insync.replicas may let the high watermark go on
		}
	}
}

// find returns a partition that is held here, or nil.
func (m *Manager) find(topic string, partition int32) *Partition {
	ps := (*m.topics.Load())[topic]
	if partition < 0 || int(partition) >= len(ps) {
		return nil
	}
	return ps[partition]
}

// lookup returns a partition, or the error for one that is not held here: NOT_LEADER_OR_FOLLOWER if another broker
// holds it, so that the client looks there. id, unless zero, must be its topic's.
func (m *Manager) lookup(topic string, id log.TopicID, partition int32) (*Partition, error) {
	p := m.find(topic, partition)
	switch {
	case p == nil && m.options.Known(topic, partition):
		return nil, ErrNotLeader
	case p == nil && id != log.TopicID{}:
		return nil, ErrUnknownTopicID
	case p == nil:
		return nil, ErrUnknownPartition
	case id != log.TopicID{} && p.id != log.TopicID{} && id != p.id:
		return nil, log.ErrInconsistentTopicID
	}
	return p, nil
}

// host publishes new partitions. The caller holds orders.
func (m *Manager) host(news []*Partition) {
	if len(news) == 0 {
		return
	}
	topics := maps.Clone(*m.topics.Load())
	copied := map[string]bool{}
	for _, p := range news {
		topic, i := p.tp.Topic, int(p.tp.Partition)
		ps := topics[topic]
		if !copied[topic] {
			copied[topic] = true
			ps = append(make([]*Partition, 0, max(len(ps), i+1)), ps...)
		}
		for len(ps) <= i {
			ps = append(ps, nil)
		}
		ps[i] = p
		topics[topic] = ps
	}
	m.topics.Store(&topics)
}

// drop takes partitions out. The caller holds orders.
func (m *Manager) drop(gone []*Partition) {
	if len(gone) == 0 {
		return
	}
	topics := maps.Clone(*m.topics.Load())
	for _, p := range gone {
		ps := append([]*Partition(nil), topics[p.tp.Topic]...)
		ps[p.tp.Partition] = nil
		topics[p.tp.Topic] = ps
		if allNil(ps) {
			delete(topics, p.tp.Topic)
		}
	}
	m.topics.Store(&topics)
}

func allNil(ps []*Partition) bool {
	for _, p := range ps {
		if p != nil {
			return false
		}
	}
	return true
}
