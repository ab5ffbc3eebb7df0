package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gregor-broker/gregor/compat/harness"
)

// file writes a tool's input.
func file(t testing.TB, content any) string {
	t.Helper()
	text, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "input.json")
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPreferredElection(t *testing.T) {
	bothVersions(t, func(t *testing.T, c *harness.Cluster, tools *tools) {
		topic := name("preferred")
		tools.run(t, "kafka-topics", "--create", "--topic", topic, "--replica-assignment", "3:1:2,3:2:1,1:2:3")
		c.AwaitInSync(t, limit, topic)
		c.Stop(t, 3) // hands its leaderships over
		for i, p := range c.Partitions(t, topic) {
			if want := []int{1, 2, 1}[i]; p.Leader != want || slices.Contains(p.ISR, 3) {
				t.Errorf("%s-%d after the shutdown of broker 3: %+v", topic, i, p)
			}
		}
		away := tools.try(t, "kafka-leader-election", "--election-type", "preferred", "--topic", topic, "--partition", "0")
		if away.Code == 0 || !strings.Contains(away.String(), "PREFERRED_LEADER_NOT_AVAILABLE") && !strings.Contains(away.String(), "PreferredLeaderNotAvailable") {
			t.Errorf("electing a broker that is away ends with %d:\n%s", away.Code, away)
		}
		c.Restart(t, 3)
		c.AwaitInSync(t, limit, topic)
		if leader := c.Leader(t, topic, 0); leader != 1 {
			t.Errorf("the leader is %d before the election", leader)
		}
		before := c.Partitions(t, topic)[0].LeaderEpoch
		wantMatch(t, tools.run(t, "kafka-leader-election", "--election-type", "preferred", "--topic", topic, "--partition", "0"),
			`Successfully completed leader election \(PREFERRED\) for partitions `+topic+`-0`)
		harness.Eventually(t, limit, func() error {
			if p := c.Partitions(t, topic)[0]; p.Leader != 3 || p.LeaderEpoch != before+1 || len(p.ISR) != 3 {
				return fmt.Errorf("%s-0 after the election: %+v", topic, p)
			}
			return nil
		})
		wantMatch(t, tools.run(t, "kafka-leader-election", "--election-type", "preferred", "--topic", topic, "--partition", "0"),
			`Valid replica already elected for partitions `+topic+`-0`)
		out := tools.run(t, "kafka-leader-election", "--election-type", "preferred", "--all-topic-partitions")
		wantMatch(t, out, `Successfully completed leader election \(PREFERRED\) for partitions .*`+topic+`-1`)
		harness.Eventually(t, limit, func() error {
			for i, p := range c.Partitions(t, topic) {
				if p.Leader != p.Replicas[0] {
					return fmt.Errorf("%s-%d: %+v", topic, i, p)
				}
			}
			return nil
		})
	})
}

// leaveBehind has broker 2 die with 7 records of a partition that broker 3, which lives, lacks; both have 5.
func leaveBehind(t *testing.T, c *harness.Cluster, topic string) {
	t.Helper()
	fill(t, c, topic, 1, 5, 100)
	c.Kill(3)
	harness.Eventually(t, limit, func() error {
		if p := c.Partitions(t, topic)[0]; len(p.ISR) != 1 {
			return fmt.Errorf("%+v", p)
		}
		return nil
	})
	fill(t, c, topic, 1, 7, 100)
	c.Kill(2)
	c.Restart(t, 3)
}

