package broker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/broker/api"
)

// changes are keys whose change while the broker runs takes hold in a part that does not look at the configuration at each use; without
// the change it is not so.
var changes = []struct {
	set   string
	holds func(t *testing.T, b *Broker, cl *kgo.Client) bool
}{
	{"num.io.threads=9", func(_ *testing.T, b *Broker, _ *kgo.Client) bool {
		before := b.network.Stats()
		time.Sleep(time.Minute)
		return b.network.Stats().Available-before.Available == 9*time.Minute
	}},
	{"leader.replication.throttled.rate=1", func(_ *testing.T, b *Broker, _ *kgo.Client) bool { return full(b.throttles.send) }},
	{"follower.replication.throttled.rate=1", func(_ *testing.T, b *Broker, _ *kgo.Client) bool { return full(b.throttles.fetch) }},
	{"max.connection.creation.rate=1", func(_ *testing.T, b *Broker, _ *kgo.Client) bool { return heldUp(b.quotas) }},
	{"producer.id.expiration.ms=1000", func(t *testing.T, _ *Broker, cl *kgo.Client) bool {
		time.Sleep(21 * time.Minute) // every ten it is looked who has expired
		r := kmsg.NewPtrDescribeProducersRequest()
		r.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: "t", Partitions: []int32{0}}}
		return len(ask[*kmsg.DescribeProducersResponse](t, cl, r).Topics[0].Partitions[0].ActiveProducers) == 0
	}},
	{"log.cleaner.backoff.ms=10", func(t *testing.T, b *Broker, _ *kgo.Client) bool {
		time.Sleep(time.Second) // of the default's fifteen
		text, err := os.ReadFile(filepath.Join(b.config.LogDirs()[0], "cleaner-offset-checkpoint"))
		return err == nil && strings.Contains(string(text), "\nt 0 ")
	}},
}

func TestChangesTakeHold(t *testing.T) {
	for _, change := range changes {
		t.Run(change.set, func(t *testing.T) {
			for _, made := range []bool{true, false} {
				synctest.Test(t, func(t *testing.T) {
					b, _ := start(t, t.TempDir())
					cl := client(t, b, kgo.ProducerBatchCompression(kgo.NoCompression()))
					defer cl.Close()
					compact, ratio, bytes := "compact", "0", "1000"
					createTopic(t, cl, "t", 1, map[string]*string{"cleanup.policy": &compact, "min.cleanable.dirty.ratio": &ratio, "internal.segment.bytes": &bytes})
					for range 3 {
						if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Key: []byte("k"), Value: make([]byte, 600)}).FirstErr(); err != nil {
							t.Fatal(err)
						}
					}
					if made {
						if err := alterBroker(t, cl, "", change.set); err != nil {
							t.Fatal(err)
						}
					}
					if holds := change.holds(t, b, cl); holds != made {
						t.Errorf("changed %v: it holds %v", made, holds)
					}
				})
			}
		})
	}
}

// TestFetchersAreAdded: with num.replica.fetchers a follower fetches by more connections, from the same leader.
func TestFetchersAreAdded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		told := make(chan string, 1000)
		c.intercept = func(call *api.Call, r kmsg.Request, serve func()) {
			if fetch, ok := r.(*kmsg.FetchRequest); ok && fetch.ReplicaID >= 0 || ok && fetch.ReplicaState.ID >= 0 {
				select {
				case told <- call.ClientID:
				default:
				}
			}
			serve()
		}
		c.start(1, "offsets.topic.replication.factor=1", "default.replication.factor=1")
		c.intercept = nil
		c.start(2, "offsets.topic.replication.factor=1")
		cl := c.client()
		defer cl.Close()
		c.assign("t", 1, 2)
		c.assign("u", 1, 2)
		c.assign("v", 1, 2)
		fetchers := func(n int) func() bool {
			return func() bool {
				names := map[string]bool{}
				for len(told) > 0 {
					names[<-told] = true
				}
				return len(names) == n
			}
		}
		eventually(t, "one fetches", fetchers(1))
		if err := alterBroker(t, cl, "", "num.replica.fetchers=2"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "two fetch", fetchers(2))
	})
}
