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
	"github.com/twmb/franz-go/pkg/kversion"
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

// quotas sets quotas of an entity: type and name ("" for the default) in pairs; a value below 0 takes one back.
func quotas(t *testing.T, cl *kgo.Client, key string, value float64, entity ...string) int16 {
	t.Helper()
	r := kmsg.NewPtrAlterClientQuotasRequest()
	entry := kmsg.NewAlterClientQuotasRequestEntry()
	for i := 0; i < len(entity); i += 2 {
		part := kmsg.AlterClientQuotasRequestEntryEntity{Type: entity[i]}
		if entity[i+1] != "" {
			part.Name = &entity[i+1]
		}
		entry.Entity = append(entry.Entity, part)
	}
	entry.Ops = append(entry.Ops, kmsg.AlterClientQuotasRequestEntryOp{Key: key, Value: value, Remove: value < 0})
	r.Entries = append(r.Entries, entry)
	answer, err := r.RequestWith(t.Context(), cl.SeedBrokers()[0])
	if err != nil {
		t.Fatal(err)
	}
	return answer.Entries[0].ErrorCode
}

// TestMutationQuota: who creates more partitions than the quota allows is refused from CreateTopics v6 on, and with an older
// version is let do it and waits; what is not created costs nothing. After a restart the quota still holds.
func TestMutationQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		b, stop := start(t, dir)
		cl := client(t, b)
		if code := quotas(t, cl, "controller_mutation_rate", 1, "user", ""); code != 0 { // eleven at once
			t.Fatalf("error %d", code)
		}
		cl.Close()
		stop()
		b, _ = start(t, dir)
		cl = client(t, b)
		defer cl.Close()
		create := func(version int16, topic string, partitions int32, validate bool) (code int16, wait time.Duration) {
			r := kmsg.NewPtrCreateTopicsRequest()
			r.TimeoutMillis, r.ValidateOnly = 60000, validate
			of := kmsg.NewCreateTopicsRequestTopic()
			of.Topic, of.NumPartitions, of.ReplicationFactor = topic, partitions, 1
			r.Topics = append(r.Topics, of)
			pinned := client(t, b, kgo.MaxVersions(limited(version)))
			defer pinned.Close()
			answer, err := r.RequestWith(t.Context(), pinned.SeedBrokers()[0])
			if err != nil {
				t.Fatal(err)
			}
			return answer.Topics[0].ErrorCode, time.Duration(answer.ThrottleMillis) * time.Millisecond
		}
		for _, step := range []struct {
			version    int16
			topic      string
			partitions int32
			validate   bool
			code       int16
			throttled  bool
			then       time.Duration
		}{
			{7, "a", 9, false, 0, false, 0},
			{7, "a", 9, false, kerr.TopicAlreadyExists.Code, false, 0},
			{7, "b", 9, true, 0, false, 0},
			{7, "b", 9, false, 0, false, 0}, // begun within the quota
			{7, "c", 1, false, kerr.ThrottlingQuotaExceeded.Code, true, time.Minute},
			{7, "c", 11, false, 0, false, 0},
			{5, "d", 5, false, 0, true, 0},
			{7, "e", 1, false, kerr.ThrottlingQuotaExceeded.Code, true, 0},
		} {
			code, wait := create(step.version, step.topic, step.partitions, step.validate)
			if code != step.code || (wait > 0) != step.throttled {
				t.Errorf("%+v: error %d, throttled for %v", step, code, wait)
			}
			time.Sleep(step.then)
		}
		time.Sleep(time.Minute)
		if code := quotas(t, cl, "controller_mutation_rate", -1, "user", ""); code != 0 {
			t.Errorf("taken back: error %d", code)
		}
		if code, wait := create(7, "f", 100, false); code != 0 || wait != 0 {
			t.Errorf("without a quota: error %d, throttled for %v", code, wait)
		}
	})
}

// limited is what a client knows that sends CreateTopics in this version.
func limited(createTopics int16) *kversion.Versions {
	v := kversion.Stable()
	v.SetMaxKeyVersion(int16(kmsg.CreateTopics), createTopics)
	return v
}

// TestQuotasStored: an entity without quotas leaves nothing behind, and a bad one is refused.
func TestQuotasStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := start(t, t.TempDir())
		cl := client(t, b)
		defer cl.Close()
		for _, c := range []struct {
			entity []string
			kind   string
			name   string
		}{
			{[]string{"client-id", "c/1 *"}, "clients", "c%2F1%20%2A"}, {[]string{"client-id", ""}, "clients", "<default>"},
			{[]string{"user", "u", "client-id", "c"}, "users", "u/clients/c"},
		} {
			if code := quotas(t, cl, "consumer_byte_rate", 1000, c.entity...); code != 0 {
				t.Errorf("%v: error %d", c.entity, code)
			}
			if got := b.services.Controller.Configs(c.kind, c.name)["consumer_byte_rate"]; got != "1000" {
				t.Errorf("%v: %q is stored", c.entity, got)
			}
			if code := quotas(t, cl, "consumer_byte_rate", -1, c.entity...); code != 0 {
				t.Errorf("%v, taken back: error %d", c.entity, code)
			}
			if b.services.Controller.Configs(c.kind, c.name) != nil {
				t.Errorf("%v: something is left", c.entity)
			}
		}
		for _, bad := range [][]string{{}, {"ip", "nowhere"}, {"group", "g"}, {"ip", "10.0.0.1", "user", "u"}} {
			if code := quotas(t, cl, "consumer_byte_rate", 1000, bad...); code != kerr.InvalidRequest.Code {
				t.Errorf("%v: error %d", bad, code)
			}
		}
		if code := quotas(t, cl, "connection_creation_rate", 2, "ip", ""); code != 0 {
			t.Errorf("connections: error %d", code)
		}
		refused := false
		for range 50 {
			if conn, err := b.Dial("PLAINTEXT"); err == nil {
				conn.Write([]byte{0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 8, 0xff, 0xff})
				_, err := conn.Read(make([]byte, 4))
				refused = refused || err != nil
				conn.Close()
			}
		}
		if !refused {
			t.Error("fifty connections at once are served at 2/s")
		}
	})
}
