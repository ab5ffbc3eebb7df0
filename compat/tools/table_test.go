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

// trials holds, for each row of the tools' table that says "later" or "refused", "tool | action", the arguments with which that is tried.
// TOPIC, PLAN, DIRPLAN and EMPTY (files) stand for those of the test; the brokers' addresses come first unless BOOTSTRAP or BROKERS
// says where. One that begins with a version is for its tools only.
var trials = map[string][]string{
	"kafka-acls | --list, --add, --remove": {
		"--list",
		"--add --allow-principal User:a --operation Read --topic TOPIC",
		"--remove --force --topic TOPIC",
	},
	"kafka-client-metrics | --list, --describe, --alter, --delete, --generate-name": {
		"--list", "--describe", "--describe --name n", "--alter --name n --interval 1000", "--alter --generate-name --interval 1000", "--delete --name n",
	},
	"kafka-cluster | list-endpoints --include-fenced-brokers": {"list-endpoints BOOTSTRAP --include-fenced-brokers"},
	"kafka-cluster | unregister":                              {"unregister BOOTSTRAP --id 99"},
	"kafka-cluster | unregister-controller":                   {"unregister-controller BOOTSTRAP --id 99"},
	"kafka-configs | client-metrics: --describe, --alter": {
		"--entity-type client-metrics --describe",
		"--entity-type client-metrics --entity-name n --describe",
		"--entity-type client-metrics --entity-name n --alter --add-config interval.ms=2000",
	},
	"kafka-configs | groups: --describe, --alter, --group": {
		"--entity-type groups --entity-name g --describe",
		"--entity-type groups --entity-name g --alter --add-config consumer.session.timeout.ms=50000",
		"--group g --describe",
	},
	"kafka-configs | users: SCRAM": {"--entity-type users --entity-name u --alter --add-config SCRAM-SHA-256=[password=x]"},
	"kafka-console-consumer | with group.protocol=consumer": {
		harness.V39 + ": --topic TOPIC --group g --timeout-ms 5000 --consumer-property group.protocol=consumer",
		harness.V44 + ": --topic TOPIC --group g --timeout-ms 5000 --command-property group.protocol=consumer",
	},
	"kafka-console-share-consumer |": {"--topic TOPIC --timeout-ms 1000"},
	"kafka-delegation-tokens | --create, --describe, --renew, --expire": {
		"--create --max-life-time-period -1 --command-config EMPTY",
		"--describe --command-config EMPTY",
		"--renew --renew-time-period -1 --hmac eA== --command-config EMPTY",
		"--expire --expiry-time-period -1 --hmac eA== --command-config EMPTY",
	},
	"kafka-features | upgrade of other features, also by --metadata and --release-version": {
		"upgrade --feature metadata.version=21", "upgrade --metadata 3.9-IV0", "downgrade --feature no.such.feature=1",
		harness.V44 + ": upgrade --release-version 3.9-IV0",
	},
	"kafka-get-offsets | earliest-pending-upload": {"--topic TOPIC --time earliest-pending-upload"},
	"kafka-metadata-quorum | describe --status, --replication, --human-readable": {
		"describe --status", "describe --replication", "describe --replication --human-readable",
	},
	"kafka-metadata-quorum | add-controller, remove-controller": {
		"remove-controller --controller-id 1 --controller-directory-id MkU3OEVBNTcwNTJENDM2Qg",
		"--command-config EMPTY add-controller",
	},
	"kafka-reassign-partitions | --execute --disallow-replication-factor-change": {
		"--execute --disallow-replication-factor-change --reassignment-json-file PLAN",
	},
	"kafka-reassign-partitions | between log directories": {"--execute --reassignment-json-file DIRPLAN --replica-alter-log-dirs-throttle 1000"},
	"kafka-replica-verification |":                        {"--broker-list BROKERS --topics-include TOPIC --time -2 --report-interval-ms 100"},
	"kafka-share-consumer-perf-test |":                    {"--topic TOPIC --num-records 1 --timeout 1000"},
	"kafka-share-groups | --describe, --reset-offsets, --delete-offsets, --delete": {
		"--describe --group g", "--reset-offsets --group g --topic TOPIC --to-latest --execute",
		"--delete-offsets --group g --topic TOPIC", "--delete --group g",
	},
	"kafka-streams-groups | --describe, --reset-offsets, --delete-offsets, --delete": {
		"--describe --group g", "--reset-offsets --group g --all-input-topics --to-latest --execute",
		"--delete-offsets --group g --input-topic TOPIC", "--delete --group g",
	},
	"kafka-transactions | list --transactional-id-pattern":  {"list --transactional-id-pattern t.*"},
	"kafka-verifiable-consumer | --group-protocol consumer": {"--topic TOPIC --group-id g --max-messages 1 --group-protocol consumer"},
	"kafka-verifiable-share-consumer |":                     {"--topic TOPIC --group-id g --max-messages 1"},
}

