package fetcher

import (
	"context"
	"fmt"
	"sync"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/wire/clock"
)

// Options is what a Set works with.
type Options struct {
	Settings
	Fetchers int // num.replica.fetchers, at first
	// Dial makes a connection of the caller's own to a broker, which need not be known yet.
	Dial   func(broker int32, clientID string) Client
	Clock  clock.Clock
	Logger *zap.Logger
}

// Set is all the fetchers of a broker. Safe for concurrent use.
type Set struct {
	options Options
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu struct {
		sync.Mutex
		closed   bool
		fetchers map[source]*fetcher
		size     int // num.replica.fetchers
		of       map[log.TopicPartition]following
	}
}

// following is what is fetched, from where.
type following struct {
	Assignment
	broker int32
	by     *fetcher
}

// source is a leader's broker and one of the fetchers that go there.
type source struct{ broker, index int32 }

// NewSet returns a set without fetchers; they start when there is something to follow.
func NewSet(o Options) *Set {
	s := &Set{options: o}
	s.mu.size = max(1, o.Fetchers)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.mu.fetchers, s.mu.of = map[source]*fetcher{}, map[log.TopicPartition]following{}
	return s
}

// Follow has partitions fetched from a broker, and from no other any more.
func (s *Set) Follow(broker int32, assignments []Assignment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.follow(broker, assignments)
}

// follow is Follow. The caller holds mu.
func (s *Set) follow(broker int32, assignments []Assignment) {
	if s.mu.closed {
		return
	}
	orders := map[*fetcher][]order{}
	urgent := map[*fetcher]bool{}
	for _, a := range assignments {
		f := s.at(source{broker, int32(hash(a.TopicPartition) % uint32(s.mu.size))})
		if old := s.mu.of[a.TopicPartition].by; old != nil && old != f {
			orders[old] = append(orders[old], order{a, true})
		}
		s.mu.of[a.TopicPartition] = following{a, broker, f}
		orders[f] = append(orders[f], order{a, false})
		urgent[f] = true
	}
	for f, os := range orders {
		f.take(os, urgent[f])
	}
}

// Forget ends following partitions. What is being written of them meanwhile is theirs to refuse.
func (s *Set) Forget(tps []log.TopicPartition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	orders := map[*fetcher][]order{}
	for _, tp := range tps {
		if f := s.mu.of[tp].by; f != nil {
			delete(s.mu.of, tp)
			orders[f] = append(orders[f], order{Assignment{TopicPartition: tp}, true})
		}
	}
	for f, os := range orders {
		f.take(os, false)
	}
}

// Resize changes how many fetchers there are for each broker, and moves the partitions to where they belong then.
func (s *Set) Resize(fetchers int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if fetchers = max(1, fetchers); fetchers == s.mu.size || s.mu.closed {
		return
	}
	s.mu.size = fetchers
	at := map[int32][]Assignment{}
	for tp, f := range s.mu.of {
		if int32(hash(tp)%uint32(fetchers)) != f.by.index {
			at[f.broker] = append(at[f.broker], f.Assignment)
		}
	}
	for broker, assignments := range at {
		s.follow(broker, assignments)
	}
	for to, f := range s.mu.fetchers {
		if int(to.index) >= fetchers {
			delete(s.mu.fetchers, to)
			f.end()
		}
	}
}

// Failed returns how many partitions are not fetched any more because of an error, until the controller's next order.
func (s *Set) Failed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, f := range s.mu.fetchers {
		n += f.machine.Failed()
	}
	return n
}

// at returns a fetcher, a new one if need be. The caller holds mu.
func (s *Set) at(to source) *fetcher {
	f := s.mu.fetchers[to]
	if f != nil {
		return f
	}
	clientID := fmt.Sprintf("broker-%d-fetcher-%d", s.options.BrokerID, to.index)
	f = &fetcher{
		machine: NewMachine(s.options.Settings), client: s.options.Dial(to.broker, clientID), clock: s.options.Clock,
		logger: s.options.Logger.With(zap.Int32("broker", to.broker), zap.String("client_id", clientID)),
		index:  to.index, maxWait: s.options.MaxWait, wake: make(chan struct{}, 1),
	}
	ctx, cancel := context.WithCancel(s.ctx)
	f.end = func() {
		cancel()
		f.client.Close()
	}
	f.mu.lastFor = f.clock.Monotonic() - f.maxWait
	s.mu.fetchers[to] = f
	s.running.Go(func() {
		defer cancel()
		f.run(ctx)
	})
	return f
}

// Close ends the fetchers and waits for them.
func (s *Set) Close() {
	s.mu.Lock()
	s.mu.closed = true
	for _, f := range s.mu.fetchers {
		f.client.Close()
	}
	s.mu.Unlock()
	s.cancel()
	s.running.Wait()
}
