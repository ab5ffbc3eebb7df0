package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gregor-broker/gregor/compat/harness"
)

// gregor runs a command of the binary against the living brokers.
func gregor(t testing.TB, c *harness.Cluster, stdin string, args ...string) harness.Output {
	t.Helper()
	seeds := (&tools{cluster: c}).seeds()
	return harness.Command(t, limit, stdin, []string{"GREGOR_BOOTSTRAP_SERVER=" + seeds}, harness.Binary(), args...)
}

// mustGregor is gregor for a command that must succeed.
func mustGregor(t testing.TB, c *harness.Cluster, args ...string) harness.Output {
	t.Helper()
	out := gregor(t, c, "", args...)
	if out.Code != 0 {
		t.Fatalf("gregor %v ended with %d:\n%s", args, out.Code, out)
	}
	return out
}

// createAt creates a topic with given replicas.
func createAt(t testing.TB, c *harness.Cluster, tools *tools, topic, assignment string, configs ...string) {
	t.Helper()
	args := []string{"--create", "--topic", topic, "--replica-assignment", assignment}
	for _, config := range configs {
		args = append(args, "--config", config)
	}
	tools.run(t, "kafka-topics", args...)
	c.AwaitInSync(t, limit, topic)
}

// TestDoctor: a broker that has gone and a ZooKeeper that does not answer are told of in words.
func TestDoctor(t *testing.T) {
	c, _ := shared(t)
	topic := name("doctored")
	c.CreateTopic(t, topic, 2, 3)
	says := func(code int, patterns ...string) {
		t.Helper()
		harness.Eventually(t, limit, func() error {
			out := gregor(t, c, "", "doctor")
			for _, p := range patterns {
				if out.Code != code || !regexp.MustCompile(`(?m)`+p).MatchString(out.Stdout) {
					return fmt.Errorf("ended with %d, and %q is not in:\n%s", out.Code, p, out)
				}
			}
			return nil
		})
	}
	says(0, `^ok    partitions: all \d+ have a leader and their replicas in sync$`, `^ok    groups: none of \d+ rebalances$`)
	c.Pause(3)
	says(1, `^WRONG broker 3: it is not in the cluster, and \d+ partitions have replicas on it$`, `2 of 3 replicas in sync: broker 3 does not run`)
	c.Resume(3)
	c.AwaitInSync(t, limit)
	c.ZooKeeper.Pause()
	says(1, `^WRONG broker 2: it serves clients, but ZooKeeper does not answer it`)
	c.ZooKeeper.Resume()
	c.AwaitInSync(t, limit)
	says(0, `^ok    partitions: all \d+ have`)
}

// TestClusterDescribe: brokers, what they lead, the controller, and what is not well once a broker has gone.
func TestClusterDescribe(t *testing.T) {
	c, tools := shared(t)
	topic := name("described")
	createAt(t, c, tools, topic, "3:1:2,3:2:1,1:2:3", "min.insync.replicas=3")
	single := name("single")
	createAt(t, c, tools, single, "3")
	controller := c.Controller(t)
	out := mustGregor(t, c, "cluster", "describe", "--check")
	wantMatch(t, out, `^controller +`+fmt.Sprint(controller)+`$`, `^brokers +3$`, `^every partition has a leader and all its replicas in sync$`)
	for id := 1; id <= 3; id++ {
		note := ` *$`
		if id == controller {
			note = ` +controller$`
		}
		wantMatch(t, out, fmt.Sprintf(`^%d +%s +- +\d+ +\d+ +\d+ +0 +\d.* [KM]?B`, id, c.Broker(id).Addr)+note)
	}
	c.Stop(t, 3)
	var away harness.Output
	harness.Eventually(t, limit, func() error {
		away = gregor(t, c, "", "cluster", "describe", "--check")
		if away.Code != 1 || !strings.Contains(away.Stdout, single+"-0") {
			return fmt.Errorf("it ends with %d:\n%s", away.Code, away)
		}
		return nil
	})
	wantMatch(t, away, `^3 +- +- +0 +\d+ +\d+ +\d+ +- +away$`, `^brokers +2$`, `^`+topic+`-0 +[12] +3,1,2 +([12],?){2} +below min.insync.replicas \(3\)$`,
		`^`+single+`-0 +- +3 +3 +no leader$`, `partitions not well$`)
}

// awaitLeaders waits until all living brokers say that the partitions of a topic have these leaders.
func awaitLeaders(t testing.TB, c *harness.Cluster, topic string, want ...int) {
	t.Helper()
	harness.Eventually(t, limit, func() error {
		var leaders []int
		for _, p := range c.Partitions(t, topic) {
			leaders = append(leaders, p.Leader)
		}
		if !slices.Equal(leaders, want) {
			return fmt.Errorf("%s is led by %v, not by %v", topic, leaders, want)
		}
		return nil
	})
}

