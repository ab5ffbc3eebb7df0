package log

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/log/vfs"
)

// promised is what was acknowledged of one log.
type promised struct {
	created, deleted bool
	unsure           bool  // a deletion is at work
	appended         int64 // log end that an append returned
	flushed          int64 // log end that a flush returned for
	start            int64 // log start
}

// moment is the file system as crashes at one call would leave it, and what was promised until then.
type moment struct {
	call     vfs.Call
	kill     *vfs.Mem
	crash    *vfs.Mem
	mixed    *vfs.Mem
	promises map[string]promised
}

// recorder takes moments.
type recorder struct {
	mu       sync.Mutex
	mem      *vfs.Mem
	rand     *rand.Rand
	promises map[string]promised
	moments  []moment
}

func (r *recorder) before(c vfs.Call) (int, error) {
	if !c.Changes() {
		return 0, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	m := moment{c, r.mem.Kill(), r.mem.Crash(), r.mem.CrashSome(r.rand), map[string]promised{}}
	for name, p := range r.promises {
		m.promises[name] = p
	}
	r.moments = append(r.moments, m)
	return 0, nil
}

func (r *recorder) promise(name string, change func(*promised)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.promises[name]
	change(&p)
	r.promises[name] = p
}

// crashWork does a little of everything. Records of the log "plain" have their offset as value; all are from one producer.
func crashWork(t *testing.T, e *env, r *recorder) {
	create := func(name string) *Log {
		l := e.create(name, small())
		r.promise(name, func(p *promised) { *p = promised{created: true} })
		return l
	}
	flush := func(l *Log) {
		end := l.Bounds().End
		if err := l.Flush(); err != nil {
			t.Fatal(err)
		}
		r.promise(l.tp.Topic, func(p *promised) { p.flushed = end })
	}
	add := func(l *Log, c *record.Checked, epoch int32) {
		a, err := l.Append(c, epoch)
		if err != nil {
			t.Fatal(err)
		}
		l.AdvanceHighWatermark(a.LastOffset + 1)
		r.promise(l.tp.Topic, func(p *promised) { p.appended = a.LastOffset + 1 })
	}
	plain, txn := create("plain"), create("txn")
	doomed := create("doomed")
	epoch := int32(0)
	for i := range int32(24) {
		add(plain, numbered(plain, 8, i*2), epoch)
		switch i % 8 {
		case 3:
			flush(plain)
		case 5:
			epoch += 2
			if err := plain.AssignEpoch(epoch); err != nil {
				t.Fatal(err)
			}
		}
		add(txn, transactional(int64(i%3), 0, i/3, 1), 0)
		if i%4 == 3 {
			a, err := txn.WriteMarker(Marker{ProducerID: int64(i % 3), Commit: i%8 == 3})
			if err != nil {
				t.Fatal(err)
			}
			r.promise("txn", func(p *promised) { p.appended = a.LastOffset + 1 })
		}
		if i == 6 {
			add(doomed, numbered(doomed, 8, 0), 0)
			r.promise("doomed", func(p *promised) { p.unsure = true })
			if _, err := doomed.DeleteRecords(-1); err != nil {
				t.Fatal(err)
			}
			e.m.Delete([]TopicPartition{doomed.tp})
			r.promise("doomed", func(p *promised) { *p = promised{deleted: true} })
		}
		if i == 9 {
			doomed = create("doomed")
			add(doomed, numbered(doomed, 8, 0), 0)
			flush(doomed)
		}
		if i == 12 {
			if err := e.m.CheckpointAll(); err != nil {
				t.Fatal(err)
			}
		}
		if i == 15 {
			r.promise("plain", func(p *promised) { p.start = 20 })
			if _, err := plain.DeleteRecords(20); err != nil {
				t.Fatal(err)
			}
			if _, err := plain.DeleteOldSegments(); err != nil {
				t.Fatal(err)
			}
		}
		if i == 18 {
			flush(txn)
		}
	}
	if err := e.m.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, l := range []*Log{plain, txn, doomed} {
		r.promise(l.tp.Topic, func(p *promised) { p.flushed = p.appended })
	}
}

// numbered is a batch of two records whose values are their offsets.
func numbered(l *Log, id int64, seq int32) *record.Checked {
	end := l.Bounds().End
	return batchOf(record.BatchOptions{ProducerID: id, BaseSequence: seq}, epoch0.UnixMilli()+int64(seq), fmt.Sprint(end), fmt.Sprint(end+1))
}

func TestCrashAtEveryStep(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	e := newEnv(t)
	faulty := vfs.NewFaulty(e.fs)
	r := &recorder{mem: e.fs, rand: rand.New(rand.NewPCG(seed, 0)), promises: map[string]promised{}}
	e.o.FS = faulty
	faulty.Before(r.before)
	e.open()
	crashWork(t, e, r)
	faulty.Before(nil)
	if len(r.moments) < 200 {
		t.Fatalf("only %d steps", len(r.moments))
	}
	for i, m := range r.moments {
		for kind, fsys := range map[string]*vfs.Mem{"kill": m.kill, "crash": m.crash, "mixed": m.mixed} {
			e := newEnv(t)
			e.fs, e.o.FS = fsys, fsys
			ok := t.Run(fmt.Sprintf("%d/%s", i, kind), func(t *testing.T) {
				e.t = t
				checkAfterCrash(t, e, m, kind)
			})
			if !ok {
				t.Fatalf("step %d: %s before %s %s; seed %d", i, kind, m.call.Op, m.call.Name, seed)
			}
		}
	}
}

// A disk that kept some of what was not synced and lost some may have the files of a younger segment and not the end of
// an older one. As in Kafka the log then has a gap, where nothing was flushed.
func checkAfterCrash(t *testing.T, e *env, m moment, kind string) {
	e.open()
	gapFrom := func(name string) int64 {
		if kind == "mixed" {
			return m.promises[name].flushed
		}
		return math.MaxInt64
	}
	// Logs of which nothing was flushed, whose first segment was lost while a younger one was not: the gap is at the
	// start, and what snapshots say of producers goes back before it.
	headless := map[string]bool{}
	for name, p := range m.promises {
		l := e.m.Get(TopicPartition{Topic: name})
		if p.unsure {
			continue
		}
		if p.deleted {
			if l != nil && l.Bounds().End > 0 && !recreated(l) {
				t.Errorf("%s came back", name)
			}
			continue
		}
		if l == nil {
			t.Errorf("%s is gone", name)
			continue
		}
		if l.TopicID() != (TopicID{1}) {
			t.Errorf("%s has topic id %s", name, l.TopicID())
		}
		want := p.flushed
		if kind == "kill" {
			want = p.appended
		}
		b := l.Bounds()
		if b.Start > p.start && gapFrom(name) <= p.start {
			headless[name] = true
			continue
		}
		if b.End < want || b.Start > p.start {
			t.Errorf("%s: bounds %+v, want an end of at least %d", name, b, want)
		}
		checkWhole(t, l, gapFrom(name))
	}
	ends := map[string]int64{}
	for _, l := range e.m.All() {
		ends[l.tp.Topic] = l.Bounds().End
	}
	e.reopen()
	for _, l := range e.m.All() {
		if end := l.Bounds().End; end != ends[l.tp.Topic] {
			t.Errorf("%s ends at %d after a stop in order, before at %d", l.tp, end, ends[l.tp.Topic])
		}
		if !headless[l.tp.Topic] {
			checkWhole(t, l, gapFrom(l.tp.Topic))
		}
	}
}

// recreated says whether the log "doomed" is the second one: only that was never trimmed.
func recreated(l *Log) bool { return l.Bounds().Start == 0 }

// checkWhole compares what a log knows with what its batches say. Gaps may be from offset gapFrom on.
func checkWhole(t *testing.T, l *Log, gapFrom int64) {
	t.Helper()
	b := l.Bounds()
	next := b.Start
	open, aborted, seqs := map[int64]int64{}, []AbortedTxn(nil), map[int64]int32{}
	epochs := map[int32]int64{}
	for rest := readAll(t, l, b.Start, LogEnd); len(rest) > 0; {
		entry, tail, err := record.NextEntry(rest)
		if err == nil {
			err = entry.CheckCRC()
		}
		if err != nil {
			t.Fatalf("%s: %v", l.tp, err)
		}
		if entry.BaseOffset() > next && next < gapFrom {
			t.Fatalf("%s: a gap from %d to %d", l.tp, next, entry.BaseOffset())
		}
		next, rest = entry.NextOffset(), tail
		batch := record.Batch(entry)
		if _, ok := epochs[batch.LeaderEpoch()]; !ok {
			epochs[batch.LeaderEpoch()] = batch.BaseOffset()
		}
		if m, ok := parseMarker(entry); ok && batch.IsControl() {
			if first, was := open[m.ProducerID]; was && !m.commit {
				aborted = append(aborted, AbortedTxn{m.ProducerID, first, m.Offset})
			}
			delete(open, m.ProducerID)
			continue
		}
		if _, was := open[batch.ProducerID()]; !was && batch.IsTransactional() {
			open[batch.ProducerID()] = batch.BaseOffset()
		}
		if batch.ProducerID() >= 0 {
			seqs[batch.ProducerID()] = batch.LastSequence()
		}
		if l.tp.Topic != "txn" {
			for r := range entry.Records(record.Limits{}) {
				if string(r.Value) != fmt.Sprint(r.Offset) {
					t.Fatalf("%s: offset %d has %q", l.tp, r.Offset, r.Value)
				}
			}
		}
	}
	if next != b.End && next < gapFrom {
		t.Fatalf("%s: the batches end at %d, bounds %+v", l.tp, next, b)
	}
	if got := abortedTxns(t, l, b.Start, b.End); !reflect.DeepEqual(got, aborted) {
		t.Errorf("%s: aborted %v, want %v", l.tp, got, aborted)
	}
	for _, p := range l.Producers() {
		if seq, ok := seqs[p.ProducerID]; ok && seq != p.LastSequence {
			t.Errorf("%s: producer %d is at sequence %d, want %d", l.tp, p.ProducerID, p.LastSequence, seq)
		}
		first, was := open[p.ProducerID]
		if was && first != p.TxnStartOffset || !was && p.TxnStartOffset >= 0 {
			t.Errorf("%s: producer %d has a transaction at %d, want %v %d", l.tp, p.ProducerID, p.TxnStartOffset, was, first)
		}
		delete(seqs, p.ProducerID)
	}
	if len(seqs) > 0 {
		t.Errorf("%s: producers %v were forgotten", l.tp, seqs)
	}
	for epoch, start := range epochs {
		if got, ok := l.EpochForOffset(max(start, b.Start)); !ok || got != epoch {
			t.Errorf("%s: offset %d has epoch %d, want %d", l.tp, start, got, epoch)
		}
	}
}

// Every call fails once; what was acknowledged stays, and after the failure the log goes on or says that it cannot.
func TestEveryCallFails(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for n := int64(0); ; n++ {
		e := newEnv(t)
		faulty := vfs.NewFaulty(e.fs)
		e.o.FS = faulty
		hit := false
		var mu sync.Mutex
		faulty.Before(func(c vfs.Call) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			if c.N == n {
				hit = true
				return r.IntN(c.Size + 1), errors.New("injected")
			}
			return 0, nil
		})
		failingWork(t, e, n, seed)
		mu.Lock()
		over := !hit
		mu.Unlock()
		if over {
			if n < 100 {
				t.Errorf("only %d calls", n)
			}
			return
		}
	}
}

