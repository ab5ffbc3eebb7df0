package config

import (
	"maps"
	"strings"
	"testing"

	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
)

func set(pairs ...string) []Change {
	var changes []Change
	for i := 0; i < len(pairs); i += 2 {
		changes = append(changes, Change{Name: pairs[i], Op: Set, Value: &pairs[i+1]})
	}
	return changes
}

func TestAlterBroker(t *testing.T) {
	s, _ := load(t)
	old, _ := load(t, zk)
	compact := "compact"
	for _, c := range []struct {
		name      string
		s         *Snapshot
		perBroker bool
		was       map[string]string
		changes   []Change
		want      map[string]string
		code      *kerr.Error
		words     string
	}{
		{name: "set", s: s, perBroker: true, changes: set("log.retention.ms", "5"), want: map[string]string{"log.retention.ms": "5"}},
		{name: "for all", s: s, changes: set("message.max.bytes", "5"), want: map[string]string{"message.max.bytes": "5"}},
		{name: "delete", s: s, was: map[string]string{"log.retention.ms": "5"}, changes: []Change{{Name: "log.retention.ms", Op: Delete}}, want: map[string]string{}},
		{name: "delete what is not there", s: s, changes: []Change{{Name: "leader.replication.throttled.rate", Op: Delete}}, want: map[string]string{}},
		{name: "append", s: s, changes: []Change{{Name: "log.cleanup.policy", Op: Append, Value: &compact}},
			want: map[string]string{"log.cleanup.policy": "delete,compact"}},
		{name: "append to a number", s: s, changes: []Change{{Name: "log.retention.ms", Op: Append, Value: &compact}}, code: kerr.InvalidConfig},
		{name: "a listener's limit", s: s, perBroker: true, changes: set("listener.name.internal.max.connections", "5"),
			want: map[string]string{"listener.name.internal.max.connections": "5"}},
		{name: "a listener's limit, for all", s: s, changes: set("listener.name.internal.max.connection.creation.rate", "5"),
			want: map[string]string{"listener.name.internal.max.connection.creation.rate": "5"}},
		{name: "a listener's limit that is none", s: s, changes: set("listener.name.internal.max.connections", "few"), code: kerr.InvalidRequest,
			words: "Not a number of type INT"},
		{name: "no limit of a listener", s: s, perBroker: true, changes: set("listener.name.internal.max.connections.per.ip", "5"),
			want: map[string]string{"listener.name.internal.max.connections.per.ip": "5"}},
		{name: "no limit of a listener, for all", s: s, changes: set("listener.name.internal.max.connections.per.ip", "5"), code: kerr.InvalidRequest,
			words: "at default cluster level"},
		{name: "nobody may connect", s: s, changes: set("max.connections", "0"), code: kerr.InvalidRequest, words: "Invalid max.connections 0"},
		{name: "nobody may connect any more", s: s, changes: set("max.connection.creation.rate", "0"), code: kerr.InvalidRequest, words: "Invalid"},
		{name: "nobody may connect to a listener", s: s, perBroker: true, changes: set("listener.name.plaintext.max.connections", "0"), code: kerr.InvalidRequest,
			words: "Invalid max.connections 0"},
		{name: "nobody may connect to a listener of others", s: s, perBroker: true, changes: set("listener.name.internal.max.connections", "0"),
			want: map[string]string{"listener.name.internal.max.connections": "0"}},
		{name: "throttle", s: old, perBroker: true, changes: set("leader.replication.throttled.rate", "100"),
			want: map[string]string{"leader.replication.throttled.rate": "100"}},
		{name: "read-only", s: s, changes: set("broker.id", "5", "num.partitions", "1"), code: kerr.InvalidRequest,
			words: "Cannot update these configs dynamically: [broker.id, num.partitions]"},
		{name: "read-only in 3.9", s: old, changes: set("broker.id", "5"), code: kerr.InvalidRequest, words: "Set(broker.id)"},
		{name: "per broker, for all", s: s, changes: set("listeners", "PLAINTEXT://:1"), code: kerr.InvalidRequest,
			words: "Cannot update these configs at default cluster level, broker id must be specified: [listeners]"},
		{name: "per broker, of a listener, for all", s: old, changes: set("listener.name.x.ssl.keystore.location", "f"), code: kerr.InvalidRequest,
			words: "broker id must be specified: Set(listener.name.x.ssl.keystore.location)"},
		{name: "a certificate of no listener", s: s, perBroker: true, changes: set("ssl.keystore.location", "f", "listeners", "PLAINTEXT://:1"),
			code: kerr.InvalidRequest, words: "only per-listener using the listener prefix: [ssl.keystore.location]"},
		{name: "at the start", s: s, perBroker: true, changes: set("num.network.threads", "4"), code: kerr.InvalidRequest, words: startProcessors},
		{name: "without effect", s: s, changes: set("background.threads", "9"), code: kerr.InvalidRequest, words: whyThreads},
		{name: "unknown", s: s, changes: set("no.such", "9"), want: map[string]string{"no.such": "9"}},
		{name: "no number", s: s, changes: set("message.max.bytes", "x"), code: kerr.InvalidRequest, words: "Not a number of type INT"},
		{name: "out of bounds", s: s, changes: set("message.max.bytes", "-1"), code: kerr.InvalidRequest, words: "Value must be at least 0"},
		{name: "the keys together", s: s, changes: set("log.retention.ms", "0"), code: kerr.InvalidRequest, words: "log.retention.ms"},
		{name: "null", s: s, changes: []Change{{Name: "message.max.bytes", Op: Set}}, code: kerr.InvalidRequest},
		{name: "twice", s: s, changes: set("message.max.bytes", "1", "message.max.bytes", "2"), code: kerr.InvalidRequest},
		{name: "too many threads", s: s, changes: set("num.io.threads", "17"), code: kerr.InvalidRequest, words: "not be greater than double the current value 8"},
		{name: "too few threads", s: s, changes: set("num.io.threads", "3"), code: kerr.InvalidRequest, words: "at least half the current value 8"},
		{name: "threads", s: s, changes: set("num.io.threads", "16"), want: map[string]string{"num.io.threads": "16"}},
		{name: "what another broker stored stays", s: old, was: map[string]string{"background.threads": "20", "no.such": "1"},
			changes: set("log.retention.ms", "5"), want: map[string]string{"background.threads": "20", "no.such": "1", "log.retention.ms": "5"}},
	} {
		was := maps.Clone(c.was)
		got, err := AlterBroker(c.s, c.perBroker, c.was, c.changes)
		switch {
		case c.code != nil:
			if errcode.Of(err) != c.code.Code || !strings.Contains(err.Error(), c.words) {
				t.Errorf("%s: %v, want %v with %q", c.name, err, c.code, c.words)
			}
		case err != nil || !maps.Equal(got, c.want):
			t.Errorf("%s: %v, %v; want %v", c.name, got, err, c.want)
		}
		if !maps.Equal(c.was, was) {
			t.Errorf("%s: the old configuration changed", c.name)
		}
	}
}

