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

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
)

func TestTopics(t *testing.T) {
	bothVersions(t, func(t *testing.T, c *harness.Cluster, tools *tools) {
		given, computed := name("given"), name("computed")
		wantMatch(t, tools.run(t, "kafka-topics", "--create", "--topic", given, "--replica-assignment", "1:2:3,3:1:2,2:3:1"), "Created topic "+given)
		c.AwaitInSync(t, limit, given)
		for i, want := range [][]int{{1, 2, 3}, {3, 1, 2}, {2, 3, 1}} {
			p := c.Partitions(t, given)[i]
			if !slices.Equal(p.Replicas, want) || p.Leader != want[0] {
				t.Errorf("%s-%d: %+v, want replicas %v", given, i, p, want)
			}
		}
		wantMatch(t, tools.run(t, "kafka-topics", "--describe", "--topic", given), `Partition: 1\s+Leader: 3\s+Replicas: 3,1,2\s+Isr: [123,]{5}\s`)

		tools.run(t, "kafka-topics", "--create", "--topic", computed, "--partitions", "6", "--replication-factor", "3")
		c.AwaitInSync(t, limit, computed)
		spread(t, c.Partitions(t, computed), 2, 6)
		tools.run(t, "kafka-topics", "--alter", "--topic", computed, "--partitions", "9")
		c.AwaitInSync(t, limit, computed)
		spread(t, c.Partitions(t, computed), 3, 9)

		many := tools.try(t, "kafka-topics", "--create", "--topic", name("many"), "--partitions", "1", "--replication-factor", "4")
		if many.Code == 0 || !strings.Contains(many.String(), "larger than available brokers: 3") {
			t.Errorf("four replicas on three brokers end with %d:\n%s", many.Code, many)
		}
		for _, bad := range []string{"1:1", "1:2,3", "1:2,2:2"} {
			if out := tools.try(t, "kafka-topics", "--create", "--topic", name("bad"), "--replica-assignment", bad); out.Code == 0 {
				t.Errorf("the assignment %s is accepted:\n%s", bad, out)
			}
		}
	})
}

// spread fails the test unless every broker is the first replica of that many partitions, and holds that many.
func spread(t *testing.T, partitions []harness.Partition, first, all int) {
	t.Helper()
	firsts, alls := map[int]int{}, map[int]int{}
	for i, p := range partitions {
		firsts[p.Replicas[0]]++
		for _, id := range p.Replicas {
			alls[id]++
		}
		if p.Leader != p.Replicas[0] {
			t.Errorf("partition %d of replicas %v has leader %d", i, p.Replicas, p.Leader)
		}
	}
	for id := 1; id <= 3; id++ {
		if firsts[id] != first || alls[id] != all {
			t.Errorf("broker %d is the first of %d partitions, want %d, and has %d, want %d: %v", id, firsts[id], first, alls[id], all, partitions)
		}
	}
}

