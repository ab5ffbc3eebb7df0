package broker

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/store/storetest"
	"github.com/gregor-broker/gregor/wire/clock"
)

// get asks a broker over HTTP.
func get(t *testing.T, b *Broker, path string) (status int, body string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	response, err := client.Get("http://" + b.HTTPAddr().String() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(raw)
}

// metricNames are those that a text mentions.
var metricNames = regexp.MustCompile(`\b(kafka|gregor|go|process)_[a-z0-9_]+`)

// processors is a metric that the network engine of these tests has nothing for; TestMetricNames of compat/tools sees it.
const processors = "kafka_network_socketserver_networkprocessoravgidlepercent"

// TestMetrics: a broker at work shows what it does, and every metric that the dashboard looks at.
func TestMetrics(t *testing.T) {
	b, _ := start(t, t.TempDir(), "gregor.http.listener=127.0.0.1:0")
	cl := client(t, b, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SoftwareNameAndVersion("a-client", "1.2"), kgo.DisableAutoCommit())
	defer cl.Close()
	createTopic(t, cl, "t", 1, nil)
	produce(t, cl, "t", 0, 10)
	for n := 0; n < 10; {
		n += cl.PollFetches(t.Context()).NumRecords()
	}
	if err := cl.CommitUncommittedOffsets(t.Context()); err != nil {
		t.Fatal(err)
	}
	produce(t, cl, "t", 10, 13)
	refused := kmsg.NewPtrListOffsetsRequest()
	lt := kmsg.NewListOffsetsRequestTopic()
	lt.Topic, lt.Partitions = "nowhere", append(lt.Partitions, kmsg.NewListOffsetsRequestTopicPartition())
	refused.Topics = append(refused.Topics, lt)
	if _, err := refused.RequestWith(t.Context(), cl.SeedBrokers()[0]); err != nil {
		t.Fatal(err)
	}
	status, text := get(t, b, "/metrics")
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, text)
	}
	for _, line := range []string{
		`kafka_server_brokertopicmetrics_messagesin_total{topic="__consumer_offsets"} `,
		`kafka_server_brokertopicmetrics_messagesin_total{topic="t"} 13`,
		`kafka_log_log_logendoffset{partition="0",topic="t"} 13`,
		`gregor_consumergroup_offset{group="g",partition="0",topic="t"} 10`,
		`gregor_consumergroup_lag{group="g",partition="0",topic="t"} 3`,
		`kafka_cluster_partition_insyncreplicascount{partition="0",topic="t"} 1`,
		`kafka_cluster_partition_atminisr{partition="0",topic="t"} 1`,
		`kafka_cluster_partition_underreplicated{partition="0",topic="t"} 0`,
		`kafka_coordinator_group_groupmetadatamanager_numgroups 1`,
		`kafka_coordinator_group_groupmetadatamanager_numgroupsstable 1`,
		`kafka_coordinator_group_groupmetadatamanager_numoffsets 1`,
		`kafka_server_replicamanager_produceridcount 1`,
		`kafka_log_logmanager_offlinelogdirectorycount 0`,
		`kafka_log_logmanager_logdirectoryoffline{logDirectory="\"/`,
		`kafka_network_requestmetrics_totaltimems_count_total{request="FetchConsumer"} `,
		`kafka_network_requestmetrics_requestbytes{quantile="0.50",request="InitProducerId"} `,
		`kafka_network_socketserver_memorypoolused `,
		`kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent `,
		`gregor_consumergroup_state{group="g",state="Stable"} 1`,
		`kafka_server_replicamanager_underreplicatedpartitions 0`,
		`kafka_server_replicamanager_leadercount 4`,
		`kafka_controller_kafkacontroller_activecontrollercount 1`,
		`kafka_controller_kafkacontroller_globaltopiccount 2`,
		`kafka_network_requestmetrics_errors_total{error="UNKNOWN_TOPIC_OR_PARTITION",request="ListOffsets"} 1`,
		`kafka_network_requestmetrics_requests_total{request="InitProducerId",version="`,
		`kafka_network_requestmetrics_totaltimems{quantile="0.99",request="Produce"} `,
		`kafka_network_requestmetrics_responsesendtimems_count_total{request="InitProducerId"} `,
		`kafka_network_requestmetrics_responsesendtimems{quantile="0.99",request="Produce"} `,
		`kafka_server_socket_server_metrics_connections{clientSoftwareName="a-client",clientSoftwareVersion="1.2",listener="PLAINTEXT"} `,
	} {
		if !strings.Contains(text, "\n"+line) {
			t.Errorf("there is no line %s", line)
		}
	}
	shown := map[string]bool{}
	for line := range strings.Lines(text) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, _, _ = strings.Cut(name, "{")
		shown[name] = true
		if help, ok := strings.CutPrefix(line, "# HELP "); ok && len(strings.Fields(help)) < 2 {
			t.Errorf("a metric without a description: %s", line)
		}
	}
	raw, err := os.ReadFile("../docs/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(raw) {
		t.Error("the dashboard is no JSON")
	}
	names := metricNames.FindAllString(string(raw), -1)
	if len(names) < 15 {
		t.Errorf("the dashboard looks at %q", names)
	}
	for _, name := range names {
		if !shown[name] && name != processors {
			t.Errorf("the dashboard looks at %s, which is not there", name)
		}
	}
}

