package fetcher

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/log"
)

// Settings are what a Machine puts into its requests, and how long it backs off.
type Settings struct {
	BrokerID           int32
	BrokerEpoch        func() int64  // -1 while it has none
	MaxWait            time.Duration // replica.fetch.wait.max.ms
	MinBytes           int32         // replica.fetch.min.bytes
	MaxBytes           int32         // replica.fetch.response.max.bytes
	PartitionBytes     int32         // replica.fetch.max.bytes
	Backoff            time.Duration // replica.fetch.backoff.ms: the longest; the first are shorter
	Throttle           Throttle      // nil: nothing is throttled
	FetchVersion       int16         // as inter.broker.protocol.version allows
	ListOffsetsVersion int16
}

// Throttle limits what followers fetch for throttled replicas that are not in sync. Safe for concurrent use.
type Throttle interface {
	Any() bool // whether any replica is throttled
	Throttled(topic string, partition int32) bool
	Exceeded() bool // more was fetched than the limit allows
	Record(bytes int)
}

// throttlePause is how long a partition is not fetched before is looked again whether the limit allows it.
const throttlePause = 200 * time.Millisecond

const (
	byNameVersion       = 12 // the last version of Fetch that names topics (KIP-516)
	replicaEpochVersion = 15 // the first one that has a follower's broker epoch (KIP-903)
)

// Machine decides what one Fetcher does. Times are monotonic. Not safe for concurrent use, except Failed.
type Machine struct {
	settings Settings
	session  session
	byTopic  map[log.TopicPartition]*partition
	byID     map[idKey]*partition
	nameless int // partitions without topic id
	arrivals int64

	dirty     []*partition // their want differs from what the session has
	forgotten []forgotten  // to be taken out of the session
	delayed   []*partition // in phase waiting
	asking    []*partition // in phases lost and lostStart
	failed    int          // how many are in phase failed
	troubled  atomic.Int64 // of them, those with an error

	resting  bool // until retryAt nothing is done, as the connection failed
	retryAt  time.Duration
	failures int
	refused  []Refusal
}

// Refusal is a partition that a Machine has trouble with.
type Refusal struct {
	log.TopicPartition
	LeaderEpoch int32
	Err         error
	Failed      bool // it is not fetched any more until its next assignment
}

// Step is what to do next: a Request whose answer goes to Fetched or Listed, or else to wait for Wait or an assignment.
type Step struct {
	Request kmsg.Request // *kmsg.FetchRequest, *kmsg.ListOffsetsRequest or nil
	Wait    time.Duration
}

// Forever is how long to wait when only an assignment brings something to do.
const Forever = time.Duration(-1)

// NewMachine returns a machine without partitions.
func NewMachine(s Settings) *Machine {
	return &Machine{settings: s, byTopic: map[log.TopicPartition]*partition{}, byID: map[idKey]*partition{}}
}

// Failed is the number of partitions that are not fetched because of an error. Safe for concurrent use.
func (m *Machine) Failed() int { return int(m.troubled.Load()) }

// Partitions is the number of partitions.
func (m *Machine) Partitions() int { return len(m.byTopic) }

// Add begins to follow, or goes on in another epoch.
func (m *Machine) Add(a Assignment) {
	p := m.byTopic[a.TopicPartition]
	if p != nil && p.TopicID != a.TopicID {
		m.Remove(a.TopicPartition)
		p = nil
	}
	if p == nil {
		p = &partition{number: m.arrivals}
		m.arrivals++
		m.byTopic[a.TopicPartition] = p
		if a.TopicID == (log.TopicID{}) {
			m.nameless++
		} else {
			m.byID[idKey{a.TopicID, a.Partition}] = p
		}
	}
	m.leave(p)
	m.resting, m.failures = false, 0 // the controller says that the leader's broker lives
	p.Assignment, p.phase, p.failures = a, fetching, 0
	if err := p.begin(); err != nil {
		m.fail(p, err)
		return
	}
	m.touch(p)
}

// Remove ends following a partition.
func (m *Machine) Remove(tp log.TopicPartition) {
	p := m.byTopic[tp]
	if p == nil {
		return
	}
	m.leave(p)
	m.forget(p)
	p.phase = removed
	delete(m.byTopic, tp)
	if p.TopicID == (log.TopicID{}) {
		m.nameless--
	} else {
		delete(m.byID, idKey{p.TopicID, p.Partition})
	}
}

// leave takes p out of the lists of its phase.
func (m *Machine) leave(p *partition) {
	is := func(q *partition) bool { return q == p }
	switch p.phase {
	case waiting:
		m.delayed = slices.DeleteFunc(m.delayed, is)
	case lost, lostStart:
		m.asking = slices.DeleteFunc(m.asking, is)
	case failed:
		m.failed--
		if p.troubled {
			p.troubled = false
			m.troubled.Add(-1)
		}
	}
}

