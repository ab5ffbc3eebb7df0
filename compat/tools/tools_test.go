// Package tools runs the command-line tools of Apache Kafka 3.9.2 and 4.4.0 against the broker and checks what they print
// and do.
package tools

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gregor-broker/gregor/compat/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

var names atomic.Int64

// name returns a name for a topic or group that no other test uses.
func name(prefix string) string { return fmt.Sprintf("%s-%d", prefix, names.Add(1)) }

// both runs a test with the tools of each version.
func both(t *testing.T, test func(t *testing.T, b *harness.Broker, tools *harness.Tools)) {
	harness.Need(t, "java")
	b := harness.Shared(t)
	for _, version := range []string{harness.V39, harness.V44} {
		t.Run(version, func(t *testing.T) { test(t, b, harness.JavaTools(t, version)) })
	}
}

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

// wantLines fails the test unless the standard output has just these lines.
func wantLines(t testing.TB, out harness.Output, lines ...string) {
	t.Helper()
	if got, want := strings.TrimSpace(out.Stdout), strings.Join(lines, "\n"); got != want {
		t.Errorf("the output is\n%s\nwant\n%s", got, want)
	}
}

// produceLines writes n records to a topic with the console producer, "line 0" and so on.
func produceLines(t testing.TB, b *harness.Broker, tools *harness.Tools, topic string, n int) []string {
	t.Helper()
	var lines []string
	for i := range n {
		lines = append(lines, fmt.Sprint("line ", i))
	}
	tools.Feed(t, strings.Join(lines, "\n")+"\n", "kafka-console-producer", "--bootstrap-server", b.Addr, "--topic", topic)
	return lines
}

func TestTopics(t *testing.T) {
	both(t, func(t *testing.T, b *harness.Broker, tools *harness.Tools) {
		topic := name("topics")
		run := func(args ...string) harness.Output {
			return tools.Run(t, "kafka-topics", append([]string{"--bootstrap-server", b.Addr}, args...)...)
		}
		wantMatch(t, run("--create", "--topic", topic, "--partitions", "3", "--config", "retention.ms=1000000"), "Created topic "+topic+`\.`)
		again := tools.Try(t, "kafka-topics", "", "--bootstrap-server", b.Addr, "--create", "--topic", topic)
		if again.Code == 0 || !strings.Contains(again.String(), "already exists") {
			t.Errorf("creating it again ends with %d:\n%s", again.Code, again)
		}
		run("--create", "--topic", topic, "--if-not-exists")
		bad := tools.Try(t, "kafka-topics", "", "--bootstrap-server", b.Addr, "--create", "--topic", topic+"-rf", "--replication-factor", "2")
		if bad.Code == 0 || !strings.Contains(bad.String(), "larger than") && !strings.Contains(bad.String(), "Unable to replicate") {
			t.Errorf("two replicas on one broker end with %d:\n%s", bad.Code, bad)
		}
		wantMatch(t, run("--list"), "^"+topic+"$")

		described := run("--describe", "--topic", topic)
		wantMatch(t, described, `Topic: `+topic+`\s+TopicId: [A-Za-z0-9_-]{22}\s+PartitionCount: 3\s+ReplicationFactor: 1\s+Configs: .*retention\.ms=1000000`,
			`Partition: 2\s+Leader: \d+\s+Replicas: \d+\s+Isr: \d+`)
		run("--alter", "--topic", topic, "--partitions", "5")
		wantMatch(t, run("--describe", "--topic", topic), `PartitionCount: 5`, `Partition: 4\s+Leader: \d+`)
		fewer := tools.Try(t, "kafka-topics", "", "--bootstrap-server", b.Addr, "--alter", "--topic", topic, "--partitions", "2")
		if fewer.Code == 0 {
			t.Errorf("fewer partitions are accepted:\n%s", fewer)
		}
		wantLines(t, run("--describe", "--unavailable-partitions"))
		wantLines(t, run("--describe", "--under-replicated-partitions"))
		run("--delete", "--topic", topic)
		if out := run("--list"); strings.Contains(out.Stdout, topic+"\n") {
			t.Errorf("the deleted topic is listed:\n%s", out.Stdout)
		}
		gone := tools.Try(t, "kafka-topics", "", "--bootstrap-server", b.Addr, "--describe", "--topic", topic)
		if gone.Code == 0 || !strings.Contains(gone.String(), "does not exist as expected") {
			t.Errorf("describing it then ends with %d:\n%s", gone.Code, gone)
		}
	})
}

