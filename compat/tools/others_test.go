package tools

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gregor-broker/gregor/compat/harness"
)

// plans writes the files that the reassignment tool reads.
func plans(t testing.TB, topic, broker string) (topics, plan string) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, format string, values ...any) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, fmt.Appendf(nil, format, values...), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("topics.json", `{"version":1,"topics":[{"topic":%q}]}`, topic),
		write("plan.json", `{"version":1,"partitions":[{"topic":%q,"partition":0,"replicas":[%s]}]}`, topic, broker)
}

// TestOtherActions: what the tools can do besides what the other tests show.
func TestOtherActions(t *testing.T) {
	both(t, func(t *testing.T, b *harness.Broker, tools *harness.Tools) {
		id, topic, group := brokerID(t, b, tools), name("others"), name("others-group")
		run := func(tool string, args ...string) harness.Output {
			return tools.Run(t, tool, append([]string{"--bootstrap-server", b.Addr}, args...)...)
		}
		run("kafka-topics", "--create", "--topic", topic, "--replica-assignment", id+","+id)
		lines := produceLines(t, b, tools, topic, 6)
		tools.Run(t, "kafka-console-consumer", "--bootstrap-server", b.Addr, "--topic", topic, "--group", group, "--from-beginning",
			"--max-messages", fmt.Sprint(len(lines)), "--timeout-ms", "30000")

		wantLines(t, run("kafka-topics", "--describe", "--under-min-isr-partitions"))
		wantMatch(t, run("kafka-topics", "--describe", "--topic", topic, "--at-min-isr-partitions"), `Topic: `+topic+`\s+Partition: 1\s+Leader: `+id)
		listed := run("kafka-topics", "--list", "--exclude-internal")
		wantMatch(t, listed, "^"+topic+"$")
		if strings.Contains(listed.Stdout, "__consumer_offsets") {
			t.Errorf("an internal topic is listed:\n%s", listed)
		}

		wantLines(t, run("kafka-get-offsets", "--topic-partitions", topic+":0", "--time", "earliest-local"), topic+":0:0")
		run("kafka-get-offsets", "--topic-partitions", topic+":0", "--time", "latest-tiered") // nothing is tiered
		wantMatch(t, run("kafka-get-offsets", "--exclude-internal-topics"), "^"+topic+":0:[0-6]$", "^"+topic+":1:[0-6]$")

		wantMatch(t, run("kafka-configs", "--entity-type", "topics", "--describe"), "Dynamic configs for topic "+topic+" are:")
		wantMatch(t, run("kafka-configs", "--entity-type", "brokers", "--describe"), "Dynamic configs for broker "+id+" are:")

		wantMatch(t, run("kafka-consumer-groups", "--describe", "--all-groups"), group+`\s+`+topic+`\s+0`)
		saved := filepath.Join(t.TempDir(), "offsets.csv")
		exported := run("kafka-consumer-groups", "--group", group, "--reset-offsets", "--topic", topic, "--to-earliest", "--export", "--dry-run")
		wantMatch(t, exported, topic+",0,0", topic+",1,0")
		if err := os.WriteFile(saved, []byte(exported.Stdout), 0o644); err != nil {
			t.Fatal(err)
		}
		wantMatch(t, run("kafka-consumer-groups", "--group", group, "--reset-offsets", "--from-file", saved, "--execute"), group+`\s+`+topic+`\s+1\s+0`)
		wantMatch(t, run("kafka-consumer-groups", "--describe", "--group", group), group+`\s+`+topic+`\s+1\s+0\s`)

		topics, plan := plans(t, topic, id)
		wantMatch(t, run("kafka-reassign-partitions", "--generate", "--topics-to-move-json-file", topics, "--broker-list", id),
			`"topic":"`+topic+`","partition":1,"replicas":\[`+id+`\],"log_dirs":\["any"\]`)
		wantMatch(t, run("kafka-reassign-partitions", "--execute", "--reassignment-json-file", plan), `Successfully started partition reassignment for `+topic+`-0`)
		wantMatch(t, run("kafka-reassign-partitions", "--list"), `No partition reassignments found`)
		run("kafka-leader-election", "--election-type", "preferred", "--all-topic-partitions")
		wantMatch(t, run("kafka-leader-election", "--election-type", "unclean", "--topic", topic, "--partition", "0"),
			`Valid replica already elected for partitions.*`+topic+`-0`)
		app := name("app")
		reset := []string{"--application-id", app, "--input-topics", topic}
		wantMatch(t, run("kafka-streams-application-reset", append(reset, "--dry-run")...), `Topic: `+topic+` Partition: 0 Offset: 0`)
		wantMatch(t, run("kafka-streams-application-reset", append(reset, "--force")...), `Topic: `+topic+` Partition: 1 Offset: 0`)
		status := run("kafka-metadata-quorum", "describe", "--status")
		wantMatch(t, status, `LeaderId:\s+`+id, `HighWatermark:\s+[1-9]`, `CurrentVoters:.*`+id, `CurrentObservers:\s+\[\]`, `MaxFollowerLag:\s+0`)
		wantMatch(t, run("kafka-metadata-quorum", "describe", "--replication"), `^`+id+`\s.*\s0\s.*Leader`)
		run("kafka-features", "describe")
		wantMatch(t, run("kafka-transactions", "describe-producers", "--topic", topic, "--partition", "0"), `ProducerId\s+ProducerEpoch`)
		wantMatch(t, run("kafka-transactions", "find-hanging", "--broker-id", id), `Topic\s+Partition`)

		if tools.Version == harness.V44 {
			wantMatch(t, run("kafka-groups", "--list"), "^"+group+`\s+Classic\s+consumer`)
			run("kafka-share-groups", "--list")
			run("kafka-streams-groups", "--list")
		}
	})
}

