package tools

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gregor-broker/gregor/compat/harness"
)

func TestPerf(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place, tools *harness.Tools) {
		topic := name("perf")
		p.createTopic(t, topic, 2)
		produce := func(args ...string) harness.Output {
			return tools.Run(t, "kafka-producer-perf-test", append([]string{"--topic", topic, "--throughput", "-1"}, args...)...)
		}
		for _, acks := range []string{"all", "1"} {
			out := produce("--num-records", "5000", "--record-size", "500", "--producer-props", "bootstrap.servers="+p.Addr, "acks="+acks, "compression.type=lz4", "linger.ms=5")
			wantMatch(t, out, `^5000 records sent, .* 99\.9th\.`)
		}
		id := name("perf-txn")
		wantMatch(t, produce("--num-records", "100", "--payload-monotonic", "--transactional-id", id, "--transaction-duration-ms", "50", "--print-metrics",
			"--producer-props", "bootstrap.servers="+p.Addr), `^100 records sent, `, `producer-metrics:record-send-total:\{client-id=[^}]*\}\s*: 100\.0`)
		wantMatch(t, tools.Run(t, "kafka-transactions", "--bootstrap-server", p.Addr, "list"), `^`+id+`\s.*Complete(Commit|Abort)|`+id+`\s.*(Prepare|Ongoing|Empty)`)
		lines := input(t, "a\nbb\nccc\n")
		wantMatch(t, produce("--num-records", "10", "--payload-file", lines, "--producer-props", "bootstrap.servers="+p.Addr), `^10 records sent, `)
		total, count := 10110, "--messages"
		if tools.Version == harness.V44 {
			count = "--num-records"
			wantMatch(t, produce("--bootstrap-server", p.Addr, "--num-records", "2000", "--record-size", "50", "--warmup-records", "1000", "--key-distribution", "range", "--record-key-range", "10",
				"--random-seed", "7", "--reporting-interval", "1000", "--command-property", "acks=all"), `2000 records sent, `)
			total += 2000
		}
		consume := func(args ...string) []string {
			out := tools.Run(t, "kafka-consumer-perf-test", append([]string{"--bootstrap-server", p.Addr, "--timeout", "30000", "--hide-header"}, args...)...)
			return strings.Split(strings.TrimSpace(out.Stdout), "\n")
		}
		of := []string{"--topic", topic, count, fmt.Sprint(total)}
		lastOf := func(lines []string, column int) string {
			columns := append(strings.Split(lines[len(lines)-1], ","), make([]string, 10)...)
			return strings.TrimSpace(columns[column])
		}
		group := name("perf-group")
		if lines := consume(append(of, "--group", group)...); lastOf(lines, 4) != fmt.Sprint(total) {
			t.Errorf("the consumer perf test prints:\n%v, not of %d records", lines, total)
		}
		wantMatch(t, tools.Run(t, "kafka-consumer-groups", "--bootstrap-server", p.Addr, "--describe", "--group", group), group+`\s+`+topic+`\s+0\s+(\d+)\s+\d+\s+0\s`)
		latest := tools.Run(t, "kafka-consumer-perf-test", "--bootstrap-server", p.Addr, "--topic", topic, count, "1", "--timeout", "1500", "--hide-header", "--from-latest")
		if lines := strings.Split(strings.TrimSpace(latest.Stdout), "\n"); lastOf(lines, 4) != "0" {
			t.Errorf("from the end on the consumer perf test prints:\n%s", latest)
		}
		wantMatch(t, tools.Run(t, "kafka-consumer-perf-test", append([]string{"--bootstrap-server", p.Addr, "--timeout", "30000", "--print-metrics",
			"--fetch-size", "100000", "--socket-buffer-size", "65536", "--date-format", "yyyy"}, of...)...),
			`^\d{4}, \d{4}, .*`, `fetch-manager-metrics:records-consumed-total:\{client-id=[^}]*\}\s*: `+fmt.Sprint(total))
		if lines := consume(append(of, "--show-detailed-stats", "--reporting-interval", "1")...); len(lines) < 2 || lastOf(lines[:2], 1) != "0" {
			t.Errorf("the detailed figures are:\n%.2000v", lines)
		}
		if tools.Version == harness.V44 {
			if lines := consume("--include", "^"+topic+"$", count, fmt.Sprint(total)); lastOf(lines, 4) != fmt.Sprint(total) {
				t.Errorf("by a pattern the consumer perf test prints:\n%v, not of %d records", lines, total)
			}
		}
	})
}

