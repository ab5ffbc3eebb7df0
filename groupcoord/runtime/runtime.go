package runtime

import (
	"context"
	"maps"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/wire/clock"
)

// Options are what a Runtime is made of; all but Codec and Waiting must be set.
type Options struct {
	Log      Log
	Clock    clock.Clock
	Logger   *zap.Logger
	Codec    record.Codec          // what batches are compressed with
	Patience time.Duration         // how long an answer waits for the high watermark
	Machine  func(p int32) Machine // makes an empty machine for a partition
	Waiting  *atomic.Int32         // counts the partitions with requests that are not taken up yet
}

// Runtime owns the shards of one internal topic. Safe for concurrent use.
type Runtime struct {
	o      Options
	loads  chan struct{}                    // a token per replay that runs
	active atomic.Pointer[map[int32]*shard] // replaced whole
	wg     sync.WaitGroup                   // the shards' goroutines
	mu     struct {
		sync.Mutex
		closed bool
		last   map[int32]*shard // the latest of each partition, also when it is leaving
	}
}

// New returns a Runtime without shards.
func New(o Options) *Runtime {
	if o.Waiting == nil {
		o.Waiting = new(atomic.Int32)
	}
	r := &Runtime{o: o, loads: make(chan struct{}, max(2, goruntime.GOMAXPROCS(0)))}
	r.active.Store(&map[int32]*shard{})
	r.mu.last = map[int32]*shard{}
	return r
}

// Elected starts to load partition p, which this broker leads from leaderEpoch on. It does not block. A later epoch of a
// partition that is loaded already changes nothing but the epoch.
func (r *Runtime) Elected(p, leaderEpoch int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.closed {
		return
	}
	before := r.mu.last[p]
	if before != nil && !before.leaving() {
		before.raise(leaderEpoch)
		return
	}
	s := newShard(p, leaderEpoch, r, before)
	r.mu.last[p] = s
	r.publish(func(m map[int32]*shard) { m[p] = s })
	r.wg.Go(s.run)
}

// Resigned unloads partition p, unless this broker leads it in a later epoch than leaderEpoch by now. It does not block.
func (r *Runtime) Resigned(p, leaderEpoch int32) {
	r.mu.Lock()
	s := r.mu.last[p]
	if s == nil || s.leaving() || s.epoch.Load() > leaderEpoch {
		r.mu.Unlock()
		return
	}
	r.publish(func(m map[int32]*shard) { delete(m, p) })
	s.leave()
	r.mu.Unlock()
	s.mail.close()
}

// publish replaces the map of shards. The caller holds mu.
func (r *Runtime) publish(change func(map[int32]*shard)) {
	m := maps.Clone(*r.active.Load())
	change(m)
	r.active.Store(&m)
}

// Submit hands ev to the shard of partition p, or refuses it.
func (r *Runtime) Submit(p int32, ev Event) {
	s := (*r.active.Load())[p]
	if s == nil {
		ev.Refuse(ErrNotCoordinator)
		return
	}
	if err := s.mail.push(ev); err != nil {
		ev.Refuse(err)
	}
}

// Notify hands every shard an event of the broker's own, which make returns. It is kept while a shard loads.
func (r *Runtime) Notify(make func() Event) {
	for _, s := range *r.active.Load() {
		if ev := make(); s.mail.notify(ev) != nil {
			ev.Refuse(ErrNotCoordinator)
		}
	}
}

// Tell hands the shard of partition p an event of the broker's own, which is kept while the shard loads, or refuses it.
func (r *Runtime) Tell(p int32, ev Event) {
	if s := (*r.active.Load())[p]; s == nil || s.mail.notify(ev) != nil {
		ev.Refuse(ErrNotCoordinator)
	}
}

// Partitions returns the partitions that have a shard, loaded or loading.
func (r *Runtime) Partitions() []int32 {
	m := *r.active.Load()
	list := make([]int32, 0, len(m))
	for p := range m {
		list = append(list, p)
	}
	return list
}

// Close unloads all shards and waits for their goroutines, or for ctx.
func (r *Runtime) Close(ctx context.Context) error {
	r.mu.Lock()
	r.mu.closed = true
	shards := maps.Clone(r.mu.last)
	r.publish(func(m map[int32]*shard) { clear(m) })
	for _, s := range shards {
		s.leave()
	}
	r.mu.Unlock()
	for _, s := range shards {
		s.mail.close()
	}
	done := make(chan struct{})
	go func() { r.wg.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
