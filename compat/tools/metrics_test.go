package tools

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gregor-broker/gregor/compat/harness"
)

// TestMetricNames: at the same work, what the JMX exporter shows of Kafka under its example's rules is shown under the same names
// and with the same labels, but for what broker/observe/testdata/not-shown.txt gives a reason for; and nothing else has a name
// of Kafka's. What Kafka shows is in broker/observe/testdata/kafka-*.txt; this test writes it when it runs against Kafka with the
// exporter's Java agent and its example kafka-2_0_0.yml:
//
//	GREGOR_COMPAT=1 GREGOR_COMPAT_PEER=kafka-4.4 GREGOR_JMX_AGENT=…/jmx_prometheus_javaagent-1.0.1.jar GREGOR_JMX_RULES=…/kafka-2_0_0.yml \
//		go test ./compat/tools -run TestMetricNames
func TestMetricNames(t *testing.T) {
	port, err := harness.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	o := harness.Options{Props: map[string]string{"gregor.http.listener": address, "group.initial.rebalance.delay.ms": "0"}}
	agent, rules := os.Getenv("GREGOR_JMX_AGENT"), os.Getenv("GREGOR_JMX_RULES")
	if peer := harness.Peer(); peer != harness.Gregor {
		if agent == "" || rules == "" {
			t.Skip("GREGOR_JMX_AGENT and GREGOR_JMX_RULES do not say where the JMX exporter is")
		}
		o = harness.Options{Env: []string{"JAVA_TOOL_OPTIONS=-javaagent:" + agent + "=" + address + ":" + rules}}
	}
	b := harness.Start(t, o)
	beMeasured(t, b)
	shown := scrape(t, "http://"+address+"/metrics")
	switch b.Kind {
	case harness.Kafka39:
		writeNames(t, "kafka-3.9.2.txt", shown)
	case harness.Kafka44:
		writeNames(t, "kafka-4.4.0.txt", shown)
	default:
		compareNames(t, "kafka-4.4.0.txt", shown)
	}
}

// TestMetricNamesOnZooKeeper: what 3.9 has besides, on ZooKeeper, is shown there.
func TestMetricNamesOnZooKeeper(t *testing.T) {
	harness.Need(t, "java")
	if harness.Peer() != harness.Gregor {
		return // TestMetricNames
	}
	port, err := harness.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	b := harness.Start(t, harness.Options{Props: map[string]string{
		"gregor.http.listener": address, "zookeeper.connect": harness.StartZooKeeper(t).Addr, "broker.id": "1",
		"offsets.topic.replication.factor": "1", "transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1",
		"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1", "group.initial.rebalance.delay.ms": "0",
	}})
	beMeasured(t, b)
	compareNames(t, "kafka-3.9.2.txt", scrape(t, "http://"+address+"/metrics"))
}

