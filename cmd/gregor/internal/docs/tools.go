package docs

import (
	"bufio"
	_ "embed" // tools.txt
	"fmt"
	"io"
	"strings"
)

//go:embed tools.txt
var toolsText string

// writeTools writes tools.txt as a table.
func writeTools(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprint(b, "| tool | action | alone: 3.9.2 | 4.4.0 | cluster: 3.9.2 | 4.4.0 | shown by, or why not |\n|---|---|---|---|---|---|---|\n")
	for line := range strings.Lines(toolsText) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Split(line, "|")
		if len(cells) != 7 {
			return fmt.Errorf("tools.txt: %d cells, not 7: %s", len(cells), line)
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
	}
	return b.Flush()
}
