package docs

import (
	"bufio"
	_ "embed" // suites.txt
	"fmt"
	"io"
	"strings"
)

//go:embed suites.txt
var suitesText string

// The tables of suites.txt, each with the word that its rows begin with and how many cells follow.
var suitesTables = []struct {
	kind, head string
	cells      int
}{
	{"suite", "| suite | version | brokers | passed | skip themselves | shown by |\n|---|---|---|---|---|---|\n", 6},
	{"test", "\nTests that are left out, or not run like the others:\n\n| suite | test | what | why |\n|---|---|---|---|\n", 4},
}

// writeSuites writes suites.txt as tables.
func writeSuites(w io.Writer) error {
	b := bufio.NewWriter(w)
	known := map[string]bool{"": true, "#": true}
	for _, table := range suitesTables {
		known[table.kind] = true
		fmt.Fprint(b, table.head)
		for line := range strings.Lines(suitesText) {
			kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
			if kind != table.kind {
				continue
			}
			cells := strings.Split(strings.TrimPrefix(rest, "| "), " | ")
			if len(cells) != table.cells {
				return fmt.Errorf("suites.txt: %d cells, not %d: %s", len(cells), table.cells, line)
			}
			fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
		}
	}
	for line := range strings.Lines(suitesText) {
		if kind, _, _ := strings.Cut(strings.TrimSpace(line), " "); !known[kind] {
			return fmt.Errorf("suites.txt: a line begins with %q: %s", kind, line)
		}
	}
	return b.Flush()
}
