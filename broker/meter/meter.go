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
	requests sync.Map // Request → *atomic.Int64
	errors   sync.Map // Failure → *atomic.Int64
	times    sync.Map // API key → *Times
	topics   sync.Map // name → *Topic
	all      Topic
	shrinks  atomic.Int64
	expands  atomic.Int64
}

// New returns a meter whose windows of time go by c.
func New(c clock.Clock) *Meter { return &Meter{clock: c} }

// Request is a kind of request.
type Request struct{ Key, Version int16 }

// Failure is an error code in answers of an API; 0 is an answer without error.
type Failure struct{ Key, Code int16 }

// Topic counts what went in and out of a topic, or of all. As BrokerTopicStats of Apache Kafka.
type Topic struct {
	MessagesIn, BytesIn, BytesOut, BytesRejected atomic.Int64
	Produces, FailedProduces                     atomic.Int64 // by partition
	Fetches, FailedFetches                       atomic.Int64
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

// Answered counts an answer, and how long the request took from its first byte read to there.
func (m *Meter) Answered(key int16, took time.Duration) {
	if m == nil {
		return
	}
	t, ok := m.times.Load(key)
	if !ok {
		t, _ = m.times.LoadOrStore(key, new(Times))
	}
	t.(*Times).add(m.clock.Monotonic(), took)
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

// Produced counts a record set for a partition: refused, or stored as n messages. Of a topic that there is not, known is false,
// and only the sum over all topics is counted: names that clients think of cost no memory.
func (m *Meter) Produced(topic string, known bool, bytes int, messages int64, failed bool) {
	if m == nil {
		return
	}
	count := func(t *Topic) {
		t.Produces.Add(1)
		if failed {
			t.FailedProduces.Add(1)
			t.BytesRejected.Add(int64(bytes))
			return
		}
		t.BytesIn.Add(int64(bytes))
		t.MessagesIn.Add(messages)
	}
	count(&m.all)
	if known {
		count(m.topic(topic))
	}
}

// Fetched counts a partition in the answer to a Fetch; known as in Produced.
func (m *Meter) Fetched(topic string, known bool, bytes int, failed bool) {
	if m == nil {
		return
	}
	count := func(t *Topic) {
		t.Fetches.Add(1)
		t.BytesOut.Add(int64(bytes))
		if failed {
			t.FailedFetches.Add(1)
		}
	}
	count(&m.all)
	if known {
		count(m.topic(topic))
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

// Times calls f for each API that was answered, with the quantiles of the last one to two minutes.
func (m *Meter) Times(quantiles []float64, f func(key int16, count int64, seconds float64, at []time.Duration)) {
	now := m.clock.Monotonic()
	m.times.Range(func(k, v any) bool {
		t := v.(*Times)
		f(k.(int16), t.count.Load(), time.Duration(t.sum.Load()).Seconds(), t.quantiles(now, quantiles))
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
