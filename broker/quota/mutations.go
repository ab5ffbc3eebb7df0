package quota

import (
	"math"
	"time"
)

// bucket holds tokens, one for each change that may be made at once: as many as come in all windows, and fewer than none
// for who has made too many (TokenBucket of Kafka's metrics).
type bucket struct {
	Windows
	tokens   float64
	refilled time.Duration // MinInt64: never, so it is full
}

func (b *bucket) refill(now time.Duration, limit float64) {
	most := float64(b.Num) * b.Size.Seconds() * limit
	if b.refilled == math.MinInt64 {
		b.tokens = most
	} else {
		b.tokens = min(most, b.tokens+limit*(now-b.refilled).Seconds())
	}
	b.refilled = now
}

// wait is how long it takes until there are tokens again.
func (b *bucket) wait(limit float64) time.Duration {
	if b.tokens >= 0 {
		return 0
	}
	ms := math.Round(-b.tokens * 1000 / limit)
	if !(ms < math.MaxInt32) {
		ms = math.MaxInt32
	}
	return time.Duration(ms) * time.Millisecond
}

// Mutation is one request that changes topics, against its client's quota (KIP-599). Owned by whoever carries it out.
type Mutation struct {
	clients      *Clients
	user, client string
	strict       bool
	wait         time.Duration
}

// Mutation begins a request. A strict one is refused what is above the quota; one of an older version is let do it, and is
// kept waiting afterwards.
func (q *Clients) Mutation(user, client string, strict bool) *Mutation {
	return &Mutation{clients: q, user: user, client: client, strict: strict}
}

// Take takes n changes, and reports whether they may be made.
func (m *Mutation) Take(n int) bool {
	q := m.clients
	if !q.Enabled(Mutations) {
		return true
	}
	now := q.clock.Monotonic()
	q.mu.Lock()
	defer q.mu.Unlock()
	limit, shared, ok := q.limit(Mutations, m.user, m.client)
	if !ok {
		return true
	}
	used := q.meterOf(Mutations, shared, now)
	b := &used.bucket
	b.refill(now, limit)
	if m.strict && b.tokens < 0 {
		m.wait = max(m.wait, b.wait(limit))
		used.wait(now, m.wait)
		return false
	}
	b.tokens -= float64(n)
	used.window.add(now, float64(n))
	if !m.strict {
		m.wait = max(m.wait, b.wait(limit))
		used.wait(now, m.wait)
	}
	return true
}

// Wait is how long the client is to be kept waiting.
func (m *Mutation) Wait() time.Duration { return m.wait }
