package txn

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gregor-broker/gregor/compat/harness"
)

// example is a program in the documentation, and what stands below it as its output.
var example = regexp.MustCompile("(?s)\n## ([^\n]*)\n[^#]*?\n```python\n(.*?)```\n\n```text\n(.*?)```")

// TestDeliveryGuarantees runs the examples of docs/delivery-guarantees.md: they print what stands there.
func TestDeliveryGuarantees(t *testing.T) {
	harness.Need(t, "python")
	b := harness.SharedWith(t, few)
	text, err := os.ReadFile(filepath.Join(harness.Root(), "docs", "delivery-guarantees.md"))
	if err != nil {
		t.Fatal(err)
	}
	examples := example.FindAllSubmatch(text, -1)
	if n := strings.Count(string(text), "```python"); len(examples) != n || n < 5 {
		t.Fatalf("%d of %d examples are understood", len(examples), n)
	}
	for _, e := range examples {
		t.Run(string(e[1]), func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "example.py")
			source := strings.ReplaceAll(string(e[2]), "127.0.0.1:9092", b.Addr)
			if err := os.WriteFile(program, []byte(source), 0o600); err != nil {
				t.Fatal(err)
			}
			out := harness.Command(t, programLimit, "", nil, filepath.Join(harness.Cache(), "venv", "bin", "python"), program)
			if out.Code != 0 || out.Stdout != string(e[3]) {
				t.Errorf("it ends with %d and prints\n%s\nwant\n%s\n%s", out.Code, out.Stdout, e[3], out.Stderr)
			}
		})
	}
}
