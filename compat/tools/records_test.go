package tools

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/compat/harness"
)

// TestGetOffsets: what kafka-get-offsets says of a partition, for each time that it takes, and which partitions it takes.
func TestGetOffsets(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place, tools *harness.Tools) {
		topic := name("offsets")
		p.createTopic(t, topic, 3)
		produceTo(t, p, topic, 0, 7)
		produceTo(t, p, topic, 2, 2)
		offsets := func(args ...string) harness.Output {
			return tools.Run(t, "kafka-get-offsets", append([]string{"--bootstrap-server", p.Addr}, args...)...)
		}
		for at, want := range map[string]string{
			"latest": "7", "-1": "7", "earliest": "0", "-2": "0", "earliest-local": "0", "-4": "0", "0": "0",
		} {
			wantLines(t, offsets("--topic", topic, "--partitions", "0", "--time", at), topic+":0:"+want)
		}
		for _, at := range []string{"max-timestamp", "-3"} { // several records may share it
			wantMatch(t, offsets("--topic", topic, "--partitions", "0", "--time", at), "^"+topic+`:0:[0-6]$`)
		}
		wantLines(t, offsets("--topic", topic), topic+":0:7", topic+":1:0", topic+":2:2")
		wantLines(t, offsets("--topic", topic, "--partitions", "1,2"), topic+":1:0", topic+":2:2")
		wantLines(t, offsets("--topic-partitions", topic+":1-"), topic+":1:0", topic+":2:2")
		wantLines(t, offsets("--topic-partitions", topic+":-1,"+topic+":2", "--time", "earliest"), topic+":0:0", topic+":2:0")
		for _, at := range []string{"latest-tiered", "-5", fmt.Sprint(time.Now().Add(time.Hour).UnixMilli())} { // nothing is tiered, nor in an hour
			wantLines(t, offsets("--topic", topic, "--time", at))
		}
		out := offsets("--exclude-internal-topics")
		wantMatch(t, out, "^"+topic+":0:7$")
		if strings.Contains(out.Stdout, "__consumer_offsets") {
			t.Errorf("an internal topic:\n%s", out)
		}
		if tools.Version == harness.V44 && !p.onZooKeeper() {
			wantLines(t, offsets("--topic", topic, "--partitions", "0", "--time", "earliest-pending-upload"))
		}
	})
}

func TestDeleteRecords(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place, tools *harness.Tools) {
		topic := name("trim")
		p.createTopic(t, topic, 2)
		produceTo(t, p, topic, 0, 7)
		produceTo(t, p, topic, 1, 4)
		file := filepath.Join(t.TempDir(), "offsets.json")
		if err := os.WriteFile(file, fmt.Appendf(nil, `{"version":1,"partitions":[{"topic":%q,"partition":0,"offset":3},{"topic":%[1]q,"partition":1,"offset":-1}]}`, topic), 0o644); err != nil {
			t.Fatal(err)
		}
		out := tools.Run(t, "kafka-delete-records", "--bootstrap-server", p.Addr, "--offset-json-file", file)
		wantMatch(t, out, topic+`-0\s+low_watermark: 3`, topic+`-1\s+low_watermark: 4`)
		wantLines(t, tools.Run(t, "kafka-get-offsets", "--bootstrap-server", p.Addr, "--topic", topic, "--time", "earliest"), topic+":0:3", topic+":1:4")
		wantLines(t, tools.Run(t, "kafka-console-consumer", "--bootstrap-server", p.Addr, "--topic", topic, "--partition", "0", "--offset", "earliest",
			"--max-messages", "4", "--timeout-ms", "30000"), "line 3", "line 4", "line 5", "line 6")
	})
}

// TestReplicaVerification: kafka-replica-verification, which never ends by itself, finds all replicas alike to the end.
func TestReplicaVerification(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place, tools *harness.Tools) {
		if tools.Version == harness.V44 && p.onZooKeeper() {
			return // it asks for a version of Fetch that is not there: TestUnsupported
		}
		topic := name("verified")
		p.createTopic(t, topic, 2)
		produceTo(t, p, topic, 0, 7)
		produceTo(t, p, topic, 1, 7)
		tools.RunUntil(t, `: max lag is 0 for partition `+topic+`-[01] at offset 7 among 2 partitions`, "kafka-replica-verification",
			"--broker-list", p.Addr, "--topics-include", topic, "--time", "-2", "--report-interval-ms", "100", "--max-wait-ms", "100", "--fetch-size", "100000")
	})
}

// TestLogDirs: every broker tells of its replica, and its size to the byte.
func TestLogDirs(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place, tools *harness.Tools) {
		topic := name("dirs")
		p.createTopic(t, topic, 1)
		produceTo(t, p, topic, 0, 7)
		sizes := map[string]int64{}
		harness.Eventually(t, limit, func() error { // followers are behind
			for _, b := range p.brokers {
				info, err := os.Stat(filepath.Join(b.PartitionDir(t, topic, 0), "00000000000000000000.log"))
				if err != nil {
					return err
				}
				if sizes[b.DataDir()] = info.Size(); info.Size() != sizes[p.brokers[0].DataDir()] || info.Size() == 0 {
					return fmt.Errorf("the logs have %v bytes", sizes)
				}
			}
			return nil
		})
		dirs := func(args ...string) []logDirs {
			return reported(t, tools.Run(t, "kafka-log-dirs", append([]string{"--bootstrap-server", p.Addr, "--describe"}, args...)...))
		}
		all := dirs("--topic-list", topic)
		if len(all) != len(p.brokers) {
			t.Errorf("%d brokers, want %d: %+v", len(all), len(p.brokers), all)
		}
		for _, b := range all {
			if len(b.LogDirs) != 1 {
				t.Errorf("not one directory: %+v", b)
				continue
			}
			dir := b.LogDirs[0]
			size, known := sizes[dir.LogDir]
			if dir.Error != nil || !known || len(dir.Partitions) != 1 || dir.Partitions[0] != (replicaSize{Partition: topic + "-0", Size: size}) {
				t.Errorf("the report is %+v; want %s-0 and %v", dir, topic, sizes)
			}
		}
		one := dirs("--broker-list", fmt.Sprint(all[0].Broker), "--topic-list", topic)
		if len(one) != 1 || one[0].Broker != all[0].Broker {
			t.Errorf("asked of broker %d: %+v", all[0].Broker, one)
		}
		wantRefused(t, tools.Try(t, "kafka-log-dirs", "", "--bootstrap-server", p.Addr, "--describe", "--broker-list", "77"), `do not exist from --broker-list: 77`)
	})
}

// logDirs is what kafka-log-dirs tells of a broker.
type logDirs struct {
	Broker  int
	LogDirs []struct {
		LogDir     string
		Error      *string
		Partitions []replicaSize
	}
}

type replicaSize struct {
	Partition       string
	Size, OffsetLag int64
	IsFuture        bool
}

// reported reads the output of kafka-log-dirs.
func reported(t testing.TB, out harness.Output) []logDirs {
	t.Helper()
	var report struct{ Brokers []logDirs }
	_, text, _ := strings.Cut(out.Stdout, "{")
	if err := json.Unmarshal([]byte("{"+text), &report); err != nil {
		t.Fatalf("%v in:\n%s", err, out)
	}
	return report.Brokers
}
