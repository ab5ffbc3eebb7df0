package clients

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gregor-broker/gregor/compat/harness"
)

// connectLimit is how long workers of Kafka Connect may take for anything, on a busy machine.
const connectLimit = 2 * time.Minute

// worker is a worker of Kafka Connect.
type worker struct {
	address string // of its REST interface
	process *exec.Cmd
	log     string
}

// startWorker starts a worker of a group and returns once it answers.
func startWorker(t *testing.T, b *harness.Broker, version, plugins, group string) *worker {
	t.Helper()
	port, err := harness.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	w := &worker{address: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), log: filepath.Join(dir, "log")}
	var props strings.Builder
	for key, value := range map[string]string{
		"bootstrap.servers": b.Addr, "group.id": group, "listeners": "http://" + w.address, "plugin.discovery": "SERVICE_LOAD",
		"key.converter": "org.apache.kafka.connect.storage.StringConverter", "value.converter": "org.apache.kafka.connect.storage.StringConverter",
		"config.storage.topic": group + "-configs", "config.storage.replication.factor": "1",
		"offset.storage.topic": group + "-offsets", "offset.storage.replication.factor": "1", "offset.storage.partitions": "1", "offset.flush.interval.ms": "500",
		"status.storage.topic": group + "-status", "status.storage.replication.factor": "1", "status.storage.partitions": "1",
		"session.timeout.ms": "10000", "heartbeat.interval.ms": "500", "scheduled.rebalance.max.delay.ms": "0",
	} {
		fmt.Fprintf(&props, "%s=%s\n", key, value)
	}
	config := filepath.Join(dir, "worker.properties")
	if err := os.WriteFile(config, []byte(props.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(w.log)
	if err != nil {
		t.Fatal(err)
	}
	jars := filepath.Join(harness.KafkaHome(version), "lib", "*")
	w.process = exec.Command(harness.Java(), "-Xmx256M", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", jars+string(os.PathListSeparator)+plugins,
		"org.apache.kafka.connect.cli.ConnectDistributed", config)
	w.process.Stdout, w.process.Stderr = log, log
	if err := w.process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.kill()
		_ = log.Close()
		if t.Failed() {
			text, _ := os.ReadFile(w.log)
			t.Logf("a worker says\n%.3000s", text)
		}
	})
	harness.Eventually(t, connectLimit, func() error { return w.ask(http.MethodGet, "/connectors", "", nil) })
	return w
}

// kill ends the worker without a word.
func (w *worker) kill() {
	_ = w.process.Process.Kill()
	_ = w.process.Wait()
}

// ask sends a request to the worker's REST interface.
func (w *worker) ask(method, path, body string, answer any) error {
	r, err := http.NewRequest(method, "http://"+w.address+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	client := http.Client{Timeout: 30 * time.Second}
	response, err := client.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= 300 {
		err = fmt.Errorf("%s %s is answered with %d: %s", method, path, response.StatusCode, text)
	}
	if err == nil && answer != nil {
		err = json.Unmarshal(text, answer)
	}
	return err
}

// runsOn returns an error unless the connector's two tasks run on that many workers.
func (w *worker) runsOn(workers int) error {
	var status struct {
		Tasks []struct {
			State    string
			WorkerID string `json:"worker_id"`
		}
	}
	err := w.ask(http.MethodGet, "/connectors/ticks/status", "", &status)
	if err != nil {
		return err
	}
	at := map[string]bool{}
	for _, task := range status.Tasks {
		if at[task.WorkerID] = true; task.State != "RUNNING" {
			return fmt.Errorf("a task is %s", task.State)
		}
	}
	if len(status.Tasks) != 2 || len(at) != workers {
		return fmt.Errorf("%d tasks run on %v", len(status.Tasks), at)
	}
	return nil
}

// TestConnect: workers of Kafka Connect are a group of protocol type "connect": a second one takes work over, and all of it when the first
// is killed; nothing is left out.
func TestConnect(t *testing.T) {
	harness.Need(t, "java")
	b := harness.Shared(t)
	for _, version := range []string{harness.V39, harness.V44} {
		t.Run(version, func(t *testing.T) { connects(t, b, version) })
	}
}

func connects(t *testing.T, b *harness.Broker, version string) {
	plugins := t.TempDir()
	services := filepath.Join(plugins, "META-INF", "services")
	if err := os.MkdirAll(services, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(services, "org.apache.kafka.connect.source.SourceConnector"), []byte("ticks.Ticks\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	jars, err := filepath.Glob(filepath.Join(harness.KafkaHome(version), "lib", "*.jar"))
	if err != nil {
		t.Fatal(err)
	}
	compiled := harness.Command(t, connectLimit, "", nil, harness.Java(), "-m", "jdk.compiler/com.sun.tools.javac.Main",
		"-cp", strings.Join(jars, string(os.PathListSeparator)), "-d", plugins, "Ticks.java")
	if compiled.Code != 0 {
		t.Fatalf("Ticks.java does not compile:\n%s", compiled)
	}
	topic, group := name("ticks"), name("connect")
	harness.CreateTopic(t, b, topic, 1)
	admin := kadm.NewClient(harness.Client(t, b))
	described := func(workers int) {
		t.Helper()
		harness.Eventually(t, connectLimit, func() error {
			groups, err := admin.DescribeGroups(harness.Context(t, time.Minute), group)
			g := groups[group]
			if err == nil && (g.ProtocolType != "connect" || g.Protocol != "sessioned" || g.State != "Stable" || len(g.Members) != workers) {
				err = fmt.Errorf("the group is %s of type %q with protocol %q and %d members, want %d", g.State, g.ProtocolType, g.Protocol, len(g.Members), workers)
			}
			return err
		})
	}
	one := startWorker(t, b, version, plugins, group)
	described(1)
	harness.Eventually(t, connectLimit, func() error {
		return one.ask(http.MethodPut, "/connectors/ticks/config", fmt.Sprintf(`{"connector.class":"ticks.Ticks","tasks.max":"2","topic":%q}`, topic), nil)
	})
	harness.Eventually(t, connectLimit, func() error { return one.runsOn(1) })
	reader := harness.Client(t, b, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	next := map[string]int{}
	goOn := func() { // both tasks write five more
		t.Helper()
		from := map[string]int{"0": next["0"], "1": next["1"]}
		for ctx := harness.Context(t, connectLimit); next["0"] < from["0"]+5 || next["1"] < from["1"]+5; {
			fetches := reader.PollFetches(ctx)
			if err := fetches.Err(); err != nil {
				t.Fatalf("after %v: %v", next, err)
			}
			fetches.EachRecord(func(r *kgo.Record) {
				task, number, _ := strings.Cut(string(r.Value), " ")
				n, err := strconv.Atoi(number)
				if err != nil || n > next[task] {
					t.Errorf("%q follows %d", r.Value, next[task]-1)
				}
				next[task] = max(next[task], n+1)
			})
		}
	}
	goOn()
	two := startWorker(t, b, version, plugins, group)
	described(2)
	harness.Eventually(t, connectLimit, func() error { return two.runsOn(2) })
	goOn()
	one.kill()
	harness.Eventually(t, connectLimit, func() error { return two.runsOn(1) })
	described(1)
	goOn()
}