// tableRow is a row of the tools' table: its states alone and in the cluster, with the tools of each version, and the last cell.
type tableRow struct {
	tool, action string
	states       [2][2]string
	shown        string
}

func (r *tableRow) key() string { return strings.TrimSpace(r.tool + " | " + r.action) }

// state is what the row says of a place, with the tools of a version.
func (r *tableRow) state(cluster bool, version string) string {
	place, column := 0, 0
	if cluster {
		place = 1
	}
	if version == harness.V44 {
		column = 1
	}
	return r.states[place][column]
}

var (
	quoted    = regexp.MustCompile(`"([^"]+)"`)
	testNamed = regexp.MustCompile(`\b(?:(\w+)\.)?(Test\w+)`)
)

// words are those that a refused tool prints.
func (r *tableRow) words() (words []string) {
	for _, m := range quoted.FindAllStringSubmatch(r.shown, -1) {
		words = append(words, m[1])
	}
	return words
}

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
		rows = append(rows, tableRow{cells[0], cells[1], [2][2]string{{cells[2], cells[3]}, {cells[4], cells[5]}}, cells[6]})
	}
	return rows
}

// testBodies are the tests of the packages that the table names, as "package.Test", "" for this package.
func testBodies(t testing.TB) map[string]string {
	t.Helper()
	bodies := map[string]string{}
	start := regexp.MustCompile(`(?ms)^func (Test\w+)\(t \*testing\.T\) \{\n.*?^\}`)
	for name, dir := range map[string]string{"": ".", "cluster": "../cluster", "txn": "../txn"} {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range start.FindAllStringSubmatch(string(source), -1) {
				bodies[name+"."+m[1]] = m[0]
			}
		}
	}
	return bodies
}

