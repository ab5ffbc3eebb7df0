package tools

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/compat/harness"
)

const limit = time.Minute

// awaitMatch runs a tool until its output matches: Kafka answers a change before every broker has it.
func awaitMatch(t testing.TB, run func() harness.Output, pattern string) {
	t.Helper()
	harness.Eventually(t, limit, func() error {
		if out := run(); !matches(out, pattern) {
			return fmt.Errorf("no match of %q in:\n%.3000s", pattern, out)
		}
		return nil
	})
}

// TestBrokerConfigs: the configuration of one broker and of all is changed while it runs, described with where it comes
// from, and refused where it cannot change.
func TestBrokerConfigs(t *testing.T) {
	both(t, func(t *testing.T, b *harness.Broker, tools *harness.Tools) {
		id := brokerID(t, b, tools)
		configs := func(of []string, args ...string) harness.Output {
			return tools.Run(t, "kafka-configs", append(append([]string{"--bootstrap-server", b.Addr, "--entity-type", "brokers"}, of...), args...)...)
		}
		one, all := []string{"--entity-name", id}, []string{"--entity-default"}
		wantMatch(t, configs(all, "--alter", "--add-config", "log.cleaner.backoff.ms=14000"), "Completed updating default config for brokers in the cluster")
		wantMatch(t, configs(one, "--alter", "--add-config", "log.cleaner.backoff.ms=13000,log.retention.ms=7000000"), "Completed updating config for broker "+id)
		describe := func(of []string, args ...string) func() harness.Output {
			return func() harness.Output { return configs(of, append([]string{"--describe"}, args...)...) }
		}
		awaitMatch(t, describe(one), `log\.cleaner\.backoff\.ms=13000 sensitive=false synonyms=\{DYNAMIC_BROKER_CONFIG:log\.cleaner\.backoff\.ms=13000, `+
			`DYNAMIC_DEFAULT_BROKER_CONFIG:log\.cleaner\.backoff\.ms=14000, DEFAULT_CONFIG:log\.cleaner\.backoff\.ms=15000\}`)
		awaitMatch(t, describe(all), `^  log\.cleaner\.backoff\.ms=14000 sensitive=false synonyms=\{DYNAMIC_DEFAULT_BROKER_CONFIG:log\.cleaner\.backoff\.ms=14000\}`)
		wantMatch(t, describe(one, "--all")(), `^  log\.retention\.ms=7000000 sensitive=false synonyms=\{DYNAMIC_BROKER_CONFIG:log\.retention\.ms=7000000`,
			`^  num\.io\.threads=8 `)

		topic := name("defaults")
		harness.CreateTopic(t, b, topic, 1)
		awaitMatch(t, func() harness.Output {
			return tools.Run(t, "kafka-configs", "--bootstrap-server", b.Addr, "--entity-type", "topics", "--entity-name", topic, "--describe", "--all")
		}, `^  retention\.ms=7000000 sensitive=false synonyms=\{DYNAMIC_BROKER_CONFIG:log\.retention\.ms=7000000, `)

		for _, refused := range []struct{ config, words string }{
			{"broker.id=77", `Cannot update these configs dynamically: (Set\(|\[)broker\.id[)\]]`},
			{"log.retention.ms=soon", `Invalid value soon for configuration log\.retention\.ms: Not a number of type LONG`},
			{"num.io.threads=1000", `Dynamic thread count update validation failed for num\.io\.threads=1000, value should not be greater than double the current value 8`},
		} {
			out := tools.Try(t, "kafka-configs", "", "--bootstrap-server", b.Addr, "--entity-type", "brokers", "--entity-name", id, "--alter", "--add-config", refused.config)
			if out.Code == 0 || !matches(out, refused.words) {
				t.Errorf("%s ends with %d:\n%.3000s", refused.config, out.Code, out)
			}
		}
		forAll := tools.Try(t, "kafka-configs", "", "--bootstrap-server", b.Addr, "--entity-type", "brokers", "--entity-default", "--alter",
			"--add-config", "listener.security.protocol.map=PLAINTEXT:PLAINTEXT")
		if forAll.Code == 0 || !strings.Contains(forAll.String(), "at default cluster level") {
			t.Errorf("a key of one broker, set for all, ends with %d:\n%.3000s", forAll.Code, forAll)
		}

		configs(one, "--alter", "--delete-config", "log.cleaner.backoff.ms,log.retention.ms")
		awaitMatch(t, describe(one, "--all"), `^  log\.cleaner\.backoff\.ms=14000 sensitive=false synonyms=\{DYNAMIC_DEFAULT_BROKER_CONFIG:`)
		configs(all, "--alter", "--delete-config", "log.cleaner.backoff.ms")
		awaitMatch(t, describe(one, "--all"), `^  log\.cleaner\.backoff\.ms=15000 sensitive=false synonyms=\{DEFAULT_CONFIG:`)
	})
}

// TestBrokerKeysWithoutEffect: what Kafka changes and we cannot is refused with the reason.
func TestBrokerKeysWithoutEffect(t *testing.T) {
	if harness.Peer() != harness.Gregor {
		t.Skip("they have an effect in Kafka")
	}
	harness.Need(t, "java")
	b, tools := harness.Shared(t), harness.JavaTools(t, harness.V44)
	for config, words := range map[string]string{
		"num.network.threads=4": "processors own their connections",
		"log.cleaner.threads=2": "one cleaner thread compacts",
	} {
		out := tools.Try(t, "kafka-configs", "", "--bootstrap-server", b.Addr, "--entity-type", "brokers", "--entity-default", "--alter", "--add-config", config)
		if out.Code == 0 || !strings.Contains(out.String(), words) {
			t.Errorf("%s ends with %d:\n%.3000s", config, out.Code, out)
		}
	}
}

