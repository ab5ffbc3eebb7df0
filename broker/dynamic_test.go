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
	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/broker/loglevel"
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

// TestLoggers: levels of loggers change through the API, of this broker only.
func TestLoggers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := start(t, t.TempDir())
		cl := client(t, b)
		defer cl.Close()
		alter := func(broker, logger string, op kmsg.IncrementalAlterConfigOp, level *string) int16 {
			r := kmsg.NewPtrIncrementalAlterConfigsRequest()
			of := kmsg.NewIncrementalAlterConfigsRequestResource()
			of.ResourceType, of.ResourceName = kmsg.ConfigResourceTypeBrokerLogger, broker
			of.Configs = append(of.Configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: logger, Op: op, Value: level})
			r.Resources = append(r.Resources, of)
			answer, err := r.RequestWith(t.Context(), cl.SeedBrokers()[0])
			if err != nil {
				t.Fatal(err)
			}
			return answer.Resources[0].ErrorCode
		}
		debug, loud := "DEBUG", "LOUD"
		const set, remove, add = kmsg.IncrementalAlterConfigOpSet, kmsg.IncrementalAlterConfigOpDelete, kmsg.IncrementalAlterConfigOpAppend
		for _, c := range []struct {
			broker, logger string
			op             kmsg.IncrementalAlterConfigOp
			level          *string
			code           int16
		}{
			{"1", loglevel.Replicas, set, &debug, 0}, {"1", loglevel.Replicas, set, &loud, kerr.InvalidConfig.Code},
			{"1", "no.such", set, &debug, kerr.InvalidConfig.Code}, {"1", loglevel.Replicas, set, nil, kerr.InvalidRequest.Code},
			{"1", loglevel.Replicas, add, &debug, kerr.InvalidRequest.Code}, {"1", loglevel.Root, remove, nil, kerr.InvalidRequest.Code},
			{"2", loglevel.Replicas, set, &debug, kerr.InvalidRequest.Code}, {"", loglevel.Replicas, set, &debug, kerr.InvalidRequest.Code},
		} {
			if got := alter(c.broker, c.logger, c.op, c.level); got != c.code {
				t.Errorf("%+v: error %d", c, got)
			}
		}
		r := kmsg.NewPtrDescribeConfigsRequest()
		of := kmsg.NewDescribeConfigsRequestResource()
		of.ResourceType, of.ResourceName = kmsg.ConfigResourceTypeBrokerLogger, "1"
		of.ConfigNames = []string{loglevel.Replicas}
		r.Resources = append(r.Resources, of)
		answer, err := r.RequestWith(t.Context(), cl.SeedBrokers()[0])
		if err != nil {
			t.Fatal(err)
		}
		if rows := answer.Resources[0].Configs; len(rows) != 1 || *rows[0].Value != debug || rows[0].Source != kmsg.ConfigSourceDynamicBrokerLoggerConfig {
			t.Errorf("described: %+v", rows)
		}
		if !b.named(loglevel.Replicas).Core().Enabled(zap.WarnLevel) {
			t.Error("warnings are off")
		}
		if alter("1", loglevel.Replicas, remove, nil) != 0 || b.options.Levels.All()[loglevel.Replicas] != "WARN" {
			t.Errorf("when it is taken back: %v", b.options.Levels.All())
		}
	})
}
