package docs

import (
	"bytes"
	"strings"
	"testing"
)

func TestCompatibility(t *testing.T) {
	var b bytes.Buffer
	if err := compatibility(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| 0 | Produce |", "| `num.io.threads` |", "### Topic keys"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}
