package fetcher

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/wire/clock"
)

// leaderBroker answers fetches as a broker does that has nothing new: after the request's waiting time.
type leaderBroker struct {
	mu       sync.Mutex
	clientID string
	asked    []*kmsg.FetchRequest
	at       []time.Duration
	closed   chan struct{}
}

func (b *leaderBroker) Do(ctx context.Context, r kmsg.Request, response kmsg.Response) error {
	f := r.(*kmsg.FetchRequest)
	b.mu.Lock()
	b.asked, b.at = append(b.asked, f), append(b.at, clock.System.Monotonic())
	b.mu.Unlock()
	due, timer := clock.System.NewTimer(time.Duration(f.MaxWaitMillis) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-due:
		response.(*kmsg.FetchResponse).SessionID = 11
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-b.closed:
		return errors.New("closed")
	}
}

func (b *leaderBroker) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.closed:
	default:
		close(b.closed)
	}
}

// last is the last request, and how many there were.
func (b *leaderBroker) last() (*kmsg.FetchRequest, int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.asked) == 0 {
		return nil, 0
	}
	return b.asked[len(b.asked)-1], len(b.asked)
}

func newSet(fetchers int) (*Set, map[int32][]*leaderBroker) {
	brokers := map[int32][]*leaderBroker{}
	m := newMachine()
	return NewSet(Options{
		Settings: m.settings, Fetchers: fetchers, Clock: clock.System, Logger: zap.NewNop(),
		Dial: func(broker int32, clientID string) Client {
			b := &leaderBroker{clientID: clientID, closed: make(chan struct{})}
			brokers[broker] = append(brokers[broker], b)
			return b
		},
	}), brokers
}

// TestNewPartitionsDoNotWait: a fetch that waits for others is given up for a new partition, but not again and again.
func TestNewPartitionsDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, brokers := newSet(1)
		defer s.Close()
		s.Follow(1, []Assignment{assign(0, newReplica(3, 0))})
		synctest.Wait()
		b := brokers[1][0]
		if r, n := b.last(); n != 1 || len(r.Topics[0].Partitions) != 1 || b.clientID != "broker-2-fetcher-0" {
			t.Fatalf("%d requests, the last %+v", n, r)
		}
		s.Follow(1, []Assignment{assign(1, newReplica(3, 0))})
		synctest.Wait()
		if r, n := b.last(); n != 2 || len(r.Topics[0].Partitions) != 2 || r.SessionEpoch != 0 {
			t.Fatalf("%d requests, the last %+v", n, r)
		}
		s.Follow(1, []Assignment{assign(2, newReplica(3, 0))})
		synctest.Wait()
		if _, n := b.last(); n != 2 {
			t.Fatalf("%d requests", n)
		}
		time.Sleep(501 * time.Millisecond)
		synctest.Wait()
		if r, n := b.last(); n != 3 || r.SessionEpoch != 1 || len(r.Topics) != 1 || r.Topics[0].Partitions[0].Partition != 2 {
			t.Fatalf("%d requests, the last %+v", n, r)
		}
	})
}

// TestSourcesAndShares: a partition is fetched from one broker by one fetcher; which, goes by its name.
func TestSourcesAndShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, brokers := newSet(2)
		defer s.Close()
		var all []Assignment
		for p := range int32(4) {
			all = append(all, assign(p, newReplica(3, 0)))
		}
		s.Follow(1, all)
		synctest.Wait()
		if len(brokers[1]) != 2 {
			t.Fatalf("%d fetchers", len(brokers[1]))
		}
		for _, b := range brokers[1] {
			if r, _ := b.last(); len(r.Topics[0].Partitions) != 2 {
				t.Errorf("%s fetches %+v", b.clientID, r.Topics)
			}
		}
		s.Follow(3, all[:1])
		s.Forget([]log.TopicPartition{all[1].TopicPartition})
		time.Sleep(time.Second)
		synctest.Wait()
		forgotten := 0
		for _, b := range brokers[1] {
			b.mu.Lock()
			for _, r := range b.asked {
				for _, f := range r.ForgottenTopics {
					forgotten += len(f.Partitions)
				}
			}
			b.mu.Unlock()
		}
		if r := brokers[3][0].asked[0]; forgotten != 2 || len(brokers[3]) != 1 || r.Topics[0].Partitions[0].Partition != 0 {
			t.Errorf("%d were forgotten, broker 3 is asked for %+v", forgotten, r)
		}
	})
}

// TestHash: the numbers that Java computes for Utils.abs(31 * topic.hashCode() + partition).
func TestHash(t *testing.T) {
	for _, c := range []struct {
		topic     string
		partition int32
		want      uint32
	}{{"", 5, 5}, {"a", 1, 3008}, {"__consumer_offsets", 7, 16741360}, {"orders.eu-1", 3, 377162778}, {"polygenelubricants", 0, 0}} {
		if got := hash(log.TopicPartition{Topic: c.topic, Partition: c.partition}); got != c.want {
			t.Errorf("%s-%d: %d, want %d", c.topic, c.partition, got, c.want)
		}
	}
}

// TestResize: partitions move to the fetchers that they belong to then, and those that are too many end.
func TestResize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, brokers := newSet(1)
		defer s.Close()
		var all []Assignment
		for p := range int32(4) {
			all = append(all, assign(p, newReplica(3, 0)))
		}
		s.Follow(1, all)
		synctest.Wait()
		s.Resize(2)
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		if len(brokers[1]) != 2 {
			t.Fatalf("%d fetchers", len(brokers[1]))
		}
		of := func(b *leaderBroker) map[int32]bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			has := map[int32]bool{}
			for _, r := range b.asked {
				if r.SessionEpoch == 0 {
					has = map[int32]bool{}
				}
				for _, topic := range r.ForgottenTopics {
					for _, p := range topic.Partitions {
						delete(has, p)
					}
				}
				for _, topic := range r.Topics {
					for _, p := range topic.Partitions {
						has[p.Partition] = true
					}
				}
			}
			return has
		}
		first, second := of(brokers[1][0]), of(brokers[1][1])
		if len(first) != 2 || len(second) != 2 {
			t.Fatalf("%v and %v", first, second)
		}
		for p := range first {
			if second[p] {
				t.Errorf("partition %d is fetched twice", p)
			}
		}
		s.Resize(1)
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		select {
		case <-brokers[1][1].closed:
		default:
			t.Error("the second fetcher goes on")
		}
		if has := of(brokers[1][0]); len(has) != 4 {
			t.Errorf("the first has %v", has)
		}
	})
}
