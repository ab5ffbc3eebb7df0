// Package cli runs the daily commands of the built binary against the broker.
package cli

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestMain(m *testing.M) { harness.Main(m) }

// gregor runs a command, which must succeed, and returns its standard output.
func gregor(t testing.TB, b *harness.Broker, stdin string, args ...string) string {
	t.Helper()
	out := run(t, b, stdin, args...)
	if out.Code != 0 {
		t.Fatalf("gregor %v ended with %d:\n%s", args, out.Code, out)
	}
	return out.Stdout
}

func run(t testing.TB, b *harness.Broker, stdin string, args ...string) harness.Output {
	t.Helper()
	return harness.Command(t, time.Minute, stdin, []string{"GREGOR_BOOTSTRAP_SERVER=" + b.Addr}, harness.Binary(), args...)
}

func wantMatch(t testing.TB, out string, patterns ...string) {
	t.Helper()
	for _, pattern := range patterns {
		if !regexp.MustCompile(`(?m)` + pattern).MatchString(out) {
			t.Errorf("no match of %q in:\n%s", pattern, out)
		}
	}
}

// TestReadme: what the README tells a newcomer to type.
func TestReadme(t *testing.T) {
	b := harness.Start(t, harness.Options{})
	gregor(t, b, "", "topic", "create", "greetings", "--partitions", "3")
	gregor(t, b, "hello\n", "produce", "greetings")
	if got := gregor(t, b, "", "consume", "greetings", "--follow=false"); got != "hello\n" {
		t.Errorf("consumed %q", got)
	}
	gregor(t, b, "", "group", "list")
	gregor(t, b, "", "config", "describe", "broker", "1")
	gregor(t, b, "", "config", "alter", "broker", "all", "--config", "log.retention.ms=86400000")
	gregor(t, b, "", "config", "describe", "broker", "1", "--key", "log.retention.ms")
	gregor(t, b, "", "config", "alter", "logger", "1", "--config", "kafka.log.LogCleaner=DEBUG")
	gregor(t, b, "", "quota", "set", "--client-id", "reports", "consumer_byte_rate=1000000")
	gregor(t, b, "", "doctor")
	gregor(t, b, "", "--help")
	gregor(t, b, "", "completion", "bash")
	wantMatch(t, gregor(t, b, "", "version"), `^gregor \S+`)
}

func TestTopics(t *testing.T) {
	b := harness.Shared(t)
	gregor(t, b, "", "topic", "create", "cli", "--partitions", "2", "--config", "retention.ms=5000")
	if out := run(t, b, "", "topic", "create", "cli"); out.Code == 0 || !strings.Contains(out.String(), "exists") {
		t.Errorf("creating it again ended with %d:\n%s", out.Code, out)
	}
	wantMatch(t, gregor(t, b, "", "topic", "list"), `^cli\b`)
	wantMatch(t, gregor(t, b, "", "topic", "describe", "cli"), `retention\.ms\S*\s*\S*5000`)
	gregor(t, b, "", "topic", "alter", "cli", "--config", "max.message.bytes=2000", "--delete-config", "retention.ms", "--partitions", "4")
	described := gregor(t, b, "", "topic", "describe", "cli")
	wantMatch(t, described, `max\.message\.bytes\s+2000`, `^partitions\s+4$`, `^3\s`)
	if strings.Contains(described, "retention.ms") {
		t.Errorf("a setting that was taken back is described:\n%s", described)
	}
	if out := run(t, b, "", "topic", "alter", "cli", "--config", "retention.ms=soon"); out.Code == 0 || !strings.Contains(out.String(), "retention.ms") {
		t.Errorf("a bad value ended with %d:\n%s", out.Code, out)
	}
	gregor(t, b, "", "topic", "delete", "cli")
	if out := gregor(t, b, "", "topic", "list"); strings.Contains(out, "cli\n") {
		t.Errorf("the deleted topic is listed:\n%s", out)
	}
}

