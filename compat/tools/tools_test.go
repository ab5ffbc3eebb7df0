// Package tools runs the command-line tools of Apache Kafka 3.9.2 and 4.4.0 against the broker and checks what they print
// and do.
package tools

import (
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gregor-broker/gregor/compat/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

const limit = time.Minute

var names atomic.Int64

// name returns a name for a topic or group that no other test uses.
func name(prefix string) string { return fmt.Sprintf("%s-%d", prefix, names.Add(1)) }

// wantMatch fails the test unless the output has something that matches the pattern.
func wantMatch(t testing.TB, out harness.Output, patterns ...string) {
	t.Helper()
	for _, pattern := range patterns {
		if !matches(out, pattern) {
			t.Errorf("no match of %q in:\n%.3000s", pattern, out)
		}
	}
}

func matches(out harness.Output, pattern string) bool {
	return regexp.MustCompile(`(?m)` + pattern).MatchString(out.String())
}

// awaitMatch runs a tool until its output matches all patterns: Kafka answers a change before every broker has it.
func awaitMatch(t testing.TB, run func() harness.Output, patterns ...string) {
	t.Helper()
	harness.Eventually(t, limit, func() error {
		out := run()
		for _, pattern := range patterns {
			if !matches(out, pattern) {
				return fmt.Errorf("no match of %q in:\n%.3000s", pattern, out)
			}
		}
		return nil
	})
}

// awaitNoMatch runs a tool until nothing of its output matches.
func awaitNoMatch(t testing.TB, run func() harness.Output, pattern string) {
	t.Helper()
	harness.Eventually(t, limit, func() error {
		if out := run(); matches(out, pattern) {
			return fmt.Errorf("a match of %q in:\n%.3000s", pattern, out)
		}
		return nil
	})
}

// wantRefused fails the test unless the tool failed with these words, a pattern.
func wantRefused(t testing.TB, out harness.Output, words string) {
	t.Helper()
	if out.Code == 0 || !matches(out, words) {
		t.Errorf("it ends with %d, and no match of %q in:\n%.3000s", out.Code, words, out)
	}
}

// wantLines fails the test unless the standard output has just these lines.
func wantLines(t testing.TB, out harness.Output, lines ...string) {
	t.Helper()
	if got, want := strings.TrimSpace(out.Stdout), strings.Join(lines, "\n"); got != want {
		t.Errorf("the output is\n%s\nwant\n%s", got, want)
	}
}

// produceLines writes n records to a topic with the console producer, "line 0" and so on.
func produceLines(t testing.TB, p *place, tools *harness.Tools, topic string, n int) []string {
	t.Helper()
	var lines []string
	for i := range n {
		lines = append(lines, fmt.Sprint("line ", i))
	}
	tools.Feed(t, strings.Join(lines, "\n")+"\n", "kafka-console-producer", "--bootstrap-server", p.Addr, "--topic", topic)
	return lines
}

// produceTo writes n records to a partition, "line 0" and so on, and returns once all replicas have them.
func produceTo(t testing.TB, p *place, topic string, partition, n int) {
	t.Helper()
	client := p.client(t, kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer client.Close()
	var records []*kgo.Record
	for i := range n {
		records = append(records, &kgo.Record{Partition: int32(partition), Value: fmt.Append(nil, "line ", i)})
	}
	if err := client.ProduceSync(harness.Context(t, limit), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func TestTopics(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place, tools *harness.Tools) {
		topic := name("topics")
		run := func(args ...string) harness.Output {
			return tools.Run(t, "kafka-topics", append([]string{"--bootstrap-server", p.Addr}, args...)...)
		}
		list := func() harness.Output { return run("--list") }
		wantMatch(t, run("--create", "--topic", topic, "--partitions", "3", "--config", "retention.ms=1000000"), "Created topic "+topic+`\.`)
		p.awaitTopic(t, topic)
		again := tools.Try(t, "kafka-topics", "", "--bootstrap-server", p.Addr, "--create", "--topic", topic)
		if again.Code == 0 || !strings.Contains(again.String(), "already exists") {
			t.Errorf("creating it again ends with %d:\n%s", again.Code, again)
		}
		run("--create", "--topic", topic, "--if-not-exists")
		bad := tools.Try(t, "kafka-topics", "", "--bootstrap-server", p.Addr, "--create", "--topic", topic+"-rf", "--replication-factor", "4")
		if bad.Code == 0 || !strings.Contains(bad.String(), "larger than") && !strings.Contains(bad.String(), "Unable to replicate") {
			t.Errorf("four replicas end with %d:\n%s", bad.Code, bad)
		}
		wantMatch(t, list(), "^"+topic+"$")

		replicas := len(p.brokers)
		ids := fmt.Sprintf(`(\d+,?){%d}`, replicas)
		described := run("--describe", "--topic", topic)
		wantMatch(t, described, fmt.Sprintf(`Topic: %s\s+TopicId: [A-Za-z0-9_-]{22}\s+PartitionCount: 3\s+ReplicationFactor: %d\s+Configs: .*retention\.ms=1000000`, topic, replicas),
			`Partition: 2\s+Leader: \d+\s+Replicas: `+ids+`\s+Isr: `+ids+`\s`)
		run("--alter", "--topic", topic, "--partitions", "5")
		awaitMatch(t, func() harness.Output { return run("--describe", "--topic", topic) }, `PartitionCount: 5`, `Partition: 4\s+Leader: \d+`)
		fewer := tools.Try(t, "kafka-topics", "", "--bootstrap-server", p.Addr, "--alter", "--topic", topic, "--partitions", "2")
		if fewer.Code == 0 {
			t.Errorf("fewer partitions are accepted:\n%s", fewer)
		}
		wantLines(t, run("--describe", "--unavailable-partitions"))
		wantLines(t, run("--describe", "--under-replicated-partitions"))
		run("--delete", "--topic", topic)
		awaitNoMatch(t, list, "^"+topic+"$")
		gone := tools.Try(t, "kafka-topics", "", "--bootstrap-server", p.Addr, "--describe", "--topic", topic)
		if gone.Code == 0 || !strings.Contains(gone.String(), "does not exist as expected") {
			t.Errorf("describing it then ends with %d:\n%s", gone.Code, gone)
		}
	})
}

func TestConfigs(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place, tools *harness.Tools) {
		topic := name("configs")
		p.createTopic(t, topic, 1)
		run := func(args ...string) harness.Output {
			return tools.Run(t, "kafka-configs", append([]string{"--bootstrap-server", p.Addr}, args...)...)
		}
		of := []string{"--entity-type", "topics", "--entity-name", topic}
		wantMatch(t, run(append(of, "--alter", "--add-config", "retention.ms=123456,max.message.bytes=2000")...), "Completed updating config for topic "+topic)
		awaitMatch(t, func() harness.Output { return run(append(of, "--describe")...) }, `retention\.ms=123456 sensitive=false synonyms=\{DYNAMIC_TOPIC_CONFIG:retention\.ms=123456`,
			`max\.message\.bytes=2000`)
		run(append(of, "--alter", "--delete-config", "retention.ms")...)
		describe := func() harness.Output { return run(append(of, "--describe")...) }
		awaitNoMatch(t, describe, `retention\.ms`)
		wantMatch(t, run(append(of, "--describe", "--all")...), `retention\.ms=604800000 sensitive=false synonyms=\{`, `cleanup\.policy=delete`)
		refused := tools.Try(t, "kafka-configs", "", append([]string{"--bootstrap-server", p.Addr, "--alter", "--add-config", "retention.ms=soon"}, of...)...)
		if refused.Code == 0 || !strings.Contains(refused.String(), "retention.ms") {
			t.Errorf("retention.ms=soon ends with %d:\n%s", refused.Code, refused)
		}

		file := input(t, "retention.ms=654321\ncleanup.policy=compact,delete\n")
		wantMatch(t, run("--topic", topic, "--alter", "--add-config-file", file), "Completed updating config for topic "+topic)
		awaitMatch(t, func() harness.Output { return run("--topic", topic, "--describe") }, `retention\.ms=654321 `, `cleanup\.policy=compact,delete `)
		run("--topic", topic, "--alter", "--add-config", "cleanup.policy=[delete,compact],segment.ms=4000000", "--delete-config", "retention.ms")
		awaitMatch(t, describe, `cleanup\.policy=delete,compact `, `segment\.ms=4000000 `)
		awaitNoMatch(t, describe, `retention\.ms`)

		id := brokerID(t, p, tools)
		wantMatch(t, run("--broker", id, "--describe"), "Dynamic configs for broker "+id+" are:")
		wantMatch(t, run("--broker-defaults", "--describe"), "Default configs for brokers in the cluster are:")
		brokers := run("--entity-type", "brokers", "--entity-name", id, "--describe", "--all")
		wantMatch(t, brokers, `queued\.max\.requests=500 sensitive=false synonyms=\{`, `log\.dirs?=`)
	})
}

