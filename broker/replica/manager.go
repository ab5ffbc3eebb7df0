// Package replica owns the partitions that this broker holds a replica of: who leads each, how far it is committed, and
// everything that clients and other brokers do with its records.
//
// A partition's role (leader, epochs, in-sync replicas) is an immutable snapshot that changes with the controller's
// orders and its answers; the log publishes its offsets itself. Reading takes no lock. Appending takes the partition's
// writing lock to read, so that a role never ends in the middle of it, and the log's own. What must wait (a Fetch for
// bytes, a Produce for the high watermark, a deletion for the other replicas) lies in the purgatory, on lists that belong
// to the partition, and is woken by whoever changes it.
//
// Replication is a follower's Fetch: its offset says what it has.
//
//	follower                                       leader
//	fetcher ── Fetch(offset, epochs) ─────────▶ Fetch: histories agree? ── no ──▶ where they part
//	   ▲                                           │ yes
//	   │                                        fetchedBy: progress ─▶ high watermark ─▶ wakes acks=all, consumers
//	   │                                           │            └────▶ joins the ISR? AlterPartition
//	   └── append, or cut ◀── records, watermark ──┘
//
// What follows from the progress is decided in insync, what a follower does in fetcher; both do no I/O of their own.
package replica

import (
	"cmp"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/broker/purgatory"
	"github.com/gregor-broker/gregor/broker/replica/fetcher"
	"github.com/gregor-broker/gregor/broker/replica/insync"
	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/gregor-broker/gregor/wire/ibp"
)

// Options are what a Manager works with. Functions may be nil except Pool; a single node needs nothing from Peers on.
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
	// OnISR is told that a leader's in-sync replicas were some and are some now. It must not block.
	OnISR func(before, after int)
	// OnISRRefused is told that the controller refused a change of in-sync replicas for good. It must not block.
	OnISRRefused func()
	// OnAppend is told what a coordinator appended, OnReplicated what was fetched from a leader, and whether for a replica that a
	// reassignment adds. They must not block.
	OnAppend     func(topic string, bytes int, messages int64)
	OnReplicated func(bytes int, added bool)

	// Join asks the coordinator of a transaction, and calls done with an error for each partition, on the pool; in the
	// order of the calls for one transactional id. Nil: nobody is asked. VerifyTransactions says whether it is
	// (transaction.partition.verification.enable); it must be what the logs go by.
	Join               func(j *Joining, done func(errs []error))
	VerifyTransactions func() bool

	// Peers makes a connection to a broker, which need not be known to live yet. Without it nothing is followed.
	Peers func(broker int32, clientID string) fetcher.Client
	// Following is who fetches in place of fetcher.Set: a simulation that drives fetcher.Machines itself. May be nil.
	Following Following
	// BrokerEpoch is that of this broker's registration, -1 while it has none.
	BrokerEpoch func() int64
	// Online says whether a broker is registered and has not lost its replica of a partition with a log directory, so that
	// it may join the ISR.
	Online func(broker int32, tp log.TopicPartition) bool
	// AlterPartition proposes an ISR to the controller. It must not block, nor call done before it returns; done is
	// called once, with the answer, as soon as there is one.
	AlterPartition func(p insync.Proposal, done func(insync.Outcome))
	// NearReplica chooses for a consumer in a rack the broker that it should read from, among the leader (the first)
	// and the in-sync followers that have its offset (replica.selector.class). Nil: the leader.
	NearReplica func(rack string, candidates []Candidate) int32

	// DirFailed is told once of a log directory that cannot be written any more, and how many are left. Its replicas are
	// offline then: the controller is to be told (/log_dir_event_notification), and with none left the broker should end.
	DirFailed func(dir string, left int)

	ReplicaLagMax time.Duration // replica.lag.time.max.ms; 0: 30 s
	Fetchers      int           // num.replica.fetchers; 0: 1
	// SendThrottle limits what this broker sends to followers of throttled replicas that are not in sync, FetchThrottle what it
	// fetches for its own. Nil: nothing is throttled.
	SendThrottle, FetchThrottle fetcher.Throttle
	Fetch                       FetchSettings
}

// FetchSettings are how followers fetch. The zero value as a whole means Kafka's defaults; within others 0 is 0.
type FetchSettings struct {
	MaxWait            time.Duration // replica.fetch.wait.max.ms; 500 ms
	MinBytes           int32         // replica.fetch.min.bytes; 1
	MaxBytes           int32         // replica.fetch.response.max.bytes; 10 MiB
	PartitionBytes     int32         // replica.fetch.max.bytes; 1 MiB
	Backoff            time.Duration // replica.fetch.backoff.ms; 1 s
	Version            int16         // of Fetch
	ListOffsetsVersion int16
}

