package cluster

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gregor-broker/gregor/compat/harness"
)

// extra are the options of a further broker of a cluster, with a folder of its own.
func extra(t *testing.T, c *harness.Cluster, props map[string]string) harness.Options {
	t.Helper()
	all := map[string]string{
		"zookeeper.connect": c.ZooKeeper.Addr, "zookeeper.session.timeout.ms": "4000", "zookeeper.connection.timeout.ms": "30000",
		"log.cleaner.dedupe.buffer.size": "8388608",
	}
	maps.Copy(all, props)
	return harness.Options{Dir: t.TempDir(), HeapMB: 256, Props: all}
}

// TestDuplicateID: a broker with the id of a living one does not start, and the living one is untouched.
func TestDuplicateID(t *testing.T) {
	c, tools := shared(t)
	before := tools.zookeeper(t, "get", "/brokers/ids/2")
	_, code, err := harness.TryStart(t, extra(t, c, map[string]string{"broker.id": "2"}))
	if err == nil || code == 0 {
		t.Fatalf("it starts, or ends with %d: %v", code, err)
	}
	if !strings.Contains(err.Error(), "NodeExists") && !strings.Contains(err.Error(), "id 2 is registered already") {
		t.Errorf("it does not say why: %v", err)
	}
	if after := tools.zookeeper(t, "get", "/brokers/ids/2"); after != before {
		t.Errorf("/brokers/ids/2 was %s and is %s", before, after)
	}
	c.AwaitInSync(t, limit)
}

// TestSameAddress: a broker that would tell clients another one's address does not start.
func TestSameAddress(t *testing.T) {
	c, _ := shared(t)
	_, code, err := harness.TryStart(t, extra(t, c, map[string]string{"broker.id": "7", "advertised.listeners": "PLAINTEXT://" + c.Broker(2).Addr}))
	if err == nil || code == 0 {
		t.Fatalf("it starts, or ends with %d: %v", code, err)
	}
	if want := "Configured end points " + c.Broker(2).Addr + " in advertised listeners are already registered by broker 2"; !strings.Contains(err.Error(), want) {
		t.Errorf("it does not say %q: %v", want, err)
	}
	c.AwaitInSync(t, limit)
}

// TestWrongIdentity: data of another cluster, or of another broker, stops the start in words, and nothing is changed.
func TestWrongIdentity(t *testing.T) {
	c, _ := shared(t)
	for _, identity := range []struct{ id, cluster, want string }{
		{"9", "AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAA"},
		{"8", "", "8"},
	} {
		o := extra(t, c, map[string]string{"broker.id": "9"})
		dir := filepath.Join(o.Dir, "data")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		text := "version=0\nbroker.id=" + identity.id + "\n"
		if identity.cluster != "" {
			text += "cluster.id=" + identity.cluster + "\n"
		}
		file := filepath.Join(dir, "meta.properties")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, code, err := harness.TryStart(t, o)
		if err == nil || code == 0 {
			t.Fatalf("it starts, or ends with %d: %v", code, err)
		}
		if !strings.Contains(err.Error(), "meta.properties") || !strings.Contains(err.Error(), identity.want) {
			t.Errorf("it does not say why: %v", err)
		}
		if after, err := os.ReadFile(file); err != nil || string(after) != text {
			t.Errorf("%s was changed to %q, %v", file, after, err)
		}
	}
}

// TestFourthBroker: a broker without an id takes the next one from ZooKeeper, gets partitions, and hands them back when it goes.
func TestFourthBroker(t *testing.T) {
	c, tools := shared(t)
	topic := name("fourth")
	c.CreateTopic(t, topic, 1, 3)
	fill(t, c, topic, 1, 50, 100)
	b := harness.Start(t, extra(t, c, map[string]string{"broker.id": "-1"}))
	if got := tools.zookeeper(t, "get", "/brokers/ids/1001"); !strings.Contains(got, b.Addr) {
		t.Fatalf("/brokers/ids/1001 is %s, not of %s", got, b.Addr)
	}
	move := func(ids ...int) {
		t.Helper()
		plan := reassign(t, topic, ids)
		tools.run(t, "kafka-reassign-partitions", "--execute", "--reassignment-json-file", plan)
		harness.Eventually(t, limit, func() error {
			if p := c.Partitions(t, topic)[0]; fmt.Sprint(p.Replicas) != fmt.Sprint(ids) || len(p.ISR) != len(ids) {
				return fmt.Errorf("%+v", p)
			}
			return nil
		})
	}
	move(1001, 2, 3)
	tools.run(t, "kafka-leader-election", "--election-type", "preferred", "--all-topic-partitions")
	harness.Eventually(t, limit, func() error {
		if p := c.Partitions(t, topic)[0]; p.Leader != 1001 {
			return fmt.Errorf("%+v", p)
		}
		return nil
	})
	fill(t, c, topic, 1, 50, 100)
	move(1, 2, 3)
	b.Stop()
	if n := count(t, c, topic, 100); n != 100 {
		t.Errorf("%d records, want 100", n)
	}
}

// TestMixed: Apache Kafka 3.9 and gregor in one cluster, each as controller, leader and follower of the other.
func TestMixed(t *testing.T) {
	harness.NeedCluster(t)
	if harness.Peer() != harness.Gregor {
		return // which is one kind only
	}
	c := harness.StartCluster(t, harness.ClusterOptions{Kinds: []harness.Kind{harness.Kafka39, harness.Gregor, harness.Gregor}})
	tools := &tools{harness.JavaTools(t, harness.V39), c}
	topic := name("mixed")
	tools.run(t, "kafka-topics", "--create", "--topic", topic, "--replica-assignment", "1:2:3,2:3:1,3:1:2")
	c.AwaitInSync(t, limit, topic)
	configsTravel(t, c, topic)
	load := startLoad(t, c, topic, 3)
	load.more(t, 100)
	for range 3 { // the controller moves on each time
		id := c.Controller(t)
		c.Stop(t, id)
		load.more(t, 100)
		c.Restart(t, id)
		c.AwaitInSync(t, limit)
		load.more(t, 100)
		tools.run(t, "kafka-leader-election", "--election-type", "preferred", "--all-topic-partitions")
	}
	harness.Eventually(t, limit, func() error { // a broker is told some time after the controller has answered
		for i, p := range c.Partitions(t, topic) {
			if p.Leader != p.Replicas[0] {
				return fmt.Errorf("%s-%d: %+v", topic, i, p)
			}
		}
		return nil
	})
	for id := 1; id <= 3; id++ {
		leads := fmt.Sprintf("%d", id)
		wantMatch(t, tools.run(t, "kafka-topics", "--describe", "--topic", topic), `Leader: `+leads+`\s+Replicas: `+leads)
	}
	load.finish(t)
	c.Kill(1)
	c.Restart(t, 1)
	c.AwaitInSync(t, limit)
	tools.run(t, "kafka-topics", "--delete", "--topic", topic)
}

// TestRestartAtOnce: a killed broker that is started before its session has run out waits for the leftover of it. (3.9 gives up then; the
// harness tries again for it.)
func TestRestartAtOnce(t *testing.T) {
	c, tools := shared(t)
	c.Kill(2)
	c.Restart(t, 2)
	if ids := tools.zookeeper(t, "ls", "/brokers/ids"); ids != "[1, 2, 3]" {
		t.Errorf("brokers %s", ids)
	}
	c.AwaitInSync(t, limit)
}
