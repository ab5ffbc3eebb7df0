// Package suite runs tests that are not ours, those that other clients' packages carry, against the broker, and holds what they say
// against the table of docs/compatibility.md (cmd/gregor/internal/docs/suites.txt).
//
// By default it leaves out the tests that the table calls long: "make suites", which sets GREGOR_SUITES=whole, runs them too.
package suite

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gregor-broker/gregor/compat/harness"
)

// What the table says of a test.
const (
	fails  = "fails"  // it fails on Apache Kafka too. Run only against Kafka itself, where it must fail.
	broken = "broken" // it fails by itself, whatever the broker. Not run.
	needs  = "needs"  // it needs what is not there. Not run.
	long   = "long"   // run only in the whole form
)

// Table is what the table says of one suite.
type Table struct {
	Name    string
	Version string // of the client's package
	Passed  int    // how many tests pass in the whole form, against gregor

	notes map[string]note
}

// note is what the table says of one test.
type note struct{ what, why string }

// Load reads what the table says of the suite with that name.
func Load(t testing.TB, name string) *Table {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(harness.Root(), "cmd", "gregor", "internal", "docs", "suites.txt"))
	if err != nil {
		t.Fatal(err)
	}
	table := &Table{Name: name, notes: map[string]note{}}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, " | ")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case cells[0] == "suite" && cells[1] == name:
			table.Version = cells[2]
			if table.Passed, err = strconv.Atoi(cells[4]); err != nil {
				t.Fatalf("suites.txt: %s: %v", line, err)
			}
		case cells[0] == "test" && slices.Contains(strings.Split(cells[1], ", "), name):
			for _, test := range strings.Split(cells[2], ", ") {
				table.notes[test] = note{cells[3], cells[4]}
			}
		}
	}
	if table.Version == "" {
		t.Fatalf("suites.txt has no suite %s", name)
	}
	return table
}

// Whole reports whether the whole form is asked for.
func Whole() bool { return os.Getenv("GREGOR_SUITES") == "whole" }

// names returns the tests of which the table says one of these things, in order.
func (table *Table) names(whats ...string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(table.notes)) {
		if slices.Contains(whats, table.notes[name].what) {
			names = append(names, name)
		}
	}
	return names
}