func (s *FetchSettings) fill() {
	if *s == (FetchSettings{}) {
		*s = FetchSettings{
			MaxWait: 500 * time.Millisecond, MinBytes: 1, MaxBytes: 10 << 20, PartitionBytes: 1 << 20, Backoff: time.Second,
			Version: ibp.Latest.Fetch, ListOffsetsVersion: ibp.Latest.ListOffsets,
		}
	}
}

// Following fetches what this broker follows; see fetcher.Set for the methods.
type Following interface {
	Follow(broker int32, assignments []fetcher.Assignment)
	Forget(tps []log.TopicPartition)
	Resize(fetchers int)
	Failed() int
	Close()
}

// Manager holds the partitions. Safe for concurrent use.
type Manager struct {
	options   Options
	logs      *log.Manager
	clock     clock.Clock
	logger    *zap.Logger
	purgatory *purgatory.Purgatory
	fetchers  Following // nil on a single node
	lagging   lagCheck
	failed    failedDirs
	expired   struct{ produces, consumers, followers atomic.Int64 } // waits that ended because their time was over; produces by partition

	// topics is replaced whole when partitions come or go, so that looking one up costs no lock.
	topics atomic.Pointer[map[string][]*Partition] // [partition], nil where none is held

	// orders makes the controller's orders follow one another. It is held while logs are created and deleted;
	// nothing that serves clients takes it.
	orders struct {
		sync.Mutex
		controllerEpoch int32  // the largest seen: no older controller's orders are carried out
		connection      uint64 // the newest that brought orders of this epoch: what comes on older ones was given up
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
	if o.OnISR == nil {
		o.OnISR = func(int, int) {}
	}
	if o.OnISRRefused == nil {
		o.OnISRRefused = func() {}
	}
	if o.OnAppend == nil {
		o.OnAppend = func(string, int, int64) {}
	}
	if o.OnReplicated == nil {
		o.OnReplicated = func(int, bool) {}
	}
	if o.OnLeader == nil {
		o.OnLeader = func(log.TopicPartition, int32, bool) {}
	}
	if o.BrokerEpoch == nil {
		o.BrokerEpoch = func() int64 { return -1 }
	}
	if o.VerifyTransactions == nil {
		o.VerifyTransactions = func() bool { return true }
	}
	if o.Online == nil {
		o.Online = func(int32, log.TopicPartition) bool { return true }
	}
	o.ReplicaLagMax = cmp.Or(o.ReplicaLagMax, 30*time.Second)
	o.Fetch.fill()
	m := &Manager{options: o, logs: o.Logs, clock: o.Clock, logger: o.Logger, purgatory: purgatory.New(o.Clock, o.Pool)}
	m.topics.Store(&map[string][]*Partition{})
	m.failed.begin(o.Logs.Dirs())
	switch {
	case o.Following != nil:
		m.fetchers = o.Following
	case o.Peers != nil:
		m.fetchers = fetcher.NewSet(m.fetcherOptions())
	}
	if o.AlterPartition != nil {
		m.startLagCheck()
	}
	return m
}

func (m *Manager) fetcherOptions() fetcher.Options {
	o, f := &m.options, &m.options.Fetch
	return fetcher.Options{
		Settings: fetcher.Settings{
			BrokerID: o.BrokerID, BrokerEpoch: o.BrokerEpoch, MaxWait: f.MaxWait, MinBytes: f.MinBytes, MaxBytes: f.MaxBytes,
			PartitionBytes: f.PartitionBytes, Backoff: f.Backoff, Throttle: o.FetchThrottle, FetchVersion: f.Version, ListOffsetsVersion: f.ListOffsetsVersion,
		},
		Fetchers: o.Fetchers, Dial: o.Peers, Clock: o.Clock, Logger: o.Logger,
	}
}

// Close ends the fetchers, answers what waits and lets nothing wait any more. The logs are not its own to close.
func (m *Manager) Close() {
	m.failed.closed.Store(true)
	m.stopLagCheck()
	if m.fetchers != nil {
		m.fetchers.Close()
	}
	m.purgatory.Close()
}

// Resize changes how many fetchers there are for each broker (num.replica.fetchers).
func (m *Manager) Resize(fetchers int) {
	if m.fetchers != nil {
		m.fetchers.Resize(fetchers)
	}
}

// DefaultsChanged makes the partitions of all topics take their current configuration.
func (m *Manager) DefaultsChanged() {
	for topic := range *m.topics.Load() {
		m.ConfigChanged(topic)
	}
}

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
