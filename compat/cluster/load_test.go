package cluster

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gregor-broker/gregor/compat/harness"
)

// load is an application: it writes without end, reads in a group, commits, and counts every error that the clients did not settle
// themselves.
type load struct {
	cluster    *harness.Cluster
	topic      string
	partitions int

	producer, consumer *kgo.Client
	stop               chan struct{}
	wg                 sync.WaitGroup
	mu                 struct {
		sync.Mutex
		acked   int
		errs    []error
		seen    map[string]int // value → how often it was read
		longest time.Duration
	}
}

// pace is the time between two records of a load.
const pace = 3 * time.Millisecond

// startLoad starts an application on a topic; the options are for its producer.
func startLoad(t testing.TB, c *harness.Cluster, topic string, partitions int, options ...kgo.Opt) *load {
	t.Helper()
	l := &load{cluster: c, topic: topic, partitions: partitions, stop: make(chan struct{})}
	l.mu.seen = map[string]int{}
	l.producer = c.Client(t, append([]kgo.Opt{kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner())}, options...)...)
	l.consumer = c.Client(t, kgo.ConsumerGroup(name("load")), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	l.wg.Go(func() { l.produce(t) })
	l.wg.Go(func() { l.consume(t) })
	l.more(t, 1)
	harness.Eventually(t, limit, func() error { // a member that was not assigned anything yet does not outlive its coordinator, and is told
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.mu.seen) == 0 {
			return errors.New("nothing is read")
		}
		return nil
	})
	return l
}

func (l *load) produce(t testing.TB) {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-l.stop:
			return
		case <-tick.C:
		}
		began := time.Now()
		r := &kgo.Record{Partition: int32(n % l.partitions), Value: fmt.Append(nil, n)}
		l.producer.Produce(t.Context(), r, func(_ *kgo.Record, err error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.mu.longest = max(l.mu.longest, time.Since(began))
			if err != nil {
				l.mu.errs = append(l.mu.errs, fmt.Errorf("produce: %w", err))
				return
			}
			l.mu.acked++
		})
	}
}

func (l *load) consume(t testing.TB) {
	for {
		fetches := l.consumer.PollFetches(t.Context())
		if fetches.IsClientClosed() || t.Context().Err() != nil {
			return
		}
		l.mu.Lock()
		for _, e := range fetches.Errors() {
			l.mu.errs = append(l.mu.errs, fmt.Errorf("fetch %s-%d: %w", e.Topic, e.Partition, e.Err))
		}
		fetches.EachRecord(func(r *kgo.Record) { l.mu.seen[string(r.Value)]++ })
		l.mu.Unlock()
		if err := l.consumer.CommitUncommittedOffsets(t.Context()); err != nil {
			l.mu.Lock()
			l.mu.errs = append(l.mu.errs, fmt.Errorf("commit: %w", err))
			l.mu.Unlock()
		}
	}
}

func (l *load) acked() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.acked
}

// more waits until n more records are acknowledged.
func (l *load) more(t testing.TB, n int) {
	t.Helper()
	target := l.acked() + n
	harness.Eventually(t, limit, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.mu.acked < target && len(l.mu.errs) == 0 {
			return fmt.Errorf("%d of %d records acknowledged", l.mu.acked, target)
		}
		return nil
	})
}

// finish ends the load and fails the test for every error that reached it, and for what was not read, each once.
func (l *load) finish(t testing.TB) {
	t.Helper()
	close(l.stop)
	if err := l.producer.Flush(harness.Context(t, limit)); err != nil {
		t.Errorf("flush: %v", err)
	}
	acked := l.acked()
	harness.Eventually(t, limit, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if n := len(l.mu.seen); n < acked {
			return fmt.Errorf("%d of %d records read", n, acked)
		}
		return nil
	})
	l.consumer.CloseAllowingRebalance()
	l.wg.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, err := range l.mu.errs {
		if i == 5 {
			t.Errorf("and %d errors more", len(l.mu.errs)-i)
			break
		}
		t.Errorf("an error reached the application: %v", err)
	}
	for value, n := range l.mu.seen {
		if n > 1 {
			t.Errorf("record %s was read %d times, although every commit succeeded", value, n)
			break
		}
	}
	t.Logf("%d records; the longest produce took %v", acked, l.mu.longest)
}
