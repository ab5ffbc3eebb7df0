package configs

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestParseTarget(t *testing.T) {
	for _, c := range []struct {
		kind, name, resource string
		resourceType         kmsg.ConfigResourceType
	}{
		{"broker", "1", "1", kmsg.ConfigResourceTypeBroker}, {"broker", "all", "", kmsg.ConfigResourceTypeBroker},
		{"topic", "all", "all", kmsg.ConfigResourceTypeTopic}, {"logger", "1", "1", kmsg.ConfigResourceTypeBrokerLogger},
	} {
		got, err := parseTarget(c.kind, c.name)
		if err != nil || got.resource() != c.resource || kinds[got.kind].resource != c.resourceType || got.String() != c.kind+" "+c.name {
			t.Errorf("%s %s: %+v, %v", c.kind, c.name, got, err)
		}
	}
	if _, err := parseTarget("brokers", "1"); cli.ExitCode(err) != 2 {
		t.Error(err)
	}
}

func TestRequest(t *testing.T) {
	at, _ := parseTarget("broker", "all")
	c := changes{set: []string{"a=1", "b=x=y"}, remove: []string{"c"}, add: []string{"d=2"}, subtract: []string{"e="}}
	r, err := c.request(at, true)
	if err != nil || !r.ValidateOnly || len(r.Resources) != 1 {
		t.Fatal(r, err)
	}
	got := map[string]string{}
	for _, k := range r.Resources[0].Configs {
		got[k.Name] = k.Op.String() + " " + deref(k.Value)
	}
	for name, want := range map[string]string{"a": "SET 1", "b": "SET x=y", "c": "DELETE ", "d": "APPEND 2", "e": "SUBTRACT "} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
	for _, bad := range []changes{{}, {set: []string{"a"}}, {add: []string{"=1"}}} {
		if _, err := bad.request(at, false); cli.ExitCode(err) != 2 {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestWarn(t *testing.T) {
	c := changes{set: []string{"num.io.thread=3", "num.io.threads=3"}, add: []string{"my.plugin.key=1"}}
	for kind, lines := range map[string]int{"broker": 2, "topic": 0} {
		var out bytes.Buffer
		at, _ := parseTarget(kind, "1")
		c.warn(&out, at)
		if got := strings.Count(out.String(), "\n"); got != lines || lines > 0 && !strings.Contains(out.String(), "did you mean num.io.threads?") {
			t.Errorf("%s: %s", kind, out.String())
		}
	}
}

func TestShow(t *testing.T) {
	text := func(s string) *string { return &s }
	at, _ := parseTarget("broker", "1")
	settings := []setting{
		{Name: "a", Value: text("1"), Source: kmsg.ConfigSourceDefaultConfig, ReadOnly: true},
		{Name: "b", Value: text("2"), Source: kmsg.ConfigSourceDynamicBrokerConfig, Documentation: text("What b is."),
			ConfigSynonyms: []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{
				{Name: "b", Value: text("2"), Source: kmsg.ConfigSourceDynamicBrokerConfig},
				{Name: "b", Value: text("7"), Source: kmsg.ConfigSourceDefaultConfig},
			}},
		{Name: "c", Value: text(""), Source: kmsg.ConfigSourceStaticBrokerConfig}, {Name: "d", IsSensitive: true, Source: kmsg.ConfigSourceStaticBrokerConfig},
	}
	for _, c := range []struct {
		show func(*bytes.Buffer) error
		want string
	}{
		{func(w *bytes.Buffer) error { return list(w, at, settings, false) },
			"KEY  VALUE     FROM\nb    2         this broker, at run time\nc    \"\"        this broker's configuration\nd    [hidden]  this broker's configuration\n"},
		{func(w *bytes.Buffer) error { return list(w, at, settings[:1], true) }, "KEY  VALUE  FROM\na    1      default\n"},
		{func(w *bytes.Buffer) error { return list(w, at, settings[:1], false) }, "nobody has set anything of broker 1; --all shows the defaults\n"},
		{func(w *bytes.Buffer) error { return explain(w, at, settings, []string{"a", "b"}) },
			"key      a\nvalue    1\nfrom     default\nchanged  by a restart\n\n" +
				"key      b\nvalue    2\nfrom     this broker, at run time\nchanged  while it runs\nelse     7 (b, default)\n\nWhat b is.\n"},
	} {
		var out bytes.Buffer
		if err := c.show(&out); err != nil || out.String() != c.want {
			t.Errorf("%v:\n%s\nwant:\n%s", err, out.String(), c.want)
		}
	}
	if err := explain(&bytes.Buffer{}, at, settings, []string{"nope"}); err == nil {
		t.Error("a setting that there is not is shown")
	}
}