func TestConsole(t *testing.T) {
	both(t, func(t *testing.T, b *harness.Broker, tools *harness.Tools) {
		topic := name("console")
		harness.CreateTopic(t, b, topic, 1)
		want := produceLines(t, b, tools, topic, 20)
		consume := func(args ...string) harness.Output {
			return tools.Run(t, "kafka-console-consumer", append([]string{"--bootstrap-server", b.Addr, "--topic", topic, "--timeout-ms", "30000"}, args...)...)
		}
		wantLines(t, consume("--from-beginning", "--max-messages", "20"), want...)
		wantLines(t, consume("--partition", "0", "--offset", "17", "--max-messages", "3"), want[17:]...)

		group := name("console-group")
		wantLines(t, consume("--group", group, "--from-beginning", "--max-messages", "8"), want[:8]...)
		wantLines(t, consume("--group", group, "--from-beginning", "--max-messages", "12"), want[8:]...)

		// Keys, headers, null values and every codec.
		show, parse := "--property", "--property"
		if tools.Version == harness.V44 {
			show, parse = "--formatter-property", "--reader-property"
		}
		for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
			topic := name("console-" + codec)
			harness.CreateTopic(t, b, topic, 1)
			compression := []string{"--compression-codec", codec}
			tools.Feed(t, "h1:v1\tk1\tfirst\nh1:v2\tk2\tsecond\n", "kafka-console-producer", append([]string{
				"--bootstrap-server", b.Addr, "--topic", topic, parse, "parse.key=true", parse, "parse.headers=true",
			}, compression...)...)
			out := tools.Run(t, "kafka-console-consumer", "--bootstrap-server", b.Addr, "--topic", topic, "--from-beginning",
				"--max-messages", "2", "--timeout-ms", "30000", show, "print.key=true", show, "print.headers=true",
				show, "print.offset=true", show, "print.partition=true")
			wantLines(t, out, "Partition:0\tOffset:0\th1:v1\tk1\tfirst", "Partition:0\tOffset:1\th1:v2\tk2\tsecond")
		}
	})
}

func TestConfigs(t *testing.T) {
	both(t, func(t *testing.T, b *harness.Broker, tools *harness.Tools) {
		topic := name("configs")
		harness.CreateTopic(t, b, topic, 1)
		run := func(args ...string) harness.Output {
			return tools.Run(t, "kafka-configs", append([]string{"--bootstrap-server", b.Addr}, args...)...)
		}
		of := []string{"--entity-type", "topics", "--entity-name", topic}
		wantMatch(t, run(append(of, "--alter", "--add-config", "retention.ms=123456,max.message.bytes=2000")...), "Completed updating config for topic "+topic)
		wantMatch(t, run(append(of, "--describe")...), `retention\.ms=123456 sensitive=false synonyms=\{DYNAMIC_TOPIC_CONFIG:retention\.ms=123456`,
			`max\.message\.bytes=2000`)
		run(append(of, "--alter", "--delete-config", "retention.ms")...)
		if out := run(append(of, "--describe")...); strings.Contains(out.Stdout, "retention.ms") {
			t.Errorf("a deleted config is described:\n%s", out.Stdout)
		}
		wantMatch(t, run(append(of, "--describe", "--all")...), `retention\.ms=604800000 sensitive=false synonyms=\{`, `cleanup\.policy=delete`)
		refused := tools.Try(t, "kafka-configs", "", append([]string{"--bootstrap-server", b.Addr, "--alter", "--add-config", "retention.ms=soon"}, of...)...)
		if refused.Code == 0 || !strings.Contains(refused.String(), "retention.ms") {
			t.Errorf("retention.ms=soon ends with %d:\n%s", refused.Code, refused)
		}

		brokers := run("--entity-type", "brokers", "--entity-name", brokerID(t, b, tools), "--describe", "--all")
		wantMatch(t, brokers, `num\.io\.threads=8 sensitive=false synonyms=\{`, `log\.dirs?=`)
	})
}

var idOfBroker = regexp.MustCompile(`\(id: (\d+) rack: \S+`)

// brokerID asks the tools for the broker's id.
func brokerID(t testing.TB, b *harness.Broker, tools *harness.Tools) string {
	t.Helper()
	out := tools.Run(t, "kafka-broker-api-versions", "--bootstrap-server", b.Addr)
	m := idOfBroker.FindStringSubmatch(out.Stdout)
	if m == nil {
		t.Fatalf("no broker id in:\n%.1000s", out)
	}
	return m[1]
}

