// Package harness starts what the tests of compat run against: the built gregor binary, or, to prove that an expectation
// is Apache Kafka's and not just ours, a real broker of version 3.9.2 (ZooKeeper mode) or 4.4.0 (KRaft mode). It also runs
// Kafka's Java tools and other programs, with deadlines.
//
// The tests of compat run only when GREGOR_COMPAT is set ("make test-compat" does). Other variables:
//
//	GREGOR_COMPAT_PEER   gregor (default), kafka-3.9 or kafka-4.4: what Start starts
//	GREGOR_BIN           the binary under test (default bin/gregor)
//	GREGOR_SUITES        whole: the suites of other clients run whole (package suite)
//	GREGOR_CACHE         where "make test-deps" put Kafka's jars and the Python clients (default .cache)
package harness

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// Kind says which broker answers.
type Kind string

// The brokers that Start can start.
const (
	Gregor  Kind = "gregor"    // embedded metadata
	Kafka39 Kind = "kafka-3.9" // 3.9.2 with a ZooKeeper of its own
	Kafka44 Kind = "kafka-4.4" // 4.4.0, broker and controller in one process
)

// Peer returns the kind that GREGOR_COMPAT_PEER names.
func Peer() Kind {
	switch kind := Kind(os.Getenv("GREGOR_COMPAT_PEER")); kind {
	case "":
		return Gregor
	case Gregor, Kafka39, Kafka44:
		return kind
	default:
		panic(fmt.Sprintf("GREGOR_COMPAT_PEER is %q, not %s, %s or %s", kind, Gregor, Kafka39, Kafka44))
	}
}

// Enabled reports whether the tests of compat are to run.
func Enabled() bool { return os.Getenv("GREGOR_COMPAT") != "" }

// Main is every compat package's TestMain. Without GREGOR_COMPAT it runs no test, which "go test" then says of the package.
func Main(m *testing.M) {
	flag.Parse()
	if !Enabled() {
		fmt.Println("compat is left out: GREGOR_COMPAT is not set (make test-compat sets it)")
		if err := flag.Set("test.run", "^$"); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	atEnd.run()
	os.Exit(code)
}

// atEnd holds what must be stopped when a package's tests are over.
var atEnd cleanups

type cleanups struct {
	mu struct {
		sync.Mutex
		list []func()
	}
}

func (c *cleanups) add(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.list = append(c.mu.list, f)
}

func (c *cleanups) run() {
	c.mu.Lock()
	list := c.mu.list
	c.mu.list = nil
	c.mu.Unlock()
	for i := len(list) - 1; i >= 0; i-- {
		list[i]()
	}
}

// Root returns the top folder of the checkout.
func Root() string {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		panic("no caller information")
	}
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

// Cache returns the folder with the installed jars and Python clients.
func Cache() string {
	if dir := os.Getenv("GREGOR_CACHE"); dir != "" {
		return dir
	}
	return filepath.Join(Root(), ".cache")
}

// Binary returns the path of the gregor binary under test.
func Binary() string {
	if path := os.Getenv("GREGOR_BIN"); path != "" {
		return path
	}
	return filepath.Join(Root(), "bin", "gregor")
}

// Need skips the test where something that it needs ("java", "python" or "kcat") could not be installed:
// GREGOR_COMPAT_WITHOUT names what. What is not named there must be there.
func Need(t testing.TB, what string) {
	t.Helper()
	for _, missing := range strings.Fields(os.Getenv("GREGOR_COMPAT_WITHOUT")) {
		if missing == what {
			t.Skipf("%s could not be installed here", what)
		}
	}
}
