package config

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// kafkaKey is one line of testdata/keys-*.jsonl (gen/Dump.java).
type kafkaKey struct {
	Scope, Name, Type  string
	NoDefault          bool
	Default, Validator *string
	Mode               string
	Internal           bool
	Synonym, Of        string
}

func readLines[T any](t *testing.T, path string) []T {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []T
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var one T
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, one)
	}
	return all
}

var goldenModes = []struct {
	mode    Version
	version string
}{{Kafka39, "3.9.2"}, {Kafka44, "4.4.0"}}

// The table has exactly the keys of both versions, with their types, defaults, bounds and update modes.
func TestTableIsKafkas(t *testing.T) {
	tables := map[string]*scopeKeys{"broker": brokerTable, "topic": topicTable, "group": groupTable, "client-metrics": clientMetricsTable}
	for _, g := range goldenModes {
		seen := map[*Key]bool{}
		for _, want := range readLines[kafkaKey](t, "testdata/keys-"+g.version+".jsonl") {
			if want.Synonym != "" {
				compareSynonyms(t, g.mode, want)
				continue
			}
			k := tables[want.Scope].byName[want.Name]
			if k == nil || !k.in(g.mode) {
				t.Errorf("%s: %s key %s is missing", g.version, want.Scope, want.Name)
				continue
			}
			seen[k] = true
			compareKey(t, g.mode, k, want)
		}
		for scope, table := range tables {
			for i := range table.keys {
				k := &table.keys[i]
				if k.in(g.mode) && !k.Stored && !k.Ours && !seen[k] && !(scope == "group" && g.mode == Kafka39) {
					t.Errorf("%s has no %s key %s", g.version, scope, k.Name)
				}
			}
		}
	}
}

func compareKey(t *testing.T, mode Version, k *Key, want kafkaKey) {
	t.Helper()
	if got := typeWords[k.typeIn(mode)].kafka; got != want.Type {
		t.Errorf("%s: type %s, want %s", k.Name, got, want.Type)
	}
	def := k.kafkaDefault(mode)
	if (def == none) != (want.Default == nil) || want.Default != nil && def != *want.Default {
		t.Errorf("%s: default %q, want %v", k.Name, def, want.Default)
	}
	if k.internalIn(mode) != want.Internal {
		t.Errorf("%s: internal %v, want %v", k.Name, k.internalIn(mode), want.Internal)
	}
	if k.scope == ScopeBroker && k.readOnlyIn(mode) != (want.Mode == "") {
		t.Errorf("%s: read-only %v, want update mode %q", k.Name, k.readOnlyIn(mode), want.Mode)
	}
	if want.Validator != nil && strings.HasPrefix(*want.Validator, "[") {
		compareBounds(t, mode, k, *want.Validator)
	}
	if k.Doc == "" || !strings.HasSuffix(k.Doc, ".") {
		t.Errorf("%s: doc %q is no sentence", k.Name, k.Doc)
	}
}

// compareBounds checks that what Kafka prints as valid values is what we allow: "[0,...]", "[0,...,1]", "[a, b]".
func compareBounds(t *testing.T, mode Version, k *Key, printed string) {
	t.Helper()
	allowed := k.validIn(mode).allowed
	low, high, isRange := strings.Cut(strings.Trim(printed, "[]"), ",...")
	var want string
	switch {
	case printed == "[1,...,9] or -1":
		want = "from 1 to 9, or -1"
	case strings.HasPrefix(printed, "[partitionId]"):
		want = throttledReplicas.allowed
	case isRange && high == "":
		want = "of at least " + low
	case isRange:
		want = "from " + low + " to " + strings.TrimPrefix(high, ",")
	case k.typeIn(mode) == List:
		want = "a comma-separated list of " + low
	case strings.HasPrefix(printed, "[latest, earliest, by_duration"):
		want = autoOffsetReset.allowed
	default:
		want = "one of " + low
	}
	if allowed != want {
		t.Errorf("%s: allowed %q, want %q", k.Name, allowed, want)
	}
}

