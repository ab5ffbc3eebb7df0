// Package lint holds rules for the project's sources that go vet does not know, as tests. They need no broker. The import
// graph is checked by compat/structure.
package lint

import (
	"bufio"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gregor-broker/gregor/compat/harness"
)

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