// trial is an action that the broker does not support, and what the tool then prints (a pattern). TOPIC, BROKER (its id),
// PLAN and EMPTY (files) stand for those of the test; the broker's address comes first unless BOOTSTRAP says where.
type trial struct{ args, words string }

// trials holds, for each row of the tools' table that does not say "works", what shows it: "tool | action".
var trials = map[string][]trial{
	"kafka-acls | --list, --add, --remove": {
		{"--list", "does not support DESCRIBE_ACLS"},
		{"--add --allow-principal User:a --operation Read --topic TOPIC", "does not support (CREATE|DESCRIBE)_ACLS"},
		{"--remove --force --topic TOPIC", "does not support DELETE_ACLS"},
	},
	"kafka-cluster | unregister":            {{"unregister BOOTSTRAP --id 99", "does not support the broker unregistration API"}},
	"kafka-cluster | unregister-controller": {{"unregister-controller BOOTSTRAP --id 99", "does not support"}},
	"kafka-metadata-quorum | add-controller, remove-controller": {
		{"remove-controller --controller-id 1 --controller-directory-id MkU3OEVBNTcwNTJENDM2Qg", "does not support REMOVE_RAFT_VOTER"},
	},
	"kafka-configs | users: SCRAM": {
		{"--entity-type users --entity-name u --alter --add-config SCRAM-SHA-256=[password=x]", "does not support ALTER_USER_SCRAM_CREDENTIALS"},
	},
	"kafka-console-share-consumer |": {{"--topic TOPIC --timeout-ms 1000", "does not support SHARE_GROUP_HEARTBEAT"}},
	"kafka-delegation-tokens | --create, --describe, --renew, --expire": {
		{"--create --max-life-time-period -1 --command-config EMPTY", "does not support CREATE_DELEGATION_TOKEN"},
		{"--describe --command-config EMPTY", "does not support DESCRIBE_DELEGATION_TOKEN"},
		{"--renew --renew-time-period -1 --hmac eA== --command-config EMPTY", "does not support RENEW_DELEGATION_TOKEN"},
		{"--expire --expiry-time-period -1 --hmac eA== --command-config EMPTY", "does not support EXPIRE_DELEGATION_TOKEN"},
	},
	"kafka-share-consumer-perf-test |": {{"--topic TOPIC --num-records 1 --timeout 1000", "does not support SHARE_GROUP_HEARTBEAT"}},
	"kafka-share-groups | --describe, --reset-offsets, --delete-offsets, --delete": {
		{"--describe --group g", "does not support SHARE_GROUP_DESCRIBE"},
		{"--reset-offsets --group g --topic TOPIC --to-latest --execute", "does not support SHARE_GROUP_DESCRIBE"},
		{"--delete-offsets --group g --topic TOPIC", "does not support DELETE_SHARE_GROUP_OFFSETS"},
		{"--delete --group g", "is not a share group|does not exist|does not support"},
	},
	"kafka-streams-groups | --describe, --reset-offsets, --delete-offsets, --delete": {
		{"--describe --group g", "does not support STREAMS_GROUP_DESCRIBE"},
		{"--reset-offsets --group g --all-input-topics --to-latest --execute", "does not support STREAMS_GROUP_DESCRIBE"},
		{"--delete-offsets --group g --input-topic TOPIC", "does not support|not exist"},
		{"--delete --group g", "does not support|not exist|is not"},
	},
	"kafka-verifiable-share-consumer |": {{"--topic TOPIC --group-id g --max-messages 1", "does not support SHARE_GROUP_HEARTBEAT"}},
}

