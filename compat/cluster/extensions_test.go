package cluster

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gregor-broker/gregor/compat/harness"
)

// extendedClient is the program Extended.java, which does what it is told.
type extendedClient struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
	log   string
}

func startExtended(t *testing.T, c *harness.Cluster, args ...string) *extendedClient {
	t.Helper()
	jars := filepath.Join(harness.KafkaHome(harness.V44), "lib", "*")
	words := append([]string{"-Xmx256M", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", jars, "Extended.java", c.Seeds()}, args...)
	p := &extendedClient{cmd: exec.Command(harness.Java(), words...), log: filepath.Join(t.TempDir(), "log")}
	log, err := os.Create(p.log)
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stderr = log
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		p.in, err = p.cmd.StdinPipe()
	}
	if err == nil {
		p.lines, err = bufio.NewScanner(out), p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		_ = log.Close()
	})
	return p
}

// do has it do something and waits for that.
func (p *extendedClient) do(t *testing.T, line string) {
	t.Helper()
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		t.Fatal(err)
	}
	p.answers(t, line)
}

func (p *extendedClient) answers(t *testing.T, want string) {
	t.Helper()
	if !p.lines.Scan() || p.lines.Text() != want {
		t.Fatalf("it says %q, want %q, and logs\n%s", p.lines.Text(), want, read(t, p.log))
	}
}

// end closes its clients.
func (p *extendedClient) end(t *testing.T) {
	t.Helper()
	_ = p.in.Close()
	p.answers(t, "closed")
}

// TestExtensions: gregor.extensions is refused beside a broker of Kafka 3.9; without that one it brings groups of the consumer protocol and
// transactions of version 2 to clients that are connected already and to new ones, which go on when the coordinator dies; a broker of 3.9
// that comes is named; and the way back is open.
func TestExtensions(t *testing.T) {
	harness.NeedCluster(t)
	harness.Need(t, "java")
	if harness.Peer() != harness.Gregor {
		return // which has no such thing
	}
	c := harness.StartCluster(t, harness.ClusterOptions{
		Kinds: []harness.Kind{harness.Gregor, harness.Gregor, harness.Gregor, harness.Kafka39},
		Props: map[string]string{"group.consumer.min.heartbeat.interval.ms": "100", "group.consumer.heartbeat.interval.ms": "300"},
	})
	const lacks = "registered without the mark of it is broker 4"
	says := func(args string, code int, want string) {
		t.Helper()
		if out := gregor(t, c, "", strings.Fields(args)...); out.Code != code || !strings.Contains(out.String(), want) {
			t.Errorf("gregor %s ends with %d, want %d and %q:\n%s", args, out.Code, code, want, out)
		}
	}
	says("cluster extensions on", 1, lacks)
	says("cluster extensions", 0, lacks)
	tools := harness.JavaTools(t, harness.V44)
	if out := tools.Try(t, "kafka-features", "", "--bootstrap-server", c.Seeds(), "upgrade", "--feature", "gregor.extensions=1"); out.Code == 0 ||
		!strings.Contains(out.String(), "gregor.extensions") {
		t.Errorf("kafka-features beside 3.9 ends with %d:\n%s", out.Code, out)
	}
	c.Stop(t, 4)

	in, out, group := name("extended-in"), name("extended-out"), name("extended-group")
	for _, topic := range []string{in, out} {
		mustGregor(t, c, "topic", "create", topic, "--partitions", "3", "--replication-factor", "3")
	}
	client := startExtended(t, c, in, out, group)
	client.do(t, "produce 5")
	source := group + "-source"
	before := producerEpoch(t, c, source)
	says("cluster extensions", 0, "it can be switched on")
	tools.Run(t, "kafka-features", "--bootstrap-server", c.Seeds(), "upgrade", "--feature", "gregor.extensions=1")
	says("cluster extensions on", 0, "gregor.extensions is on") // and everybody has heard
	configures(t, c, tools, group)
	client.do(t, "produce 5") // over the connections that it has; the first at the latest says that there is something new
	client.do(t, "produce 5")
	if after := producerEpoch(t, c, source); after < before+5 {
		t.Errorf("the producer's epoch was %d and is %d after ten transactions: that is not version 2", before, after)
	}
	client.do(t, "transform 45")
	admin := c.Admin(t)
	harness.Eventually(t, limit, func() error {
		groups, err := admin.ListGroups(harness.Context(t, limit))
		if err == nil && groups[group].GroupType != "consumer" {
			err = fmt.Errorf("the group is %+v", groups[group])
		}
		return err
	})
	says("doctor cluster", 0, "gregor.extensions is on")

	moved := c.Coordinator(t, group)
	c.Kill(moved)
	client.do(t, "produce 5")
	client.do(t, "transform 15")
	c.Restart(t, moved)
	wantOnce(t, c, out, 60)
	says("cluster extensions off", 1, "have members: "+group)

	c.Restart(t, 4)
	harness.Eventually(t, limit, func() error {
		for id := 1; id <= 3; id++ {
			if regexp.MustCompile(`DOES NOT KNOW A SETTING OF THIS CLUSTER.*"broker": ?4`).MatchString(c.Broker(id).Log()) {
				return nil
			}
		}
		return fmt.Errorf("no broker says that broker 4 does not know the setting")
	})
	harness.Eventually(t, limit, func() error {
		if out := gregor(t, c, "", "doctor", "cluster"); !strings.Contains(out.String(), "WRONG broker 4: it does not go by gregor.extensions") || out.Code != 1 {
			return fmt.Errorf("gregor doctor cluster ends with %d:\n%s", out.Code, out)
		}
		return nil
	})
	client.end(t)
	says("cluster extensions off", 0, "gregor.extensions is off")
	says("cluster extensions", 0, lacks)
	goesOnWithKafka(t, c, in, group, source)
}