// TestUncleanElection: what only the dead leader had is lost, by an administrator's order and not before.
func TestUncleanElection(t *testing.T) {
	bothVersions(t, func(t *testing.T, c *harness.Cluster, tools *tools) {
		topic := name("unclean")
		tools.run(t, "kafka-topics", "--create", "--topic", topic, "--replica-assignment", "2:3", "--config", "min.insync.replicas=1")
		c.AwaitInSync(t, limit, topic)
		leaveBehind(t, c, topic)
		harness.Eventually(t, limit, func() error {
			if p := c.Partitions(t, topic)[0]; p.Leader != 0 || !slices.Equal(p.ISR, []int{2}) {
				return fmt.Errorf("%+v", p)
			}
			return nil
		})
		preferred := tools.try(t, "kafka-leader-election", "--election-type", "preferred", "--topic", topic, "--partition", "0")
		if preferred.Code == 0 {
			t.Errorf("a preferred election without a replica in sync ends with 0:\n%s", preferred)
		}
		election := file(t, map[string]any{"partitions": []any{map[string]any{"topic": topic, "partition": 0}}})
		wantMatch(t, tools.run(t, "kafka-leader-election", "--election-type", "unclean", "--path-to-json-file", election),
			`Successfully completed leader election \(UNCLEAN\) for partitions `+topic+`-0`)
		harness.Eventually(t, limit, func() error {
			if p := c.Partitions(t, topic)[0]; p.Leader != 3 || !slices.Equal(p.ISR, []int{3}) {
				return fmt.Errorf("%+v", p)
			}
			return nil
		})
		if n := count(t, c, topic, 5); n != 5 {
			t.Errorf("%d records after the election, want 5", n)
		}
		// The old leader comes back and gives up what it alone had.
		c.Restart(t, 2)
		c.AwaitInSync(t, limit, topic)
		fill(t, c, topic, 1, 2, 100)
		wantMatch(t, tools.run(t, "kafka-leader-election", "--election-type", "preferred", "--topic", topic, "--partition", "0"), `Successfully`)
		harness.Eventually(t, limit, func() error {
			if p := c.Partitions(t, topic)[0]; p.Leader != 2 {
				return fmt.Errorf("%+v", p)
			}
			return nil
		})
		if n := count(t, c, topic, 7); n != 7 {
			t.Errorf("%d records on the old leader, want 7", n)
		}
	})
}

// TestUncleanElectionAllowed: where the topic allows it, a replica that is not in sync leads by itself. What is lost is what only the dead
// leader had, and both the controller and the broker that gives it up say so.
func TestUncleanElectionAllowed(t *testing.T) {
	c, tools := shared(t)
	topic := name("lossy")
	createAt(t, c, tools, topic, "2:3", "min.insync.replicas=1", "unclean.leader.election.enable=true")
	leaveBehind(t, c, topic)
	harness.Eventually(t, limit, func() error {
		if p := c.Partitions(t, topic)[0]; p.Leader != 3 || !slices.Equal(p.ISR, []int{3}) {
			return fmt.Errorf("%+v", p)
		}
		return nil
	})
	if n := count(t, c, topic, 5); n != 5 {
		t.Errorf("%d records after the election, want the 5 that both had", n)
	}
	c.Restart(t, 2)
	c.AwaitInSync(t, limit, topic)
	ends, err := c.Admin(t).ListEndOffsets(t.Context(), topic)
	if o, ok := ends.Lookup(topic, 0); err != nil || !ok || o.Offset != 5 {
		t.Errorf("the log ends at %+v, %v", o, err)
	}
	if harness.Peer() != harness.Gregor {
		return // which has other words
	}
	told := false
	for id := 1; id <= 3; id++ {
		told = told || regexp.MustCompile(`a replica leads that was not in sync.*"topic": "`+topic+`"`).MatchString(c.Broker(id).Log())
	}
	if !told {
		t.Error("no controller says that records are lost")
	}
	if log := c.Broker(2).Log(); !regexp.MustCompile(`(committed records are cut off|the log is cut to where).*"topic": "` + topic + `".*"offset": 5, "end": 12`).MatchString(log) {
		t.Error("the former leader does not say what it gives up")
	}
}

