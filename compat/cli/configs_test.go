package cli

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/compat/harness"
)

// TestSettings: settings of a broker, of all brokers, of a logger and of a topic are changed, shown with where they come from, and taken back.
func TestSettings(t *testing.T) {
	const id = "1"
	b := harness.Start(t, harness.Options{Props: map[string]string{"broker.id": id}})
	gregor(t, b, "", "topic", "create", "settled")
	gregor(t, b, "", "config", "alter", "broker", "all", "--config", "num.io.threads=10", "--append", "log.cleanup.policy=compact")
	gregor(t, b, "", "config", "alter", "broker", id, "--config", "num.io.threads=12")
	wantMatch(t, gregor(t, b, "", "config", "describe", "broker", "all"), `^num\.io\.threads +10 +all brokers, at run time$`)
	wantMatch(t, gregor(t, b, "", "config", "describe", "broker", id), `^num\.io\.threads +12 +this broker, at run time$`,
		`^log\.cleanup\.policy +delete,compact +all brokers, at run time$`, `^listeners +\S+ +this broker's configuration$`)
	wantMatch(t, gregor(t, b, "", "config", "describe", "broker", id, "--key", "num.io.threads"), `^changed +while it runs$`,
		`^else +10 \(num\.io\.threads, all brokers, at run time\)$`, `^else +8 \(num\.io\.threads, default\)$`)
	gregor(t, b, "", "config", "alter", "broker", id, "--delete-config", "num.io.threads")
	harness.Eventually(t, time.Minute, func() error { // Kafka's broker hears of it from its controller
		if out := gregor(t, b, "", "config", "describe", "broker", id); !strings.Contains(strings.Join(strings.Fields(out), " "), "num.io.threads 10 all brokers") {
			return errors.New(out)
		}
		return nil
	})
	out := run(t, b, "", "config", "alter", "broker", "all", "--config", "num.io.thread=3")
	wantMatch(t, out.String(), `num\.io\.thread \(--config\) is no known key and has no effect; did you mean num\.io\.threads\?`)
	gregor(t, b, "", "config", "alter", "topic", "settled", "--config", "retention.ms=7", "--validate-only")
	wantMatch(t, gregor(t, b, "", "config", "describe", "topic", "settled"), `^nobody has set anything of topic settled`)
	gregor(t, b, "", "config", "alter", "logger", id, "--config", "kafka.log.LogCleaner=DEBUG")
	wantMatch(t, gregor(t, b, "", "config", "describe", "logger", id), `^kafka\.log\.LogCleaner +DEBUG `)
	for words, args := range map[string][]string{
		`Cannot update these configs dynamically: \[broker\.id\]`:           {"alter", "broker", "all", "--config", "broker.id=7"},
		`default cluster level, broker id must be specified: \[listeners\]`: {"alter", "broker", "all", "--config", "listeners=PLAINTEXT://:1"},
		`broker id must be specified: \[listener\.name\.plaintext\.ssl\.`:   {"alter", "broker", "all", "--config", "listener.name.plaintext.ssl.keystore.location=x"},
		`only per-listener using the listener prefix: \[ssl\.`:              {"alter", "broker", id, "--config", "ssl.keystore.location=x"},
		"Value must be at least 1":                                          {"alter", "broker", id, "--config", "num.io.threads=0"},
		"Unknown topic config name: nosuch":                                 {"alter", "topic", "settled", "--config", "nosuch=1"},
		"topic nowhere: UNKNOWN_TOPIC_OR_PARTITION":                         {"describe", "topic", "nowhere"},
		"broker 9: ": {"describe", "broker", "9"},
	} {
		out := run(t, b, "", append([]string{"config"}, args...)...)
		if out.Code != 1 {
			t.Errorf("gregor config %v ends with %d", args, out.Code)
		}
		wantMatch(t, out.String(), words)
	}
}

// TestQuotas: quotas are set, listed and removed.
func TestQuotas(t *testing.T) {
	b := harness.Start(t, harness.Options{})
	gregor(t, b, "", "quota", "set", "--client-id", "c", "producer_byte_rate=1000", "consumer_byte_rate=2000")
	gregor(t, b, "", "quota", "set", "--user-default", "--client-id", "c", "request_percentage=50.5")
	gregor(t, b, "", "quota", "remove", "--client-id", "c", "consumer_byte_rate")
	want := "WHO                          QUOTA               VALUE\nclient-id c                  producer_byte_rate  1000\n" +
		"user (default), client-id c  request_percentage  50.5\n"
	if got := gregor(t, b, "", "quota", "list"); got != want {
		t.Errorf("listed:\n%s", got)
	}
	out := run(t, b, "", "quota", "set", "--client-id", "c", "nosuch=1")
	if out.Code != 1 {
		t.Errorf("a quota that there is not: exit code %d", out.Code)
	}
	wantMatch(t, out.String(), `^client-id c: INVALID_REQUEST: Invalid configuration key nosuch$`)
}
