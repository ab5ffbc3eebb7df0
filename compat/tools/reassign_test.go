package tools

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/gregor-broker/gregor/compat/harness"
)

// plans writes the files that the reassignment tool reads: a topic, and one replica, on that broker, for its partition 0.
func plans(t testing.TB, topic, broker string) (topics, plan string) {
	t.Helper()
	return input(t, `{"version":1,"topics":[{"topic":%q}]}`, topic),
		input(t, `{"version":1,"partitions":[{"topic":%q,"partition":0,"replicas":[%s]}]}`, topic, broker)
}

// input writes a file that a tool reads.
func input(t testing.TB, format string, values ...any) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "input")
	if err := os.WriteFile(path, fmt.Appendf(nil, format, values...), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestReassign: every step of a reassignment, with throttles, which are set, shown and cleared.
func TestReassign(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place, tools *harness.Tools) {
		id, topic := brokerID(t, p, tools), name("reassign")
		p.createTopic(t, topic, 1)
		topics, plan := plans(t, topic, id)
		run := func(tool string, args ...string) harness.Output {
			return tools.Run(t, tool, append([]string{"--bootstrap-server", p.Addr}, args...)...)
		}
		reassign := func(args ...string) harness.Output { return run("kafka-reassign-partitions", args...) }
		of := []string{"--reassignment-json-file", plan}

		replica := `"partition":0,"replicas":\[` + id + `\],"log_dirs":\["any"\]`
		for _, racks := range [][]string{nil, {"--disable-rack-aware"}} {
			generate := append([]string{"--generate", "--topics-to-move-json-file", topics, "--broker-list", id}, racks...)
			if p.cluster != nil { // three replicas do not fit on one broker
				wantRefused(t, tools.Try(t, "kafka-reassign-partitions", "", append([]string{"--bootstrap-server", p.Addr}, generate...)...),
					`Replication factor: 3 larger than available brokers: 1|replication factor of 3 cannot be reached because only 1 broker`)
				generate[4] = "1,2,3"
				replica = `"partition":0,"replicas":\[\d,\d,\d\],"log_dirs":\["any","any","any"\]`
			}
			wantMatch(t, reassign(generate...), `Proposed partition reassignment configuration\n\{.*"topic":"`+topic+`",`+replica)
		}
		wantMatch(t, reassign("--list"), `No partition reassignments found`)
		if tools.Version == harness.V44 && !p.onZooKeeper() {
			wantMatch(t, reassign(append(of, "--execute", "--disallow-replication-factor-change")...), `Successfully started partition reassignment for `+topic+`-0`)
		}

		wantMatch(t, reassign(append(of, "--execute", "--throttle", "123456")...),
			`The inter-broker throttle limit was set to 123456 B/s`, `Successfully started partition reassignment for `+topic+`-0`)
		describe := func() harness.Output {
			return run("kafka-configs", "--describe", "--entity-type", "brokers", "--entity-name", id)
		}
		awaitMatch(t, describe, `follower\.replication\.throttled\.rate=123456 sensitive=false synonyms=\{DYNAMIC_BROKER_CONFIG:`)
		verify := func(more ...string) func() harness.Output {
			return func() harness.Output { return reassign(append(append(of, "--verify"), more...)...) }
		}
		awaitMatch(t, verify("--preserve-throttles"), `Reassignment of partition `+topic+`-0 is completed`)
		wantMatch(t, describe(), `throttled`)
		awaitMatch(t, verify(), `Reassignment of partition `+topic+`-0 is completed`,
			`Clearing broker-level throttles on brokers? .*`+id, `Clearing topic-level throttles on topic `+topic)
		awaitNoMatch(t, describe, "throttled")
		wantMatch(t, reassign(append(of, "--execute", "--additional", "--timeout", "10000")...), `Successfully started partition reassignment for `+topic+`-0`)
		awaitMatch(t, verify(), `is completed`)
		wantMatch(t, reassign(append(of, "--cancel")...), `None of the specified partition moves are active`, `Clearing broker-level throttles on brokers? .*`+id)
	})
}

// TestLeaderElection: what there is to elect, named in each way, where every leader is the right one already. Elections that change
// something are compat/cluster's.
func TestLeaderElection(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place, tools *harness.Tools) {
		topic := name("election")
		p.createTopic(t, topic, 2)
		elect := func(args ...string) func() harness.Output {
			return func() harness.Output {
				return tools.Run(t, "kafka-leader-election", append([]string{"--bootstrap-server", p.Addr, "--election-type"}, args...)...)
			}
		}
		const already = `Valid replica already elected for partitions.*`
		awaitNoMatch(t, elect("preferred", "--all-topic-partitions"), `\w`) // which tells only of those that it elects
		one := []string{"--topic", topic, "--partition", "1"}
		file := input(t, `{"partitions":[{"topic":%q,"partition":0}]}`, topic)
		for _, kind := range []string{"preferred", "unclean"} {
			wantMatch(t, elect(append([]string{kind}, one...)...)(), already+topic+`-1`)
			wantMatch(t, elect(kind, "--path-to-json-file", file)(), already+topic+`-0`)
		}
		wantRefused(t, tools.Try(t, "kafka-leader-election", "", "--bootstrap-server", p.Addr, "--election-type", "preferred", "--topic", topic, "--partition", "7"),
			`(?i)unknown.?topic|does not exist`)
	})
}
