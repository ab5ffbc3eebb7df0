package lint

import (
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
