package groups

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gregor-broker/gregor/compat/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// quick are settings that make groups go on several times a second.
var quick = map[string]string{
	"group.initial.rebalance.delay.ms":         "1500",
	"group.consumer.min.heartbeat.interval.ms": "100", "group.consumer.heartbeat.interval.ms": "300",
	"group.consumer.min.session.timeout.ms": "5000", "group.consumer.assignment.interval.ms": "0",
	"offsets.topic.num.partitions": "1", // one broker coordinates all
}

// stage is where scenes are played: all at once.
type stage struct {
	groups  []*group
	scripts []script
}

func newStage(t *testing.T, seeds []string, modern bool, replicas int16) *stage {
	client, err := kgo.NewClient(harness.RetryEOF(), kgo.SeedBrokers(seeds...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	s := &stage{}
	var names []string
	for _, scene := range scenes {
		if modern || !scene.modern {
			g := newGroup(scene.name, seeds, client)
			names, s.groups, s.scripts = append(names, scene.name), append(s.groups, g), append(s.scripts, scene.play(t, g))
		}
	}
	created, err := kadm.NewClient(client).CreateTopics(harness.Context(t, limit), partitions, replicas, nil, names...)
	if err == nil {
		err = created.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	s.produce(t)
	return s
}

func (s *stage) produce(t *testing.T) {
	t.Helper()
	for _, g := range s.groups {
		g.produce(t)
	}
}

// act plays one act of all scenes.
func (s *stage) act(steps func(*script) []func()) {
	for n, more := 0, true; more; n++ {
		more = false
		for i := range s.scripts {
			list := steps(&s.scripts[i])
			if n < len(list) && list[n] != nil {
				list[n]()
			}
			more = more || n+1 < len(list)
		}
	}
}

// play plays all scenes; kill kills the coordinator and brings it back, or another.
func (s *stage) play(t *testing.T, kill func()) {
	s.act(func(x *script) []func() { return x.before })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	s.act(func(x *script) []func() { return x.enter })
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			for _, g := range s.groups {
				_, _ = g.look(ctx)
			}
		}
	}()
	kill()
	s.produce(t)
	s.act(func(x *script) []func() { return x.after })
	cancel()
	<-ended
	for _, g := range s.groups {
		g.check(t)
	}
}

// TestKillInEachState: a broker is killed while groups are in each of their states.
func TestKillInEachState(t *testing.T) {
	modern := harness.Peer() != harness.Kafka39
	b := harness.Start(t, harness.Options{Props: quick})
	s := newStage(t, []string{b.Addr}, modern, 1)
	s.play(t, func() {
		b.Kill()
		b.Restart(nil)
	})
	t.Run("formatters", func(t *testing.T) { s.format(t, b) })
}

// format has Kafka's own formatters read the internal topic, to its end: the last of each group's offsets is what was fetched.
func (s *stage) format(t *testing.T, b *harness.Broker) {
	harness.Need(t, "java")
	const topic = "__consumer_offsets"
	ends, err := s.groups[0].admin.ListEndOffsets(harness.Context(t, limit), topic)
	if err != nil {
		t.Fatal(err)
	}
	end, _ := ends.Lookup(topic, 0)
	version := harness.V44
	if b.Kind == harness.Kafka39 {
		version = harness.V39
	}
	read := func(formatter string) string {
		return harness.JavaTools(t, version).Run(t, "kafka-console-consumer", "--bootstrap-server", b.Addr, "--topic", topic, "--partition", "0",
			"--offset", "earliest", "--timeout-ms", "60000", "--max-messages", fmt.Sprint(end.Offset), "--formatter", "org.apache.kafka.tools.consumer."+formatter).Stdout
	}
	offsets := read("OffsetsMessageFormatter")
	for _, g := range s.groups {
		for p, want := range g.offsets() {
			last := int64(0)
			line := regexp.MustCompile(fmt.Sprintf(`"group":"%s","topic":"%[1]s","partition":%d\}.*"offset":(\d+)\D`, g.id, p))
			for _, match := range line.FindAllStringSubmatch(offsets, -1) {
				last, _ = strconv.ParseInt(match[1], 10, 64)
			}
			if last != want && want > 0 { // deletions are not shown
				t.Errorf("the last offset of %s-%d is %d, want %d", g.id, p, last, want)
			}
		}
	}
	if groups := read("GroupMetadataMessageFormatter"); !strings.Contains(groups, `"group":"stable"`) {
		t.Errorf("no group stable in\n%s", groups)
	}
}

// TestKillCoordinatorInEachState: the broker that coordinates groups in each of their states is killed, and another takes them over.
func TestKillCoordinatorInEachState(t *testing.T) {
	harness.NeedCluster(t)
	c := harness.StartCluster(t, harness.ClusterOptions{Props: quick})
	modern := harness.Peer() == harness.Gregor
	if modern {
		harness.Eventually(t, limit, func() error {
			out := harness.Command(t, limit, "", []string{"GREGOR_BOOTSTRAP_SERVER=" + c.Seeds()}, harness.Binary(), "cluster", "extensions", "on")
			if out.Code != 0 {
				return errors.New(out.String())
			}
			return nil
		})
	}
	s := newStage(t, c.Addrs(), modern, 3)
	c.AwaitInSync(t, limit)
	s.play(t, func() {
		id := c.Coordinator(t, s.groups[0].id)
		c.Kill(id)
		c.Coordinator(t, s.groups[0].id)
		c.Restart(t, id) // a member of franz-go 1.22 in a group of the consumer protocol looks for another coordinator only when this one answers
	})
}
