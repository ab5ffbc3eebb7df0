// Package meter counts what a broker does, for whoever wants to look: package observe shows it to Prometheus. Counting costs an
// atomic addition; nothing is computed before somebody looks. A nil *Meter counts nothing.
package meter

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/gregor-broker/gregor/wire/clock"
)

// Meter holds a broker's counters. Safe for concurrent use.
type Meter struct {
	clock    clock.Clock
	began    time.Duration
	requests sync.Map // Request → *atomic.Int64
	errors   sync.Map // Failure → *atomic.Int64
	times    sync.Map // Spent → *Times
	topics   sync.Map // name → *Topic
	all      Topic
	shrinks  atomic.Int64
	expands  atomic.Int64
	refused  atomic.Int64 // changes of in-sync replicas that the controller refused
	faults   [KeylessRecords + 1]atomic.Int64
	timed    [timedKinds]Times
	orders   sync.Map // broker → *Times
	events   [eventKinds]atomic.Int64

	replicatedIn, replicatedOut atomic.Int64 // bytes
	reassignedIn, reassignedOut atomic.Int64 // of these, those for replicas that are being added
}

// New returns a meter whose windows of time go by c.
func New(c clock.Clock) *Meter { return &Meter{clock: c, began: c.Monotonic()} }

// Age is for how long the meter has counted.
func (m *Meter) Age() time.Duration { return m.clock.Monotonic() - m.began }

// Request is a kind of request.
type Request struct{ Key, Version int16 }

// Part is what is measured of a request. The names are those of RequestMetrics of Apache Kafka.
type Part uint8

// The parts. Bytes counts a request's size, as if a byte were a microsecond.
const (
	Total    Part = iota // from its first byte read to its answer
	Queue                // until a first stage takes it
	Local                // in its first stage
	Remote               // from there to the answer
	Throttle             // that the client is then kept waiting
	Bytes
	Send // from the answer until all of it is with the system; counted by Sent
)

// FetchConsumer and FetchFollower stand beside API keys: a Fetch is counted under its own and under one of these.
const (
	FetchConsumer int16 = -1 - iota
	FetchFollower
)

// Spent is a part of the requests of an API.
type Spent struct {
	Part
	Key int16
}

// Failure is an error code in answers of an API; 0 is an answer without error.
type Failure struct{ Key, Code int16 }

// Topic counts what went in and out of a topic, or of all. As BrokerTopicStats of Apache Kafka.
type Topic struct {
	MessagesIn, BytesIn, BytesOut atomic.Int64
	BytesRejected                 atomic.Int64 // of what was too large
	Produces, FailedProduces      atomic.Int64 // by partition
	Fetches, FailedFetches        atomic.Int64
	ProducedConverted             atomic.Int64 // records that had to be written anew to be stored
	FetchedConverted              atomic.Int64 // and to be understood by their readers
}

// counter returns the counter of k in m, which it makes.
func counter[K any](m *sync.Map, k K) *atomic.Int64 {
	if c, ok := m.Load(k); ok {
		return c.(*atomic.Int64)
	}
	c, _ := m.LoadOrStore(k, new(atomic.Int64))
	return c.(*atomic.Int64)
}

// Arrived counts a request.
func (m *Meter) Arrived(key, version int16) {
	if m != nil {
		counter(&m.requests, Request{key, version}).Add(1)
	}
}

// Answered counts how long the parts of a request took that has been answered.
func (m *Meter) Answered(key int16, took *[Bytes + 1]time.Duration) {
	if m == nil {
		return
	}
	now := m.clock.Monotonic()
	for part, d := range took {
		m.spent(Spent{Part(part), key}).add(now, d)
	}
}

// spent returns the times of k, which it makes.
func (m *Meter) spent(k Spent) *Times {
	t, ok := m.times.Load(k)
	if !ok {
		t, _ = m.times.LoadOrStore(k, new(Times))
	}
	return t.(*Times)
}

// Sent counts how long it took to send an answer.
func (m *Meter) Sent(key int16, d time.Duration) {
	if m != nil {
		m.spent(Spent{Send, key}).add(m.clock.Monotonic(), d)
	}
}

// Code counts an error code, or 0 for none, that stands n times in an answer.
func (m *Meter) Code(key, code int16, n int64) {
	if m != nil {
		counter(&m.errors, Failure{key, code}).Add(n)
	}
}

// topic returns the counters of a topic.
func (m *Meter) topic(name string) *Topic {
	if t, ok := m.topics.Load(name); ok {
		return t.(*Topic)
	}
	t, _ := m.topics.LoadOrStore(name, new(Topic))
	return t.(*Topic)
}

// How is how something went, as far as it is counted.
type How uint8

// What is refused for a reason that a client may give is no failure of the broker's, and is not counted as one.
const (
	Well How = iota
	Refused
	TooLarge
	Failed
)

// Produced counts a record set for a partition that there is: stored as n messages, or not. After
// ReplicaManager.appendRecordsToLeader of Apache Kafka.
func (m *Meter) Produced(topic string, bytes int, messages int64, how How) {
	if m == nil {
		return
	}
	for _, t := range []*Topic{&m.all, m.topic(topic)} {
		t.Produces.Add(1)
		switch how {
		case Well:
			t.BytesIn.Add(int64(bytes))
			t.MessagesIn.Add(messages)
		case TooLarge:
			t.BytesRejected.Add(int64(bytes))
		case Failed:
			t.FailedProduces.Add(1)
		}
	}
}

