package quota

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gregor-broker/gregor/wire/clock"
)

// Kind is what a quota limits.
type Kind int

// The kinds.
const (
	Produce   Kind = iota // bytes/s that a client writes
	Fetch                 // bytes/s that it reads
	Request               // per cent of a handler's time that its requests take
	Mutations             // partitions/s that it creates and deletes
	kinds
)

// Default is the name that stands for all users, or client ids, without a quota of their own. No name is that: it is not UTF-8.
const Default = "\xff<default>"

// Entity is whom a quota is for: a user, a client id, or a client id of a user; "" where it says nothing of one. An entity
// of Default stands for every name.
type Entity struct{ User, Client string }

// Clients are the quotas of clients and what these have used. Safe for concurrent use; a nil Clients limits nobody. After
// kafka.server.ClientQuotaManager, ClientRequestQuotaManager and ControllerMutationQuotaManager: the quota of the most
// specific entity counts, and whom the same quota is for as one shares it.
type Clients struct {
	clock     clock.Clock
	windows   Windows
	mutations Windows
	enabled   [kinds]atomic.Bool

	mu struct {
		sync.Mutex
		limits [kinds]map[Entity]float64
		meters [kinds]map[Entity]*meter
		tidyAt [kinds]int // meters at which those that do not count any more are dropped
	}
}

// meter is what those have used who share a quota.
type meter struct {
	window window // what was used
	bucket bucket // of Mutations
	waits  window // how long they were kept waiting, in ms …
	waited window // … and how often
	last   time.Duration
}

// wait notes that they are kept waiting.
func (m *meter) wait(now, d time.Duration) {
	if d > 0 {
		m.waits.add(now, float64(d.Milliseconds()))
		m.waited.add(now, 1)
	}
}

const leastMeters = 1024

// NewClients returns Clients without quotas, measured over these windows (quota.window.*), mutations over those
// (controller.quota.window.*).
func NewClients(c clock.Clock, windows, mutations Windows) *Clients {
	q := &Clients{clock: c, windows: windows, mutations: mutations}
	for k := range kinds {
		q.mu.tidyAt[k] = leastMeters
		q.mu.limits[k], q.mu.meters[k] = map[Entity]float64{}, map[Entity]*meter{}
	}
	return q
}

// Set changes an entity's quotas to these; a kind that is not there has none.
func (q *Clients) Set(e Entity, limits map[Kind]float64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for k := range kinds {
		if limit, ok := limits[k]; ok {
			q.mu.limits[k][e] = limit
		} else {
			delete(q.mu.limits[k], e)
		}
		q.enabled[k].Store(len(q.mu.limits[k]) > 0)
	}
}

// Enabled says whether anybody has a quota of this kind.
func (q *Clients) Enabled(k Kind) bool { return q != nil && q.enabled[k].Load() }

// limit returns the quota that counts for a client, and who shares it. The caller holds mu.
func (q *Clients) limit(k Kind, user, client string) (limit float64, shared Entity, ok bool) {
	for _, step := range [...]struct{ quota, shared Entity }{
		{Entity{user, client}, Entity{user, client}},
		{Entity{user, Default}, Entity{user, client}},
		{Entity{user, ""}, Entity{user, ""}},
		{Entity{Default, client}, Entity{user, client}},
		{Entity{Default, Default}, Entity{user, client}},
		{Entity{Default, ""}, Entity{user, ""}},
		{Entity{"", client}, Entity{"", client}},
		{Entity{"", Default}, Entity{"", client}},
	} {
		if step.quota == (Entity{}) {
			continue // who has no client id is no entity without names
		}
		if limit, ok = q.mu.limits[k][step.quota]; ok {
			return limit, step.shared, true
		}
	}
	return 0, Entity{}, false
}