// TestPushedMetrics: what clients push is on the same page, with who pushed it.
func TestPushedMetrics(t *testing.T) {
	b, _ := start(t, t.TempDir(), "gregor.http.listener=127.0.0.1:0")
	admin := client(t, b)
	defer admin.Close()
	subscribe(t, admin, map[string]string{"metrics": "org.apache.kafka.producer.", "interval.ms": "100", "match": "client_id=app"})
	pushes := client(t, b, kgo.ClientID("app"), kgo.SoftwareNameAndVersion("a-client", "1.2"))
	defer pushes.Close()
	createTopic(t, admin, "t", 1, nil)
	shown := regexp.MustCompile(`(?m)^kafka_client_producer_\w+\{client_id="app",client_instance_id="[^"]{22}",client_software_name="a-client",client_software_version="1\.2"`)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for n := 0; ctx.Err() == nil; n++ {
		produce(t, pushes, "t", n, n+1)
		status, text := get(t, b, "/metrics")
		if status != http.StatusOK {
			t.Fatalf("status %d: %s", status, text)
		}
		if shown.MatchString(text) {
			return
		}
	}
	t.Error("what a client pushes is not shown")
}

// TestHealth: alive from the first moment on, ready while the broker serves.
func TestHealth(t *testing.T) {
	b, stop := start(t, t.TempDir(), "gregor.http.listener=127.0.0.1:0")
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 200, "/": 200, "/nothing": 404} {
		if status, _ := get(t, b, path); status != want {
			t.Errorf("%s: %d", path, status)
		}
	}
	b.serving.Store(false)
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503, "/metrics": 503} {
		if status, _ := get(t, b, path); status != want {
			t.Errorf("%s of a broker that does not serve: %d", path, status)
		}
	}
	stop()
}

// silentStore is a ZooKeeper that never answers.
type silentStore struct {
	store.Store
	asked chan struct{}
}

func (s silentStore) Read(ctx context.Context, _ ...store.Req) ([]store.Node, error) {
	close(s.asked)
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestHealthOfAStart: a broker that waits, as it does for ZooKeeper or while it recovers its logs, is alive and not ready.
func TestHealthOfAStart(t *testing.T) {
	snapshot, _, err := config.Load(config.Sources{Overrides: []string{
		"log.dirs=" + t.TempDir(), "listeners=PLAINTEXT://127.0.0.1:0", "zookeeper.connect=in-memory:1", "gregor.http.listener=127.0.0.1:0",
	}})
	if err != nil {
		t.Fatal(err)
	}
	s := silentStore{storetest.NewFake(clock.System).Client(), make(chan struct{})}
	b := New(Options{Config: snapshot, Logger: zap.NewNop(), Pipes: true, Store: s})
	ctx, cancel := context.WithCancel(t.Context())
	started := make(chan error, 1)
	go func() { started <- b.Start(ctx) }()
	<-s.asked
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503, "/metrics": 503} {
		status, body := get(t, b, path)
		if status != want || want == 503 && !strings.Contains(body, "(step: ZooKeeper)") {
			t.Errorf("%s of a broker that starts: %d, %s", path, status, body)
		}
	}
	cancel()
	if err := <-started; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if conn, err := net.Dial("tcp", b.HTTPAddr().String()); err == nil {
		conn.Close()
		t.Error("it answers after the start was given up")
	}
}

// Without the key nothing is counted and nothing listens.
func TestNotShown(t *testing.T) {
	b, _ := start(t, t.TempDir())
	if b.HTTPAddr() != nil || b.services.Meter != nil {
		t.Error("the broker answers over HTTP unasked")
	}
}

// Every so manieth request is in the log, with what came of it.
func TestRequestLog(t *testing.T) {
	snapshot, _, err := config.Load(config.Sources{Overrides: []string{"log.dirs=" + t.TempDir(), "listeners=PLAINTEXT://127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	core, logged := observer.New(zapcore.InfoLevel)
	b := New(Options{Config: snapshot, Logger: zap.New(core), Pipes: true, LogRequests: 2})
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	cl := client(t, b)
	const asked = 10
	for range asked {
		r := kmsg.NewPtrListOffsetsRequest()
		topic := kmsg.NewListOffsetsRequestTopic()
		topic.Topic, topic.Partitions = "nowhere", append(topic.Partitions, kmsg.NewListOffsetsRequestTopicPartition())
		r.Topics = append(r.Topics, topic)
		if _, err := r.RequestWith(t.Context(), cl.SeedBrokers()[0]); err != nil {
			t.Fatal(err)
		}
	}
	cl.Close()
	if err := b.Stop(nil); err != nil {
		t.Error(err)
	}
	lines := 0
	for _, entry := range logged.FilterMessage("request").All() {
		if fields := entry.ContextMap(); fields["api"] == "ListOffsets" {
			lines++
			if fields["error"] == nil || fields["dur"] == nil || fields["client_id"] != "kgo" {
				t.Errorf("a line holds %v", fields)
			}
		}
	}
	if lines != asked/2 {
		t.Errorf("%d lines about %d requests", lines, asked)
	}
}