// TestReassignThrottled: throttles are set, shown and cleared, and every step of a reassignment ends well.
func TestReassignThrottled(t *testing.T) {
	both(t, func(t *testing.T, b *harness.Broker, tools *harness.Tools) {
		id, topic := brokerID(t, b, tools), name("throttled")
		harness.CreateTopic(t, b, topic, 1)
		_, plan := plans(t, topic, id)
		run := func(tool string, args ...string) harness.Output {
			return tools.Run(t, tool, append([]string{"--bootstrap-server", b.Addr}, args...)...)
		}
		wantMatch(t, run("kafka-reassign-partitions", "--execute", "--reassignment-json-file", plan, "--throttle", "123456"),
			`The inter-broker throttle limit was set to 123456 B/s`, `Successfully started partition reassignment for `+topic+`-0`)
		describe := func() harness.Output {
			return run("kafka-configs", "--describe", "--entity-type", "brokers", "--entity-name", id)
		}
		awaitMatch(t, describe, `follower\.replication\.throttled\.rate=123456 sensitive=false synonyms=\{DYNAMIC_BROKER_CONFIG:`)
		wantMatch(t, run("kafka-reassign-partitions", "--verify", "--reassignment-json-file", plan), `Reassignment of partition `+topic+`-0 is completed`,
			`Clearing broker-level throttles on broker `+id, `Clearing topic-level throttles on topic `+topic)
		harness.Eventually(t, limit, func() error {
			if out := describe(); strings.Contains(out.Stdout, "throttled") {
				return fmt.Errorf("throttles are left:\n%s", out)
			}
			return nil
		})
		wantMatch(t, run("kafka-reassign-partitions", "--cancel", "--reassignment-json-file", plan), `None of the specified partition moves are active`,
			`Clearing broker-level throttles on broker `+id)
	})
}

// TestBrokerLoggers: the level of a logger changes while the broker runs, and falls back to that of the one above.
func TestBrokerLoggers(t *testing.T) {
	both(t, func(t *testing.T, b *harness.Broker, tools *harness.Tools) {
		id := brokerID(t, b, tools)
		of := []string{"--bootstrap-server", b.Addr, "--entity-type", "broker-loggers", "--entity-name", id}
		alter := func(config, value string) harness.Output {
			return tools.Try(t, "kafka-configs", "", append(of, "--alter", config, value)...)
		}
		describe := func() harness.Output { return tools.Run(t, "kafka-configs", append(of, "--describe")...) }
		const logger = "kafka.server.KafkaApis"
		wantMatch(t, describe(), "Dynamic configs for broker-logger "+id+" are:", `^  root=[A-Z]+ sensitive=false synonyms=\{\}$`, `^  kafka\.server\.KafkaApis=`)
		wantMatch(t, alter("--add-config", logger+"=DEBUG"), "Completed updating config for broker-logger "+id)
		wantMatch(t, describe(), `^  kafka\.server\.KafkaApis=DEBUG `)
		wantMatch(t, alter("--delete-config", logger), "Completed updating config for broker-logger "+id)
		if out := describe(); matches(out, `^  kafka\.server\.KafkaApis=DEBUG `) {
			t.Errorf("the level that was taken back holds:\n%s", out)
		}
		for _, refused := range []struct{ config, value, words string }{
			{"--add-config", logger + "=LOUD", "not a supported log level"},
			{"--add-config", "no.such.Logger=INFO", "no.such.Logger"},
			{"--delete-config", "root", `Removing the log level of the root logger is not allowed`},
		} {
			if out := alter(refused.config, refused.value); out.Code == 0 || !matches(out, refused.words) {
				t.Errorf("%s %s ends with %d:\n%.2000s", refused.config, refused.value, out.Code, out)
			}
		}
	})
}

// TestClientMetrics: subscriptions to clients' metrics are made, shown, changed and taken away.
func TestClientMetrics(t *testing.T) {
	both(t, func(t *testing.T, b *harness.Broker, tools *harness.Tools) {
		subscription := name("subscription")
		run := func(args ...string) harness.Output {
			return tools.Run(t, "kafka-client-metrics", append([]string{"--bootstrap-server", b.Addr}, args...)...)
		}
		run("--alter", "--name", subscription, "--metrics", "org.apache.kafka.producer.,org.apache.kafka.consumer.", "--interval", "1000",
			"--match", "client_id=none.*")
		awaitMatch(t, func() harness.Output { return run("--describe", "--name", subscription) }, `interval\.ms=1000`)
		wantMatch(t, run("--describe", "--name", subscription), `match=(\[)?client_id=none`, `metrics=org\.apache\.kafka\.producer\.,org\.apache\.kafka\.consumer\.`)
		wantMatch(t, run("--list"), "^"+subscription+"$")
		out := tools.Try(t, "kafka-client-metrics", "", "--bootstrap-server", b.Addr, "--alter", "--name", subscription, "--interval", "1")
		if out.Code == 0 || !matches(out, "interval must be between 100 and 3600000") {
			t.Errorf("an interval of a millisecond ends with %d:\n%.3000s", out.Code, out)
		}
		configs := []string{"--bootstrap-server", b.Addr, "--entity-type", "client-metrics", "--entity-name", subscription}
		tools.Run(t, "kafka-configs", append(configs, "--alter", "--add-config", "interval.ms=2000")...)
		awaitMatch(t, func() harness.Output { return tools.Run(t, "kafka-configs", append(configs, "--describe")...) }, `interval\.ms=2000`)
		run("--delete", "--name", subscription)
		harness.Eventually(t, limit, func() error {
			if out := run("--list"); strings.Contains(out.Stdout, subscription) {
				return fmt.Errorf("still listed:\n%.3000s", out)
			}
			return nil
		})
	})
}
