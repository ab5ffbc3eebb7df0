package cleaner

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/log/vfs"
	"github.com/gregor-broker/gregor/wire/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var tp = log.TopicPartition{Topic: "c", Partition: 0}

// env is a log in memory with a cleaner that runs when it is told to.
type env struct {
	t       *testing.T
	fs      *vfs.Faulty // over mem
	mem     *vfs.Mem
	clock   *clock.Fake
	config  log.Config
	manager *log.Manager
	log     *log.Log
	cleaner *Cleaner
}

// start is the wall time at which tests begin.
var start = time.UnixMilli(1_700_000_000_000)

func testConfig() log.Config {
	c := *log.DefaultConfig()
	c.Compact, c.Delete = true, false
	c.SegmentBytes, c.IndexIntervalBytes, c.MinCleanableDirtyRatio = 600, 200, 0.01
	c.DeleteRetentionMs = 1000
	return c
}

func newEnv(t *testing.T, c log.Config) *env {
	e := &env{t: t, clock: clock.NewFake(start), config: c}
	e.use(vfs.NewMem(0, e.clock.Now))
	e.open()
	if err := e.manager.Create([]log.New{{TopicPartition: tp, Config: &e.config}})[0]; err != nil {
		t.Fatal(err)
	}
	e.log = e.manager.Get(tp)
	t.Cleanup(func() { e.close() })
	return e
}

func (e *env) use(mem *vfs.Mem) { e.mem, e.fs = mem, vfs.NewFaulty(mem) }

// open opens what is on e.fs.
func (e *env) open() {
	e.t.Helper()
	var err error
	e.manager, err = log.OpenManager(context.Background(), log.Options{
		Dirs: []string{"/d"}, FS: e.fs, Clock: e.clock, ClusterID: "c", Logger: zaptest.NewLogger(e.t, zaptest.Level(zap.WarnLevel)),
		ConfigFor:              func(string) *log.Config { return &e.config },
		RetentionCheckInterval: -1, FlushCheckpointInterval: -1, HWCheckpointInterval: -1, StartOffsetCheckpointInterval: -1, ProducerIDCheckInterval: -1,
	})
	if err == nil {
		e.cleaner, err = newCleaner(Options{Logs: e.manager, FS: e.fs, Clock: e.clock, Logger: zaptest.NewLogger(e.t, zaptest.Level(zap.WarnLevel))})
	}
	if err != nil {
		e.t.Fatal(err)
	}
	e.log = e.manager.Get(tp)
}

func (e *env) close() {
	e.t.Helper()
	if err := e.manager.Close(context.Background()); err != nil {
		e.t.Error(err)
	}
}

// crash goes on as after kill -9, without the producers' snapshots.
func (e *env) crash() {
	e.t.Helper()
	after := e.mem.Kill()
	e.close()
	e.use(after)
	files, err := e.mem.ReadDir("/d/c-0")
	if err != nil {
		e.t.Fatal(err)
	}
	for _, f := range files {
		if filepath.Ext(f.Name()) == ".snapshot" {
			if err := e.mem.Remove("/d/c-0/" + f.Name()); err != nil {
				e.t.Fatal(err)
			}
		}
	}
	if err := e.mem.Remove("/d/recovery-point-offset-checkpoint"); err != nil {
		e.t.Log(err)
	}
	e.open()
	e.log.AdvanceHighWatermark(e.log.Bounds().End)
}

// clean runs rounds until nothing is dirty, and says how many.
func (e *env) clean() (rounds int) {
	e.t.Helper()
	for e.cleaner.once(context.Background()) {
		if rounds++; rounds > 100 {
			e.t.Fatal("there is always something to clean")
		}
	}
	return rounds
}

// kv is a record: a value "" is a tombstone.
func kv(pairs ...string) (recs []record.Record) {
	for i := 0; i < len(pairs); i += 2 {
		r := record.Record{Timestamp: start.UnixMilli() + int64(i), Key: []byte(pairs[i])}
		if pairs[i+1] != "" {
			r.Value = []byte(pairs[i+1])
		}
		recs = append(recs, r)
	}
	return recs
}

