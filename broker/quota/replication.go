package quota

import (
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gregor-broker/gregor/wire/clock"
)

// Unlimited is the limit of who has none.
const Unlimited = math.MaxInt64

// Replicas are those of a topic's partitions that are throttled on this broker.
type Replicas struct {
	All        bool
	Partitions []int32
}

func (r Replicas) empty() bool { return !r.All && len(r.Partitions) == 0 }

// Replication measures the bytes that replication moves for throttled replicas, in one direction, against a limit. Safe for
// concurrent use. After kafka.server.ReplicationQuotaManager.
type Replication struct {
	clock  clock.Clock
	limit  atomic.Int64                        // bytes/s
	topics atomic.Pointer[map[string]Replicas] // replaced whole
	mu     struct {
		sync.Mutex
		window window
	}
}

// NewReplication returns a Replication without limit and without throttled replicas.
func NewReplication(c clock.Clock, w Windows) *Replication {
	r := &Replication{clock: c}
	r.mu.window.Windows = w
	r.limit.Store(Unlimited)
	r.topics.Store(&map[string]Replicas{})
	return r
}

// SetLimit changes the limit, in bytes per second.
func (r *Replication) SetLimit(bytes int64) { r.limit.Store(bytes) }

// Throttle changes which replicas of a topic are throttled. One goroutine at a time.
func (r *Replication) Throttle(topic string, replicas Replicas) {
	old := *r.topics.Load()
	if _, had := old[topic]; !had && replicas.empty() {
		return
	}
	next := maps.Clone(old)
	if replicas.empty() {
		delete(next, topic)
	} else {
		next[topic] = replicas
	}
	r.topics.Store(&next)
}

// Any says whether any replica is throttled.
func (r *Replication) Any() bool { return len(*r.topics.Load()) > 0 }

// Throttled says whether a partition's replica is.
func (r *Replication) Throttled(topic string, partition int32) bool {
	of, ok := (*r.topics.Load())[topic]
	return ok && (of.All || slices.Contains(of.Partitions, partition))
}

// Record counts bytes that were moved for throttled replicas.
func (r *Replication) Record(bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.window.add(r.clock.Monotonic(), float64(bytes))
}

// Exceeded says whether more was moved than the limit allows.
func (r *Replication) Exceeded() bool {
	limit := r.limit.Load()
	if limit == Unlimited {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.window.simpleRate(r.clock.Monotonic()) > float64(limit)
}