// configures gives a group a configuration of its own, which the cluster keeps.
func configures(t *testing.T, c *harness.Cluster, tools *harness.Tools, group string) {
	t.Helper()
	entity := []string{"--bootstrap-server", c.Seeds(), "--entity-type", "groups", "--entity-name", group}
	tools.Run(t, "kafka-configs", append(entity, "--alter", "--add-config", "consumer.session.timeout.ms=50000")...)
	harness.Eventually(t, limit, func() error { // any broker is asked, and hears of it when it does
		out := tools.Run(t, "kafka-configs", append(entity, "--describe")...).String()
		if !strings.Contains(out, "consumer.session.timeout.ms=50000") {
			return fmt.Errorf("kafka-configs describes the group as\n%s", out)
		}
		return nil
	})
}

// goesOnWithKafka makes broker 4, which is Kafka 3.9, the coordinator of everything: the group's offsets are there, and a producer with a
// transactional id that had transactions of version 2 has one of version 1.
func goesOnWithKafka(t *testing.T, c *harness.Cluster, in, group, id string) {
	t.Helper()
	for _, topic := range []string{"__consumer_offsets", "__transaction_state"} {
		plan := reassign(t, topic, slices.Repeat([][]int{{4, 1, 2}}, len(c.Partitions(t, topic)))...)
		mustGregor(t, c, "cluster", "reassign", "--plan", plan, "--execute")
	}
	harness.Eventually(t, limit, func() error {
		elected := gregor(t, c, "", "cluster", "elect") // again, for what was not in sync yet
		for _, topic := range []string{"__consumer_offsets", "__transaction_state"} {
			for i, p := range c.Partitions(t, topic) {
				if p.Leader != 4 {
					return fmt.Errorf("%s-%d is led by broker %d, and gregor cluster elect says\n%s", topic, i, p.Leader, elected)
				}
			}
		}
		return nil
	})
	admin := c.Admin(t)
	harness.Eventually(t, limit, func() error { // which loads first
		offsets, err := admin.FetchOffsets(harness.Context(t, limit), group)
		if err == nil && len(offsets[in]) != 3 {
			err = fmt.Errorf("on Kafka 3.9 the group has offsets %v", offsets)
		}
		return err
	})
	classic := c.Client(t, kgo.ConsumerGroup(group), kgo.ConsumeTopics(in), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	producer := c.Client(t, kgo.TransactionalID(id), kgo.DefaultProduceTopic(in))
	if err := producer.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	ctx := harness.Context(t, limit)
	if err := producer.ProduceSync(ctx, kgo.StringRecord("through Kafka")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := producer.EndTransaction(ctx, kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	for got := ""; got != "through Kafka"; {
		fetches := classic.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if got = string(r.Value); got != "through Kafka" {
				t.Errorf("the group reads %q again", got)
			}
		})
	}
}

// producerEpoch is the epoch of the producer with a transactional id.
func producerEpoch(t *testing.T, c *harness.Cluster, id string) int {
	t.Helper()
	admin, epoch := c.Admin(t), 0
	harness.Eventually(t, limit, func() error { // a broker that was stopped may still be asked
		all, err := admin.DescribeTransactions(harness.Context(t, limit), id)
		epoch = int(all[id].ProducerEpoch)
		return errors.Join(err, all[id].Err)
	})
	return epoch
}

// wantOnce fails the test unless the committed records of a topic are n different ones.
func wantOnce(t *testing.T, c *harness.Cluster, topic string, n int) {
	t.Helper()
	reader := c.Client(t, kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	admin, ends := c.Admin(t), kadm.ListedOffsets(nil)
	harness.Eventually(t, limit, func() (err error) {
		ends, err = admin.ListCommittedOffsets(harness.Context(t, limit), topic)
		return errors.Join(err, ends.Error())
	})
	seen := map[string]int{}
	next := map[int32]int64{}
	done := func() bool {
		all := true
		ends.Each(func(o kadm.ListedOffset) { all = all && next[o.Partition] >= o.Offset-1 }) // the last is a marker
		return all
	}
	for ctx := harness.Context(t, limit); !done(); {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			seen[string(r.Value)]++
			next[r.Partition] = r.Offset + 1
		})
	}
	if twice := slices.Max(slices.Collect(maps.Values(seen))); len(seen) != n || twice != 1 {
		t.Errorf("%d different records, one of them %d times, want %d", len(seen), twice, n)
	}
}