// TestClusterElect: after a restart the leaders are given back, by this command as by kafka-leader-election.
func TestClusterElect(t *testing.T) {
	c, tools := shared(t)
	topic := name("elected")
	createAt(t, c, tools, topic, "2:1:3,2:3:1,1:2:3")
	c.Stop(t, 2)
	awaitLeaders(t, c, topic, 1, 3, 1)
	failed := gregor(t, c, "", "cluster", "elect", topic)
	if failed.Code != 1 {
		t.Errorf("electing a broker that is away ends with %d:\n%s", failed.Code, failed)
	}
	wantMatch(t, failed, `^`+topic+`-0: PREFERRED_LEADER_NOT_AVAILABLE: `, `^0 leaders elected; 1 of 3 partitions were led by their preferred replicas already$`)
	c.Restart(t, 2)
	c.AwaitInSync(t, limit, topic)
	wantMatch(t, mustGregor(t, c, "cluster", "elect", topic+":1"), `^1 leader elected; 0 of 1 partition was led by its preferred replica already`)
	awaitLeaders(t, c, topic, 1, 2, 1)
	wantMatch(t, mustGregor(t, c, "cluster", "elect", topic), `^1 leader elected; 2 of 3 partitions were led by their preferred replicas already$`)
	awaitLeaders(t, c, topic, 2, 2, 1)
	wantMatch(t, mustGregor(t, c, "cluster", "elect", topic), `^0 leaders elected; 3 of 3 `)
	if out := gregor(t, c, "", "cluster", "elect", "--unclean"); out.Code != 2 || !strings.Contains(out.Stderr, "name the topics") {
		t.Errorf("an unclean election of everything ends with %d:\n%s", out.Code, out)
	}
	if out := gregor(t, c, "", "cluster", "elect", topic+":9"); out.Code != 1 || !strings.Contains(out.Stderr, "there is no partition "+topic+"-9") {
		t.Errorf("a partition that does not exist ends with %d:\n%s", out.Code, out)
	}
}

// TestClusterElectUnclean: a replica that is not in sync leads by order, and not before.
func TestClusterElectUnclean(t *testing.T) {
	c, tools := shared(t)
	topic := name("lossy")
	createAt(t, c, tools, topic, "2:3", "min.insync.replicas=1")
	c.Kill(3)
	harness.Eventually(t, limit, func() error {
		if p := c.Partitions(t, topic)[0]; len(p.ISR) != 1 {
			return fmt.Errorf("%+v", p)
		}
		return nil
	})
	fill(t, c, topic, 1, 3, 100)
	c.Kill(2)
	c.Restart(t, 3)
	harness.Eventually(t, limit, func() error {
		if p := c.Partitions(t, topic)[0]; p.Leader != 0 {
			return fmt.Errorf("%+v", p)
		}
		return nil
	})
	wantMatch(t, mustGregor(t, c, "cluster", "elect", "--unclean", topic), `^1 leader elected; 0 of 1 partition had a leader already$`)
	harness.Eventually(t, limit, func() error {
		if p := c.Partitions(t, topic)[0]; p.Leader != 3 || !slices.Equal(p.ISR, []int{3}) {
			return fmt.Errorf("%+v", p)
		}
		return nil
	})
}