// reassign is the input of kafka-reassign-partitions: the replicas of a topic's partitions.
func reassign(t testing.TB, topic string, replicas ...[]int) string {
	t.Helper()
	var partitions []any
	for i, ids := range replicas {
		partitions = append(partitions, map[string]any{"topic": topic, "partition": i, "replicas": ids})
	}
	return file(t, map[string]any{"version": 1, "partitions": partitions})
}

func TestReassign(t *testing.T) {
	bothVersions(t, func(t *testing.T, c *harness.Cluster, tools *tools) {
		topic := name("reassign")
		tools.run(t, "kafka-topics", "--create", "--topic", topic, "--replica-assignment", "1:2,2:1")
		c.AwaitInSync(t, limit, topic)
		fill(t, c, topic, 2, 400, 5000) // 2 MB each

		topics := file(t, map[string]any{"version": 1, "topics": []any{map[string]any{"topic": topic}}})
		generated := tools.run(t, "kafka-reassign-partitions", "--generate", "--topics-to-move-json-file", topics, "--broker-list", "2,3")
		wantMatch(t, generated, `Current partition replica assignment\n\{"version":1,"partitions":\[\{"topic":"`+topic+`","partition":0,"replicas":\[1,2\]`,
			`Proposed partition reassignment configuration\n\{.*"replicas":\[(2,3|3,2)\]`)

		// Slow enough to be seen on its way: two copies of 2 MB at 100 kB/s.
		plan := reassign(t, topic, []int{3, 2}, []int{2, 3})
		started := tools.run(t, "kafka-reassign-partitions", "--execute", "--reassignment-json-file", plan, "--throttle", "100000")
		wantMatch(t, started, `The inter-broker throttle limit was set to 100000 B/s`, `Successfully started partition reassignments for `+topic+`-0,`+topic+`-1`)
		wantMatch(t, tools.run(t, "kafka-reassign-partitions", "--list"), topic+`-0: replicas: [123,]+\. adding: 3\. removing: 1\.`)
		wantMatch(t, tools.run(t, "kafka-reassign-partitions", "--verify", "--reassignment-json-file", plan, "--preserve-throttles"),
			`Reassignment of partition `+topic+`-[01] is still in progress`)
		wantMatch(t, tools.run(t, "kafka-configs", "--describe", "--entity-type", "brokers", "--entity-name", "3"), `follower\.replication\.throttled\.rate=100000 `)
		wantMatch(t, tools.run(t, "kafka-configs", "--describe", "--entity-type", "topics", "--entity-name", topic),
			`leader\.replication\.throttled\.replicas=0:1,0:2,1:1,1:2 `, `follower\.replication\.throttled\.replicas=0:3,1:3 `)
		if got := tools.zookeeper(t, "get", "/brokers/topics/"+topic); !strings.Contains(got, `"adding_replicas":{"0":[3],"1":[3]}`) && !strings.Contains(got, `"adding_replicas":{"1":[3],"0":[3]}`) {
			t.Errorf("the topic's node meanwhile: %s", got)
		}
		again := tools.try(t, "kafka-reassign-partitions", "--execute", "--reassignment-json-file", plan)
		if again.Code == 0 || !strings.Contains(again.String(), "Cannot execute because there is an existing partition assignment") {
			t.Errorf("a second execution ends with %d:\n%s", again.Code, again)
		}

		// Faster, and done.
		wantMatch(t, tools.run(t, "kafka-reassign-partitions", "--execute", "--additional", "--reassignment-json-file", plan, "--throttle", "50000000"),
			`The inter-broker throttle limit was set to 50000000 B/s`)
		harness.Eventually(t, limit, func() error {
			out := tools.run(t, "kafka-reassign-partitions", "--verify", "--reassignment-json-file", plan)
			for _, partition := range []string{"-0", "-1"} {
				if !strings.Contains(out.Stdout, "Reassignment of partition "+topic+partition+" is completed.") {
					return fmt.Errorf("it prints:\n%s", out)
				}
			}
			return nil
		})
		c.AwaitInSync(t, limit, topic)
		for i, p := range c.Partitions(t, topic) {
			if want := [][]int{{3, 2}, {2, 3}}[i]; !slices.Equal(p.Replicas, want) || !slices.Contains(want, p.Leader) {
				t.Errorf("%s-%d: %+v, want replicas %v", topic, i, p, want)
			}
		}
		for _, of := range [][]string{{"topics", topic}, {"brokers", "1"}, {"brokers", "2"}, {"brokers", "3"}} {
			out := tools.run(t, "kafka-configs", "--describe", "--entity-type", of[0], "--entity-name", of[1])
			if regexp.MustCompile(`throttled`).MatchString(out.Stdout) {
				t.Errorf("throttles are left:\n%s", out)
			}
		}
		harness.Eventually(t, limit, func() error {
			for partition := range 2 {
				if _, err := os.Stat(filepath.Join(c.Broker(1).DataDir(), fmt.Sprintf("%s-%d", topic, partition))); err == nil {
					return fmt.Errorf("broker 1 still has %s-%d", topic, partition)
				}
			}
			return nil
		})
		if n := count(t, c, topic, 800); n != 800 {
			t.Errorf("%d records afterwards, want 800", n)
		}
	})
}

