package cleaner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/log/vfs"
)

// TestFaults fails every call in turn that changes or reads a file while a log is cleaned, and kills the process
// afterwards, or takes the power away. What a reader sees stays the same.
func TestFaults(t *testing.T) {
	for n, done := 0, false; !done; n++ {
		t.Run(fmt.Sprint("call=", n), func(t *testing.T) { done = failCall(t, n) })
	}
}

// failCall fails the n-th call; done says that there are not that many.
func failCall(t *testing.T, n int) (done bool) {
	m := newModel(t, uint64(n), testConfig())
	for range 25 {
		m.write(m.r.Int64N(4))
	}
	m.rollUp()
	if err := m.log.Flush(); err != nil {
		t.Fatal(err)
	}
	calls := 0
	m.fs.Before(func(c vfs.Call) (int, error) {
		if calls++; calls == n+1 {
			return c.Size / 2, fmt.Errorf("%s %s: %w", c.Op, c.Name, errInjected)
		}
		return c.Size, nil
	})
	m.cleaner.o.Logger = zap.NewNop() // the failure is meant
	m.cleaner.once(context.Background())
	m.fs.Before(nil)
	m.checkReadable(fmt.Sprintf("call %d failed", n))
	after := m.mem.Kill()
	if n%2 == 1 {
		after = m.mem.CrashSome(rand.New(rand.NewPCG(uint64(n), 3)))
	}
	_ = m.manager.Close(context.Background()) // the log may have stopped at the failure
	m.use(after)
	m.open()
	m.log.AdvanceHighWatermark(m.log.Bounds().End)
	m.check()
	m.env.clean()
	m.check()
	return calls <= n
}

var errInjected = errors.New("injected")

// checkReadable is check unless the log has stopped, as it does when it cannot tell what is on disk.
func (m *model) checkReadable(when string) {
	m.t.Helper()
	if read, err := m.log.Read(m.log.Bounds().Start, 1, log.HighWatermark, true); err != nil {
		if !errors.Is(err, log.ErrStorage) {
			m.t.Fatalf("%s: %v", when, err)
		}
		return
	} else if read.Part.Len > 0 {
		read.Part.File.Release()
	}
	m.check()
}

// TestChangedMeanwhile gives a round up whose log is no longer what it was.
func TestChangedMeanwhile(t *testing.T) {
	for name, change := range map[string]func(e *env){
		"policy": func(e *env) {
			c := e.config
			c.Compact, c.Delete = false, true
			e.log.SetConfig(&c)
		},
		"retention": func(e *env) {
			if _, err := e.log.DeleteRecords(1); err != nil {
				e.t.Error(err)
			}
			if n, err := e.log.DeleteOldSegments(); err != nil || n == 0 {
				e.t.Error(n, err)
			}
		},
		"deletion": func(e *env) { e.manager.Delete([]log.TopicPartition{tp}) },
		"truncation": func(e *env) {
			if err := e.log.TruncateTo(1); err != nil {
				e.t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := testConfig()
			c.Delete = true
			e := newEnv(t, c)
			for i := range 6 {
				e.append(plain(record.None), []record.Record{{Timestamp: start.UnixMilli(), Key: []byte{byte(i % 2)}, Value: make([]byte, 500)}})
			}
			var changed atomic.Bool
			e.fs.Before(func(c vfs.Call) (int, error) { // the log's syncer makes files, too
				if c.Op == vfs.OpCreate && strings.HasSuffix(c.Name, ".cleaned") && changed.CompareAndSwap(false, true) {
					change(e)
				}
				return c.Size, nil
			})
			segments := len(e.log.Segments())
			if e.cleaner.once(context.Background()) {
				t.Error("the round was finished")
			}
			e.fs.Before(nil)
			if !changed.Load() || len(e.cleaner.failed) > 0 || len(e.log.Segments()) > segments {
				t.Errorf("changed %v, taken for a failure %v", changed.Load(), e.cleaner.failed)
			}
			if e.manager.Get(tp) == nil {
				return
			}
			files, err := e.fs.ReadDir("/d/c-0")
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				if len(f.Name()) > 8 && f.Name()[len(f.Name())-8:] == ".cleaned" {
					t.Errorf("%s was left", f.Name())
				}
			}
		})
	}
}

// TestLoop cleans on its own goroutine.
func TestLoop(t *testing.T) {
	e := newEnv(t, testConfig())
	for range 5 {
		e.append(plain(record.None), []record.Record{{Timestamp: start.UnixMilli(), Key: []byte("k"), Value: make([]byte, 500)}})
	}
	before := e.log.Segments()
	c, err := Start(Options{Logs: e.manager, FS: e.fs, Clock: e.clock, Settings: Settings{Backoff: time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for slices.Equal(before, e.log.Segments()) && ctx.Err() == nil {
		e.clock.Advance(time.Second)
	}
	if err := c.Close(); err != nil || ctx.Err() != nil {
		t.Error(err, ctx.Err())
	}
}

// TestClose ends a round under way.
func TestClose(t *testing.T) {
	e := newEnv(t, testConfig())
	for range 5 {
		e.append(plain(record.None), []record.Record{{Timestamp: start.UnixMilli(), Key: []byte("k"), Value: make([]byte, 500)}})
	}
	before := e.log.Segments()
	ctx, cancel := context.WithCancel(context.Background())
	e.fs.Before(func(c vfs.Call) (int, error) {
		if c.Op == vfs.OpCreate {
			cancel()
		}
		return c.Size, nil
	})
	if e.cleaner.once(ctx) || !slices.Equal(before, e.log.Segments()) || len(e.cleaner.failed) > 0 {
		t.Error("the round went on")
	}
	e.fs.Before(nil)
}

// TestReconfigure ends a rest that would have been long.
func TestReconfigure(t *testing.T) {
	e := newEnv(t, testConfig())
	for range 5 {
		e.append(plain(record.None), []record.Record{{Timestamp: start.UnixMilli(), Key: []byte("k"), Value: make([]byte, 500)}})
	}
	before := e.log.Segments()
	c, err := Start(Options{Logs: e.manager, FS: e.fs, Clock: e.clock, Settings: Settings{Backoff: 1000 * time.Hour, DedupeBytes: 1}})
	if err != nil {
		t.Fatal(err)
	}
	c.Reconfigure(Settings{Backoff: time.Second})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for slices.Equal(before, e.log.Segments()) && ctx.Err() == nil {
		e.clock.Advance(time.Second)
	}
	if err := c.Close(); err != nil || ctx.Err() != nil {
		t.Error(err, ctx.Err())
	}
}