// Appended counts what a coordinator appended to its topic.
func (m *Meter) Appended(topic string, bytes int, messages int64) {
	if m == nil {
		return
	}
	for _, t := range []*Topic{&m.all, m.topic(topic)} {
		t.Produces.Add(1)
		t.BytesIn.Add(int64(bytes))
		t.MessagesIn.Add(messages)
	}
}

// Converted counts records that were written anew, because of what a producer sent or of what a consumer understands. After
// KafkaApis.updateRecordConversionStats of Apache Kafka.
func (m *Meter) Converted(topic string, records int, produced bool) {
	if m == nil || records == 0 {
		return
	}
	for _, t := range []*Topic{&m.all, m.topic(topic)} {
		if produced {
			t.ProducedConverted.Add(int64(records))
		} else {
			t.FetchedConverted.Add(int64(records))
		}
	}
}

// Fault is why records were refused, as far as that is counted by itself.
type Fault uint8

// The faults.
const (
	InvalidMagic Fault = iota
	InvalidChecksum
	InvalidNumbers // offsets, counts, sequence numbers
	KeylessRecords // in compacted topics
)

// Refused counts how often a fault was found.
func (m *Meter) Refused(f Fault, n int) {
	if m != nil && n > 0 {
		m.faults[f].Add(int64(n))
	}
}

// Faults returns how often a fault was found.
func (m *Meter) Faults(f Fault) int64 { return m.faults[f].Load() }

// Replicated counts bytes that were fetched from a leader; added says that it is for a replica that is being added.
func (m *Meter) Replicated(bytes int, added bool) {
	if m == nil {
		return
	}
	m.replicatedIn.Add(int64(bytes))
	if added {
		m.reassignedIn.Add(int64(bytes))
	}
}

// Reassigned counts bytes that a follower fetched which is being added; Fetched counts them too.
func (m *Meter) Reassigned(bytes int) {
	if m != nil {
		m.reassignedOut.Add(int64(bytes))
	}
}

// Reassignment returns the bytes that were fetched from leaders for replicas that are being added here, and that were sent to such.
func (m *Meter) Reassignment() (in, out int64) { return m.reassignedIn.Load(), m.reassignedOut.Load() }

// Replication returns the bytes that were fetched from leaders, and those that followers fetched.
func (m *Meter) Replication() (in, out int64) { return m.replicatedIn.Load(), m.replicatedOut.Load() }

// Fetched counts a partition that there is in the answer to a Fetch, a follower's or a consumer's. After
// ReplicaManager.readFromLog and BrokerTopicStats.updateBytesOut of Apache Kafka.
func (m *Meter) Fetched(topic string, bytes int, how How, follower bool) {
	if m == nil {
		return
	}
	if follower {
		m.replicatedOut.Add(int64(bytes))
		bytes = 0
	}
	for _, t := range []*Topic{&m.all, m.topic(topic)} {
		t.Fetches.Add(1)
		t.BytesOut.Add(int64(bytes))
		if how == Failed {
			t.FailedFetches.Add(1)
		}
	}
}

// ISRChanged counts a leader's in-sync replicas becoming fewer or more.
func (m *Meter) ISRChanged(before, after int) {
	switch {
	case m == nil:
	case after < before:
		m.shrinks.Add(1)
	case after > before:
		m.expands.Add(1)
	}
}

// ISRRefused counts a change of in-sync replicas that the controller refused.
func (m *Meter) ISRRefused() {
	if m != nil {
		m.refused.Add(1)
	}
}

// ISRRefusals returns how often that was.
func (m *Meter) ISRRefusals() int64 { return m.refused.Load() }

// Forget drops the counters of a topic that was deleted.
func (m *Meter) Forget(topic string) {
	if m != nil {
		m.topics.Delete(topic)
	}
}

// Requests calls f for each kind of request that came.
func (m *Meter) Requests(f func(r Request, count int64)) {
	m.requests.Range(func(k, v any) bool { f(k.(Request), v.(*atomic.Int64).Load()); return true })
}

// Failures calls f for each error code that was answered, 0 among them.
func (m *Meter) Failures(f func(e Failure, count int64)) {
	m.errors.Range(func(k, v any) bool { f(k.(Failure), v.(*atomic.Int64).Load()); return true })
}

// Times calls f for each part of each API that was answered, with the quantiles of the last one to two minutes.
func (m *Meter) Times(quantiles []float64, f func(s Spent, count int64, seconds float64, at []time.Duration)) {
	now := m.clock.Monotonic()
	m.times.Range(func(k, v any) bool {
		count, sum, at := v.(*Times).look(now, quantiles)
		f(k.(Spent), count, sum.Seconds(), at)
		return true
	})
}

// Topics calls f with the sum, under the name "", and for each topic.
func (m *Meter) Topics(f func(name string, t *Topic)) {
	f("", &m.all)
	m.topics.Range(func(k, v any) bool { f(k.(string), v.(*Topic)); return true })
}

// ISRChanges returns how often in-sync replicas became fewer, and more.
func (m *Meter) ISRChanges() (shrinks, expands int64) { return m.shrinks.Load(), m.expands.Load() }
