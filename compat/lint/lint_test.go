// Package lint holds rules for the project's sources that go vet does not know, as tests. They need no broker.
package lint

import (
	"bufio"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/gregor-broker/gregor/compat/harness"
)

const module = "github.com/gregor-broker/gregor"

// maxLines is the most that a Go file may have.
const maxLines = 600

// sources calls f with the slash-separated path, from the top folder, of each Go file of the project.
func sources(t *testing.T, f func(path string)) {
	t.Helper()
	root := harness.Root()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		relative = filepath.ToSlash(relative)
		switch {
		case entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") && relative != "." || relative == "bin" || relative == "data"):
			return filepath.SkipDir
		case !entry.IsDir() && strings.HasSuffix(path, ".go"):
			f(relative)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// lines calls f with each line of a file and its number.
func lines(t *testing.T, path string, f func(n int, line string)) {
	t.Helper()
	file, err := os.Open(filepath.Join(harness.Root(), filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<20)
	for n := 1; scanner.Scan(); n++ {
		f(n, scanner.Text())
	}
	if err := scanner.Err(); err != nil {
		t.Fatal(err)
	}
}

// rule forbids a pattern in all Go files but those below the excepted folders.
type rule struct {
	why     string
	pattern *regexp.Regexp
	except  []string
	tests   bool // also in tests
}

var rules = []rule{
	{
		why:     "time comes from wire/clock, so that tests can turn it",
		pattern: regexp.MustCompile(`\btime\.(Now|Sleep|After|AfterFunc|Tick|NewTicker|NewTimer|Since|Until)\(`),
		except:  []string{"wire/clock/", "cmd/", "compat/"},
	},
	{
		why:     "a test waits for a condition, with a deadline, and not for time to pass",
		pattern: regexp.MustCompile(`\btime\.Sleep\(`),
		except:  []string{"wire/clock/", "cmd/", "compat/bench/"},
		tests:   true,
	},
	{
		why:     "the logger is zap's, passed in",
		pattern: regexp.MustCompile(`^\s*(_ )?"(log|log/slog)"$|\bfmt\.Print(f|ln)?\(`),
		except:  []string{"cmd/", "compat/"},
	},
	{
		why:     "no unfinished work is left in the sources",
		pattern: regexp.MustCompile(`\b(TODO|FIXME|XXX)\b`),
		except:  []string{"compat/lint/"},
		tests:   true,
	},
}

// synctestFile matches test files in which time is virtual, so that sleeping is what turns it.
var synctestFile = regexp.MustCompile(`"testing/synctest"`)

func TestRules(t *testing.T) {
	sources(t, func(path string) {
		virtual := false
		count := 0
		lines(t, path, func(n int, line string) {
			count = n
			virtual = virtual || synctestFile.MatchString(line)
			for _, r := range rules {
				if strings.HasSuffix(path, "_test.go") && (!r.tests || virtual) || excepted(path, r.except) || !r.pattern.MatchString(line) {
					continue
				}
				t.Errorf("%s:%d: %s\n\t%s", path, n, r.why, strings.TrimSpace(line))
			}
		})
		if count > maxLines {
			t.Errorf("%s has %d lines, more than %d", path, count, maxLines)
		}
	})
}

func excepted(path string, folders []string) bool {
	for _, folder := range folders {
		if strings.HasPrefix(path, folder) {
			return true
		}
	}
	return false
}

// layers says which folders of the project the packages of a folder may import, beside those of their own folder. The first
// entry that is a prefix of a package's path is its own. docs/architecture.md draws this.
var layers = []struct {
	folder string
	may    []string
}{
	{"wire/clock", []string{"wire/invariants"}},
	{"wire/payload", []string{"wire/invariants"}},
	{"wire/errcode", []string{"wire/invariants"}},
	{"wire/invariants", nil},
	{"wire", []string{"wire"}},
	{"log", leaves},
	{"controller", leaves},
	{"groupcoord", append([]string{"log/record"}, leaves...)},
	{"broker", []string{"wire", "log", "controller", "groupcoord"}},
	{"cmd", []string{"broker", "wire", "log", "controller", "groupcoord"}},
	{"compat", []string{"broker", "wire", "log"}},
}

var leaves = []string{"wire/clock", "wire/payload", "wire/errcode", "wire/invariants"}

// TestImports fails on an edge of the import graph that layers does not have.
func TestImports(t *testing.T) {
	sources(t, func(path string) {
		if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "compat/sarama/") {
			return
		}
		folder, may := layerOf(t, path)
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(harness.Root(), path), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			inside, ok := strings.CutPrefix(imported, module+"/")
			if ok && !within(inside, folder) && !anyWithin(inside, may) {
				t.Errorf("%s imports %s: %s may import only %v", path, inside, folder, may)
			}
		}
	})
}

func layerOf(t *testing.T, path string) (folder string, may []string) {
	t.Helper()
	for _, l := range layers {
		if within(path, l.folder) {
			return l.folder, l.may
		}
	}
	t.Errorf("%s is in no layer: the top level is wire, broker, log, controller, groupcoord, cmd and compat", path)
	return path, nil
}

func within(path, folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") }

func anyWithin(path string, folders []string) bool {
	for _, folder := range folders {
		if within(path, folder) {
			return true
		}
	}
	return false
}
