package tools

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
)

// TestClientQuotas: quotas of users, client ids and addresses are set, described, hold, and are taken back.
func TestClientQuotas(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place, tools *harness.Tools) {
		configs := func(args ...string) harness.Output {
			return tools.Run(t, "kafka-configs", append([]string{"--bootstrap-server", p.Addr}, args...)...)
		}
		describe := func(args ...string) func() harness.Output {
			return func() harness.Output { return configs(append([]string{"--describe"}, args...)...) }
		}
		slow, user := name("slow"), name("user")
		wantMatch(t, configs("--alter", "--entity-type", "clients", "--entity-name", slow, "--add-config", "producer_byte_rate=50000,consumer_byte_rate=1000000"),
			`Completed updating config for client `+slow)
		wantMatch(t, configs("--alter", "--entity-type", "users", "--entity-name", user, "--entity-type", "clients", "--entity-default",
			"--add-config", "request_percentage=200.5"), `Completed updating config`)
		wantMatch(t, configs("--alter", "--entity-type", "users", "--entity-name", user, "--add-config", "controller_mutation_rate=3"), `Completed updating config for user `+user)
		wantMatch(t, configs("--alter", "--entity-type", "ips", "--entity-name", "10.99.0.1", "--add-config", "connection_creation_rate=10"),
			`Completed updating config for ip 10\.99\.0\.1`)

		awaitMatch(t, describe("--entity-type", "clients", "--entity-name", slow),
			`^Quota configs for client-id '`+slow+`' are (consumer_byte_rate=1000000\.0, producer_byte_rate=50000\.0|producer_byte_rate=50000\.0, consumer_byte_rate=1000000\.0)$`)
		awaitMatch(t, describe("--entity-type", "users", "--entity-name", user, "--entity-type", "clients", "--entity-default"),
			`^Quota configs for user-principal '`+user+`', the default client-id are request_percentage=200\.5$`)
		awaitMatch(t, describe("--entity-type", "users"), `^Quota configs for user-principal '`+user+`' are controller_mutation_rate=3\.0$`)
		awaitMatch(t, describe("--entity-type", "ips"), `^Quota configs for ip '10\.99\.0\.1' are connection_creation_rate=10\.0$`)

		// The same in short, and of whoever has none of his own.
		const rate = "consumer_byte_rate" // whose own is taken back with them
		for _, of := range []struct{ args, says string }{
			{"--client " + slow, `client-id '` + slow + `'`}, {"--client-defaults", `the default client-id`},
			{"--user " + user, `user-principal '` + user + `'`}, {"--user-defaults", `the default user-principal`},
			{"--user " + user + " --client " + slow, `user-principal '` + user + `', client-id '` + slow + `'`},
		} {
			words := strings.Fields(of.args)
			configs(append(words, "--alter", "--add-config", rate+"=777777777")...)
			says := `^Quota configs for ` + of.says + ` are .*` + rate + `=` // 7.77777777E8
			awaitMatch(t, describe(words...), says+`7\.`)
			configs(append(words, "--alter", "--delete-config", rate)...)
			awaitNoMatch(t, describe(words...), says)
		}
		configs("--ip-defaults", "--alter", "--add-config", "connection_creation_rate=100000")
		awaitMatch(t, describe("--ip-defaults"), `^Quota configs for the default ip are connection_creation_rate=100000\.0$`)
		configs("--ip-defaults", "--alter", "--delete-config", "connection_creation_rate")
		wantMatch(t, describe("--ip", "10.99.0.1")(), `^Quota configs for ip '10\.99\.0\.1' are connection_creation_rate=10\.0$`)

		// 600 kB at 50 kB/s, where ten seconds' worth may come at once: throttled.
		topic := name("quota")
		p.createTopic(t, topic, 1)
		perf := func(client string) harness.Output {
			return tools.Run(t, "kafka-producer-perf-test", "--topic", topic, "--num-records", "600", "--record-size", "1000", "--throughput", "-1",
				"--print-metrics", "--producer-props", "bootstrap.servers="+p.Addr, "client.id="+client, "linger.ms=0", "batch.size=20000")
		}
		const throttled = `producer-metrics:produce-throttle-time-max:\{client-id=[^}]*\}\s+: [1-9]`
		wantMatch(t, perf(slow), throttled)
		if out := perf(name("fast")); matches(out, throttled) {
			t.Errorf("a client without a quota is throttled:\n%.3000s", out)
		}

		for _, refused := range []struct{ config, words string }{
			{"no_such_rate=5", "no_such_rate"}, {"producer_byte_rate=-1", "producer_byte_rate"}, {"producer_byte_rate=x", "x"},
		} {
			out := tools.Try(t, "kafka-configs", "", "--bootstrap-server", p.Addr, "--alter", "--entity-type", "clients", "--entity-name", slow, "--add-config", refused.config)
			if out.Code == 0 || !strings.Contains(out.String(), refused.words) {
				t.Errorf("%s ends with %d:\n%.2000s", refused.config, out.Code, out)
			}
		}

		configs("--alter", "--entity-type", "clients", "--entity-name", slow, "--delete-config", "producer_byte_rate")
		configs("--alter", "--entity-type", "users", "--entity-name", user, "--delete-config", "controller_mutation_rate")
		configs("--alter", "--entity-type", "users", "--entity-name", user, "--entity-type", "clients", "--entity-default", "--delete-config", "request_percentage")
		configs("--alter", "--entity-type", "ips", "--entity-name", "10.99.0.1", "--delete-config", "connection_creation_rate")
		awaitMatch(t, func() harness.Output {
			all := configs("--describe", "--entity-type", "clients")
			more := configs("--describe", "--entity-type", "users")
			ips := configs("--describe", "--entity-type", "ips")
			return harness.Output{Stdout: "begin\n" + all.Stdout + more.Stdout + ips.Stdout + "end\n"}
		}, `^begin\n\s*end$`)
	})
}