// meterOf returns the meter of those who share a quota, a new one if need be. The caller holds mu.
func (q *Clients) meterOf(k Kind, shared Entity, now time.Duration) *meter {
	meters := q.mu.meters[k]
	m := meters[shared]
	if m == nil {
		if len(meters) >= q.mu.tidyAt[k] {
			q.tidy(k, now)
		}
		w := window{Windows: q.windows}
		if k == Mutations {
			w.Windows = q.mutations
		}
		m = &meter{window: w, bucket: bucket{Windows: q.mutations, refilled: math.MinInt64}, waits: w, waited: w}
		meters[shared] = m
	}
	m.last = now
	return m
}

// tidy drops the meters of a kind that say no more than new ones.
func (q *Clients) tidy(k Kind, now time.Duration) {
	w := q.windows
	if k == Mutations {
		w = q.mutations
	}
	for e, m := range q.mu.meters[k] {
		if now-m.last > time.Duration(w.Num+1)*w.Size {
			delete(q.mu.meters[k], e)
		}
	}
	q.mu.tidyAt[k] = max(leastMeters, 2*len(q.mu.meters[k]))
}

// Record counts what a client used, and returns how long it is to be kept waiting.
func (q *Clients) Record(k Kind, user, client string, amount float64) time.Duration {
	if !q.Enabled(k) {
		return 0
	}
	now := q.clock.Monotonic()
	q.mu.Lock()
	defer q.mu.Unlock()
	limit, shared, ok := q.limit(k, user, client)
	if !ok {
		return 0
	}
	m := q.meterOf(k, shared, now)
	m.window.add(now, amount)
	wait := m.window.excess(now, limit)
	if k == Request {
		wait = min(wait, q.windows.Size) // requests keep the connection alive
	}
	m.wait(now, wait)
	return wait
}

// Unrecord takes back what Record counted, since it was not used after all.
func (q *Clients) Unrecord(k Kind, user, client string, amount float64) {
	now := q.clock.Monotonic()
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, shared, ok := q.limit(k, user, client); ok {
		q.meterOf(k, shared, now).window.add(now, -amount)
	}
}

// Used is what those have used lately who share a quota.
type Used struct {
	Kind   Kind
	Entity Entity
	Rate   float64 // in the quota's unit
	Tokens float64 // of Mutations: what is left
	Wait   float64 // how long they were kept waiting where they were, on average, in ms
}

// Each calls f for all who have a quota and have used any of it. The names of Kafka's metrics for that are byte-rate,
// request-time, mutation-rate, tokens and throttle-time. f must not call q.
func (q *Clients) Each(f func(Used)) {
	if q == nil {
		return
	}
	now := q.clock.Monotonic()
	q.mu.Lock()
	defer q.mu.Unlock()
	for k := range kinds {
		for e, m := range q.mu.meters[k] {
			u := Used{Kind: k, Entity: e, Tokens: m.bucket.tokens}
			if k == Mutations {
				u.Rate = m.window.simpleRate(now)
			} else {
				u.Rate, _ = m.window.rate(now)
			}
			if times, _ := m.waited.total(now); times > 0 {
				ms, _ := m.waits.total(now)
				u.Wait = ms / times
			}
			f(u)
		}
	}
}

// Most returns the most that a client may use at once without being above its quota for long.
func (q *Clients) Most(k Kind, user, client string) float64 {
	if !q.Enabled(k) {
		return math.MaxFloat64
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	limit, _, ok := q.limit(k, user, client)
	if !ok {
		return math.MaxFloat64
	}
	return limit * float64(q.windows.Num-1) * q.windows.Size.Seconds()
}

// excess returns how long it takes until the rate is at the limit, if nothing more comes (QuotaUtils.throttleTime).
func (w *window) excess(now time.Duration, limit float64) time.Duration {
	rate, over := w.rate(now)
	if rate <= limit {
		return 0
	}
	ms := math.Round((rate - limit) / limit * float64(over.Milliseconds()))
	if !(ms < math.MaxInt32) { // a limit of nothing
		ms = math.MaxInt32
	}
	return time.Duration(ms) * time.Millisecond
}