func plain(c record.Codec) record.BatchOptions {
	return record.BatchOptions{Codec: c}.NoProducer()
}

func (e *env) append(o record.BatchOptions, recs []record.Record) log.Appended {
	e.t.Helper()
	b, err := record.Build(o, recs)
	if err != nil {
		e.t.Fatal(err)
	}
	checked := record.Trusted(b)
	at, err := e.log.Append(&checked, 1)
	if err != nil {
		e.t.Fatal(err)
	}
	e.log.AdvanceHighWatermark(e.log.Bounds().End)
	return at
}

func (e *env) marker(pid int64, epoch int16, commit bool) {
	e.t.Helper()
	if _, err := e.log.WriteMarker(log.Marker{ProducerID: pid, ProducerEpoch: epoch, Commit: commit, LeaderEpoch: 1}); err != nil {
		e.t.Fatal(err)
	}
	e.log.AdvanceHighWatermark(e.log.Bounds().End)
}

// roll makes what was appended cleanable.
func (e *env) roll() {
	e.t.Helper()
	e.append(plain(record.None), []record.Record{{Timestamp: start.UnixMilli(), Key: []byte("roll"), Value: make([]byte, 500)}})
	e.append(plain(record.None), []record.Record{{Timestamp: start.UnixMilli(), Key: []byte("roll"), Value: make([]byte, 500)}})
}

// entries are the batches from an offset on, as a consumer fetches them.
func (e *env) entries(from int64) (all []record.Entry) {
	e.t.Helper()
	for next := from; next < e.log.Bounds().HighWatermark; {
		read, err := e.log.Read(next, 1, log.HighWatermark, true)
		if err != nil || read.Part.Len == 0 {
			e.t.Fatalf("reading at %d: %d bytes, %v", next, read.Part.Len, err)
		}
		raw := make([]byte, read.Part.Len)
		if _, err := read.Part.File.ReadAt(raw, read.Part.Pos); err != nil {
			e.t.Fatal(err)
		}
		read.Part.File.Release()
		entry, _, err := record.NextEntry(raw)
		if err != nil || entry.CheckCRC() != nil || entry.NextOffset() <= next {
			e.t.Fatalf("reading at %d: offsets %d-%d, %v", next, entry.BaseOffset(), entry.LastOffset(), err)
		}
		all = append(all, entry)
		next = entry.NextOffset()
	}
	return all
}

// show is the log from an offset on: per batch its offsets, flags, and records.
func (e *env) show(from int64) (lines []string) {
	e.t.Helper()
	for _, entry := range e.entries(from) {
		line := fmt.Sprintf("%d-%d", entry.BaseOffset(), entry.LastOffset())
		if b, ok := entry.Batch(); ok && b.HasDeleteHorizon() {
			line += fmt.Sprintf(" horizon+%d", b.BaseTimestamp()-start.UnixMilli())
		}
		for r, err := range entry.Records(record.Limits{}) {
			switch {
			case err != nil:
				e.t.Fatal(err)
			case entry.IsControl():
				kind, err := record.ParseControl(r.Key)
				if err != nil {
					e.t.Fatal(err)
				}
				line += fmt.Sprintf(" marker:%d", kind)
			case r.Value == nil:
				line += fmt.Sprintf(" %d:%s", r.Offset, r.Key)
			default:
				line += fmt.Sprintf(" %d:%s=%.9s", r.Offset, r.Key, r.Value)
			}
		}
		lines = append(lines, line)
	}
	return lines
}

func abortedTxns(t testing.TB, l *log.Log, from, to int64) []log.AbortedTxn {
	t.Helper()
	list, err := l.AbortedTxns(from, to)
	if err != nil {
		t.Fatal(err)
	}
	return list
}
