package suite

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gregor-broker/gregor/compat/harness"
)

// Verdict is what a run said of one test; Action is pass, fail, skip or, where the run ended before it did, unfinished.
type Verdict struct {
	Action  string
	Output  string
	Seconds float64
}

// Runner runs tests: those that are named by only, or all where it is empty, save those that without names. A part of a test has the
// test's name, a slash and its own.
type Runner func(t *testing.T, only, without []string) map[string]Verdict

// mostAgain is how many tests that failed are run once more: many are no accident.
const mostAgain = 5

// Run runs a suite and fails the test for each of its tests that fails or does not come to its end, and when fewer pass than the table
// says. What fails is run once more by itself, since these tests have deadlines of their own that a busy machine misses. Where the whole
// form is not asked for, only those named by short are run or, where it is empty, all but the long ones. Against Apache Kafka those
// pass that fail there according to the table only if they do fail.
func Run(t *testing.T, table *Table, short []string, run Runner) {
	t.Helper()
	leftOut := table.names(needs, broken)
	if harness.Peer() == harness.Gregor {
		leftOut = append(leftOut, table.names(fails)...)
	}
	want := table.Passed
	switch {
	case Whole():
		short = nil
	case len(short) > 0:
		want = len(short)
	default:
		leftOut = append(leftOut, table.names(long)...)
		want -= len(table.names(long))
	}
	for _, name := range leftOut {
		t.Logf("left out, %s: %s: %s", table.notes[name].what, name, table.notes[name].why)
	}
	verdicts := run(t, short, leftOut)
	if failed := table.failed(verdicts); len(failed) > 0 && len(failed) <= mostAgain {
		for _, name := range failed {
			t.Logf("once more: %s: %s\n%s", name, verdicts[name].Action, last(verdicts[name].Output, 3000))
		}
		maps.Copy(verdicts, run(t, failed, leftOut))
	}
	passed := table.judge(t, verdicts)
	if harness.Peer() == harness.Gregor && passed < want {
		t.Errorf("%d tests passed, of %d", passed, want)
	}
}

// failed returns the tests that failed and were not to, in order.
func (table *Table) failed(verdicts map[string]Verdict) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(verdicts)) {
		if action := verdicts[name].Action; action != "pass" && action != "skip" && !strings.Contains(name, "/") && table.notes[name].what != fails {
			names = append(names, name)
		}
	}
	return names
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
	t.Logf("%s: %d tests passed, %d skipped themselves; slowest: %s", table.Name, passed, skipped, slowest(verdicts))
	return passed
}

// slowest names the tests that took longest, for those who decide which are called long.
func slowest(verdicts map[string]Verdict) string {
	const most = 10
	names := slices.SortedFunc(maps.Keys(verdicts), func(a, b string) int { return cmp.Compare(verdicts[b].Seconds, verdicts[a].Seconds) })
	var list []string
	for _, name := range names {
		if !strings.Contains(name, "/") && len(list) < most {
			list = append(list, fmt.Sprintf("%s %.0f s", name, verdicts[name].Seconds))
		}
	}
	return strings.Join(list, ", ")
}

func last(text string, most int) string {
	if len(text) > most {
		return fmt.Sprintf("… %s", text[len(text)-most:])
	}
	return text
}
