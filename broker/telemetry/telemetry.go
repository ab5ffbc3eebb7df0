// Package telemetry is what clients tell of themselves (KIP-714): subscriptions say which metrics which clients push, and what
// they pushed last is exported with the broker's own metrics. After Kafka's ClientMetricsManager and ClientMetricsInstance.
package telemetry

import (
	"container/list"
	"crypto/rand"
	"hash/crc32"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"
)

const (
	defaultInterval = 5 * time.Minute // of pushes, while no subscription asks for another
	shortestLife    = time.Minute     // of an instance that is not heard of; at least three intervals
	maxInstances    = 16384           // as in Kafka; the one that was silent longest goes
	maxSeries       = 100_000         // of all instances together; what is more is not kept
)

// never is a moment that was not.
const never = time.Duration(math.MinInt64)

// Codecs are what clients may compress with, the best first.
var Codecs = []int8{int8(record.Zstd), int8(record.LZ4), int8(record.Gzip), int8(record.Snappy)}

// ID names a client instance: chosen by the broker that it asks first.
type ID [16]byte

// Client is who pushes, as subscriptions can match it.
type Client struct {
	ClientID, Software, SoftwareVersion string
	Address                             netip.AddrPort
}

// Options of a Manager; all must be set.
type Options struct {
	Clock    clock.Clock
	Logger   *zap.Logger
	MaxBytes func() int // of a push, also of what it decompresses to: telemetry.max.bytes
}

// Manager keeps subscriptions and instances. Safe for concurrent use.
type Manager struct {
	o  Options
	mu struct {
		sync.Mutex
		subscriptions map[string]config.ClientMetrics
		version       int // of the subscriptions
		instances     map[ID]*list.Element
		recent        *list.List // of *instance, the one heard of last in front
		series        int        // of all instances
	}
}

// instance is a client at one time. Guarded by the manager's lock.
type instance struct {
	id           ID
	client       Client
	version      int // of the subscriptions that it was made from
	subscription int32
	metrics      []string
	interval     time.Duration
	heard        time.Duration // monotonic
	asked        time.Duration // when it was told its subscription last; or never
	pushed       time.Duration // when it pushed last; or never
	terminating  bool
	lastError    *kerr.Error
	series       map[string]*series
}

// New returns a manager without subscriptions.
func New(o Options) *Manager {
	m := &Manager{o: o}
	m.mu.subscriptions, m.mu.instances, m.mu.recent = map[string]config.ClientMetrics{}, map[ID]*list.Element{}, list.New()
	return m
}

// Subscribe sets a subscription; with remove it is forgotten.
func (m *Manager) Subscribe(name string, s config.ClientMetrics, remove bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.version++; remove {
		delete(m.mu.subscriptions, name)
		return
	}
	m.mu.subscriptions[name] = s
}

// Subscription is what a client instance is asked for.
type Subscription struct {
	Instance ID
	ID       int32
	Metrics  []string // prefixes; "*" is all
	Interval time.Duration
}

// Get tells a client its subscription; a zero id is one that has none yet. THROTTLING_QUOTA_EXCEEDED before its time.
func (m *Manager) Get(id ID, c Client) (Subscription, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if id == (ID{}) {
		_, _ = rand.Read(id[:])
	}
	i := m.instance(id, c)
	now := m.o.Clock.Monotonic()
	last := max(i.asked, i.pushed)
	if early := last != never && now-last < i.interval; early && i.lastError != kerr.UnknownSubscriptionID && i.lastError != kerr.UnsupportedCompressionType {
		return Subscription{}, kerr.ThrottlingQuotaExceeded
	} else if !early {
		i.asked = now
	}
	i.lastError = nil
	return Subscription{i.id, i.subscription, i.metrics, i.interval}, nil
}

// Push takes a client's metrics, an OTLP MetricsData. Errors: INVALID_REQUEST, THROTTLING_QUOTA_EXCEEDED, UNKNOWN_SUBSCRIPTION_ID,
// UNSUPPORTED_COMPRESSION_TYPE, TELEMETRY_TOO_LARGE, INVALID_RECORD.
func (m *Manager) Push(id ID, c Client, p Push) error {
	if id == (ID{}) || id == (ID{15: 1}) {
		return errcode.New(kerr.InvalidRequest, "the client instance id is invalid")
	}
	m.mu.Lock()
	i := m.instance(id, c)
	failure := m.admit(i, p)
	i.terminating, i.lastError = p.Terminating, failure
	m.mu.Unlock()
	if failure != nil {
		return failure
	}
	points, failure := decode(p, int64(m.o.MaxBytes()))
	m.mu.Lock()
	defer m.mu.Unlock()
	i.lastError = failure
	if failure != nil {
		m.o.Logger.Warn("a client's metrics cannot be read", zap.String("client_id", c.ClientID), zap.Error(failure))
		return failure
	}
	if m.mu.instances[id] != nil {
		m.keep(i, points)
	}
	return nil
}