// TestClusterReassign: replicas move by a plan, by topic and away from a broker; each is shown, verified and can be cancelled.
func TestClusterReassign(t *testing.T) {
	c, tools := shared(t)
	topic := name("spread")
	createAt(t, c, tools, topic, "1:2,1:2,2:1,2:1")
	fill(t, c, topic, 4, 20, 5000)
	shown := gregor(t, c, "", "cluster", "reassign", "--topic", topic)
	wantMatch(t, shown, `^PARTITION +FROM +TO$`, `^`+topic+`-\d +[12],[12] +.*3`, `^nothing was changed; --execute does it$`)
	if p := c.Partitions(t, topic); !slices.Equal(p[0].Replicas, []int{1, 2}) {
		t.Errorf("it was changed: %+v", p)
	}
	wantMatch(t, mustGregor(t, c, "cluster", "reassign", "--topic", topic, "--execute"), `^\d of \d moves done$`, `^\d moves done$`)
	held := map[int]int{}
	for _, p := range c.Partitions(t, topic) {
		for _, id := range p.Replicas {
			held[id]++
		}
		if len(p.ISR) != 2 || !slices.Contains(p.ISR, p.Leader) {
			t.Errorf("%+v", p)
		}
	}
	if held[1] < 2 || held[2] < 2 || held[3] < 2 || held[1]+held[2]+held[3] != 8 {
		t.Errorf("replicas by broker: %v", held)
	}
	c.AwaitInSync(t, limit, topic)
	wantMatch(t, mustGregor(t, c, "cluster", "reassign", "--topic", topic), `^nothing is to move$`)

	// A plan that this command wrote is one for Kafka's tool too, and is verified by both.
	plan := filepath.Join(t.TempDir(), "plan.json")
	text := mustGregor(t, c, "cluster", "reassign", "--topic", topic, "--to", "3,2", "--json").Stdout
	if err := os.WriteFile(plan, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := gregor(t, c, "", "cluster", "reassign", "--plan", plan, "--verify"); out.Code != 1 || !strings.Contains(out.String(), "not under way; its replicas are") {
		t.Errorf("a plan that was not carried out is verified with %d:\n%s", out.Code, out)
	}
	tools.run(t, "kafka-reassign-partitions", "--execute", "--reassignment-json-file", plan)
	harness.Eventually(t, limit, func() error {
		if out := gregor(t, c, "", "cluster", "reassign", "--plan", plan, "--verify"); out.Code != 0 {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	wantMatch(t, tools.run(t, "kafka-reassign-partitions", "--verify", "--reassignment-json-file", plan, "--preserve-throttles"), `partition `+topic+`-\d is completed`)

	// Away from a broker, all topics; what is refused is told.
	mustGregor(t, c, "cluster", "reassign", "--topic", topic, "--to", "1,2", "--execute")
	for i, p := range c.Partitions(t, topic) {
		if slices.Contains(p.Replicas, 3) {
			t.Errorf("%s-%d: %+v", topic, i, p)
		}
	}
	bad := gregor(t, c, `{"version":1,"partitions":[{"topic":"`+topic+`","partition":0,"replicas":[1,9]}]}`, "cluster", "reassign", "--plan", "-", "--execute")
	if bad.Code != 1 || !strings.Contains(bad.Stderr, topic+"-0: INVALID_REPLICA_ASSIGNMENT") {
		t.Errorf("a broker that does not exist ends with %d:\n%s", bad.Code, bad)
	}
	wantMatch(t, mustGregor(t, c, "cluster", "reassign", "--watch"), `^nothing is moving$`)
	wantMatch(t, mustGregor(t, c, "cluster", "reassign", "--cancel"), `^nothing is moving$`)
	if n := count(t, c, topic, 80); n != 80 {
		t.Errorf("%d records afterwards", n)
	}
}

// TestClusterReassignCancel: a move to a broker that stands still goes on until it is cancelled, and then all is as it was.
func TestClusterReassignCancel(t *testing.T) {
	c, tools := shared(t)
	topic := name("undone")
	target := c.Controller(t)%3 + 1
	a, b := target%3+1, (target+1)%3+1
	createAt(t, c, tools, topic, fmt.Sprintf("%d:%d", a, b))
	fill(t, c, topic, 1, 20, 5000)
	plan := reassign(t, topic, []int{target, a})
	harness.Eventually(t, limit, func() error {
		c.Pause(target)
		// The controller must not have noticed it yet: it refuses brokers that are away.
		if out := gregor(t, c, "", "cluster", "reassign", "--plan", plan, "--execute", "--no-wait"); out.Code != 0 {
			c.Resume(target)
			c.AwaitInSync(t, limit, topic)
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	wantMatch(t, mustGregor(t, c, "cluster", "describe"), `^moving +1 partition; `)
	verified := gregor(t, c, "", "cluster", "reassign", "--plan", plan, "--verify")
	if verified.Code != 1 {
		t.Errorf("a plan under way is verified with %d:\n%s", verified.Code, verified)
	}
	wantMatch(t, verified, `^`+topic+`-0: moving, 0 B of [\d.]+ KB copied$`)
	wantMatch(t, mustGregor(t, c, "cluster", "reassign", "--topic", topic, "--cancel"), `^cancelled: `+topic+`-0$`)
	c.Resume(target)
	c.AwaitInSync(t, limit, topic)
	if p := c.Partitions(t, topic)[0]; !slices.Equal(p.Replicas, []int{a, b}) {
		t.Errorf("after the cancellation: %+v", p)
	}
	wantMatch(t, gregor(t, c, "", "cluster", "reassign", "--plan", plan, "--verify"), `^`+topic+`-0: not under way; its replicas are `)
}