var idOfBroker = regexp.MustCompile(`\(id: (\d+) rack: \S+`)

// brokerID asks the tools for the broker's id.
func brokerID(t testing.TB, p *place, tools *harness.Tools) string {
	t.Helper()
	out := tools.Run(t, "kafka-broker-api-versions", "--bootstrap-server", p.Addr)
	m := idOfBroker.FindStringSubmatch(out.Stdout)
	if m == nil {
		t.Fatalf("no broker id in:\n%.1000s", out)
	}
	return m[1]
}

func TestBrokerAPIVersions(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place, tools *harness.Tools) {
		out := tools.Run(t, "kafka-broker-api-versions", "--bootstrap-server", p.Addr)
		for _, b := range p.brokers {
			wantMatch(t, out, `^`+regexp.QuoteMeta(b.Addr)+` \(id: \d+ rack: `)
		}
		wantMatch(t, out, `Produce\(0\): 0 to 1\d \[usable: \d+\]`, `Fetch\(1\): \d to \d+ \[usable: \d+\]`,
			`InitProducerId\(22\): 0 to \d+ \[usable: \d+\]`)
	})
}

// TestFencedEndpoints: brokers that are not served are listed where there can be such.
func TestFencedEndpoints(t *testing.T) {
	harness.Need(t, "java")
	p, tools := alone(t), harness.JavaTools(t, harness.V44)
	if p.Kind == harness.Kafka39 {
		t.Skip("3.9 on ZooKeeper has none")
	}
	wantMatch(t, tools.Run(t, "kafka-cluster", "list-endpoints", "--bootstrap-server", p.Addr, "--include-fenced-brokers"),
		`^\d+\s+127\.0\.0\.1\s+`+strings.Split(p.Addr, ":")[1]+`\s+null\s+unfenced\s+broker`)
}

func TestCluster(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place, tools *harness.Tools) {
		out := tools.Run(t, "kafka-cluster", "cluster-id", "--bootstrap-server", p.Addr)
		wantMatch(t, out, `Cluster ID: [A-Za-z0-9_-]{22}`)
		if tools.Version == harness.V44 {
			wantMatch(t, tools.Run(t, "kafka-cluster", "api-versions", "--bootstrap-server", p.Addr), `Produce\(0\): 0 to 1\d \[usable: \d+\]`)
			endpoints := tools.Run(t, "kafka-cluster", "list-endpoints", "--bootstrap-server", p.Addr)
			for _, b := range p.brokers {
				wantMatch(t, endpoints, `^\d+\s+127\.0\.0\.1\s+`+strings.Split(b.Addr, ":")[1]+`\s+null\s+(un)?fenced\s+broker`)
			}
		}
	})
}
