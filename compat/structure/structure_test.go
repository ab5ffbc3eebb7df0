// Package structure holds the code to what docs/architecture.md says of it.
package structure

import (
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/gregor-broker/gregor/"

var leaves = []string{"wire/clock", "wire/payload", "wire/errcode", "wire/invariants", "wire/ibp", "wire/kmsgfix"}

// TestImports fails on an import within the module that the table of docs/architecture.md does not allow, and on a
// package that the table does not have, or has in vain.
func TestImports(t *testing.T) {
	allowed := readTable(t)
	packages := listPackages(t)
	for name, imports := range packages {
		rules, ok := allowed[name]
		if !ok && !strings.HasPrefix(name, "cmd/gregor/") {
			t.Errorf("%s is not in the table", name)
			continue
		}
		if strings.HasPrefix(name, "cmd/gregor/") {
			rules = allowed["cmd/gregor"]
		}
		for _, imported := range imports {
			if !matches(rules, imported) {
				t.Errorf("%s imports %s, which the table does not allow", name, imported)
			}
		}
	}
	for name := range allowed {
		if _, ok := packages[name]; !ok {
			t.Errorf("the table has %s, which does not exist", name)
		}
	}
}

// readTable returns for each package of the table the patterns it may import.
func readTable(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, page2, found := strings.Cut(string(page), "| package | owns | may import |\n")
	if !found {
		t.Fatal("docs/architecture.md has no table of packages")
	}
	rows := map[string][]string{}
	for line := range strings.Lines(page2) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 {
			break
		}
		name := strings.TrimSpace(cells[1])
		if strings.HasPrefix(name, "---") {
			continue
		}
		rows[name] = nil
		for rule := range strings.SplitSeq(cells[3], ",") {
			switch rule = strings.TrimSpace(rule); rule {
			case "":
			case "leaves":
				rows[name] = append(rows[name], leaves...)
			default:
				rows[name] = append(rows[name], rule)
			}
		}
	}
	return rows
}

// listPackages returns the module's packages, except those under compat, each with what it imports of the module.
func listPackages(t *testing.T) map[string][]string {
	t.Helper()
	cmd := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		name := strings.TrimPrefix(fields[0], module)
		if strings.HasPrefix(name, "compat") {
			continue
		}
		packages[name] = nil
		for _, imported := range fields[1:] {
			if inside, ok := strings.CutPrefix(imported, module); ok {
				packages[name] = append(packages[name], inside)
			}
		}
	}
	return packages
}

func matches(rules []string, imported string) bool {
	return slices.ContainsFunc(rules, func(rule string) bool {
		if below, ok := strings.CutSuffix(rule, "/*"); ok {
			return strings.HasPrefix(imported, below+"/")
		}
		return path.Clean(rule) == imported
	})
}
