package replica

import (
	"slices"

	"github.com/gregor-broker/gregor/broker/replica/fetcher"
)

// holdsBack says whether a follower gets no records now: its replica is throttled, not in sync, and more was sent to such
// than the limit allows (ReplicaManager.shouldLeaderThrottle).
func (m *Manager) holdsBack(p *FetchParams, e *FetchEntry, r *role) bool {
	t := m.options.SendThrottle
	return t != nil && p.ReplicaID >= 0 && t.Any() && t.Throttled(e.Topic, e.Partition) &&
		!slices.Contains(r.isr, p.ReplicaID) && t.Exceeded()
}

// countThrottled counts what is sent of throttled replicas, in sync or not.
func countThrottled(t fetcher.Throttle, entries []FetchEntry, results []FetchResult) {
	bytes := 0
	for i := range results {
		if e := &entries[i]; t.Throttled(e.Topic, e.Partition) {
			bytes += results[i].Records.Size()
		}
	}
	if bytes > 0 {
		t.Record(bytes)
	}
}