// tableRow is a row of the tools' table.
type tableRow struct{ tool, action, old, now, shown string }

// toolsTable reads the table that docs/compatibility.md shows.
func toolsTable(t testing.TB) (rows []tableRow) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(harness.Root(), "cmd", "gregor", "internal", "docs", "tools.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		cells := strings.Split(line, "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, tableRow{cells[0], cells[1], cells[2], cells[3], cells[4]})
	}
	return rows
}

// TestTable: every row of the table names a test that there is or, where something is not supported, has trials.
func TestTable(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var sources strings.Builder
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sources.Write(source)
	}
	unused := map[string]bool{}
	for row := range trials {
		unused[row] = true
	}
	in39, in44 := map[string]bool{}, map[string]bool{}
	for _, row := range toolsTable(t) {
		in39[row.tool] = in39[row.tool] || row.old != "-"
		in44[row.tool] = true
		key := strings.TrimSpace(row.tool + " | " + row.action)
		switch row.now {
		case "works":
			for _, test := range strings.Split(row.shown, ", ") {
				if !strings.Contains(sources.String(), "func "+test+"(t *testing.T)") {
					t.Errorf("%s: there is no test %s", key, test)
				}
			}
		case "later", "never":
			if len(trials[key]) == 0 {
				t.Errorf("%s: nothing shows that it is refused in words", key)
			}
			delete(unused, key)
		case "tried":
		default:
			t.Errorf("%s: %q is no state", key, row.now)
		}
		if row.old != row.now && row.old != "-" {
			t.Errorf("%s: 3.9.2 %s, 4.4.0 %s", key, row.old, row.now)
		}
	}
	for version, rows := range map[string]map[string]bool{harness.V39: in39, harness.V44: in44} {
		for _, tool := range harness.ToolNames(version) {
			if !rows[tool] {
				t.Errorf("%s of %s is not in the table", tool, version)
			}
		}
	}
	for row := range unused {
		t.Errorf("the table has no row %s that says later or never", row)
	}
}

// TestUnsupported: what the table says is not supported is refused in words, by the tools of each version.
func TestUnsupported(t *testing.T) {
	if harness.Peer() != harness.Gregor {
		t.Skip("Kafka supports it")
	}
	both(t, func(t *testing.T, b *harness.Broker, tools *harness.Tools) {
		id, topic := brokerID(t, b, tools), name("unsupported")
		harness.CreateTopic(t, b, topic, 1)
		_, plan := plans(t, topic, id)
		fill := strings.NewReplacer("TOPIC", topic, "BROKER", id, "PLAN", plan, "EMPTY", os.DevNull, "BOOTSTRAP", "--bootstrap-server "+b.Addr)
		for _, row := range toolsTable(t) {
			if row.old == "-" && tools.Version == harness.V39 {
				continue
			}
			for _, trial := range trials[strings.TrimSpace(row.tool+" | "+row.action)] {
				args := strings.Fields(fill.Replace(trial.args))
				if !strings.Contains(trial.args, "BOOTSTRAP") {
					args = append([]string{"--bootstrap-server", b.Addr}, args...)
				}
				out := tools.Try(t, row.tool, "", args...)
				if !regexp.MustCompile(fill.Replace(trial.words)).MatchString(out.String()) {
					t.Errorf("%s %s ended with %d and prints:\n%.2000s", row.tool, trial.args, out.Code, out)
				}
			}
		}
	})
}