func TestRecordsAndGroups(t *testing.T) {
	b := harness.Shared(t)
	harness.CreateTopic(t, b, "records", 1)
	var lines strings.Builder
	for i := range 20 {
		fmt.Fprintf(&lines, "k%d:v%d\n", i, i)
	}
	gregor(t, b, lines.String(), "produce", "records", "--key-separator", ":", "--header", "a=1", "--compression", "zstd")
	if got := gregor(t, b, "", "consume", "records", "--follow=false", "--format", `%k:%v\n`); got != lines.String() {
		t.Errorf("consumed:\n%s", got)
	}
	if got := gregor(t, b, "", "consume", "records", "--offset", "17", "--num", "2", "--format", `%p:%o %h %v\n`); got != "0:17 a=1 v17\n0:18 a=1 v18\n" {
		t.Errorf("consumed %q", got)
	}
	if got := gregor(t, b, "", "consume", "records", "--group", "cli-group", "--num", "5", "--format", `%o\n`); got != "0\n1\n2\n3\n4\n" {
		t.Errorf("the group consumed %q", got)
	}
	if got := gregor(t, b, "", "consume", "records", "--follow=false", "--partition", "0", "--offset", "-2", "--format", `%o\n`); got != "18\n19\n" {
		t.Errorf("the last two of the partition are %q", got)
	}
	wantMatch(t, gregor(t, b, "", "group", "list"), `^cli-group\b`)
	wantMatch(t, gregor(t, b, "", "group", "describe", "cli-group"), `records\s+0\s+5\s+20\s+15`)
	wantMatch(t, gregor(t, b, "", "group", "reset", "cli-group", "--topic", "records", "--to", "start"), `records\s+0\s+5\s+0`)
	wantMatch(t, gregor(t, b, "", "group", "describe", "cli-group"), `records\s+0\s+5\s+20\s+15`) // it only showed what it would do
	gregor(t, b, "", "group", "reset", "cli-group", "--topic", "records", "--to", "start", "--execute")
	wantMatch(t, gregor(t, b, "", "group", "describe", "cli-group"), `records\s+0\s+0\s+20\s+20`)
	gregor(t, b, "", "group", "delete", "cli-group")
	if out := gregor(t, b, "", "group", "list"); strings.Contains(out, "cli-group") {
		t.Errorf("the deleted group is listed:\n%s", out)
	}
}

// TestGroupOfConsumerProtocol: a group of the consumer protocol (KIP-848) is described as others are.
func TestGroupOfConsumerProtocol(t *testing.T) {
	b := harness.Shared(t)
	gregor(t, b, "", "topic", "create", "modern", "--partitions", "2")
	gregor(t, b, "a\nb\n", "produce", "modern")
	member := harness.Client(t, b, kgo.ConsumerGroup("modern-group"), kgo.ConsumeTopics("modern"), kgo.ServerSideBalancer(),
		kgo.Balancers(kgo.StickyBalancer()), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	harness.ReadAndCommit(t, member, 2)
	wantMatch(t, gregor(t, b, "", "group", "describe", "modern-group"), `^state\s+Stable$`, `^assignor\s+uniform$`, `^members\s+1$`, `^lag\s+0$`,
		`^modern\s+0\s.*\s/127\.0\.0\.1$`, `^modern\s+1\s.*\s/127\.0\.0\.1$`)
	if out := run(t, b, "", "group", "describe", "no-such-group"); out.Code == 0 || !strings.Contains(out.String(), "GROUP_ID_NOT_FOUND") {
		t.Errorf("describing a group that does not exist ended with %d:\n%s", out.Code, out)
	}
}

// TestAPIVersions: what the broker says that it serves is shown.
func TestAPIVersions(t *testing.T) {
	wantMatch(t, gregor(t, harness.Shared(t), "", "api-versions"), `^broker \d+$`, `^0\s+Produce\s+0-1[13]$`, `^18\s+ApiVersions\s+0-`)
}

func TestBench(t *testing.T) {
	b := harness.Shared(t)
	for _, args := range [][]string{
		{"produce", "--records", "2000", "--size", "100"}, {"consume"}, {"latency", "--rate", "100", "--duration", "2s"},
	} {
		out := gregor(t, b, "", append([]string{"bench", "--json"}, args...)...)
		wantMatch(t, out, `^\{.*"[a-z0-9_]+":.*\}$`)
	}
}

// TestTransactions: what is open is listed and described, and a transaction is aborted in its partition.
func TestTransactions(t *testing.T) {
	b := harness.Shared(t)
	harness.CreateTopic(t, b, "payments", 1)
	cl := harness.Client(t, b, kgo.TransactionalID("pay-1"), kgo.DefaultProduceTopic("payments"))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(harness.Context(t, time.Minute), kgo.StringRecord("open")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	wantMatch(t, gregor(t, b, "", "txn", "list", "--state", "Ongoing"), `^pay-1\s+Ongoing\s+\d+\s+\d+$`)
	if out := gregor(t, b, "", "txn", "list", "--longer-than", "1h"); strings.Contains(out, "pay-1") {
		t.Errorf("open for an hour:\n%s", out)
	}
	if out := run(t, b, "", "txn", "list", "--state", "Open"); out.Code != 2 || !strings.Contains(out.String(), "want Empty, Ongoing") {
		t.Errorf("a state that does not exist ended with %d:\n%s", out.Code, out)
	}
	wantMatch(t, gregor(t, b, "", "txn", "describe", "pay-1"), `^state\s+Ongoing$`, `^payments\s+0$`)
	if out := run(t, b, "", "txn", "describe", "nobody"); out.Code == 0 || !strings.Contains(out.String(), "TRANSACTIONAL_ID_NOT_FOUND") {
		t.Errorf("an unknown id ended with %d:\n%s", out.Code, out)
	}
	wantMatch(t, gregor(t, b, "", "txn", "abort", "--topic", "payments", "--start-offset", "0"), `^payments-0: the transaction of producer \d+ is aborted$`)
	if out := run(t, b, "", "txn", "abort", "--topic", "payments", "--start-offset", "0"); out.Code == 0 || !strings.Contains(out.String(), "no open transaction") {
		t.Errorf("aborting it again ended with %d:\n%s", out.Code, out)
	}
}
