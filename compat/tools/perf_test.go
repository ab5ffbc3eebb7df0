package tools

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gregor-broker/gregor/compat/harness"
)

func TestPerf(t *testing.T) {
	both(t, func(t *testing.T, b *harness.Broker, tools *harness.Tools) {
		topic := name("perf")
		harness.CreateTopic(t, b, topic, 2)
		for _, acks := range []string{"all", "1"} {
			out := tools.Run(t, "kafka-producer-perf-test", "--topic", topic, "--num-records", "5000", "--record-size", "500", "--throughput", "-1",
				"--producer-props", "bootstrap.servers="+b.Addr, "acks="+acks, "compression.type=lz4", "linger.ms=5")
			wantMatch(t, out, `^5000 records sent, .* 99\.9th\.`)
		}
		count := "--messages"
		if tools.Version == harness.V44 {
			count = "--num-records"
		}
		out := tools.Run(t, "kafka-consumer-perf-test", "--bootstrap-server", b.Addr, "--topic", topic, count, "10000", "--timeout", "30000")
		lines := strings.Split(strings.TrimSpace(out.Stdout), "\n")
		columns := strings.Split(lines[len(lines)-1], ",")
		if len(columns) < 5 || strings.TrimSpace(columns[4]) != "10000" {
			t.Errorf("the consumer perf test prints:\n%s", out)
		}
	})
}

func TestVerifiable(t *testing.T) {
	both(t, func(t *testing.T, b *harness.Broker, tools *harness.Tools) {
		topic, group := name("verifiable"), name("verifiable-group")
		harness.CreateTopic(t, b, topic, 1)
		out := tools.RunAlone(t, "kafka-verifiable-producer", "--bootstrap-server", b.Addr, "--topic", topic, "--max-messages", "1000", "--acks", "-1")
		if n := strings.Count(out.Stdout, `"name":"producer_send_success"`); n != 1000 {
			t.Errorf("%d records were acknowledged, not 1000; the end:\n%s", n, out.Stdout[max(0, len(out.Stdout)-500):])
		}
		wantMatch(t, out, `"name":"tool_data".*"sent":1000.*"acked":1000`)
		out = tools.Run(t, "kafka-verifiable-consumer", "--bootstrap-server", b.Addr, "--topic", topic, "--group-id", group, "--max-messages", "1000", "--verbose")
		if n := strings.Count(out.Stdout, `"name":"record_data"`); n != 1000 {
			t.Errorf("%d records were consumed, not 1000", n)
		}
		wantMatch(t, out, `"name":"offsets_committed".*"offset":1000.*"success":true|"success":true.*"offset":1000`)
	})
}

func TestEndToEndLatency(t *testing.T) {
	both(t, func(t *testing.T, b *harness.Broker, tools *harness.Tools) {
		topic := name("latency")
		harness.CreateTopic(t, b, topic, 1)
		args := []string{b.Addr, topic, "200", "all", "100"}
		if tools.Version == harness.V44 {
			args = []string{"--bootstrap-server", b.Addr, "--topic", topic, "--num-records", "200", "--producer-acks", "all", "--record-size", "100"}
		}
		out := tools.Run(t, "kafka-e2e-latency", args...)
		wantMatch(t, out, `Avg latency: \d+\.\d+ ms`, `Percentiles: 50th = \d+, 99th = \d+, 99\.9th = \d+`)
	})
}

// TestDumpLog: kafka-dump-log finds what the broker wrote in order, to the records and the indexes.
func TestDumpLog(t *testing.T) {
	both(t, func(t *testing.T, b *harness.Broker, tools *harness.Tools) {
		topic := name("dump")
		harness.CreateTopic(t, b, topic, 1, "segment.bytes", "1048576", "index.interval.bytes", "4096")
		tools.Run(t, "kafka-producer-perf-test", "--topic", topic, "--num-records", "4000", "--record-size", "1000", "--throughput", "-1",
			"--producer-props", "bootstrap.servers="+b.Addr, "batch.size=5000")
		dir := b.PartitionDir(t, topic, 0)
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
		wantMatch(t, tools.Run(t, "kafka-dump-log", "--files", snapshots[len(snapshots)-1]), `producerId: \d+ producerEpoch: 0`)
	})
}

// TestDumpOffsets: kafka-dump-log decodes the records of our groups.
func TestDumpOffsets(t *testing.T) {
	both(t, func(t *testing.T, b *harness.Broker, tools *harness.Tools) {
		topic, group := name("dump-offsets"), name("dump-group")
		harness.CreateTopic(t, b, topic, 1)
		produceLines(t, b, tools, topic, 5)
		tools.Run(t, "kafka-console-consumer", "--bootstrap-server", b.Addr, "--topic", topic, "--group", group, "--from-beginning", "--max-messages", "5", "--timeout-ms", "30000")
		out := tools.Run(t, "kafka-dump-log", "--offsets-decoder", "--files", strings.Join(offsetsLogs(t, b), ","))
		wantMatch(t, out, `"type":"1".*"group":"`+group+`".*"topic":"`+topic+`".*"offset":5`,
			`"type":"2".*"group":"`+group+`".*"protocolType":"consumer"`)
	})
}

// offsetsLogs returns the segments of __consumer_offsets that hold anything.
func offsetsLogs(t *testing.T, b *harness.Broker) []string {
	t.Helper()
	var logs []string
	for _, dir := range b.DataDirs {
		found, err := filepath.Glob(filepath.Join(dir, "__consumer_offsets-*", "*.log"))
		if err != nil {
			t.Fatal(err)
		}
		for _, log := range found {
			if info, err := os.Stat(log); err == nil && info.Size() > 0 {
				logs = append(logs, log)
			}
		}
	}
	return logs
}
