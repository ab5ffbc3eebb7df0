package lint

import (
	"regexp"
	"strings"
	"testing"
)

// TestTableOfCases: the tests that the table of compat/cases names are there.
func TestTableOfCases(t *testing.T) {
	there := map[string]bool{}
	declared := regexp.MustCompile(`^func (Test\w+)\(`)
	sources(t, func(path string) {
		if !strings.HasSuffix(path, "_test.go") {
			return
		}
		lines(t, path, func(_ int, line string) {
			if m := declared.FindStringSubmatch(line); m != nil {
				there[m[1]] = true
			}
		})
	})
	named, cases := regexp.MustCompile(`\bTest\w+`), 0
	lines(t, "compat/cases/doc_test.go", func(n int, line string) {
		if regexp.MustCompile(`^//\t[A-Z]\d `).MatchString(line) {
			cases++
		}
		for _, name := range named.FindAllString(line, -1) {
			if !there[name] {
				t.Errorf("compat/cases/doc_test.go:%d: there is no %s", n, name)
			}
		}
	})
	if cases != 21 {
		t.Errorf("the table has %d cases", cases)
	}
}