func TestReplaceBroker(t *testing.T) {
	s, _ := load(t)
	got, err := ReplaceBroker(s, true, map[string]string{"log.retention.ms": "5", "background.threads": "7"},
		set("message.max.bytes", "9", "background.threads", "7"))
	if want := map[string]string{"message.max.bytes": "9", "background.threads": "7"}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := ReplaceBroker(s, true, nil, set("background.threads", "7")); err == nil {
		t.Error("a key without effect is taken")
	}
}

// Keys that only the metadata store has are described when somebody has set them, and cannot stand in a file.
func TestStoredKeys(t *testing.T) {
	const rate = "leader.replication.throttled.rate"
	s, notices := load(t, rate+"=7")
	if len(notices) == 0 || LeaderThrottle.Of(s) == 7 {
		t.Errorf("in a file: %d, notices %v", LeaderThrottle.Of(s), notices)
	}
	s, _ = load(t)
	if rows := DescribeBroker(s, []string{rate}); len(rows) != 0 || LeaderThrottle.Of(s) != 1<<63-1 {
		t.Errorf("unset: %v", rows)
	}
	next, _, _ := s.WithDynamic(map[string]string{rate: "8"}, map[string]string{rate: "9"})
	if rows := DescribeBroker(next, nil); LeaderThrottle.Of(next) != 9 || len(rows) != len(DescribeBroker(s, nil))+1 {
		t.Errorf("set: %d, %d rows", LeaderThrottle.Of(next), len(rows))
	}
	if got := showRow(DescribeBroker(next, []string{rate})[0]); got !=
		rate+"=9 DYNAMIC_BROKER_CONFIG LONG DYNAMIC_BROKER_CONFIG:"+rate+"=9 DYNAMIC_DEFAULT_BROKER_CONFIG:"+rate+"=8" {
		t.Error(got)
	}
}

