package suite

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gregor-broker/gregor/compat/harness"
)

// Verdict is what a run said of one test; Action is pass, fail, skip or, where the run ended before it did, unfinished.
type Verdict struct {
	Action string
	Output string
}

// Runner runs tests: those that are named by only, or all where it is empty, save those that without names. A part of a test has the
// test's name, a slash and its own.
type Runner func(t *testing.T, only, without []string) map[string]Verdict

// Run runs a suite and fails the test for each of its tests that fails or does not come to its end, and when fewer pass than the table
// says. Against Apache Kafka those pass that fail there according to the table only if they do fail.
func Run(t *testing.T, table *Table, run Runner) {
	t.Helper()
	peer := harness.Peer()
	leftOut := table.names(needs)
	if peer == harness.Gregor {
		leftOut = append(leftOut, table.names(fails)...)
	}
	apart := table.names(again)
	if !Whole() {
		leftOut = append(leftOut, table.names(long)...)
	}
	for _, name := range leftOut {
		t.Logf("left out, %s: %s: %s", table.notes[name].what, name, table.notes[name].why)
	}
	verdicts := run(t, nil, slices.Concat(leftOut, apart))
	if Whole() {
		for _, name := range apart {
			maps.Copy(verdicts, runApart(t, run, name))
		}
	}
	passed := table.judge(t, verdicts)
	want := table.Passed
	if !Whole() {
		for _, name := range table.names(long, again) {
			if !strings.Contains(name, "/") {
				want--
			}
		}
	}
	if peer == harness.Gregor && passed < want {
		t.Errorf("%d tests passed, of %d", passed, want)
	}
}

// runApart runs a test by itself, and once more if it fails.
func runApart(t *testing.T, run Runner, name string) map[string]Verdict {
	t.Helper()
	verdicts := run(t, []string{name}, nil)
	if verdicts[name].Action == "pass" {
		return verdicts
	}
	t.Logf("once more: %s: %s\n%s", name, verdicts[name].Action, last(verdicts[name].Output, 2000))
	return run(t, []string{name}, nil)
}

// judge returns how many tests passed.
func (table *Table) judge(t *testing.T, verdicts map[string]Verdict) int {
	t.Helper()
	passed, skipped := 0, 0
	for _, name := range slices.Sorted(maps.Keys(verdicts)) {
		v := verdicts[name]
		whole, _, part := strings.Cut(name, "/")
		expected := table.notes[name].what == fails || table.notes[whole].what == fails
		switch {
		case v.Action == "pass" && table.notes[name].what == fails:
			t.Errorf("%s passes, and the table says that it fails", name)
		case v.Action == "pass" && !part:
			passed++
		case v.Action == "skip" && !part:
			skipped++
			t.Logf("skips itself: %s", name)
		case v.Action == "pass" || v.Action == "skip":
		case expected:
			t.Logf("%s: %s, as the table says\n%s", name, v.Action, last(v.Output, 1000))
		case part: // the test that it is part of fails
			t.Logf("%s: %s\n%s", name, v.Action, last(v.Output, 3000))
		default:
			t.Errorf("%s: %s\n%s", name, v.Action, last(v.Output, 3000))
		}
	}
	t.Logf("%s: %d tests passed, %d skipped themselves", table.Name, passed, skipped)
	return passed
}

func last(text string, most int) string {
	if len(text) > most {
		return fmt.Sprintf("… %s", text[len(text)-most:])
	}
	return text
}
