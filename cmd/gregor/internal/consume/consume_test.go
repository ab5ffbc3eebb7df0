package consume

import (
	"io"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestFormat(t *testing.T) {
	r := &kgo.Record{Topic: "t", Partition: 3, Offset: 42, LeaderEpoch: 1, Key: []byte("k"), Value: []byte("v%v"),
		Timestamp: time.UnixMilli(1500).UTC(), Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "b"}}}
	null := &kgo.Record{}
	for _, c := range []struct {
		format string
		r      *kgo.Record
		want   string
	}{
		{`%v\n`, r, "v%v\n"},
		{`%t-%p@%o e%e %k=%v`, r, "t-3@42 e1 k=v%v"},
		{`%T|%D|%h|%K|%V|100%%`, r, "1500|1970-01-01T00:00:01.5Z|a=1,b=null|1|3|100%"},
		{`%k:%v:%K:%V:%h`, null, "null:null:-1:-1:"},
		{`\x41\t`, r, "A\t"},
		{``, r, ""},
	} {
		f, err := parseFormat(c.format)
		if err != nil {
			t.Errorf("%s: %v", c.format, err)
			continue
		}
		if got := string(f.append(nil, c.r)); got != c.want {
			t.Errorf("%s: %q, want %q", c.format, got, c.want)
		}
	}
	for _, bad := range []string{"%", "%z", `\q`} {
		if _, err := parseFormat(bad); err == nil {
			t.Error(bad)
		}
	}
}

func TestParseOffset(t *testing.T) {
	now := time.UnixMilli(10_000_000)
	for _, c := range []struct {
		text  string
		want  kgo.Offset
		exact int64
	}{
		{"start", kgo.NewOffset().AtStart(), -1},
		{"earliest", kgo.NewOffset().AtStart(), -1},
		{"end", kgo.NewOffset().AtEnd(), -1},
		{"42", kgo.NewOffset().At(42), 42},
		{"-5", kgo.NewOffset().AtEnd().Relative(-5), -1},
		{"@777", kgo.NewOffset().AfterMilli(777), -1},
		{"-1h", kgo.NewOffset().AfterMilli(10_000_000 - 3_600_000), -1},
	} {
		if got, exact, err := parseOffset(c.text, now); err != nil || got != c.want || exact != c.exact {
			t.Errorf("%s: %v %d %v", c.text, got, exact, err)
		}
	}
	if _, _, err := parseOffset("soon", now); err == nil {
		t.Error("soon")
	}
}

func TestPlan(t *testing.T) {
	good := options{offset: "start", format: "%v", follow: true}
	for _, c := range []struct {
		change func(*options)
		ok     bool
	}{
		{func(*options) {}, true},
		{func(o *options) { o.partitions = "0,2-3" }, true},
		{func(o *options) { o.group = "g" }, true},
		{func(o *options) { o.group, o.partitions = "g", "0" }, false},
		{func(o *options) { o.partitions = "x" }, false},
		{func(o *options) { o.offset = "x" }, false},
		{func(o *options) { o.format = "%" }, false},
		{func(o *options) { o.num = -1 }, false},
	} {
		o := good
		c.change(&o)
		p, err := o.plan([]string{"t"})
		if (err == nil) != c.ok || err != nil && cli.ExitCode(err) != 2 {
			t.Errorf("%+v: %v", o, err)
		}
		if err == nil && len(p.clientOptions()) < 4 {
			t.Error("too few options")
		}
	}
}

func TestEnds(t *testing.T) {
	offsets := func(list ...int64) kadm.ListedOffsets {
		all := kadm.ListedOffsets{"t": {}}
		for i, o := range list {
			all["t"][int32(i)] = kadm.ListedOffset{Topic: "t", Partition: int32(i), Offset: o}
		}
		return all
	}
	plan := func(o options) *plan {
		o.format = "%v"
		p, err := o.plan([]string{"t"})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	start, end := offsets(0, 5, 3), offsets(10, 5, 9)
	e := plan(options{offset: "start"}).between(start, end)
	if len(e.left) != 2 || e.reached() {
		t.Errorf("%v", e.left)
	}
	e.passed(&kgo.Record{Topic: "t", Partition: 0, Offset: 8})
	e.passed(&kgo.Record{Topic: "t", Partition: 0, Offset: 9})
	e.passed(&kgo.Record{Topic: "t", Partition: 2, Offset: 12})
	if !e.reached() {
		t.Errorf("left %v", e.left)
	}
	if e := plan(options{offset: "9"}).between(start, end); len(e.left) != 1 {
		t.Errorf("from 9: %v", e.left)
	}
	if e := plan(options{offset: "-1h"}).between(start, end); len(e.left) != 2 {
		t.Errorf("from a time: %v", e.left)
	}
	if e := plan(options{offset: "start", partitions: "2"}).between(start, end); len(e.left) != 1 {
		t.Errorf("partition 2: %v", e.left)
	}
	if e := plan(options{offset: "end"}).between(start, end); !e.reached() {
		t.Errorf("from the end: %v", e.left)
	}
	var follow *ends
	follow.passed(&kgo.Record{})
	if follow.reached() {
		t.Error("following never ends")
	}
}

// TestPassing: what the client gets over by itself does not end the command.
func TestPassing(t *testing.T) {
	for want, err := range map[string]error{
		"": kerr.TopicAuthorizationFailed,
		"out of the group for now: its coordinator does not answer":                       &kgo.ErrGroupSession{Err: io.EOF},
		"out of the group for now: NOT_COORDINATOR: This is not the correct coordinator.": &kgo.ErrGroupSession{Err: kerr.NotCoordinator},
		"t-2: records were lost, by an unclean election or deletion: it goes on from offset 5 instead of 9": &kgo.ErrDataLoss{
			Topic: "t", Partition: 2, ConsumedTo: 9, ResetTo: 5,
		},
	} {
		if got := passing(err); got != want {
			t.Errorf("%v: %q", err, got)
		}
	}
	if got := passing(&kgo.ErrGroupSession{Err: kerr.GroupAuthorizationFailed}); got != "" {
		t.Errorf("it goes on although it may not: %q", got)
	}
}
