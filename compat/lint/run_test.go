package lint

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gregor-broker/gregor/compat/harness"
)

// TestRunWithoutCompiler: where programs are missing, and cannot be installed, compat/run/test runs what can run and says in
// its last lines what it left out.
func TestRunWithoutCompiler(t *testing.T) {
	dir := t.TempDir()
	for _, program := range []string{"bash", "env", "dirname", "id", "cat", "grep", "sed", "tr", "sort", "cmp", "mkdir", "rm", "git", "xargs", "mktemp", "tee", "head"} {
		path, err := exec.LookPath(program)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(dir, program)); err != nil {
			t.Fatal(err)
		}
	}
	stub := filepath.Join(dir, "go-stub")
	if err := os.WriteFile(stub, []byte("#!/usr/bin/env bash\necho \"run: $*\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(harness.Root(), "compat", "run", "test"), "unit")
	cmd.Env = []string{"PATH=" + dir, "HOME=" + dir, "GO=" + stub, "GREGOR_CACHE=" + filepath.Join(dir, "cache")}
	out, err := cmd.CombinedOutput()
	text := string(out)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if strings.Contains(text, "-race") || !strings.Contains(text, "run: test") {
		t.Errorf("it ran with the race detector, or nothing:\n%s", text)
	}
	if !strings.HasSuffix(text, "left out: the race detector (no C compiler)\npassed: unit\n") {
		t.Errorf("its last lines do not say what it left out:\n%s", text)
	}
}
