package suite

import (
	"bufio"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/compat/harness"
)

// limit is what a whole suite may take on a busy machine.
const limit = 15 * time.Minute

// Module copies a module of that version, which Go's module proxy serves with that checksum, into a temporary folder and returns that.
func Module(t *testing.T, path, version, sum string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", path+"@"+version)
	cmd.Dir = t.TempDir() // outside any module
	out, err := cmd.Output()
	var module struct{ Dir, Sum, Error string }
	if jsonErr := json.Unmarshal(out, &module); err != nil || jsonErr != nil || module.Error != "" {
		t.Fatalf("go mod download %s@%s: %v, %v %s", path, version, err, jsonErr, module.Error)
	}
	if module.Sum != sum {
		t.Fatalf("%s@%s has the checksum %s, not %s", path, version, module.Sum, sum)
	}
	dir := filepath.Join(t.TempDir(), "module")
	if err := os.CopyFS(dir, os.DirFS(module.Dir)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Replace replaces text in all files of a folder whose names match the pattern; it must be in one of them.
func Replace(t *testing.T, dir, pattern, old, with string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), old) {
			continue
		}
		found = true
		if err := os.Chmod(file, 0o644); err != nil { // the copy of a module can only be read
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(text), old, with)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if !found {
		t.Fatalf("no file %s has %q", filepath.Join(dir, pattern), old)
	}
}

// GoTests runs the tests of Go packages, from a folder and with further environment.
type GoTests struct {
	Dir      string
	Env      []string
	Flags    []string // of go test
	Packages []string
	Only     []string // tests that are the suite, where it is not all of the packages
}

// Run is a Runner.
func (g GoTests) Run(t *testing.T, only, without []string) map[string]Verdict {
	t.Helper()
	args := append([]string{"test", "-json", "-count=1", "-timeout=" + limit.String()}, g.Flags...)
	if len(only) == 0 {
		only = g.Only
	}
	if len(only) > 0 {
		args = append(args, "-run", pattern(only))
	}
	if len(without) > 0 {
		args = append(args, "-skip", pattern(without))
	}
	out := harness.CommandIn(t, limit+time.Minute, g.Dir, g.Env, "go", append(args, g.Packages...)...)
	verdicts := parse(t, out.Stdout)
	if out.Code != 0 && !slices.ContainsFunc(slices.Collect(maps.Values(verdicts)), func(v Verdict) bool { return v.Action != "pass" && v.Action != "skip" }) {
		t.Errorf("the suite ended with %d:\n%s", out.Code, last(out.String(), 3000))
	}
	return verdicts
}

// pattern matches these tests, or parts of tests, as -run and -skip understand it.
func pattern(names []string) string {
	var all []string
	for _, name := range names {
		parts := strings.Split(name, "/")
		for i := range parts {
			parts[i] = "^" + regexp.QuoteMeta(parts[i]) + "$"
		}
		all = append(all, strings.Join(parts, "/"))
	}
	return strings.Join(all, "|")
}

// parse reads what "go test -json" prints.
func parse(t *testing.T, text string) map[string]Verdict {
	t.Helper()
	verdicts, outputs := map[string]Verdict{}, map[string]*strings.Builder{}
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var event struct {
			Action, Test, Output string
			Elapsed              float64
		}
		if json.Unmarshal(lines.Bytes(), &event) != nil || event.Test == "" {
			continue
		}
		v, known := verdicts[event.Test]
		if !known {
			v.Action = "unfinished"
			outputs[event.Test] = &strings.Builder{}
		}
		switch event.Action {
		case "output":
			outputs[event.Test].WriteString(event.Output)
		case "pass", "fail", "skip":
			// A package that runs out of time blames the test that printed last: the first verdict is the test's own.
			if v.Action == "unfinished" || event.Action != "fail" {
				v.Action, v.Seconds = event.Action, event.Elapsed
			}
		}
		verdicts[event.Test] = v
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	for name, output := range outputs {
		v := verdicts[name]
		v.Output = output.String()
		verdicts[name] = v
	}
	return verdicts
}

// Exist fails the test for each test of the table that the packages do not have, so that the table does not outlive what it names.
func (g GoTests) Exist(t *testing.T, table *Table) {
	t.Helper()
	out := harness.CommandIn(t, 5*time.Minute, g.Dir, g.Env, "go", append(append([]string{"test", "-list", "."}, g.Flags...), g.Packages...)...)
	listed := strings.Fields(out.Stdout)
	for _, name := range table.names(fails, broken, needs, long) {
		if top, _, _ := strings.Cut(name, "/"); !slices.Contains(listed, top) {
			t.Errorf("%s has no test %s", table.Name, top)
		}
	}
}

// FuncsOf returns the names of the test functions in the files of a folder that match the pattern.
func FuncsOf(t *testing.T, dir, files string) (names []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, files))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files %s in %s: %v", files, dir, err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range testFunc.FindAllStringSubmatch(string(text), -1) {
			names = append(names, match[1])
		}
	}
	return names
}

var testFunc = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(t \*testing\.T\)`)