func TestReassignCancel(t *testing.T) {
	bothVersions(t, func(t *testing.T, c *harness.Cluster, tools *tools) {
		topic := name("cancel")
		tools.run(t, "kafka-topics", "--create", "--topic", topic, "--replica-assignment", "1:2")
		c.AwaitInSync(t, limit, topic)
		fill(t, c, topic, 1, 400, 5000)
		plan := reassign(t, topic, []int{3})
		tools.run(t, "kafka-reassign-partitions", "--execute", "--reassignment-json-file", plan, "--throttle", "50000")
		wantMatch(t, tools.run(t, "kafka-reassign-partitions", "--cancel", "--reassignment-json-file", plan), `Successfully cancelled partition reassignments? for: `+topic+`-0`)
		harness.Eventually(t, limit, func() error {
			if p := c.Partitions(t, topic)[0]; !slices.Equal(p.Replicas, []int{1, 2}) || len(p.ISR) != 2 {
				return fmt.Errorf("%+v", p)
			}
			return nil
		})
		wantMatch(t, tools.run(t, "kafka-reassign-partitions", "--list"), `No partition reassignments found`)
		nothing := tools.try(t, "kafka-reassign-partitions", "--execute", "--reassignment-json-file", reassign(t, topic, []int{1, 9}))
		if nothing.Code == 0 || !strings.Contains(nothing.String(), "Unknown broker id 9") {
			t.Errorf("a broker that does not exist ends with %d:\n%s", nothing.Code, nothing)
		}
		if n := count(t, c, topic, 400); n != 400 {
			t.Errorf("%d records afterwards", n)
		}
	})
}

// TestReassignUnderLoad: nobody who writes sees an error while replicas move, all three away from where they were led.
func TestReassignUnderLoad(t *testing.T) {
	c, tools := shared(t)
	topic := name("moving")
	tools.run(t, "kafka-topics", "--create", "--topic", topic, "--replica-assignment", "1:2")
	c.AwaitInSync(t, limit, topic)
	load := startLoad(t, c, topic, 1, kgo.RequiredAcks(kgo.AllISRAcks()))
	for _, replicas := range [][]int{{3, 2}, {3, 1}, {2, 1}, {1, 2, 3}} {
		plan := reassign(t, topic, replicas)
		tools.run(t, "kafka-reassign-partitions", "--execute", "--reassignment-json-file", plan)
		harness.Eventually(t, limit, func() error {
			if p := c.Partitions(t, topic)[0]; !slices.Equal(p.Replicas, replicas) || len(p.ISR) != len(replicas) {
				return fmt.Errorf("%+v", p)
			}
			return nil
		})
		load.more(t, 100)
	}
	load.finish(t)
}
