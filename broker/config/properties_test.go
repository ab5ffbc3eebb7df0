package config

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// The expectations are those of java.util.Properties.
func TestParseProperties(t *testing.T) {
	for _, c := range []struct {
		text string
		want []property
	}{
		{"", nil},
		{"# a comment\n! another\n\n   \t\f\n", nil},
		{"a=b", []property{{"a", "b", 1}}},
		{"a = b ", []property{{"a", "b ", 1}}},
		{"a: b\rc d\r\ne\n", []property{{"a", "b", 1}, {"c", "d", 2}, {"e", "", 3}}},
		{"  a  =  b = c", []property{{"a", "b = c", 1}}},
		{"a==b", []property{{"a", "=b", 1}}},
		{"=b", []property{{"", "b", 1}}},
		{"a=b\\\n   c\\\n\td\ne=f", []property{{"a", "bcd", 1}, {"e", "f", 4}}},
		{"a=b\\\\\nc=d", []property{{"a", `b\`, 1}, {"c", "d", 2}}},
		{"a=b\\", []property{{"a", "b", 1}}},
		{"a=b\\\n#no comment", []property{{"a", "b#no comment", 1}}},
		{"# comment \\\na=b", []property{{"a", "b", 2}}},
		{`a\ b\:c\=d=e`, []property{{"a b:c=d", "e", 1}}},
		{`a=\t\n\r\f\z\u0041\u00e9`, []property{{"a", "\t\n\r\fzAé", 1}}},
		{`a=\ud83d\ude00`, []property{{"a", "😀", 1}}},
		{"\ufeffa=b", []property{{"a", "b", 1}}},
		{"path=C:\\\\kafka", []property{{"path", `C:\kafka`, 1}}},
		{"a=ü", []property{{"a", "ü", 1}}},
	} {
		got, err := parseProperties(c.text)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: %v %v, want %v", c.text, got, err, c.want)
		}
	}
	for _, bad := range []string{`a=\u12`, `a=\u12g4`, `\u=b`} {
		if _, err := parseProperties("x=y\n" + bad); err == nil || !strings.HasPrefix(err.Error(), "line 2: ") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// What is parsed and written again, escaped, is parsed to the same.
func FuzzParseProperties(f *testing.F) {
	for _, seed := range []string{"a=b", "a b\\\n c", `\u0041:\t`, "#x\ny", "a\\=b=c\\", "\\ud83d\\ude00 x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		entries, err := parseProperties(text)
		if err != nil {
			return
		}
		var again strings.Builder
		for i := range entries {
			entries[i].line = i + 1
			again.WriteString(escapeProperty(entries[i].key) + "=" + escapeProperty(entries[i].value) + "\n")
		}
		got, err := parseProperties(again.String())
		if err != nil || len(got) != len(entries) || len(got) > 0 && !reflect.DeepEqual(got, entries) {
			t.Errorf("%q: %v, again %v %v", text, entries, got, err)
		}
	})
}

func escapeProperty(s string) string {
	return strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "\f", `\f`, " ", `\ `, "=", `\=`, ":", `\:`,
		"#", `\#`, "!", `\!`, "\ufeff", `\ufeff`).Replace(s)
}

func FuzzParseValue(f *testing.F) {
	for _, seed := range []string{"1", "true", "0.5d", "a,b , ,c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, table := range []*scopeKeys{brokerTable, topicTable} {
			for i := range table.keys {
				k := &table.keys[i]
				for _, mode := range []Version{Kafka39, Kafka44} {
					v, problem := k.parse(mode, text)
					if problem != nil {
						_ = problem.message(k.Name)
						continue
					}
					if again, problem := k.parse(mode, format(v)); problem != nil || format(again) != format(v) {
						t.Errorf("%s=%q: %v becomes %v", k.Name, text, v, again)
					}
				}
			}
		}
	})
}

func TestFormatDouble(t *testing.T) {
	for _, c := range []struct {
		f    float64
		want string
	}{
		{0, "0.0"}, {0.5, "0.5"}, {1, "1.0"}, {0.001, "0.001"}, {0.0001, "1.0E-4"}, {9999999, "9999999.0"}, {1e7, "1.0E7"},
		{1.7976931348623157e308, "1.7976931348623157E308"}, {-2.5, "-2.5"}, {1.25e-5, "1.25E-5"},
	} {
		if got := formatDouble(c.f); got != c.want {
			t.Errorf("%v: %s, want %s", c.f, got, c.want)
		}
	}
}

func TestHandles(t *testing.T) {
	s, _ := load(t, "log.retention.check.interval.ms=9223372036854775807", "offsets.retention.minutes=5", "broker.rack=r1")
	if d := RetentionCheckInterval.Of(s); d != 1<<63-1 {
		t.Errorf("the longest duration is %v", d)
	}
	if d := OffsetsRetention.Of(s); d != 5*time.Minute {
		t.Errorf("offsets retention %v", d)
	}
	if BrokerRack.Of(s) != "r1" || BrokerRack.Name() != "broker.rack" {
		t.Error(BrokerRack.Of(s))
	}
}

func TestNearest(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"ab", "ba", 1}, {"kitten", "sitting", 3}, {"log.dirs", "log.dir", 1}} {
		if got := edits(c.a, c.b); got != c.want {
			t.Errorf("%s %s: %d, want %d", c.a, c.b, got, c.want)
		}
	}
	if s := nearest(strings.Repeat("x", 1000)); s.key != nil {
		t.Error("a name that long resembles nothing")
	}
}

func TestDocs(t *testing.T) {
	var b strings.Builder
	if err := Docs(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| `num.io.threads` | int | `8` | an integer of at least 1 | yes | cluster-wide | How many handlers work on requests that are long or can block. |",
		"| `offsets.topic.replication.factor` | `3` | `1` |",
		"| `log.segment.bytes` | int | `1073741824` |",
		"| `authorizer.class.name` | string | empty | a text | refused: " + refuseAuthorizer,
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("missing: %s", want)
		}
	}
}
