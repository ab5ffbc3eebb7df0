package meter

import "time"

// Timed is what is timed besides requests.
type Timed uint8

// What is timed.
const (
	Flush           Timed = iota // of a segment to disk
	StoreRequest                 // to ZooKeeper
	Verification                 // of a partition's being part of a transaction, by the transaction's coordinator
	EventQueue                   // an event of the controller's, until it is taken
	EventProcessing              // and while it is carried out
	LeaderElection               // from the decision of the controller until all that was decided together is written
	timedKinds
)

// Took counts how long something took.
func (m *Meter) Took(what Timed, d time.Duration) {
	if m != nil {
		m.timed[what].add(m.clock.Monotonic(), d)
	}
}

// Timings returns how often something was timed, the sum, and the quantiles of the last one to two minutes.
func (m *Meter) Timings(what Timed, quantiles []float64) (count int64, sum time.Duration, at []time.Duration) {
	return m.timed[what].look(m.clock.Monotonic(), quantiles)
}

// OrderWaited counts how long an order of the controller's waited for its turn with a broker.
func (m *Meter) OrderWaited(broker int32, d time.Duration) {
	if m == nil {
		return
	}
	t, ok := m.orders.Load(broker)
	if !ok {
		t, _ = m.orders.LoadOrStore(broker, new(Times))
	}
	t.(*Times).add(m.clock.Monotonic(), d)
}

// Orders calls f for each broker that got orders, with how many and how long they waited.
func (m *Meter) Orders(quantiles []float64, f func(broker int32, count int64, at []time.Duration)) {
	m.orders.Range(func(k, v any) bool {
		count, _, at := v.(*Times).look(m.clock.Monotonic(), quantiles)
		f(k.(int32), count, at)
		return true
	})
}

// Event is what happens to a broker now and then.
type Event uint8

// The events.
const (
	StoreConnected Event = iota // to ZooKeeper
	StoreDisconnected
	StoreExpired // the session
	NotVerified  // partitions that a coordinator did not find to be part of a transaction
	eventKinds
)

// Happened counts n events.
func (m *Meter) Happened(e Event, n int) {
	if m != nil {
		m.events[e].Add(int64(n))
	}
}

// Events returns how often an event happened.
func (m *Meter) Events(e Event) int64 { return m.events[e].Load() }
