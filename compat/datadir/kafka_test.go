package datadir

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gregor-broker/gregor/compat/harness"
)

var folder = regexp.MustCompile(`^(.+)-(\d+)$`)

// property returns a value of a file in Java's form, without its escapes.
func property(t testing.TB, path, key string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && name == key {
			return strings.ReplaceAll(value, `\`, "")
		}
	}
	t.Fatalf("%s has no %s:\n%s", path, key, text)
	return ""
}

// quiet drops what the client says while the ensemble starts.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// writeNodes writes into an empty ensemble what a broker of ZooKeeper mode must find there to take a directory for its own:
// the cluster's id and the topics with their ids.
func writeNodes(t testing.TB, ensemble *harness.ZooKeeper, dir string) (brokerID string) {
	t.Helper()
	conn, events, err := zk.Connect([]string{ensemble.Addr}, 10*time.Second, zk.WithLogger(quiet{}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for ctx := harness.Context(t, time.Minute); conn.State() != zk.StateHasSession; {
		select {
		case <-events:
		case <-ctx.Done():
			t.Fatalf("no session with ZooKeeper: %v\n%s", conn.State(), ensemble.Log())
		}
	}
	create := func(path string, value any) {
		data := []byte{}
		if value != nil {
			if data, err = json.Marshal(value); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := conn.Create(path, data, 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatalf("create %s: %v", path, err)
		}
	}
	meta := filepath.Join(dir, "meta.properties")
	brokerID = property(t, meta, "broker.id")
	id, err := strconv.Atoi(brokerID)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/cluster", "/brokers", "/brokers/topics", "/config", "/config/topics"} {
		create(path, nil)
	}
	create("/cluster/id", map[string]string{"version": "1", "id": property(t, meta, "cluster.id")})

	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	partitions, ids := map[string]map[string][]int{}, map[string]string{}
	for _, entry := range entries {
		m := folder.FindStringSubmatch(entry.Name())
		if m == nil || !entry.IsDir() {
			continue
		}
		if partitions[m[1]] == nil {
			partitions[m[1]] = map[string][]int{}
		}
		partitions[m[1]][m[2]] = []int{id}
		ids[m[1]] = partitionMetadata(t, filepath.Join(dir, entry.Name(), "partition.metadata"))
	}
	for topic, assigned := range partitions {
		create("/config/topics/"+topic, map[string]any{"version": 1, "config": map[string]string{}})
		create("/brokers/topics/"+topic, map[string]any{
			"version": 3, "topic_id": ids[topic], "partitions": assigned,
			"adding_replicas": map[string]any{}, "removing_replicas": map[string]any{},
		})
	}
	return brokerID
}

// partitionMetadata reads the topic id from a partition.metadata file.
func partitionMetadata(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`^version: 0\ntopic_id: (\S{22})`).FindSubmatch(text)
	if m == nil {
		t.Fatalf("%s holds %q", path, text)
	}
	return string(m[1])
}

// TestServedByKafka39: a real 3.9.2 broker, given znodes with the same topic ids, serves a directory of ours, after a clean
// stop and after kill -9.
func TestServedByKafka39(t *testing.T) {
	harness.Need(t, "java")
	if harness.Peer() == harness.Kafka44 {
		t.Skip("3.9 does not read the directory of a KRaft broker")
	}
	for _, end := range []string{"clean stop", "kill -9"} {
		t.Run(end, func(t *testing.T) {
			b := harness.Start(t, harness.Options{Props: map[string]string{"log.segment.bytes": "1048576"}})
			harness.CreateTopic(t, b, "ours", 2)
			for _, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
				fill(t, b, "ours", codec, nil, 3000)
			}
			commitHalf(t, b, "movers", "ours")
			before := readAll(t, b, "ours")
			if end == "clean stop" {
				b.Stop()
				if _, err := os.Stat(filepath.Join(b.DataDir(), ".kafka_cleanshutdown")); err != nil {
					t.Error(err)
				}
			} else {
				b.Kill()
			}

			ensemble := harness.StartZooKeeper(t)
			id := writeNodes(t, ensemble, b.DataDir())
			kafka := harness.Start(t, harness.Options{Kind: harness.Kafka39, Dir: t.TempDir(), Props: map[string]string{
				"log.dirs": b.DataDir(), "broker.id": id, "zookeeper.connect": ensemble.Addr,
			}})
			awaitTopic(t, kafka, "ours", 2)
			same(t, "ours", readAll(t, kafka, "ours"), before)
			wantCommitted(t, kafka, "movers", "ours")
			fill(t, kafka, "ours", kgo.NoCompression(), nil, 10)
			for _, complaint := range []string{"Found a corrupted index", "Inconsistent topic", "stray"} {
				if end == "clean stop" && strings.Contains(kafka.Log(), complaint) {
					t.Errorf("Kafka complains of what it found: %s", complaint)
				}
			}
		})
	}
}

// TestOneBrokerPerDirectory: a second broker, ours or a Java one, is refused while the first runs.
func TestOneBrokerPerDirectory(t *testing.T) {
	b := harness.Start(t, harness.Options{})
	kinds := []harness.Kind{b.Kind}
	if b.Kind == harness.Gregor {
		kinds = append(kinds, harness.Kafka39)
	}
	for _, kind := range kinds {
		t.Run("second "+string(kind), func(t *testing.T) {
			if kind != harness.Gregor {
				harness.Need(t, "java")
			}
			_, code, err := harness.TryStart(t, harness.Options{Kind: kind, Dir: t.TempDir(), Props: map[string]string{"log.dirs": b.DataDir()}})
			if err == nil {
				t.Fatal("it started")
			}
			if code == 0 {
				t.Error("it ended with exit code 0")
			}
			if kind == harness.Gregor && (!strings.Contains(err.Error(), b.DataDir()) || !strings.Contains(err.Error(), "another")) {
				t.Errorf("the refusal does not say which directory another broker uses:\n%v", err)
			}
		})
	}
	harness.CreateTopic(t, b, "unharmed", 1)

	if b.Kind == harness.Gregor {
		t.Run("of a Java broker", func(t *testing.T) {
			harness.Need(t, "java")
			kafka := harness.Start(t, harness.Options{Kind: harness.Kafka39})
			if _, _, err := harness.TryStart(t, harness.Options{Dir: t.TempDir(), Props: map[string]string{"log.dirs": kafka.DataDir()}}); err == nil {
				t.Fatal("it started on the directory of a running Java broker")
			}
		})
	}
}

// TestKRaftDirectoryRefused: what a KRaft broker wrote is refused in words.
func TestKRaftDirectoryRefused(t *testing.T) {
	harness.Need(t, "java")
	if harness.Peer() != harness.Gregor {
		t.Skip("about gregor")
	}
	kafka := harness.Start(t, harness.Options{Kind: harness.Kafka44})
	kafka.Kill()
	_, code, err := harness.TryStart(t, harness.Options{Dir: t.TempDir(), Props: map[string]string{"log.dirs": kafka.DataDir()}})
	if err == nil || code == 0 || !strings.Contains(err.Error(), "KRaft") {
		t.Errorf("serving it ended with %d: %v; want a refusal that names KRaft", code, err)
	}
	out := harness.Command(t, time.Minute, "", nil, harness.Binary(), "import", kafka.DataDir())
	if out.Code == 0 || !strings.Contains(out.String(), "KRaft") {
		t.Errorf("importing it ended with %d:\n%s", out.Code, out)
	}
	if _, err := os.Stat(filepath.Join(kafka.DataDir(), "__cluster_metadata-0")); err != nil {
		t.Error(fmt.Errorf("after the refusals: %w", err))
	}
}
