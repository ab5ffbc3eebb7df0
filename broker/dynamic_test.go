package broker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/broker/config"
)

// alterBroker changes the configuration of a broker ("" for all): "key=value", or "key" to take it back.
func alterBroker(t *testing.T, cl *kgo.Client, name string, settings ...string) error {
	t.Helper()
	r := kmsg.NewPtrIncrementalAlterConfigsRequest()
	of := kmsg.NewIncrementalAlterConfigsRequestResource()
	of.ResourceType, of.ResourceName = kmsg.ConfigResourceTypeBroker, name
	for _, s := range settings {
		key, value, set := strings.Cut(s, "=")
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		if c.Name, c.Op = key, kmsg.IncrementalAlterConfigOpDelete; set {
			c.Op, c.Value = kmsg.IncrementalAlterConfigOpSet, &value
		}
		of.Configs = append(of.Configs, c)
	}
	r.Resources = append(r.Resources, of)
	answer, err := r.RequestWith(t.Context(), cl.SeedBrokers()[0])
	if err != nil {
		t.Fatal(err)
	}
	return kerr.ErrorForCode(answer.Resources[0].ErrorCode)
}

// TestDynamicConfiguration: what is changed while the broker runs holds at once, and after a restart; what is taken back
// does not.
func TestDynamicConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		b, stop := start(t, dir)
		cl := client(t, b, kgo.ProducerBatchCompression(kgo.NoCompression()))
		createTopic(t, cl, "t", 1, nil)
		write := func(cl *kgo.Client) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			return cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: make([]byte, 2000)}).FirstErr()
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(write(cl))
		must(alterBroker(t, cl, "", "message.max.bytes=1000"))
		if err := write(cl); !errors.Is(err, kerr.MessageTooLarge) {
			t.Errorf("above message.max.bytes: %v", err)
		}
		must(alterBroker(t, cl, "1", "message.max.bytes=10000", "log.retention.ms=7", "max.connections.per.ip=9", "num.io.threads=5"))
		must(write(cl))
		for _, refused := range []string{"num.network.threads=4", "broker.id=9", "background.threads=9", "message.max.bytes=x"} {
			if err := alterBroker(t, cl, "1", refused); !errors.Is(err, kerr.InvalidRequest) {
				t.Errorf("%s: %v", refused, err)
			}
		}
		if err := alterBroker(t, cl, "2", "message.max.bytes=5"); !errors.Is(err, kerr.InvalidRequest) {
			t.Errorf("another broker: %v", err)
		}
		cl.Close()
		stop()

		b, _ = start(t, dir)
		cl = client(t, b, kgo.ProducerBatchCompression(kgo.NoCompression()))
		defer cl.Close()
		now := b.live.Now()
		if n := config.MaxConnectionsPerIP.Of(now); n != 9 || config.NumIOThreads.Of(now) != 5 {
			t.Errorf("after a restart: %d connections, %d threads", n, config.NumIOThreads.Of(now))
		}
		if got := b.topics.of("t").log; got.RetentionMs != 7 || got.MaxMessageBytes != 10000 {
			t.Errorf("after a restart: %+v", got)
		}
		must(write(cl))
		must(alterBroker(t, cl, "1", "message.max.bytes"))
		if err := write(cl); !errors.Is(err, kerr.MessageTooLarge) {
			t.Errorf("when it is taken back, all brokers' holds: %v", err)
		}
		must(alterBroker(t, cl, "", "message.max.bytes"))
		must(write(cl))
	})
}
