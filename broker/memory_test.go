package broker

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/gregor-broker/gregor/broker/config"
)

func TestRequestMemory(t *testing.T) {
	load := func(overrides ...string) *config.Snapshot {
		snapshot, _, err := config.Load(config.Sources{Overrides: overrides})
		if err != nil {
			t.Fatal(err)
		}
		return snapshot
	}
	if got := requestMemory(load("queued.max.request.bytes=204857600")); got != 204857600 {
		t.Errorf("%d, want what the configuration says", got)
	}
	if limit := memoryLimit(); limit < math.MaxInt64 {
		if got := requestMemory(load()); got != limit/4 {
			t.Errorf("%d, want a quarter of %d", got, limit)
		}
	}
}

func TestReadLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memory.max")
	for text, want := range map[string]int64{"1048576\n": 1 << 20, "max\n": math.MaxInt64, "-1": math.MaxInt64, "": math.MaxInt64} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := readLimit(path); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	if got := readLimit(path + ".none"); got != math.MaxInt64 {
		t.Errorf("a missing file: %d", got)
	}
}
