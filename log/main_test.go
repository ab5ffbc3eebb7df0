package log

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/log/vfs"
	"github.com/gregor-broker/gregor/wire/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// epoch0 is the wall time at which the tests' clocks begin: that of the testdata.
var epoch0 = time.Date(2026, 11, 29, 17, 30, 0, 0, time.UTC)

// env is a manager over a file system in memory with a clock that the test turns.
type env struct {
	t     testing.TB
	fs    *vfs.Mem
	clock *clock.Fake
	o     Options
	m     *Manager
}

func newEnv(t testing.TB) *env {
	c := clock.NewFake(epoch0)
	e := &env{t: t, fs: vfs.NewMem(0, c.Now), clock: c}
	e.o = Options{Dirs: []string{"/data"}, FS: e.fs, Clock: c, BrokerID: 1, ClusterID: "cluster", RecoveryThreadsPerDir: 1}
	return e
}

func (e *env) open() *env {
	e.t.Helper()
	var err error
	if e.m, err = OpenManager(context.Background(), e.o); err != nil {
		e.t.Fatal(err)
	}
	m := e.m
	e.t.Cleanup(func() { m.Close(context.Background()) })
	return e
}

// reopen closes in order and opens again.
func (e *env) reopen() *env {
	e.t.Helper()
	if err := e.m.Close(context.Background()); err != nil {
		e.t.Fatal(err)
	}
	return e.open()
}

// on goes on with another file system, as after a crash. The old manager is left to its own.
func (e *env) on(fsys *vfs.Mem) *env {
	e.t.Helper()
	e.fs, e.o.FS = fsys, fsys
	return e.open()
}

func (e *env) create(topic string, c *Config) *Log {
	e.t.Helper()
	tp := TopicPartition{Topic: topic}
	if errs := e.m.Create([]New{{TopicPartition: tp, TopicID: TopicID{1}, Config: c}}); errs[0] != nil {
		e.t.Fatal(errs[0])
	}
	return e.m.Get(tp)
}

func (e *env) get(topic string) *Log {
	e.t.Helper()
	l := e.m.Get(TopicPartition{Topic: topic})
	if l == nil {
		e.t.Fatalf("there is no log %s", topic)
	}
	return l
}

// batch builds a batch of values with one timestamp.
func batch(stamp int64, values ...string) *record.Checked {
	return batchOf(record.BatchOptions{}.NoProducer(), stamp, values...)
}

func batchOf(o record.BatchOptions, stamp int64, values ...string) *record.Checked {
	recs := make([]record.Record, len(values))
	for i, v := range values {
		recs[i] = record.Record{Timestamp: stamp, Value: []byte(v)}
	}
	b, err := record.Build(o, recs)
	if err != nil {
		panic(err)
	}
	c := record.Trusted(b)
	return &c
}

// idempotent builds a batch of n records of a producer.
func idempotent(id int64, epoch int16, seq int32, n int) *record.Checked {
	return batchOf(record.BatchOptions{ProducerID: id, ProducerEpoch: epoch, BaseSequence: seq}, epoch0.UnixMilli(), make([]string, n)...)
}

func transactional(id int64, epoch int16, seq int32, n int) *record.Checked {
	o := record.BatchOptions{ProducerID: id, ProducerEpoch: epoch, BaseSequence: seq, Transactional: true}
	return batchOf(o, epoch0.UnixMilli(), make([]string, n)...)
}

func mustAppend(t testing.TB, l *Log, c *record.Checked) Appended {
	t.Helper()
	a, err := l.Append(c, 0)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// committed appends and lets the high watermark follow.
func committed(t testing.TB, l *Log, c *record.Checked) Appended {
	t.Helper()
	a := mustAppend(t, l, c)
	l.AdvanceHighWatermark(a.LastOffset + 1)
	return a
}

// readAll reads everything from offset on, batch by batch boundaries aside.
func readAll(t testing.TB, l *Log, offset int64, iso Isolation) []byte {
	t.Helper()
	var all []byte
	for {
		r, err := l.Read(offset, 1<<20, iso, true)
		if err != nil {
			t.Fatal(err)
		}
		if r.Part.Size() == 0 {
			return all
		}
		raw := make([]byte, r.Part.Len)
		if _, err := r.Part.File.ReadAt(raw, r.Part.Pos); err != nil {
			t.Fatal(err)
		}
		r.Part.File.Release()
		for rest := raw; ; {
			entry, tail, err := record.NextEntry(rest)
			if err != nil {
				break
			}
			all = append(all, entry...)
			offset, rest = entry.NextOffset(), tail
		}
	}
}

// values lists the values of the records at and after offset.
func values(t testing.TB, l *Log, offset int64, iso Isolation) []string {
	t.Helper()
	var out []string
	for rest := readAll(t, l, offset, iso); len(rest) > 0; {
		entry, tail, err := record.NextEntry(rest)
		if err != nil {
			t.Fatal(err)
		}
		if err := entry.CheckCRC(); err != nil {
			t.Fatal(err)
		}
		for r, err := range entry.Records(record.Limits{}) {
			if err != nil {
				t.Fatal(err)
			}
			if r.Offset >= offset {
				out = append(out, string(r.Value))
			}
		}
		rest = tail
	}
	return out
}

// copyIn copies a directory of the machine into a file system, durably.
func copyIn(t testing.TB, to vfs.FS, from, dir string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := dir + "/" + filepath.ToSlash(path[len(from):])
		if d.IsDir() {
			return to.MkdirAll(target)
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f, err := to.Create(target)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.WriteAt(raw, 0)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := to.SyncAll(dir); err != nil {
		t.Fatal(err)
	}
}

// yield lets other goroutines run.
func yield() { runtime.Gosched() }

func abortedTxns(t testing.TB, l *Log, from, to int64) []AbortedTxn {
	t.Helper()
	list, err := l.AbortedTxns(from, to)
	if err != nil {
		t.Fatal(err)
	}
	return list
}