func TestBrokerAway(t *testing.T) {
	c, tools := shared(t)
	topic, alone, doomed := name("away"), name("alone"), name("doomed")
	tools.run(t, "kafka-topics", "--create", "--topic", topic, "--replica-assignment", "2:1:3,1:2:3", "--config", "min.insync.replicas=3")
	tools.run(t, "kafka-topics", "--create", "--topic", alone, "--replica-assignment", "2")
	tools.run(t, "kafka-topics", "--create", "--topic", doomed, "--replica-assignment", "1:2:3")
	c.AwaitInSync(t, limit, topic, alone, doomed)
	fill(t, c, topic, 2, 3, 100)
	c.Kill(2)
	harness.Eventually(t, limit, func() error {
		for i, p := range c.Partitions(t, topic) {
			if p.Leader != 1 || !slices.Equal(p.ISR, []int{1, 3}) {
				return fmt.Errorf("%s-%d: %+v", topic, i, p)
			}
		}
		if p := c.Partitions(t, alone)[0]; p.Leader != 0 {
			return fmt.Errorf("%s-0: %+v", alone, p)
		}
		return nil
	})
	for _, version := range []string{harness.V39, harness.V44} {
		describe := func(which string) harness.Output {
			return harness.JavaTools(t, version).Run(t, "kafka-topics", "--bootstrap-server", tools.seeds(), "--describe", which)
		}
		wantMatch(t, describe("--under-replicated-partitions"), topic+`\s+Partition: 0\s+Leader: 1\s+Replicas: 2,1,3\s+Isr: (1,3|3,1)`)
		wantMatch(t, describe("--unavailable-partitions"), alone+`\s+Partition: 0\s+Leader: none\s+Replicas: 2\s+Isr: 2`)
		wantMatch(t, describe("--under-min-isr-partitions"), topic+`\s+Partition: 0`)
	}

	// Below min.insync.replicas acks=all is refused, acks=1 is not.
	client := c.Client(t, kgo.DefaultProduceTopic(topic), kgo.RecordRetries(0))
	if err := client.ProduceSync(harness.Context(t, limit), kgo.StringRecord("x")).FirstErr(); !isOneOf(err, kerr.NotEnoughReplicas) {
		t.Errorf("acks=all with two of three in sync: %v", err)
	}
	one := c.Client(t, kgo.DefaultProduceTopic(topic), kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	if err := one.ProduceSync(harness.Context(t, limit), kgo.StringRecord("x")).FirstErr(); err != nil {
		t.Errorf("acks=1 with two of three in sync: %v", err)
	}

	// A topic is deleted although a replica is away: its folder goes when the broker is back.
	tools.run(t, "kafka-topics", "--delete", "--topic", doomed)
	if out := tools.zookeeper(t, "ls", "/admin/delete_topics"); out != "["+doomed+"]" {
		t.Errorf("marked for deletion: %s", out)
	}
	folder := filepath.Join(c.Broker(2).DataDir(), doomed+"-0")
	if _, err := os.Stat(folder); err != nil {
		t.Errorf("the replica that is away: %v", err)
	}
	c.Restart(t, 2)
	c.AwaitInSync(t, limit, topic, alone)
	harness.Eventually(t, limit, func() error {
		for id := 1; id <= 3; id++ {
			if _, err := os.Stat(filepath.Join(c.Broker(id).DataDir(), doomed+"-0")); err == nil {
				return fmt.Errorf("broker %d still has %s-0", id, doomed)
			}
		}
		return nil
	})
	harness.Eventually(t, limit, func() error {
		if out := tools.zookeeper(t, "ls", "/admin/delete_topics"); out != "[]" {
			return fmt.Errorf("marked for deletion: %s", out)
		}
		return nil
	})
	tools.run(t, "kafka-topics", "--create", "--topic", doomed, "--replica-assignment", "1:2:3")
	c.AwaitInSync(t, limit, doomed)
	fill(t, c, doomed, 1, 1, 10)
	if n := count(t, c, doomed, 1); n != 1 {
		t.Errorf("the topic made again has %d records", n)
	}
}

func TestLogDirs(t *testing.T) {
	c, tools := shared(t)
	topic := name("dirs")
	tools.run(t, "kafka-topics", "--create", "--topic", topic, "--replica-assignment", "1:2,2:3")
	c.AwaitInSync(t, limit, topic)
	fill(t, c, topic, 2, 10, 1000)
	harness.Eventually(t, limit, func() error {
		out := tools.run(t, "kafka-log-dirs", "--describe", "--topic-list", topic)
		var described struct {
			Brokers []struct {
				Broker  int
				LogDirs []struct {
					Error      *string
					LogDir     string
					Partitions []struct {
						Partition       string
						Size, OffsetLag int64
						IsFuture        bool
					}
				}
			}
		}
		text := out.Stdout[strings.LastIndex(strings.TrimSpace(out.Stdout), "\n")+1:]
		if err := json.Unmarshal([]byte(text), &described); err != nil {
			t.Fatalf("%v in:\n%s", err, out)
		}
		var got []string
		for _, b := range described.Brokers {
			for _, dir := range b.LogDirs {
				if dir.Error != nil || dir.LogDir != c.Broker(b.Broker).DataDir() {
					return fmt.Errorf("broker %d: %s, error %v", b.Broker, dir.LogDir, dir.Error)
				}
				for _, p := range dir.Partitions {
					if p.Size < 10_000 || p.Size > 12_000 || p.OffsetLag != 0 || p.IsFuture {
						return fmt.Errorf("broker %d: %+v", b.Broker, p)
					}
					got = append(got, fmt.Sprintf("%d:%s", b.Broker, strings.TrimPrefix(p.Partition, topic+"-")))
				}
			}
		}
		slices.Sort(got)
		if want := "[1:0 2:0 2:1 3:1]"; fmt.Sprint(got) != want {
			return fmt.Errorf("replicas %v, want %s", got, want)
		}
		return nil
	})
}

func TestConfigs(t *testing.T) {
	c, tools := shared(t)
	topic := name("configs")
	c.CreateTopic(t, topic, 1, 3)
	of := []string{"--entity-type", "topics", "--entity-name", topic}
	configs := func(args ...string) harness.Output { return tools.run(t, "kafka-configs", args...) }
	onEach := func(pattern string, args ...string) {
		t.Helper()
		for id := 1; id <= 3; id++ {
			harness.Eventually(t, limit, func() error {
				out := tools.Run(t, "kafka-configs", append([]string{"--bootstrap-server", c.Broker(id).Addr, "--describe"}, args...)...)
				if !regexp.MustCompile(pattern).MatchString(out.Stdout) {
					return fmt.Errorf("broker %d: no match of %q in:\n%s", id, pattern, out)
				}
				return nil
			})
		}
	}
	wantMatch(t, configs(append(of, "--alter", "--add-config", "retention.ms=123456,min.insync.replicas=3")...), "Completed updating config for topic "+topic)
	onEach(`retention\.ms=123456 `, of...)
	if got := tools.zookeeper(t, "get", "/config/topics/"+topic); !strings.Contains(got, `"retention.ms":"123456"`) || !strings.Contains(got, `"version":1`) {
		t.Errorf("/config/topics/%s is %s", topic, got)
	}
	configs(append(of, "--alter", "--delete-config", "retention.ms")...)
	onEach(`^Dynamic configs for topic `+topic+` are:\n  min\.insync\.replicas=3 [^\n]*\n$`, of...)

	// What a topic was created with every broker tells, also those without a replica of it, whom nobody told.
	elsewhere := name("elsewhere")
	createAt(t, c, tools, elsewhere, "2", "retention.ms=2345678")
	client := c.Client(t)
	for id := 1; id <= 3; id++ {
		if got := describedAt(t, client, id, kmsg.ConfigResourceTypeTopic, elsewhere, "retention.ms"); got != "2345678" {
			t.Errorf("broker %d says retention.ms=%s", id, got)
		}
	}

	all := []string{"--entity-type", "brokers", "--entity-default"}
	configs(append(all, "--alter", "--add-config", "log.retention.ms=7654321")...)
	onEach(`log\.retention\.ms=7654321 `, all...)
	onEach(`retention\.ms=7654321 sensitive=false synonyms=\{DYNAMIC_DEFAULT_BROKER_CONFIG:log\.retention\.ms=7654321`, append(of, "--all")...)
	one := []string{"--entity-type", "brokers", "--entity-name", "2"}
	configs(append(one, "--alter", "--add-config", "log.retention.ms=1234567")...)
	wantMatch(t, configs(append(one, "--describe")...), `log\.retention\.ms=1234567 sensitive=false synonyms=\{DYNAMIC_BROKER_CONFIG:log\.retention\.ms=1234567, DYNAMIC_DEFAULT_BROKER_CONFIG:log\.retention\.ms=7654321`)
	configs(append(one, "--alter", "--delete-config", "log.retention.ms")...)
	configs(append(all, "--alter", "--delete-config", "log.retention.ms")...)
	onEach(`(?m)^  retention\.ms=604800000 `, append(of, "--all")...)
}

func TestZooKeeperShell(t *testing.T) {
	c, tools := shared(t)
	topic := name("znodes")
	tools.run(t, "kafka-topics", "--create", "--topic", topic, "--replica-assignment", "1:2:3,2:3:1", "--config", "retention.ms=100000")
	c.AwaitInSync(t, limit, topic)
	plain := name("plain") // case C3: without a configuration it has a node all the same
	tools.run(t, "kafka-topics", "--create", "--topic", plain, "--replica-assignment", "1:2:3,2:3:1")
	changes := lastOf(tools.zookeeper(t, "ls", "/config/changes"))
	tools.run(t, "kafka-configs", "--alter", "--entity-type", "topics", "--entity-name", topic, "--add-config", "retention.ms=100000")
	change := lastOf(tools.zookeeper(t, "ls", "/config/changes"))
	if change <= changes {
		t.Errorf("the last change of a configuration was %q and is %q", changes, change)
	}
	controller := c.Controller(t)
	features := `\{\}`
	if harness.Peer() == harness.Gregor { // its mark: docs/adr/005-extensions.md
		features = `\{"gregor\.extensions":\{"min_version":1,"max_version":1\}\}`
	}
	for _, check := range []struct {
		command []string
		want    string // a pattern of the whole answer
	}{
		{[]string{"ls", "/brokers/ids"}, `\[1, 2, 3\]`},
		{[]string{"get", "/controller"}, fmt.Sprintf(`\{"version":2,"brokerid":%d,"timestamp":"\d+","kraftControllerEpoch":-1\}`, controller)},
		{[]string{"get", "/controller_epoch"}, `\d+`},
		{[]string{"get", "/cluster/id"}, `\{"version":"1","id":"[A-Za-z0-9_-]{22}"\}`},
		{[]string{"get", "/feature"}, `\{"features":\{\},"version":2,"status":1\}`},
		{[]string{"get", "/brokers/ids/2"}, `\{"features":` + features + `,"listener_security_protocol_map":\{"PLAINTEXT":"PLAINTEXT"\},"endpoints":\["PLAINTEXT://` +
			regexp.QuoteMeta(c.Broker(2).Addr) + `"\],"jmx_port":-1,"port":\d+,"host":"127\.0\.0\.1","version":5,"timestamp":"\d+"\}`},
		{[]string{"get", "/brokers/topics/" + topic}, `\{"partitions":\{"0":\[1,2,3\],"1":\[2,3,1\]\},"topic_id":"[A-Za-z0-9_-]{22}","adding_replicas":\{\},"removing_replicas":\{\},"version":3\}`},
		{[]string{"get", "/brokers/topics/" + topic + "/partitions/1/state"}, `\{"controller_epoch":\d+,"leader":2,"version":1,"leader_epoch":0,"isr":\[2,3,1\]\}`},
		{[]string{"get", "/config/topics/" + topic}, `\{"version":1,"config":\{"retention.ms":"100000"\}\}`},
		{[]string{"get", "/brokers/topics/" + plain}, `\{"partitions":\{"0":\[1,2,3\],"1":\[2,3,1\]\},"topic_id":"[A-Za-z0-9_-]{22}","adding_replicas":\{\},"removing_replicas":\{\},"version":3\}`},
		{[]string{"get", "/config/topics/" + plain}, `\{"version":1,"config":\{\}\}`},
		{[]string{"get", "/config/changes/" + change}, `\{"version":2,"entity_path":"topics/` + topic + `"\}`},
		{[]string{"ls", "/"}, `\[(admin, |brokers, |cluster, |config, |consumers, |controller, |controller_epoch, |feature, |isr_change_notification, |latest_producer_id_block, |log_dir_event_notification, )*zookeeper\]`},
	} {
		if got := tools.zookeeper(t, check.command...); !sameKeys(got, check.want) {
			t.Errorf("%v prints %s, want %s", check.command, got, check.want)
		}
	}
}

// lastOf returns the last child of a list as zookeeper-shell prints it, "" if there is none.
func lastOf(list string) string {
	names := strings.Split(strings.Trim(list, "[]"), ", ")
	slices.Sort(names)
	return names[len(names)-1]
}

// sameKeys reports whether text matches the pattern whatever the order of the keys in a JSON object: keys have no order there.
func sameKeys(text, pattern string) bool {
	if regexp.MustCompile(`^` + pattern + `$`).MatchString(text) {
		return true
	}
	if !strings.HasPrefix(text, "{") {
		return false
	}
	body := strings.TrimSuffix(strings.TrimPrefix(pattern, `\{`), `\}`)
	rest := strings.TrimSuffix(strings.TrimPrefix(text, "{"), "}")
	for _, member := range members.FindAllString(body, -1) {
		found := regexp.MustCompile(`(^|,)` + member).FindStringIndex(rest)
		if found == nil {
			return false
		}
		rest = rest[:found[0]] + rest[found[1]:]
	}
	return strings.Trim(rest, ",") == ""
}

// members matches the members of the patterns above.
var members = regexp.MustCompile(`"[a-z_A-Z]+":(\\\{.*?\\\}|\\\[.*?\\\]|"[^"]*"|[^,"]+)`)
