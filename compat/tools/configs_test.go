package tools

import (
	"regexp"
	"strings"
	"testing"

	"github.com/gregor-broker/gregor/compat/harness"
)

// TestBrokerConfigs: the configuration of one broker and of all is changed while it runs, described with where it comes
// from, and refused where it cannot change.
func TestBrokerConfigs(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place, tools *harness.Tools) {
		id := brokerID(t, p, tools)
		configs := func(of []string, args ...string) harness.Output {
			return tools.Run(t, "kafka-configs", append(append([]string{"--bootstrap-server", p.Addr, "--entity-type", "brokers"}, of...), args...)...)
		}
		one, all := []string{"--entity-name", id}, []string{"--entity-default"}
		wantMatch(t, configs(all, "--alter", "--add-config", "log.cleaner.backoff.ms=14000,log.retention.ms=8000000"), "Completed updating default config for brokers in the cluster")
		wantMatch(t, configs(one, "--alter", "--add-config", "log.cleaner.backoff.ms=13000,log.retention.ms=7000000"), "Completed updating config for broker "+id)
		describe := func(of []string, args ...string) func() harness.Output {
			return func() harness.Output { return configs(of, append([]string{"--describe"}, args...)...) }
		}
		awaitMatch(t, describe(one), `log\.cleaner\.backoff\.ms=13000 sensitive=false synonyms=\{DYNAMIC_BROKER_CONFIG:log\.cleaner\.backoff\.ms=13000, `+
			`DYNAMIC_DEFAULT_BROKER_CONFIG:log\.cleaner\.backoff\.ms=14000, DEFAULT_CONFIG:log\.cleaner\.backoff\.ms=15000\}`)
		awaitMatch(t, describe(all), `^  log\.cleaner\.backoff\.ms=14000 sensitive=false synonyms=\{DYNAMIC_DEFAULT_BROKER_CONFIG:log\.cleaner\.backoff\.ms=14000\}`)
		awaitMatch(t, describe(one, "--all"), `^  log\.retention\.ms=7000000 sensitive=false synonyms=\{DYNAMIC_BROKER_CONFIG:log\.retention\.ms=7000000`,
			`^  queued\.max\.requests=500 `)

		topic := name("defaults")
		p.createTopic(t, topic, 1)
		awaitMatch(t, func() harness.Output {
			return tools.Run(t, "kafka-configs", "--bootstrap-server", p.Addr, "--entity-type", "topics", "--entity-name", topic, "--describe", "--all")
		}, `^  retention\.ms=(7000000 sensitive=false synonyms=\{DYNAMIC_BROKER_CONFIG:log\.retention\.ms=7000000, `+
			`|8000000 sensitive=false synonyms=\{DYNAMIC_DEFAULT_BROKER_CONFIG:log\.retention\.ms=8000000)`) // another broker may be asked

		for _, refused := range []struct{ config, words string }{
			{"broker.id=77", `Cannot update these configs dynamically: (Set\(|\[)broker\.id[)\]]`},
			{"log.retention.ms=soon", `Invalid value soon for configuration log\.retention\.ms: Not a number of type LONG`},
			{"num.io.threads=1000", `Dynamic thread count update validation failed for num\.io\.threads=1000, value should not be greater than double the current value \d`},
		} {
			out := tools.Try(t, "kafka-configs", "", "--bootstrap-server", p.Addr, "--entity-type", "brokers", "--entity-name", id, "--alter", "--add-config", refused.config)
			if out.Code == 0 || !matches(out, refused.words) {
				t.Errorf("%s ends with %d:\n%.3000s", refused.config, out.Code, out)
			}
		}
		forAll := tools.Try(t, "kafka-configs", "", "--bootstrap-server", p.Addr, "--entity-type", "brokers", "--entity-default", "--alter",
			"--add-config", "listener.security.protocol.map=PLAINTEXT:PLAINTEXT")
		if forAll.Code == 0 || !strings.Contains(forAll.String(), "at default cluster level") {
			t.Errorf("a key of one broker, set for all, ends with %d:\n%.3000s", forAll.Code, forAll)
		}

		configs(one, "--alter", "--delete-config", "log.cleaner.backoff.ms,log.retention.ms")
		awaitMatch(t, describe(one, "--all"), `^  log\.cleaner\.backoff\.ms=14000 sensitive=false synonyms=\{DYNAMIC_DEFAULT_BROKER_CONFIG:`)
		configs(all, "--alter", "--delete-config", "log.cleaner.backoff.ms,log.retention.ms")
		awaitMatch(t, describe(one, "--all"), `^  log\.cleaner\.backoff\.ms=15000 sensitive=false synonyms=\{DEFAULT_CONFIG:`)
	})
}

