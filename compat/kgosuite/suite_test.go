// Package kgosuite runs franz-go's own tests of pkg/kgo against the broker, save those that exclusions.txt names.
package kgosuite

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/compat/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

const suite = "github.com/twmb/franz-go/pkg/kgo"

//go:embed exclusions.txt
var exclusionsText string

// exclusions maps the excluded tests to why.
func exclusions(t testing.TB) map[string]string {
	t.Helper()
	excluded := map[string]string{}
	for line := range strings.Lines(exclusionsText) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, reason, ok := strings.Cut(line, "\t")
		if !ok || reason == "" {
			t.Fatalf("exclusions.txt: %q has no reason", line)
		}
		excluded[name] = reason
	}
	return excluded
}

// TestKgo fails for each test of the suite that fails or is not run to its end.
func TestKgo(t *testing.T) {
	b := harness.Start(t, harness.Options{Props: map[string]string{
		"offsets.topic.num.partitions":                 "5",
		"group.initial.rebalance.delay.ms":             "0",
		"auto.create.topics.enable":                    "true",
		"share.coordinator.state.topic.num.partitions": "5",
	}})
	excluded := exclusions(t)
	if b.Kind == harness.Kafka44 {
		// To see what fails on Kafka itself.
		excluded = map[string]string{"TestShareGroupETL": "fails on Kafka 4.4 as well"}
	}
	names := slices.Sorted(maps.Keys(excluded))
	for _, name := range names {
		t.Logf("left out: %s: %s", name, excluded[name])
	}
	skip := "^(" + strings.Join(names, "|") + ")$"
	out := harness.Command(t, 8*time.Minute, "", []string{
		"KGO_SEEDS=" + b.Addr, "KGO_TEST_RF=1", "KGO_TEST_RECORDS=20000", "KGO_TEST_STABLE_FETCH=true", "KGO_LOG_LEVEL=none",
	}, "go", "test", "-json", "-count=1", "-timeout=7m", "-skip", skip, suite)
	report(t, out)
}

// report fails the test for each test of the suite that failed or did not come to its end.
func report(t *testing.T, out harness.Output) {
	t.Helper()
	verdicts := parse(t, out.Stdout)
	passed := 0
	for _, name := range slices.Sorted(maps.Keys(verdicts)) {
		switch v := verdicts[name]; {
		case v.action == "pass":
			passed++
		case v.action == "skip":
			t.Logf("skips itself: %s", name)
		case strings.Contains(name, "/"):
			// its parent fails
			t.Logf("%s: %s\n%s", name, v.action, v.output.String())
		default:
			t.Errorf("%s: %s\n%s", name, v.action, last(v.output.String(), 3000))
		}
	}
	t.Logf("%d tests passed", passed)
	if passed < 100 || (out.Code != 0 && !t.Failed()) {
		t.Errorf("the suite ended with %d after %d passed tests:\n%s", out.Code, passed, last(out.String(), 3000))
	}
}

// verdict is what go test said of one test; action is pass, fail, skip or, while it runs, unfinished.
type verdict struct {
	action string
	output strings.Builder
}

func parse(t testing.TB, text string) map[string]*verdict {
	t.Helper()
	verdicts := map[string]*verdict{}
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var event struct{ Action, Test, Output string }
		if json.Unmarshal(lines.Bytes(), &event) != nil || event.Test == "" {
			continue
		}
		v := verdicts[event.Test]
		if v == nil {
			v = &verdict{action: "unfinished"}
			verdicts[event.Test] = v
		}
		switch event.Action {
		case "output":
			v.output.WriteString(event.Output)
		case "pass", "fail", "skip":
			// A package that runs out of time blames the test that printed last: the first verdict is the test's own.
			if v.action == "unfinished" || event.Action != "fail" {
				v.action = event.Action
			}
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return verdicts
}

func last(text string, max int) string {
	if len(text) > max {
		return fmt.Sprintf("… %s", text[len(text)-max:])
	}
	return text
}

// TestExclusions: every excluded test exists, so that the list does not outlive what it names.
func TestExclusions(t *testing.T) {
	out := harness.Command(t, 2*time.Minute, "", nil, "go", "test", "-list", ".", suite)
	for name := range exclusions(t) {
		if !regexp.MustCompile(`(?m)^` + name + `$`).MatchString(out.Stdout) {
			t.Errorf("%s has no test %s", suite, name)
		}
	}
}
