package config

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
)

// TestAlterGroup: what a group's configuration may be.
func TestAlterGroup(t *testing.T) {
	s, _ := load(t)
	const session, beat = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
	for _, test := range []struct {
		name    string
		changes []Change
		refused string
	}{
		{"a session", set(session, "50000"), ""},
		{"all", set(session, "60000", beat, "15000", "consumer.assignment.interval.ms", "0"), ""},
		{"too short", set(session, "44999"), "consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive."},
		{"too seldom", set(beat, "15001"), "consumer.heartbeat.interval.ms must be in the range 5000 to 15000 inclusive."},
		{"unknown", set("nonsense", "1"), "Unknown group config name: nonsense"},
		{"no number", set(beat, "often"), "Invalid value often for configuration consumer.heartbeat.interval.ms: Not a number of type INT"},
		{"of share groups", set("share.isolation.level", "read_committed"), "share.isolation.level is not changed, since it would have no effect: " + whyShare},
		{"two in one", set(beat, "6000", beat, "7000"), "Error due to duplicate config keys"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := AlterGroup(s, nil, test.changes)
			switch {
			case test.refused == "" && err != nil, test.refused != "" && (err == nil || err.Error() != test.refused):
				t.Errorf("got %v, want %q", err, test.refused)
			case err != nil && test.name != "two in one" && errcode.Of(err) != kerr.InvalidConfig.Code:
				t.Errorf("code %d", errcode.Of(err))
			}
		})
	}
}

// TestGroupTimes: a group's own values come first, within the broker's limits; the broker's come next.
func TestGroupTimes(t *testing.T) {
	s, _ := load(t, "group.consumer.heartbeat.interval.ms=7000")
	got := GroupTimesOf(s, map[string]string{"consumer.session.timeout.ms": "99999999", "consumer.assignment.interval.ms": "20"})
	if want := (GroupTimes{time.Minute, 7 * time.Second, 20 * time.Millisecond}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := GroupTimesOf(s, nil), (GroupTimes{45 * time.Second, 7 * time.Second, time.Second}); got != want {
		t.Errorf("without own values: got %v, want %v", got, want)
	}
}

// TestDescribeGroupAsKafka: each row of a group is what Kafka tells, where its value comes from too.
func TestDescribeGroupAsKafka(t *testing.T) {
	text, err := os.ReadFile("testdata/describe-group-4.4.0.txt")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for line := range strings.Lines(string(text)) {
		if line[0] != '#' {
			want = append(want, strings.TrimSpace(line))
		}
	}
	s, _ := load(t)
	sources := map[Source]string{SourceGroup: "DYNAMIC_GROUP_CONFIG", SourceDefault: "DEFAULT_CONFIG"}
	var got []string
	for _, r := range DescribeGroup(s, map[string]string{"consumer.session.timeout.ms": "50000"}, nil) {
		var synonyms []string
		for _, y := range r.Synonyms {
			synonyms = append(synonyms, sources[y.Source]+":"+y.Name+"="+show(y.Value))
		}
		got = append(got, fmt.Sprintf("%s=%s sensitive=%v synonyms={%s}", r.Name, show(r.Value), r.Sensitive, strings.Join(synonyms, ", ")))
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
}

// TestDescribeGroup: where the values come from.
func TestDescribeGroup(t *testing.T) {
	s, _ := load(t, "group.consumer.heartbeat.interval.ms=7000")
	rows := map[string]Row{}
	for _, r := range DescribeGroup(s, map[string]string{"consumer.session.timeout.ms": "50000"}, nil) {
		rows[r.Name] = r
	}
	for name, want := range map[string]struct {
		value  string
		source Source
	}{
		"consumer.session.timeout.ms":     {"50000", SourceGroup},
		"consumer.heartbeat.interval.ms":  {"7000", SourceStaticBroker},
		"consumer.assignment.interval.ms": {"1000", SourceDefault},
	} {
		if r := rows[name]; r.Value == nil || *r.Value != want.value || r.Source != want.source {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if rows["consumer.assignor.offload.enable"].Name != "" {
		t.Error("an internal key is described")
	}
}