func failingWork(t *testing.T, e *env, n int64, seed uint64) {
	m, err := OpenManager(context.Background(), e.o)
	if err != nil {
		return
	}
	acked := int64(0)
	tp := TopicPartition{Topic: "t"}
	for range 3 {
		if m.Get(tp) == nil {
			m.Create([]New{{TopicPartition: tp, TopicID: TopicID{1}, Config: small()}})
		}
	}
	l := m.Get(tp)
	if l == nil {
		t.Fatalf("call %d, seed %d: the log cannot be created any more", n, seed)
	}
	for i := range 16 {
		a, err := l.Append(batchOf(record.BatchOptions{}.NoProducer(), 1, fmt.Sprint(acked), fmt.Sprint(acked+1)), 0)
		if err == nil {
			if a.BaseOffset != acked {
				t.Fatalf("call %d, seed %d: appended at %d, want %d", n, seed, a.BaseOffset, acked)
			}
			acked = a.LastOffset + 1
			l.AdvanceHighWatermark(acked)
		} else if !errors.Is(err, ErrStorage) {
			t.Fatalf("call %d, seed %d: %v", n, seed, err)
		}
		if i == 8 {
			_ = l.Flush()
		}
	}
	_ = m.Close(context.Background())
	e.o.FS = e.fs
	e.on(e.fs.Kill())
	if b := e.get("t").Bounds(); b.End != acked {
		t.Fatalf("call %d, seed %d: the log ends at %d, acknowledged were %d", n, seed, b.End, acked)
	}
	checkWhole(t, e.get("t"), math.MaxInt64)
	if err := e.m.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestFullDisk(t *testing.T) {
	e := newEnv(t)
	e.fs = vfs.NewMem(64<<10, e.clock.Now)
	e.o.FS = e.fs
	core, logged := observer.New(zap.ErrorLevel)
	e.o.Logger = zap.New(core)
	e.open()
	l := e.create("t", nil)
	ballast, err := e.fs.Create("/data/ballast")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ballast.WriteAt(make([]byte, 40<<10), 0); err != nil {
		t.Fatal(err)
	}
	var want []string
	var full error
	for i := 0; full == nil; i++ {
		value := strings.Repeat(fmt.Sprint(i), 500)
		if _, full = l.Append(batch(1, value), 0); full == nil {
			want = append(want, value)
		}
	}
	if !errors.Is(full, ErrStorage) || !vfs.IsNoSpace(full) {
		t.Errorf("a full disk: %v", full)
	}
	if got := values(t, l, 0, LogEnd); !slices.Equal(got, want) {
		t.Errorf("%d records can be read, %d were acknowledged", len(got), len(want))
	}
	if _, err := l.Append(batch(1, strings.Repeat("x", 2000)), 0); !errors.Is(err, ErrStorage) {
		t.Errorf("still full: %v", err)
	}
	e.clock.Advance(troublePause)
	if _, err := l.Append(batch(1, strings.Repeat("x", 2000)), 0); !errors.Is(err, ErrStorage) {
		t.Errorf("still full: %v", err)
	}
	if lines := logged.All(); len(lines) != 2 || lines[0].ContextMap()["topic"] != "t" || lines[1].ContextMap()["left_out"] != int64(1) {
		t.Errorf("the log says %v", lines)
	}
	if err := ballast.Truncate(0); err != nil {
		t.Fatal(err)
	}
	committed(t, l, batch(1, "room again"))
	want = append(want, "room again")
	for _, again := range []func(){func() {}, func() { e.on(e.fs.Kill()) }, func() { e.reopen() }} {
		again()
		if got := values(t, e.get("t"), 0, LogEnd); !slices.Equal(got, want) {
			t.Errorf("%d records, want %d", len(got), len(want))
		}
	}
}

func TestFailedSyncStopsTheLogAndWithholdsTheMarker(t *testing.T) {
	e := newEnv(t)
	faulty := vfs.NewFaulty(e.fs)
	e.o.FS = faulty
	e.open()
	c := DefaultConfig()
	c.FlushMessages = 1
	l, other := e.create("t", c), e.create("other", c)
	mustAppend(t, l, batch(1, "durable"))
	faulty.Before(func(c vfs.Call) (int, error) {
		if c.Op == vfs.OpSync && strings.HasPrefix(c.Name, "/data/t-0/") {
			return 0, errors.New("injected")
		}
		return 0, nil
	})
	if _, err := l.Append(batch(1, "who knows"), 0); !errors.Is(err, ErrStorage) {
		t.Errorf("append without sync: %v", err)
	}
	faulty.Before(nil)
	if _, err := l.Append(batch(1, "no more"), 0); !errors.Is(err, ErrStorage) {
		t.Errorf("append after a failed sync: %v", err)
	}
	if got := values(t, l, 0, LogEnd); got[0] != "durable" {
		t.Errorf("reading after a failed sync: %v", got)
	}
	mustAppend(t, other, batch(1, "goes on"))
	if err := e.m.Close(context.Background()); err == nil {
		t.Error("the directory was closed as if in order")
	}
	if _, err := e.fs.Stat("/data/.kafka_cleanshutdown"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the clean-shutdown marker: %v", err)
	}
	e.o.FS = e.fs
	if got := values(t, e.on(e.fs.Crash()).get("t"), 0, LogEnd); got[0] != "durable" {
		t.Errorf("after a crash: %v", got)
	}
}

// TestFlushed: each segment that is made durable is told of, and only those.
func TestFlushed(t *testing.T) {
	e := newEnv(t)
	var told atomic.Int64
	e.o.Flushed = func(took time.Duration) {
		if took != 0 { // on a clock that nobody turns
			t.Errorf("it took %v", took)
		}
		told.Add(1)
	}
	l := e.open().create("t", DefaultConfig())
	mustAppend(t, l, batch(1, "a"))
	for range 2 { // the second time there is nothing to do
		if err := l.Flush(); err != nil {
			t.Fatal(err)
		}
		if n := told.Load(); n != 1 {
			t.Errorf("%d segments were flushed", n)
		}
	}
}

func TestFlushMessagesAndMs(t *testing.T) {
	e := newEnv(t).open()
	c := DefaultConfig()
	c.FlushMessages = 2
	l := e.create("t", c)
	survives := func(want int) {
		t.Helper()
		e2 := newEnv(t)
		e2.fs = e.fs.Crash()
		e2.o.FS = e2.fs
		if got := values(t, e2.open().get(l.tp.Topic), 0, LogEnd); len(got) != want {
			t.Errorf("%d records survive a crash, want %d", len(got), want)
		}
	}
	mustAppend(t, l, batch(1, "a"))
	survives(0)
	mustAppend(t, l, batch(1, "b"))
	survives(2)
	if l.CanAppendNow(10) {
		t.Error("an append that may sync is said not to wait")
	}
	c = DefaultConfig()
	c.FlushMs = 1000
	l = e.create("later", c)
	mustAppend(t, l, batch(1, "a"))
	if !l.CanAppendNow(10) {
		t.Error("an append that syncs nothing is said to wait")
	}
	survives(0)
	waitFor(t, func() bool { e.clock.Advance(e.m.dirs[0].delay(1000)); return l.recovered.Load() == 1 })
	survives(1)
}