// TestTable: where a row of the table says that something works it names a test of it there, and where it says that it does not there are
// trials, and words.
func TestTable(t *testing.T) {
	bodies, unused := testBodies(t), map[string]bool{}
	for row := range trials {
		unused[row] = true
	}
	everywhere := regexp.MustCompile(`\beverywhere\(`)
	inCluster := regexp.MustCompile(`\b(everywhere|clustered|StartCluster)\(`)
	rows := toolsTable(t)
	for i := range rows {
		row := &rows[i]
		for _, m := range testNamed.FindAllStringSubmatch(row.shown, -1) {
			if bodies[m[1]+"."+m[2]] == "" {
				t.Errorf("%s: there is no test %s", row.key(), m[0])
			}
		}
		for place, states := range row.states {
			shows := func(name, body string) bool { // in which place
				own := !strings.HasPrefix(name, "cluster.")
				if place == 0 {
					return own && (everywhere.MatchString(body) || !inCluster.MatchString(body) || strings.Contains(body, `"alone"`))
				}
				return !own || inCluster.MatchString(body)
			}
			for version, state := range states {
				where := fmt.Sprintf("%s, place %d, version %d", row.key(), place, version)
				switch state {
				case "works":
					shown := false
					for _, m := range testNamed.FindAllStringSubmatch(row.shown, -1) {
						name := m[1] + "." + m[2]
						shown = shown || shows(name, bodies[name])
					}
					if !shown {
						t.Errorf("%s: no test shows that it works", where)
					}
				case "later", "refused":
					if len(trials[row.key()]) == 0 || len(row.words()) == 0 {
						t.Errorf("%s: nothing shows that it is refused in words", where)
					}
					delete(unused, row.key())
				case "-":
				default:
					t.Errorf("%s: %q is no state", where, state)
				}
			}
		}
	}
	for _, version := range []string{harness.V39, harness.V44} {
		has := map[string]bool{}
		for i := range rows {
			has[rows[i].tool] = has[rows[i].tool] || rows[i].state(false, version) != "-"
		}
		for _, tool := range harness.ToolNames(version) {
			if !has[tool] {
				t.Errorf("%s of %s is not in the table", tool, version)
			}
		}
	}
	for row := range unused {
		t.Errorf("the table has no row %s that says later or refused", row)
	}
}

// tried runs a tool that is to fail.
func tried(t *testing.T, tools *harness.Tools, tool string, args []string) harness.Output {
	t.Helper()
	switch { // what goes on for ever
	case tool == "kafka-replica-verification":
		return tools.RunUntil(t, `(?s)(max lag is -1 for partition null.*){20}`, tool, args...)
	case tools.Version == harness.V39 && strings.Contains(strings.Join(args, " "), "protocol"):
		return tools.RunUntil(t, `UNSUPPORTED_VERSION`, tool, args...)
	}
	return tools.Try(t, tool, "", args...)
}

// TestUnsupported: what the table says is not supported is refused with the table's words, by the tools of each version.
func TestUnsupported(t *testing.T) {
	if harness.Peer() != harness.Gregor {
		t.Skip("Kafka supports it, or has other words")
	}
	rows, met := toolsTable(t), map[string]bool{}
	everywhere(t, func(t *testing.T, p *place, tools *harness.Tools) {
		id, topic := brokerID(t, p, tools), name("unsupported")
		p.createTopic(t, topic, 1)
		_, plan := plans(t, topic, id)
		dirPlan := input(t, `{"version":1,"partitions":[{"topic":%q,"partition":0,"replicas":[%s],"log_dirs":["/elsewhere"]}]}`, topic, id)
		fill := strings.NewReplacer("TOPIC", topic, "DIRPLAN", dirPlan, "PLAN", plan, "EMPTY", os.DevNull, "BOOTSTRAP", "--bootstrap-server "+p.Addr, "BROKERS", p.Addr)
		for i := range rows {
			row := &rows[i]
			if state := row.state(p.cluster != nil, tools.Version); state != "later" && state != "refused" {
				continue
			}
			for _, trial := range trials[row.key()] {
				if version, rest, only := strings.Cut(trial, ": "); only {
					if version != tools.Version {
						continue
					}
					trial = rest
				}
				args := strings.Fields(fill.Replace(trial))
				if !strings.Contains(trial, "BOOTSTRAP") && !strings.Contains(trial, "BROKERS") {
					args = append([]string{"--bootstrap-server", p.Addr}, args...)
				}
				out, said := tried(t, tools, row.tool, args), false
				for _, words := range row.words() {
					if strings.Contains(out.String(), words) {
						said, met[row.key()+words] = true, true
					}
				}
				if !said {
					t.Errorf("%s %s ended with %d and prints none of %q but\n%.2000s", row.tool, trial, out.Code, row.words(), out)
				}
			}
		}
	})
	for i := range rows {
		for _, words := range rows[i].words() {
			if !met[rows[i].key()+words] {
				t.Errorf("%s: nothing prints %q", rows[i].key(), words)
			}
		}
	}
}
