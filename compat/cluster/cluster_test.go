// Package cluster runs three brokers on a real ZooKeeper: Kafka's tools and clients against them, and faults.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gregor-broker/gregor/compat/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

const limit = time.Minute

var names atomic.Int64

// name returns a name for a topic or group that no other test uses.
func name(prefix string) string { return fmt.Sprintf("%s-%d", prefix, names.Add(1)) }

// shared returns the cluster that the tests use together, and the tools of Kafka 3.9, which still know ZooKeeper.
func shared(t *testing.T) (*harness.Cluster, *tools) {
	t.Helper()
	harness.NeedCluster(t)
	c := harness.SharedCluster(t)
	return c, &tools{harness.JavaTools(t, harness.V39), c}
}

// bothVersions runs a test with the tools of each version.
func bothVersions(t *testing.T, test func(t *testing.T, c *harness.Cluster, tools *tools)) {
	for _, version := range []string{harness.V39, harness.V44} {
		t.Run(version, func(t *testing.T) {
			c, tools := shared(t)
			tools.Tools = harness.JavaTools(t, version)
			test(t, c, tools)
		})
	}
}

// tools are Kafka's, told where the cluster is.
type tools struct {
	*harness.Tools
	cluster *harness.Cluster
}

// run runs a tool that must succeed.
func (r *tools) run(t testing.TB, tool string, args ...string) harness.Output {
	t.Helper()
	return r.Run(t, tool, append([]string{"--bootstrap-server", r.seeds()}, args...)...)
}

// try runs a tool that may fail.
func (r *tools) try(t testing.TB, tool string, args ...string) harness.Output {
	t.Helper()
	return r.Try(t, tool, "", append([]string{"--bootstrap-server", r.seeds()}, args...)...)
}

// seeds are the living brokers.
func (r *tools) seeds() string {
	var addrs []string
	for _, id := range r.cluster.Alive() {
		addrs = append(addrs, r.cluster.Broker(id).Addr)
	}
	return strings.Join(addrs, ",")
}

// shellNews matches what zookeeper-shell prints beside an answer: another of its threads tells of the connection, before or after it.
var shellNews = regexp.MustCompile(`^(Connecting to |WATCHER::$|WatchedEvent )`)

// zookeeper runs one command of 3.9's zookeeper-shell and returns the last line of its answer.
func (r *tools) zookeeper(t testing.TB, command ...string) string {
	t.Helper()
	out := harness.JavaTools(t, harness.V39).RunAlone(t, "zookeeper-shell", append([]string{"-server", r.cluster.ZooKeeper.Addr}, command...)...)
	answer := ""
	for line := range strings.Lines(out.Stdout) {
		if line = strings.TrimSpace(line); line != "" && !shellNews.MatchString(line) {
			answer = line
		}
	}
	return answer
}

// wantMatch fails the test unless the output has something that matches each pattern.
func wantMatch(t testing.TB, out harness.Output, patterns ...string) {
	t.Helper()
	for _, pattern := range patterns {
		if !regexp.MustCompile(`(?m)` + pattern).MatchString(out.String()) {
			t.Errorf("no match of %q in:\n%.3000s", pattern, out)
		}
	}
}

// fill writes n records of that size to each partition of a topic, with acks=all.
func fill(t testing.TB, c *harness.Cluster, topic string, partitions, n, size int) {
	t.Helper()
	client := c.Client(t, kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	defer client.Close()
	var records []*kgo.Record
	for i := range n {
		for p := range partitions {
			value := fmt.Appendf(make([]byte, 0, size), "%d of %d ", i, p)
			records = append(records, &kgo.Record{Partition: int32(p), Value: append(value, make([]byte, max(0, size-len(value)))...)})
		}
	}
	if err := client.ProduceSync(harness.Context(t, limit), records...).FirstErr(); err != nil {
		t.Fatalf("produce to %s: %v", topic, err)
	}
}

// errTryAgain ends a round of a loop that waits.
var errTryAgain = errors.New("not yet")

// count reads a topic from its start until it has seen n records and returns how many there were.
func count(t testing.TB, c *harness.Cluster, topic string, n int) int {
	t.Helper()
	client := c.Client(t, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	seen := 0
	for seen < n {
		fetches := client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			t.Fatalf("%s: %d records of %d within %v", topic, seen, n, limit)
		}
		seen += fetches.NumRecords()
	}
	return seen
}

// isOneOf reports whether the error is one of these.
func isOneOf(err error, codes ...*kerr.Error) bool {
	for _, code := range codes {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}