// TestVerifiable: the clients of Kafka's system tests see each record once, in groups of each kind, with and without a static member.
func TestVerifiable(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place, tools *harness.Tools) {
		topic := verifiableTopic(t, p, tools)
		verifiable(t, p, tools, topic)
		verifiable(t, p, tools, topic, "--group-instance-id", name("instance"), "--enable-autocommit", "--reset-policy", "earliest", "--session-timeout", "20000",
			"--assignment-strategy", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor")
		if tools.Version == harness.V44 && !p.onZooKeeper() {
			verifiable(t, p, tools, topic, "--group-protocol", "consumer", "--group-remote-assignor", "range")
		}
	})
}

// verifiableTopic is a topic of a thousand records of the verifiable producer.
func verifiableTopic(t *testing.T, p *place, tools *harness.Tools) string {
	t.Helper()
	topic := name("verifiable")
	p.createTopic(t, topic, 1)
	out := tools.RunAlone(t, "kafka-verifiable-producer", "--bootstrap-server", p.Addr, "--topic", topic, "--max-messages", "1000", "--acks", "-1",
		"--value-prefix", "7", "--repeating-keys", "5", "--message-create-time", "1700000000000", "--throughput", "100000")
	if n := strings.Count(out.Stdout, `"name":"producer_send_success"`); n != 1000 {
		t.Errorf("%d records were acknowledged, not 1000; the end:\n%s", n, out.Stdout[max(0, len(out.Stdout)-500):])
	}
	wantMatch(t, out, `"name":"tool_data".*"sent":1000.*"acked":1000`)
	return topic
}

// verifiable has the verifiable consumer read such a topic in a new group.
func verifiable(t *testing.T, p *place, tools *harness.Tools, topic string, args ...string) {
	t.Helper()
	group := name("verifiable-group")
	out := tools.Run(t, "kafka-verifiable-consumer", append([]string{"--bootstrap-server", p.Addr, "--topic", topic, "--group-id", group,
		"--max-messages", "1000", "--verbose"}, args...)...)
	if n := strings.Count(out.Stdout, `"name":"record_data"`); n != 1000 {
		t.Errorf("%v: %d records were consumed, not 1000", args, n)
	}
	wantMatch(t, out, `"name":"partitions_assigned"`, `"value":"7\.999"`)
	wantMatch(t, tools.Run(t, "kafka-consumer-groups", "--bootstrap-server", p.Addr, "--describe", "--group", group), group+`\s+`+topic+`\s+0\s+1000\s+1000\s+0\s`)
}

func TestEndToEndLatency(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place, tools *harness.Tools) {
		topic := name("latency")
		p.createTopic(t, topic, 1)
		args := []string{p.Addr, topic, "200", "all", "100"}
		if tools.Version == harness.V44 {
			args = []string{"--bootstrap-server", p.Addr, "--topic", topic, "--num-records", "200", "--producer-acks", "all", "--record-size", "100",
				"--record-key-size", "8", "--num-headers", "2", "--record-header-key-size", "3", "--record-header-size", "4"}
		}
		out := tools.Run(t, "kafka-e2e-latency", args...)
		wantMatch(t, out, `Avg latency: \d+\.\d+ ms`, `Percentiles: 50th = \d+, 99th = \d+, 99\.9th = \d+`)
		wantLines(t, tools.Run(t, "kafka-get-offsets", "--bootstrap-server", p.Addr, "--topic", topic), topic+":0:200")
	})
}