func TestBrokerAPIVersions(t *testing.T) {
	both(t, func(t *testing.T, b *harness.Broker, tools *harness.Tools) {
		out := tools.Run(t, "kafka-broker-api-versions", "--bootstrap-server", b.Addr)
		wantMatch(t, out, regexp.QuoteMeta(b.Addr)+` \(id: \d+ rack: `, `Produce\(0\): 0 to 1\d \[usable: \d+\]`, `Fetch\(1\): \d to \d+ \[usable: \d+\]`,
			`InitProducerId\(22\): 0 to \d+ \[usable: \d+\]`)
	})
}

func TestCluster(t *testing.T) {
	both(t, func(t *testing.T, b *harness.Broker, tools *harness.Tools) {
		out := tools.Run(t, "kafka-cluster", "cluster-id", "--bootstrap-server", b.Addr)
		wantMatch(t, out, `Cluster ID: [A-Za-z0-9_-]{22}`)
		if tools.Version == harness.V44 {
			wantMatch(t, tools.Run(t, "kafka-cluster", "api-versions", "--bootstrap-server", b.Addr), `Produce\(0\): 0 to 1\d \[usable: \d+\]`)
			wantMatch(t, tools.Run(t, "kafka-cluster", "list-endpoints", "--bootstrap-server", b.Addr), `127\.0\.0\.1\s+`+strings.Split(b.Addr, ":")[1])
		}
	})
}

func TestGetOffsets(t *testing.T) {
	both(t, func(t *testing.T, b *harness.Broker, tools *harness.Tools) {
		topic := name("offsets")
		harness.CreateTopic(t, b, topic, 1)
		produceLines(t, b, tools, topic, 7)
		for at, want := range map[string]string{"latest": "7", "earliest": "0", "-1": "7", "max-timestamp": "6"} {
			out := tools.Run(t, "kafka-get-offsets", "--bootstrap-server", b.Addr, "--topic", topic, "--time", at)
			if at == "max-timestamp" { // several records may share it
				wantMatch(t, out, "^"+topic+`:0:[0-6]$`)
				continue
			}
			wantLines(t, out, topic+":0:"+want)
		}
	})
}

func TestDeleteRecords(t *testing.T) {
	both(t, func(t *testing.T, b *harness.Broker, tools *harness.Tools) {
		topic := name("trim")
		harness.CreateTopic(t, b, topic, 1)
		produceLines(t, b, tools, topic, 7)
		file := filepath.Join(t.TempDir(), "offsets.json")
		if err := os.WriteFile(file, fmt.Appendf(nil, `{"version":1,"partitions":[{"topic":%q,"partition":0,"offset":3}]}`, topic), 0o644); err != nil {
			t.Fatal(err)
		}
		out := tools.Run(t, "kafka-delete-records", "--bootstrap-server", b.Addr, "--offset-json-file", file)
		wantMatch(t, out, topic+`-0\s+low_watermark: 3`)
		wantLines(t, tools.Run(t, "kafka-get-offsets", "--bootstrap-server", b.Addr, "--topic", topic, "--time", "earliest"), topic+":0:3")
	})
}

func TestLogDirs(t *testing.T) {
	both(t, func(t *testing.T, b *harness.Broker, tools *harness.Tools) {
		topic := name("dirs")
		harness.CreateTopic(t, b, topic, 1)
		produceLines(t, b, tools, topic, 7)
		out := tools.Run(t, "kafka-log-dirs", "--bootstrap-server", b.Addr, "--describe", "--topic-list", topic)
		var report struct {
			Brokers []struct {
				LogDirs []struct {
					LogDir     string
					Error      *string
					Partitions []struct {
						Partition string
						Size      int64
						IsFuture  bool
					}
				}
			}
		}
		at := strings.Index(out.Stdout, "{")
		if at < 0 || json.Unmarshal([]byte(out.Stdout[at:]), &report) != nil || len(report.Brokers) != 1 || len(report.Brokers[0].LogDirs) != 1 {
			t.Fatalf("no report of one directory:\n%s", out)
		}
		dir := report.Brokers[0].LogDirs[0]
		info, err := os.Stat(filepath.Join(b.PartitionDir(t, topic, 0), "00000000000000000000.log"))
		if err != nil {
			t.Fatal(err)
		}
		if dir.Error != nil || len(dir.Partitions) != 1 || dir.Partitions[0].Partition != topic+"-0" || dir.Partitions[0].Size != info.Size() {
			t.Errorf("the report is %+v; want %s-0 with %d bytes", dir, topic, info.Size())
		}
	})
}