// beMeasured has clients with quotas do a bit of everything.
func beMeasured(t *testing.T, b *harness.Broker) {
	t.Helper()
	ctx := harness.Context(t, time.Minute)
	const client, topic = "metered", "orders"
	id := kgo.ClientID(client)
	admin := kadm.NewClient(harness.Client(t, b, id))
	limits := []kadm.AlterClientQuotaOp{
		{Key: "producer_byte_rate", Value: 1e8}, {Key: "consumer_byte_rate", Value: 1e8},
		{Key: "request_percentage", Value: 1e5}, {Key: "controller_mutation_rate", Value: 1e4},
	}
	name := client
	if _, err := admin.AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{{
		Entity: kadm.ClientQuotaEntity{{Type: "client-id", Name: &name}}, Ops: limits,
	}}); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, time.Minute, func() error { // 4.4's broker learns of quotas behind the controller's back
		quotas, err := admin.DescribeClientQuotas(ctx, true, []kadm.DescribeClientQuotaComponent{{Type: "client-id", MatchName: &name}})
		if err == nil && len(quotas) == 0 {
			err = fmt.Errorf("no quotas")
		}
		return err
	})
	harness.CreateTopic(t, b, topic, 2)
	if _, err := admin.CreateTopic(ctx, 1, 1, nil, "more"); err != nil {
		t.Fatal(err)
	}
	harness.CreateTopic(t, b, "small", 1, "max.message.bytes", "200")
	producer := harness.Client(t, b, id, kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err := producer.ProduceSync(ctx, &kgo.Record{Topic: "small", Value: make([]byte, 1000)}).FirstErr(); !errors.Is(err, kerr.MessageTooLarge) {
		t.Fatalf("a record that is too large: %v", err)
	}
	if err := producer.ProduceSync(ctx, kgo.StringRecord("a"), kgo.StringRecord("b")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	tx := harness.Client(t, b, id, kgo.DefaultProduceTopic(topic), kgo.TransactionalID("tx"))
	if err := tx.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := tx.ProduceSync(ctx, kgo.StringRecord("c")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := tx.EndTransaction(ctx, kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	member := harness.Client(t, b, id, kgo.ConsumerGroup("readers"), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	harness.ReadAndCommit(t, member, 3)
}

var (
	sampleLine = regexp.MustCompile(`^(kafka_\w+)(?:\{(.*)\})? \S+$`)
	labelName  = regexp.MustCompile(`(\w+)="(?:[^"\\]|\\.)*"`)
)

// page returns what is shown.
func page(t *testing.T, url string) string {
	t.Helper()
	client := http.Client{Timeout: time.Minute}
	answer, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v:\n%.500s", answer.StatusCode, err, text)
	}
	return string(text)
}

// scrape returns the names and labels, "name label,label", of what begins with kafka_.
func scrape(t *testing.T, url string) map[string]bool {
	t.Helper()
	shown := map[string]bool{}
	for line := range strings.Lines(page(t, url)) {
		m := sampleLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		var labels []string
		for _, l := range labelName.FindAllStringSubmatch(m[2], -1) {
			labels = append(labels, l[1])
		}
		slices.Sort(labels)
		shown[strings.TrimSpace(m[1]+" "+strings.Join(labels, ","))] = true
	}
	return shown
}

func namesFile(name string) string {
	return filepath.Join(harness.Root(), "broker", "observe", "testdata", name)
}

func writeNames(t *testing.T, file string, shown map[string]bool) {
	t.Helper()
	text := "# What the JMX exporter shows of Apache Kafka, with its example kafka-2_0_0.yml: name and labels.\n" +
		"# Written by TestMetricNames of compat/tools.\n" + strings.Join(slices.Sorted(maps.Keys(shown)), "\n") + "\n"
	if err := os.WriteFile(namesFile(file), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// dataLines are those of a file that are no comments.
func dataLines(t *testing.T, file string) (found []string) {
	t.Helper()
	text, err := os.ReadFile(namesFile(file))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			found = append(found, line)
		}
	}
	return found
}

// compareNames compares with a version's names; others of Kafka's may be shown too.
func compareNames(t *testing.T, file string, shown map[string]bool) {
	t.Helper()
	reasons := dataLines(t, "not-shown.txt")
	excused := func(name string) bool {
		return slices.ContainsFunc(reasons, func(reason string) bool {
			match, err := path.Match(strings.Fields(reason)[0], name)
			return match && err == nil
		})
	}
	now, both := dataLines(t, file), map[string]bool{}
	if len(now) < 100 {
		t.Fatalf("only %d names in %s", len(now), file)
	}
	for _, line := range now {
		name, _, _ := strings.Cut(line, " ")
		if !shown[line] && !excused(name) {
			t.Errorf("%s has %s, and we do not", file, line)
		}
	}
	for _, line := range slices.Concat(dataLines(t, "kafka-3.9.2.txt"), dataLines(t, "kafka-4.4.0.txt")) {
		both[line] = true
	}
	// What the exporter makes without rules, or with its other example, for KRaft, whose names hold clients' and brokers' ids.
	own := regexp.MustCompile(`^kafka_server_(socket_server_metrics_connections |client_metrics_instance_count$)`)
	for line := range shown {
		if !both[line] && !own.MatchString(line) {
			t.Errorf("%s is shown, which is nothing of Kafka's", line)
		}
	}
}