// Push is one push.
type Push struct {
	Subscription int32
	Terminating  bool
	Codec        int8
	Metrics      []byte
}

// admit says why a push is refused; nil if it is not.
func (m *Manager) admit(i *instance, p Push) *kerr.Error {
	now := m.o.Clock.Monotonic()
	inTime := i.pushed == never || i.asked > i.pushed || now-i.pushed >= i.interval
	if i.terminating {
		return kerr.InvalidRequest
	}
	if inTime {
		i.pushed = now
	}
	switch {
	case !inTime && !p.Terminating:
		return kerr.ThrottlingQuotaExceeded
	case p.Subscription != i.subscription:
		return kerr.UnknownSubscriptionID
	case p.Codec < 0 || p.Codec > int8(record.Zstd):
		return kerr.UnsupportedCompressionType
	case len(p.Metrics) > m.o.MaxBytes():
		return kerr.TelemetryTooLarge
	}
	return nil
}

// instance finds or makes a client's instance, of the subscriptions as they are.
func (m *Manager) instance(id ID, c Client) *instance {
	m.expire()
	element := m.mu.instances[id]
	if element == nil {
		element = m.mu.recent.PushFront(m.subscribe(&instance{id: id, client: c, asked: never, pushed: never, series: map[string]*series{}}))
		m.mu.instances[id] = element
		if m.mu.recent.Len() > maxInstances {
			m.drop(m.mu.recent.Back())
		}
	}
	i := element.Value.(*instance)
	if i.version != m.mu.version {
		before := i.subscription
		if m.subscribe(i); i.subscription != before {
			i.asked, i.pushed, i.lastError = never, never, nil // it may have the new one at once
		}
	}
	i.heard = m.o.Clock.Monotonic()
	m.mu.recent.MoveToFront(element)
	return i
}

// subscribe finds what matches the client. The number of what it finds depends on nothing else, so that every broker finds the same.
func (m *Manager) subscribe(i *instance) *instance {
	metrics := map[string]bool{}
	i.version, i.interval = m.mu.version, defaultInterval
	for _, s := range m.mu.subscriptions {
		if !matches(i, s) {
			continue
		}
		for _, prefix := range s.Metrics {
			metrics[prefix] = true
		}
		i.interval = min(i.interval, s.Interval)
	}
	if metrics["*"] {
		metrics = map[string]bool{"*": true}
	}
	i.metrics = slices.Sorted(maps.Keys(metrics))
	sum := crc32.Checksum([]byte(strings.Join(i.metrics, ",")+strconv.FormatInt(i.interval.Milliseconds(), 10)), crc32.MakeTable(crc32.Castagnoli))
	i.subscription = int32(sum ^ crc32.ChecksumIEEE(i.id[:]))
	return i
}

func matches(i *instance, s config.ClientMetrics) bool {
	for parameter, pattern := range s.Match {
		if !pattern.MatchString(i.parameter(parameter)) {
			return false
		}
	}
	return true
}

// parameter is what a pattern is matched with.
func (i *instance) parameter(name string) string {
	switch name {
	case "client_instance_id":
		return i.id.String()
	case "client_id":
		return i.client.ClientID
	case "client_software_name":
		return i.client.Software
	case "client_software_version":
		return i.client.SoftwareVersion
	case "client_source_address":
		return i.client.Address.Addr().String()
	case "client_source_port":
		return strconv.Itoa(int(i.client.Address.Port()))
	}
	return ""
}

// expire drops instances that have not been heard of for three of their intervals. That a connection ends says nothing: many
// clients close those that they do not need.
func (m *Manager) expire() {
	now := m.o.Clock.Monotonic()
	for element := m.mu.recent.Back(); element != nil; {
		i, before := element.Value.(*instance), element.Prev()
		switch silent := now - i.heard; {
		case silent <= shortestLife:
			return // and so are all before it
		case silent > 3*i.interval:
			m.drop(element)
		}
		element = before
	}
}

func (m *Manager) drop(element *list.Element) {
	i := m.mu.recent.Remove(element).(*instance)
	m.mu.series -= len(i.series)
	delete(m.mu.instances, i.id)
}

// Instances is the number of clients that were heard of.
func (m *Manager) Instances() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	return m.mu.recent.Len()
}
