package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gregor-broker/gregor/compat/harness"
)

// TestKeysAreRead: each handle of a configuration key is read by the program: a key that the table calls honoured has an effect.
func TestKeysAreRead(t *testing.T) {
	declared := regexp.MustCompile(`(?m)^\s+([A-Z]\w+)\s+= \w+(?:\[\w+\])?\("([a-z.]+)"`)
	text, err := os.ReadFile(filepath.Join(harness.Root(), "broker", "config", "handles.go"))
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]string{}
	for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
		keys[m[1]] = m[2]
	}
	if len(keys) < 80 {
		t.Fatalf("only %d handles", len(keys))
	}
	used := regexp.MustCompile(`\bconfig\.([A-Z]\w+)\b`)
	sources(t, func(path string) {
		if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "broker/config/") {
			return
		}
		lines(t, path, func(_ int, line string) {
			for _, m := range used.FindAllStringSubmatch(line, -1) {
				delete(keys, m[1])
			}
		})
	})
	for handle, key := range keys {
		t.Errorf("nothing outside broker/config reads config.%s (%s)", handle, key)
	}
}

// TestSettingsAreRead: each field that a configuration key ends up in is read by whom it is made for.
func TestSettingsAreRead(t *testing.T) {
	fields := map[string]string{}
	for file, name := range map[string]string{
		"log/config.go": "Config", "groupcoord/options.go": "Settings", "groupcoord/group/group.go": "Settings",
		"groupcoord/consumer/settings.go": "Settings", "groupcoord/txn/options.go": "Settings", "controller/controller.go": "Settings",
	} {
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(harness.Root(), file), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		before := len(fields)
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || spec.Name.Name != name {
				return true
			}
			for _, f := range spec.Type.(*ast.StructType).Fields.List {
				for _, id := range f.Names {
					fields[id.Name] = file
				}
			}
			return false
		})
		if len(fields) == before {
			t.Fatalf("%s has no type %s", file, name)
		}
	}
	used := regexp.MustCompile(`\.([A-Z]\w+)\b`)
	sources(t, func(path string) {
		if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "broker/config/") || path == "broker/settings.go" {
			return
		}
		lines(t, path, func(_ int, line string) {
			for _, m := range used.FindAllStringSubmatch(line, -1) {
				delete(fields, m[1])
			}
		})
	})
	for field, file := range fields {
		t.Errorf("nothing reads %s of %s", field, file)
	}
}