func compareSynonyms(t *testing.T, mode Version, want kafkaKey) {
	t.Helper()
	k := topicTable.byName[want.Synonym]
	if k == nil || !k.in(mode) {
		t.Errorf("topic key %s is missing", want.Synonym)
	} else if got := strings.Join(k.Synonyms, ","); got != want.Of {
		t.Errorf("%s: synonyms %s, want %s", k.Name, got, want.Of)
	}
}

// described is one line of testdata/describe-*.jsonl (gen/Describe.java).
type described struct {
	Name, Source, Type  string
	Value               *string
	Sensitive, ReadOnly bool
	Synonyms            []struct {
		Name, Source string
		Value        *string
	}
}

var sourceNames = map[Source]string{SourceTopic: "DYNAMIC_TOPIC_CONFIG", SourceDynamicBroker: "DYNAMIC_BROKER_CONFIG",
	SourceDynamicDefaultBroker: "DYNAMIC_DEFAULT_BROKER_CONFIG", SourceStaticBroker: "STATIC_BROKER_CONFIG", SourceDefault: "DEFAULT_CONFIG"}

// What we describe of a broker with a given file, and of a topic without configuration, is what Kafka does; only the
// defaults that are our own differ.
func TestDescribeIsKafkas(t *testing.T) {
	for _, g := range goldenModes {
		s, _, err := Load(Sources{File: "testdata/server-" + g.version + ".properties"})
		if err != nil {
			t.Fatal(err)
		}
		if g.mode == Kafka44 { // Kafka 4.4 stores this in a new cluster, for its eligible leader replicas
			s, _, _ = s.WithDynamic(map[string]string{"min.insync.replicas": "1"}, nil)
		}
		compareRows(t, g.version, "broker", DescribeBroker(s, nil))
		compareRows(t, g.version, "topic", DescribeTopic(s, nil, nil))
	}
}

func compareRows(t *testing.T, version, kind string, rows []Row) {
	t.Helper()
	want := readLines[described](t, "testdata/describe-"+kind+"-"+version+".jsonl")
	if len(rows) != len(want) {
		t.Errorf("%s %s: %d rows, want %d", version, kind, len(rows), len(want))
	}
	byName := map[string]Row{}
	for _, r := range rows {
		byName[r.Name] = r
	}
	for _, w := range want {
		r, ok := byName[w.Name]
		if !ok {
			t.Errorf("%s %s: no row %s", version, kind, w.Name)
			continue
		}
		if k := brokerTable.byName[w.Name]; kind == "broker" && k != nil && (k.AtStart != "" || k.unchangeable()) {
			w.ReadOnly = true // what we refuse to change is not shown as if it could be
		}
		if got, want := showRow(r), showDescribed(w); got != want && !ownDefault(version, kind, w.Name) {
			t.Errorf("%s %s:\n  got  %s\n  want %s", version, kind, got, want)
		}
	}
}

func ownDefault(version, kind, name string) bool {
	k := brokerTable.byName[name]
	return version == "4.4.0" && kind == "broker" && k != nil && k.Embedded != ""
}

func show(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

func showRow(r Row) string {
	d := described{Name: r.Name, Source: sourceNames[r.Source], Type: typeWords[r.Type].kafka, Value: r.Value,
		Sensitive: r.Sensitive, ReadOnly: r.ReadOnly}
	text := showDescribed(d)
	for _, y := range r.Synonyms {
		text += " " + sourceNames[y.Source] + ":" + y.Name + "=" + show(y.Value)
	}
	return text
}

func showDescribed(d described) string {
	flags := ""
	if d.Sensitive {
		flags += " sensitive"
	}
	if d.ReadOnly {
		flags += " read-only"
	}
	text := d.Name + "=" + show(d.Value) + " " + d.Source + " " + d.Type + flags
	for _, y := range d.Synonyms {
		text += " " + y.Source + ":" + y.Name + "=" + show(y.Value)
	}
	return text
}