// TestBrokerKeysWithoutEffect: what Kafka changes and we cannot is refused with the reason.
func TestBrokerKeysWithoutEffect(t *testing.T) {
	if harness.Peer() != harness.Gregor {
		t.Skip("they have an effect in Kafka")
	}
	harness.Need(t, "java")
	p, tools := alone(t), harness.JavaTools(t, harness.V44)
	for config, words := range map[string]string{
		"num.network.threads=4": "processors own their connections",
		"log.cleaner.threads=2": "one cleaner thread compacts",
	} {
		out := tools.Try(t, "kafka-configs", "", "--bootstrap-server", p.Addr, "--entity-type", "brokers", "--entity-default", "--alter", "--add-config", config)
		if out.Code == 0 || !strings.Contains(out.String(), words) {
			t.Errorf("%s ends with %d:\n%.3000s", config, out.Code, out)
		}
	}
}

// TestBrokerLoggers: the level of a logger changes while the broker runs, and falls back to that of the one above.
func TestBrokerLoggers(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place, tools *harness.Tools) {
		id := brokerID(t, p, tools)
		of := []string{"--bootstrap-server", p.Addr, "--entity-type", "broker-loggers", "--entity-name", id}
		alter := func(config, value string) harness.Output {
			return tools.Try(t, "kafka-configs", "", append(of, "--alter", config, value)...)
		}
		describe := func() harness.Output { return tools.Run(t, "kafka-configs", append(of, "--describe")...) }
		const logger = "kafka.server.KafkaApis"
		wantMatch(t, describe(), "Dynamic configs for broker-logger "+id+" are:", `^  root=[A-Z]+ sensitive=false synonyms=\{\}$`, `^  kafka\.server\.KafkaApis=`)
		wantMatch(t, alter("--add-config", logger+"=DEBUG"), "Completed updating config for broker-logger "+id)
		wantMatch(t, describe(), `^  kafka\.server\.KafkaApis=DEBUG `)
		wantMatch(t, tools.Run(t, "kafka-configs", "--bootstrap-server", p.Addr, "--broker-logger", id, "--describe"), `^  kafka\.server\.KafkaApis=DEBUG `)
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
	p := alone(t)
	if p.Kind == harness.Kafka39 {
		t.Skip("3.9 on ZooKeeper has none")
	}
	both(t, func(t *testing.T, tools *harness.Tools) { clientMetrics(t, p, tools) })
}

func clientMetrics(t *testing.T, p *place, tools *harness.Tools) {
	subscription := name("subscription")
	run := func(args ...string) harness.Output {
		return tools.Run(t, "kafka-client-metrics", append([]string{"--bootstrap-server", p.Addr}, args...)...)
	}
	describe := func() harness.Output { return run("--describe", "--name", subscription) }
	list := func() harness.Output { return run("--list") }
	run("--alter", "--name", subscription, "--metrics", "org.apache.kafka.producer.,org.apache.kafka.consumer.", "--interval", "1000",
		"--match", "client_id=none.*")
	awaitMatch(t, describe, `interval\.ms=1000`, `match=(\[)?client_id=none`, `metrics=org\.apache\.kafka\.producer\.,org\.apache\.kafka\.consumer\.`)
	awaitMatch(t, list, "^"+subscription+"$")
	awaitMatch(t, func() harness.Output { return run("--describe") }, `Client metrics configs for `+subscription+` are:`)
	wantRefused(t, tools.Try(t, "kafka-client-metrics", "", "--bootstrap-server", p.Addr, "--alter", "--name", subscription, "--interval", "1"),
		"interval must be between 100 and 3600000")
	made := run("--alter", "--generate-name", "--interval", "3000").Stdout
	id := uuid.FindString(made)
	if id == "" {
		t.Fatalf("no generated name in:\n%s", made)
	}
	awaitMatch(t, list, "^"+id+"$")
	run("--delete", "--name", id)

	configs := func(args ...string) harness.Output {
		return tools.Run(t, "kafka-configs", append([]string{"--bootstrap-server", p.Addr, "--entity-type", "client-metrics"}, args...)...)
	}
	wantMatch(t, configs("--entity-name", subscription, "--alter", "--add-config", "interval.ms=2000"), "Completed updating config for client-metric "+subscription)
	awaitMatch(t, func() harness.Output { return configs("--entity-name", subscription, "--describe") }, `interval\.ms=2000`)
	if tools.Version == harness.V44 {
		wantMatch(t, tools.Run(t, "kafka-configs", "--bootstrap-server", p.Addr, "--client-metrics", subscription, "--describe"), `interval\.ms=2000`)
	}
	awaitMatch(t, func() harness.Output { return configs("--describe") }, `Dynamic configs for client-metric `+subscription+` are:`)
	run("--alter", "--name", subscription, "--interval", "") // back to the default
	awaitMatch(t, describe, `interval\.ms=300000`)
	run("--delete", "--name", subscription)
	awaitNoMatch(t, list, subscription+"|"+id)
}

var uuid = regexp.MustCompile(`[A-Za-z0-9_-]{22}`)
