package docs

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// docs/compatibility.md is what the command writes.
func TestCompatibility(t *testing.T) {
	cmd := Command()
	var b bytes.Buffer
	cmd.SetOut(&b)
	cmd.SetArgs([]string{"compatibility"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| 0 | Produce |", "| kafka-topics |", "| franz-go kgo |", "| `num.io.threads` |", "### Topic keys"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	page, err := os.ReadFile("../../../../docs/compatibility.md")
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(page) {
		t.Error("docs/compatibility.md is out of date: go run ./cmd/gregor docs compatibility >docs/compatibility.md")
	}
}