// touch has the next Fetch say what p wants, unless the session knows.
func (m *Machine) touch(p *partition) {
	if p.phase == fetching && !p.dirty && !(p.inSession && p.sent == p.want) {
		p.dirty = true
		m.dirty = append(m.dirty, p)
	}
}

// forget takes p out of the session.
func (m *Machine) forget(p *partition) {
	if p.inSession {
		p.inSession = false
		m.forgotten = append(m.forgotten, forgotten{p.TopicPartition, p.TopicID})
	}
}

// delay has p wait: short at first, since an order that reached us before the leader is the usual cause.
func (m *Machine) delay(p *partition, now time.Duration) {
	m.leave(p)
	m.forget(p)
	p.phase = waiting
	p.retryAt = now + backoff(m.settings.Backoff, p.failures)
	p.failures++
	m.delayed = append(m.delayed, p)
}

// backoff doubles from a 32nd of the longest.
func backoff(longest time.Duration, failures int) time.Duration {
	return longest >> max(0, 5-failures)
}

// fail gives p up until its next assignment.
func (m *Machine) fail(p *partition, err error) {
	m.leave(p)
	m.forget(p)
	p.phase = failed
	m.failed++
	if err != nil {
		p.troubled = true
		m.troubled.Add(1)
		m.refused = append(m.refused, Refusal{p.TopicPartition, p.LeaderEpoch, err, true})
	}
}

// delayFor has p wait because of an error, which is reported when it first happens.
func (m *Machine) delayFor(p *partition, now time.Duration, err error) {
	if p.failures == 0 {
		m.refused = append(m.refused, Refusal{p.TopicPartition, p.LeaderEpoch, err, false})
	}
	m.delay(p, now)
}

// Refused returns the troubles since it was last called.
func (m *Machine) Refused() []Refusal {
	r := m.refused
	m.refused = nil
	return r
}

// Next decides.
func (m *Machine) Next(now time.Duration) Step {
	if m.resting = m.resting && m.retryAt > now; m.resting {
		return Step{Wait: m.retryAt - now}
	}
	soonest := m.wake(now)
	if m.throttle(now) && (soonest == Forever || soonest > throttlePause) {
		soonest = throttlePause
	}
	if len(m.asking) > 0 {
		return Step{Request: m.listOffsets()}
	}
	if len(m.byTopic) == len(m.delayed)+m.failed {
		return Step{Wait: soonest}
	}
	maxWait := m.settings.MaxWait
	if soonest != Forever {
		maxWait = min(maxWait, soonest)
	}
	return Step{Request: m.fetch(maxWait)}
}

// wake has those go on whose time has come, and returns how long the next of the others has to wait.
func (m *Machine) wake(now time.Duration) (soonest time.Duration) {
	soonest = Forever
	m.delayed = slices.DeleteFunc(m.delayed, func(p *partition) bool {
		if left := p.retryAt - now; left > 0 {
			if soonest == Forever || left < soonest {
				soonest = left
			}
			return false
		}
		p.phase = fetching
		p.refresh()
		m.touch(p)
		return true
	})
	return soonest
}

// throttle has the replicas wait that are throttled and not in sync, if more was fetched for such than the limit allows
// (ReplicaFetcherThread.shouldFollowerThrottle). It says whether there were any.
func (m *Machine) throttle(now time.Duration) (some bool) {
	t := m.settings.Throttle
	if t == nil || !t.Any() || !t.Exceeded() {
		return false
	}
	for _, p := range m.all() {
		if !p.inSync && t.Throttled(p.Topic, p.Partition) {
			m.forget(p)
			p.phase, p.retryAt = waiting, now+throttlePause
			m.delayed = append(m.delayed, p)
			some = true
		}
	}
	return some
}

// fetched notes how much came for a partition, and whether it has all that is committed now.
func (m *Machine) fetched(p *partition, bytes int, leaderHighWatermark int64) {
	p.inSync = leaderHighWatermark <= p.want.offset
	if t := m.settings.Throttle; t != nil && bytes > 0 && t.Throttled(p.Topic, p.Partition) {
		t.Record(bytes)
	}
}

// all lists the partitions that can be fetched, in the order of their arrival.
func (m *Machine) all() []*partition {
	ps := make([]*partition, 0, len(m.byTopic))
	for _, p := range m.byTopic {
		if p.phase == fetching {
			ps = append(ps, p)
		}
	}
	slices.SortFunc(ps, func(a, b *partition) int { return cmp.Compare(a.number, b.number) })
	return ps
}