// TestReadOnly: DescribeConfigs calls just those keys read-only that a request to change is refused for, whatever the value.
func TestReadOnly(t *testing.T) {
	embedded, _ := load(t)
	cluster, _ := load(t, zk)
	for _, s := range []*Snapshot{embedded, cluster} {
		fixed := 0
		for _, row := range DescribeBroker(s, nil) {
			_, err := AlterBroker(s, true, nil, set(row.Name, "surely no value of this key"))
			refused := err != nil && (strings.Contains(err.Error(), "Cannot update these configs dynamically") ||
				strings.Contains(err.Error(), "only per-listener using the listener prefix") ||
				strings.Contains(err.Error(), "cannot be changed while the broker runs") || strings.Contains(err.Error(), "it would have no effect"))
			if refused != row.ReadOnly {
				t.Errorf("%s is read-only: %v; to change it: %v", row.Name, row.ReadOnly, err)
			}
			if row.ReadOnly {
				fixed++
			}
		}
		if fixed < 100 {
			t.Errorf("only %d keys are read-only", fixed)
		}
	}
}

// TestListenerLimits: a listener's own limits come from every layer, are described with it, and are told apart.
func TestListenerLimits(t *testing.T) {
	const most, rate = "listener.name.internal.max.connections", "listener.name.outside.max.connection.creation.rate"
	s, notices := load(t, most+"=7", rate+"=3")
	if len(notices) != 0 {
		t.Error(texts(notices))
	}
	if got := s.ListenerLimits(); len(got) != 2 || got["internal"] != (ListenerLimits{MaxConnections: 7}) || got["outside"] != (ListenerLimits{CreationRate: 3}) {
		t.Errorf("%v", got)
	}
	s, notices, err := s.WithDynamic(map[string]string{most: "9", rate: "4"}, map[string]string{most: "8"})
	if err != nil || len(notices) != 0 {
		t.Fatal(err, texts(notices))
	}
	if got := s.ListenerLimits(); got["internal"].MaxConnections != 8 || got["outside"].CreationRate != 4 {
		t.Errorf("%v", got)
	}
	rows := DescribeBroker(s, []string{most})
	want := most + "=8 DYNAMIC_BROKER_CONFIG INT DYNAMIC_BROKER_CONFIG:" + most + "=8 DYNAMIC_DEFAULT_BROKER_CONFIG:" + most + "=9 STATIC_BROKER_CONFIG:" + most + "=7"
	if len(rows) != 1 || showRow(rows[0]) != want {
		t.Errorf("%v, want %s", rows, want)
	}
	if rows = DescribeDefaults(s, nil); len(rows) != 2 || *rows[0].Value != "9" {
		t.Errorf("%v", rows)
	}
	if _, _, err := Load(Sources{Overrides: []string{most + "=few"}}); err == nil || !strings.Contains(err.Error(), "few") {
		t.Error(err)
	}
}