// TestAutoCreationIsCharged: topics that Metadata has created count against the client's quota of such changes, and are not created
// beyond it; 3.9 in ZooKeeper mode only counts them.
func TestAutoCreationIsCharged(t *testing.T) {
	p := started(t, harness.Options{})
	ctx := harness.Context(t, time.Minute)
	creator := "creator"
	free := p.client(t, kgo.ClientID("others"))
	admin, others := kadm.NewClient(p.client(t, kgo.ClientID(creator))), kadm.NewClient(free)
	entity := kadm.ClientQuotaEntity{{Type: "client-id", Name: &creator}}
	if _, err := others.AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{{
		Entity: entity, Ops: []kadm.AlterClientQuotaOp{{Key: "controller_mutation_rate", Value: 1}},
	}}); err != nil {
		t.Fatal(err)
	}
	exhausted := 0
	harness.Eventually(t, time.Minute, func() error { // a hundred partitions are far more than eleven at once and one a second
		exhausted++
		answer, err := admin.CreateTopic(ctx, 100, 1, nil, fmt.Sprint("large-", exhausted))
		if err == nil {
			err = fmt.Errorf("%s: no quota yet", answer.Topic)
		}
		if errors.Is(err, kerr.ThrottlingQuotaExceeded) {
			return nil
		}
		return err
	})
	again := p.client(t, kgo.ClientID(creator)) // whose connection is not kept waiting
	create(t, again, "auto-charged")
	harness.Eventually(t, time.Minute, func() error {
		create(t, free, "auto-free")
		topics, err := others.ListTopics(ctx)
		if err == nil && !topics.Has("auto-free") {
			err = errors.New("auto-free is not created")
		}
		if err == nil && topics.Has("auto-charged") != (p.Kind == harness.Kafka39) {
			t.Errorf("auto-charged exists: %v", topics.Has("auto-charged"))
		}
		return err
	})
}

// create asks Metadata for a topic that is to be created.
func create(t *testing.T, client *kgo.Client, topic string) {
	t.Helper()
	r := kmsg.NewPtrMetadataRequest()
	of := kmsg.NewMetadataRequestTopic()
	of.Topic = kmsg.StringPtr(topic)
	r.Topics, r.AllowAutoTopicCreation = append(r.Topics, of), true
	if _, err := r.RequestWith(harness.Context(t, time.Minute), client); err != nil {
		t.Fatal(err)
	}
}
