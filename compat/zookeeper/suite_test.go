package zookeeper

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/store/storetest"
	"github.com/gregor-broker/gregor/controller/store/zk"
	"github.com/gregor-broker/gregor/wire/clock"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
)

// sessionTimeout is long enough for a busy machine; what must expire is ended by other means.
const sessionTimeout = 15 * time.Second

// limit is how long a test waits for what must happen.
const limit = 20 * time.Second

// roots makes the name of each tree new.
var roots atomic.Int64

func newRoot() string { return fmt.Sprintf("/tree/%d", roots.Add(1)) }

// logger shows the store's log in a test's output if GREGOR_COMPAT_LOG is set.
func logger(t testing.TB) *zap.Logger {
	if os.Getenv("GREGOR_COMPAT_LOG") == "" {
		return zap.NewNop()
	}
	return zaptest.NewLogger(t)
}

func open(t testing.TB, addr, root string, change ...func(*zk.Options)) *zk.Store {
	t.Helper()
	o := zk.Options{Connect: addr + root, SessionTimeout: sessionTimeout, Clock: clock.System, Logger: logger(t)}
	for _, f := range change {
		f(&o)
	}
	s, err := zk.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// noLeaks fails the test if it leaves a goroutine behind. It must be called before anything that a cleanup ends.
func noLeaks(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	server := goleak.IgnoreAnyFunction("github.com/gregor-broker/gregor/compat/harness.startProcess.func1")
	t.Cleanup(func() { goleak.VerifyNone(t, before, server) })
}

// ensemble returns the shared ZooKeeper, or skips the test where there is no Java.
func ensemble(t *testing.T) *harness.Ensemble {
	t.Helper()
	harness.Need(t, "java")
	return harness.SharedEnsemble(t)
}

func TestPassesTheSuite(t *testing.T) {
	server := ensemble(t)
	storetest.Suite(t, func(t *testing.T) storetest.Harness {
		noLeaks(t)
		root := newRoot()
		p := newProxy(t, server.Addr)
		s := open(t, p.addr, root)
		return storetest.Harness{
			Store:  s,
			Other:  func() store.Store { return open(t, server.Addr, root) },
			Expire: func() { p.expire(t) },
			Reopen: func() store.Store {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				return open(t, p.addr, root)
			},
		}
	})
}

// elapse lets a timer of the server's run out.
func elapse(t testing.TB, d time.Duration) { harness.Elapse(t, d) }
