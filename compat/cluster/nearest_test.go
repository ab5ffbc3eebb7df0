package cluster

import (
	"fmt"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gregor-broker/gregor/compat/harness"
)

// servedBy counts the records that a client was given by each broker. It is a hook of the client.
type servedBy struct {
	sync.Mutex
	records map[int32]int
}

// OnFetchBatchRead implements kgo.HookFetchBatchRead.
func (s *servedBy) OnFetchBatchRead(meta kgo.BrokerMetadata, _ string, _ int32, m kgo.FetchBatchMetrics) {
	s.Lock()
	defer s.Unlock()
	if s.records == nil {
		s.records = map[int32]int{}
	}
	s.records[meta.NodeID] += m.NumRecords
}

func (s *servedBy) by(id int32) int {
	s.Lock()
	defer s.Unlock()
	return s.records[id]
}

// TestNearestReplica: a consumer that says its rack reads from the replica there, and from another one when that is gone (KIP-392).
func TestNearestReplica(t *testing.T) {
	harness.NeedCluster(t)
	c := harness.StartCluster(t, harness.ClusterOptions{
		Props:   map[string]string{"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"},
		PropsOf: func(id int) map[string]string { return map[string]string{"broker.rack": fmt.Sprint("rack-", id)} },
	})
	tools := &tools{harness.JavaTools(t, harness.V39), c}
	topic := name("near")
	createAt(t, c, tools, topic, "1:2:3")
	wantMatch(t, mustGregor(t, c, "cluster", "describe"), `^3 +\S+ +rack-3 `)
	served := &servedBy{}
	near := c.Client(t, kgo.Rack("rack-3"), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.WithHooks(served))
	far := &servedBy{}
	plain := c.Client(t, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.WithHooks(far))
	next := map[*kgo.Client]int64{}
	read := func(client *kgo.Client, until int64) {
		t.Helper()
		ctx := harness.Context(t, limit)
		for next[client] < until {
			fetches := client.PollFetches(ctx)
			if err := ctx.Err(); err != nil {
				t.Fatalf("%d of %d records read: %v", next[client], until, fetches.Err())
			}
			fetches.EachRecord(func(r *kgo.Record) {
				if r.Offset != next[client] {
					t.Errorf("offset %d comes where %d is due", r.Offset, next[client])
				}
				next[client] = r.Offset + 1
			})
		}
	}
	written := int64(0)
	write := func() {
		t.Helper()
		fill(t, c, topic, 1, 20, 100)
		written += 20
	}
	harness.Eventually(t, limit, func() error { // from when the leader has told it where to read
		write()
		read(near, written)
		if n := served.by(3); n < 40 {
			return fmt.Errorf("broker 3 has served %d of %d records", n, written)
		}
		return nil
	})
	read(plain, written)
	if far.by(1) != int(written) {
		t.Errorf("without a rack the leader serves %d of %d records", far.by(1), written)
	}
	c.Stop(t, 3)
	write()
	read(near, written)
	if n := served.by(1) + served.by(2) + served.by(3); n < int(written) {
		t.Errorf("%d records from all brokers, want at least %d", n, written)
	}
	c.Restart(t, 3)
	c.AwaitInSync(t, limit)
	before := served.by(3)
	harness.Eventually(t, limit, func() error {
		write()
		read(near, written)
		if served.by(3) == before {
			return fmt.Errorf("broker 3 is back and serves nothing")
		}
		return nil
	})
}