// TestDumpLog: kafka-dump-log finds what the broker wrote in order, to the records and the indexes.
func TestDumpLog(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place, tools *harness.Tools) {
		topic := name("dump")
		p.createTopic(t, topic, 1, "segment.bytes", "1048576", "index.interval.bytes", "4096")
		tools.Run(t, "kafka-producer-perf-test", "--topic", topic, "--num-records", "4000", "--record-size", "1000", "--throughput", "-1",
			"--producer-props", "bootstrap.servers="+p.Addr, "batch.size=5000")
		dir := p.partitionDir(t, topic, 0)
		logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
		if err != nil || len(logs) < 4 {
			t.Fatalf("%d segments in %s, %v; want at least 4", len(logs), dir, err)
		}
		out := tools.Run(t, "kafka-dump-log", "--deep-iteration", "--files", strings.Join(logs, ","))
		if n := len(regexp.MustCompile(`(?m)^\| offset: `).FindAllString(out.Stdout, -1)); n != 4000 {
			t.Errorf("%d records are dumped, not 4000", n)
		}
		if strings.Contains(out.String(), "isvalid: false") || strings.Contains(out.String(), "Found ") || !strings.Contains(out.Stdout, "isvalid: true") {
			t.Errorf("the dump complains:\n%.2000s", out)
		}

		// Indexes of closed segments: the active one is preallocated.
		for _, log := range logs[:len(logs)-1] {
			base := strings.TrimSuffix(log, ".log")
			for _, index := range []string{base + ".index", base + ".timeindex"} {
				if info, err := os.Stat(index); err != nil || info.Size() == 0 {
					t.Errorf("%s: %v, or empty", index, err)
				}
				out := tools.Run(t, "kafka-dump-log", "--index-sanity-check", "--files", index)
				if strings.HasSuffix(index, ".index") {
					wantMatch(t, out, `passed sanity check`)
				}
				out = tools.Run(t, "kafka-dump-log", "--files", index)
				if strings.Contains(out.String(), "Found ") || strings.Contains(out.String(), "Mismatch") {
					t.Errorf("%s: the dump complains:\n%.1000s", filepath.Base(index), out)
				}
			}
		}
		snapshots, err := filepath.Glob(filepath.Join(dir, "*.snapshot"))
		if err != nil || len(snapshots) == 0 {
			t.Fatalf("no producer snapshot in %s, %v", dir, err)
		}
		first := logs[0]
		printed := tools.Run(t, "kafka-dump-log", "--print-data-log", "--skip-record-metadata", "--max-bytes", "5000", "--files", first)
		if n := len(regexp.MustCompile(`(?m)^(\| | )payload: `).FindAllString(printed.Stdout, -1)); n == 0 || n > 5 {
			t.Errorf("%d records within 5000 bytes:\n%.2000s", n, printed)
		}
		class := "org.apache.kafka.tools.api.IntegerDecoder"
		wantMatch(t, tools.Run(t, "kafka-dump-log", "--value-decoder-class", class, "--key-decoder-class", class, "--max-message-size", "2000", "--max-bytes", "5000", "--files", first), `payload: \d+`)
		wantLines(t, tools.Run(t, "kafka-dump-log", "--verify-index-only", "--files", strings.TrimSuffix(first, ".log")+".index"),
			"Dumping "+strings.TrimSuffix(first, ".log")+".index")
		wantMatch(t, tools.Run(t, "kafka-dump-log", "--files", snapshots[len(snapshots)-1]), `producerId: \d+ producerEpoch: 0`)
	})
}

// TestDumpOffsets: kafka-dump-log decodes the records of our groups.
func TestDumpOffsets(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place, tools *harness.Tools) {
		topic, group := name("dump-offsets"), name("dump-group")
		p.createTopic(t, topic, 1)
		produceLines(t, p, tools, topic, 5)
		tools.Run(t, "kafka-console-consumer", "--bootstrap-server", p.Addr, "--topic", topic, "--group", group, "--from-beginning", "--max-messages", "5", "--timeout-ms", "30000")
		out := tools.Run(t, "kafka-dump-log", "--offsets-decoder", "--files", p.segments(t, "__consumer_offsets"))
		wantMatch(t, out, `"type":"1".*"group":"`+group+`".*"topic":"`+topic+`".*"offset":5`,
			`"type":"2".*"group":"`+group+`".*"protocolType":"consumer"`)
	})
}

// nonEmpty are those of the files that hold anything.
func nonEmpty(files []string) (kept []string) {
	for _, file := range files {
		if info, err := os.Stat(file); err == nil && info.Size() > 0 {
			kept = append(kept, file)
		}
	}
	return kept
}
