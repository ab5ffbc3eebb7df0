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

// skips are the files that may leave a test out for another reason than the kind of broker that it runs against: a program,
// or a property of the build or the store, that is missing.
var skips = map[string]string{
	"log/dumplog_test.go":                           "needs Kafka's kafka-dump-log",
	"controller/store/embedded/crash_linux_test.go": "a kernel or file system that does not tell what is written back",
	"controller/store/storetest/suite.go":           "what a kind of store does not have",
	"groupcoord/states_kafka_test.go":               "needs an Apache Kafka that -kafka names",
	"groupcoord/runtime/runtime_test.go":            "builds with invariants let faults through",
	"wire/enginetest/bench_test.go":                 "an engine that this system does not have",
	"compat/clients/clients_test.go":                "a Python too new for the oldest client",
	"compat/cases/limits_test.go":                   "needs /proc",
	"compat/harness/harness.go":                     "a client or a JDK that could not be installed",
	"compat/harness/cluster_client.go":              "about clusters",
	"compat/cluster/netns_linux_test.go":            "needs network namespaces",
	"compat/cluster/disk_linux_test.go":             "needs to mount a file system",
}

var (
	skip   = regexp.MustCompile(`\b(t|b|tb)\.Skip(f|Now)?\(`)
	ofKind = regexp.MustCompile(`(?i)\b(kind|peer|V39|V44|version)\b|\.Kind\b|Kafka(39|44)|only\(`)
)

// TestSkips: a test is left out only against a broker that it is not about, or where a program is missing.
func TestSkips(t *testing.T) {
	sources(t, func(path string) {
		var before [3]string
		lines(t, path, func(n int, line string) {
			why := skips[path]
			if skip.MatchString(line) && why == "" && !strings.HasPrefix(path, "compat/lint/") &&
				!(strings.HasPrefix(path, "compat/") && ofKind.MatchString(strings.Join(before[:], "\n")+line)) {
				t.Errorf("%s:%d: a test is left out for a reason that is not in the list of compat/lint: %s", path, n, strings.TrimSpace(line))
			}
			before = [3]string{before[1], before[2], line}
		})
	})
	for path := range skips {
		if _, err := os.Stat(filepath.Join(harness.Root(), path)); err != nil {
			t.Errorf("%s may leave tests out, but is not there", path)
		}
	}
}

// TestSleeps: in tests only virtual time is slept, that is, within the function that a bubble of testing/synctest runs.
func TestSleeps(t *testing.T) {
	sources(t, func(path string) {
		if !strings.HasSuffix(path, "_test.go") {
			return
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, filepath.Join(harness.Root(), path), nil, 0)
		if err != nil {
			t.Error(err)
			return
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil && runByGo(f.Name.Name) {
				for _, at := range sleepsOutsideLiterals(f.Body) {
					t.Errorf("%s: a test sleeps in real time", fset.Position(at))
				}
			}
		}
	})
}

func runByGo(name string) bool {
	return strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Benchmark") || strings.HasPrefix(name, "Fuzz")
}

// sleepsOutsideLiterals finds calls of time.Sleep that are not within a function that is handed to another one.
func sleepsOutsideLiterals(body ast.Node) (found []token.Pos) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Sleep" {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" {
					found = append(found, n.Pos())
				}
			}
		}
		return true
	})
	return found
}
