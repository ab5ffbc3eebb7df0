package broker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/broker/quota"
)

// TestChangesReachTheCluster: quotas and configurations that one broker writes hold at all, and at one that starts later; followers are
// not held back by quotas of clients.
func TestChangesReachTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		settings := []string{"default.replication.factor=3", "min.insync.replicas=3"}
		for id := int32(1); id <= 3; id++ {
			c.start(id, settings...)
		}
		cl := c.client(kgo.ProducerBatchCompression(kgo.NoCompression()))
		defer cl.Close()
		createTopic(t, cl, "t", 1, nil)
		eventually(t, "in sync", func() bool { return c.inSync("t", 3) })
		if code := quotas(t, cl, "consumer_byte_rate", 10, "client-id", ""); code != 0 {
			t.Fatalf("quota: error %d", code)
		}
		if err := alterBroker(t, cl, "", "log.cleaner.backoff.ms=14321"); err != nil {
			t.Fatal(err)
		}
		everywhere := func() bool {
			for _, b := range c.brokers {
				if !b.quotas.clients.Enabled(quota.Fetch) || config.CleanerBackoff.Of(b.live.Now()) != 14321*time.Millisecond {
					return false
				}
			}
			return true
		}
		eventually(t, "everywhere", everywhere)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // of virtual time; at ten bytes a second it is half a day
		defer cancel()
		if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: make([]byte, 500_000)}).FirstErr(); err != nil {
			t.Fatalf("followers are held back: %v", err)
		}
		c.stop(3)
		c.start(3, settings...)
		eventually(t, "everywhere after a restart", everywhere)
	})
}
