package group

import (
	"bytes"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

func TestParseTarget(t *testing.T) {
	now := time.UnixMilli(10_000_000)
	for _, c := range []struct {
		text string
		want target
	}{
		{"start", target{toStart, 0}}, {"end", target{toEnd, 0}}, {"5", target{toOffset, 5}}, {"+5", target{byDistance, 5}},
		{"-5", target{byDistance, -5}}, {"time:@7", target{toTime, 7}}, {"time:-1h", target{toTime, 6_400_000}},
	} {
		if got, err := parseTarget(c.text, now); err != nil || got != c.want {
			t.Errorf("%s: %v %v", c.text, got, err)
		}
	}
	for _, bad := range []string{"", "x", "time:", "1.5"} {
		if _, err := parseTarget(bad, now); err == nil {
			t.Error(bad)
		}
	}
}

func TestTargetOf(t *testing.T) {
	for _, c := range []struct {
		t                       target
		from, start, end, found int64
		want                    int64
	}{
		{target{toStart, 0}, 7, 3, 10, 0, 3},
		{target{toEnd, 0}, 7, 3, 10, 0, 10},
		{target{toOffset, 5}, 7, 3, 10, 0, 5},
		{target{toOffset, 1}, 7, 3, 10, 0, 3},
		{target{toOffset, 99}, 7, 3, 10, 0, 10},
		{target{byDistance, -2}, 7, 3, 10, 0, 5},
		{target{byDistance, 9}, 7, 3, 10, 0, 10},
		{target{toTime, 1}, 7, 3, 10, 8, 8},
	} {
		if got, err := c.t.of(c.from, c.start, c.end, c.found); err != nil || got != c.want {
			t.Errorf("%+v: %d %v", c, got, err)
		}
	}
	if _, err := (target{byDistance, 1}).of(-1, 0, 1, 0); err == nil {
		t.Error("no offset to count from")
	}
}

func TestWriteGroup(t *testing.T) {
	instance := "i1"
	busy := kadm.DescribedGroupMember{MemberID: "m1", ClientHost: "/10.0.0.1"}
	idle := kadm.DescribedGroupMember{MemberID: "m2", InstanceID: &instance, ClientHost: "/10.0.0.2"}
	l := kadm.DescribedGroupLag{Group: "g", State: "Stable", Protocol: "range", Members: []kadm.DescribedGroupMember{busy, idle},
		Lag: kadm.GroupLag{"t": {
			0: {Member: &busy, Topic: "t", Partition: 0, Commit: kadm.Offset{At: 5}, End: kadm.ListedOffset{Offset: 9}, Lag: 4},
			1: {Topic: "t", Partition: 1, Commit: kadm.Offset{At: -1}, End: kadm.ListedOffset{Offset: 3}, Lag: 3},
		}}}
	var b bytes.Buffer
	if err := writeGroup(&b, l); err != nil {
		t.Fatal(err)
	}
	want := `group        g
state        Stable
assignor     range
coordinator  0
members      2
lag          7

TOPIC  PARTITION  COMMITTED  END  LAG  MEMBER  HOST
t      0          5          9    4    m1      /10.0.0.1
t      1          -          3    3    -       -

MEMBER WITHOUT PARTITIONS  HOST
i1 (m2)                    /10.0.0.2
`
	if b.String() != want {
		t.Errorf("got\n%s", b.String())
	}
}
