package log

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/log/segment"
	"github.com/gregor-broker/gregor/log/vfs"
)

// compacted fills a log with one-record batches and rewrites all closed segments into one that keeps every third.
func compacted(t *testing.T, l *Log, before func()) (old, want []string) {
	t.Helper()
	for i := range 30 {
		committed(t, l, batch(int64(1000+i), fmt.Sprint("value ", i)))
	}
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	segs := l.Segments()
	closed := segs[:len(segs)-1]
	cleaned, err := l.NewCleaned(closed[0].Base())
	if err != nil {
		t.Fatal(err)
	}
	old = values(t, l, 0, LogEnd)
	for _, s := range closed {
		err := s.Scan(0, s.Size(), func(sc *segment.Scanner) (bool, error) {
			e, err := sc.Whole()
			if err != nil || e.BaseOffset()%3 != 2 {
				return true, err
			}
			want = append(want, fmt.Sprint("value ", e.BaseOffset()))
			return true, cleaned.Append(e, e.LastOffset(), e.MaxTimestamp(), 100)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for o := segs[len(segs)-1].Base(); o < 30; o++ {
		want = append(want, fmt.Sprint("value ", o))
	}
	if err := cleaned.Finish(); err != nil {
		t.Fatal(err)
	}
	before()
	if err := l.Replace(closed, []*segment.Segment{cleaned}); err != nil {
		t.Fatal(err)
	}
	return old, want
}

// Case S1, as far as reading goes: offsets stay, and a fetch inside a gap finds the next batch that is left.
func TestReplaceLeavesGapsThatCanBeRead(t *testing.T) {
	e := newEnv(t).open()
	l := e.create("t", small())
	_, want := compacted(t, l, func() {})
	for range 2 {
		if got := l.Bounds(); got.Start != 0 || got.End != 30 {
			t.Errorf("bounds %+v", got)
		}
		if got := values(t, l, 0, LogEnd); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		for offset := range int64(30) {
			r, err := l.Read(offset, 1<<20, LogEnd, true)
			if err != nil || r.Part.Size() == 0 {
				t.Fatalf("reading from %d: %d bytes %v", offset, r.Part.Size(), err)
			}
			b := make(record.Batch, r.Part.Len)
			if _, err := r.Part.File.ReadAt(b, r.Part.Pos); err != nil || b.LastOffset() < offset || b.LastOffset() > offset+2 {
				t.Errorf("reading from %d finds the batch that ends at %d, %v", offset, b.LastOffset(), err)
			}
			r.Part.File.Release()
		}
		if offset, _, _, err := l.OffsetForTimestamp(1000); offset != 2 || err != nil {
			t.Errorf("the oldest timestamp is at %d %v, want 2", offset, err)
		}
		l = e.reopen().get("t")
	}
}

// An interruption after the log file got its name and before the indexes got theirs.
func TestIndexesOfASwapAreInstalled(t *testing.T) {
	e := newEnv(t).open()
	l := e.create("t", small())
	for range 3 {
		committed(t, l, transactional(1, 0, int32(l.Bounds().End), 1))
	}
	if _, err := l.WriteMarker(Marker{ProducerID: 1}); err != nil {
		t.Fatal(err)
	}
	l.AdvanceHighWatermark(4)
	if err := e.m.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{segment.IndexSuffix, segment.TimeIndexSuffix, segment.TxnIndexSuffix} {
		name := "/data/t-0/" + segment.Name(0, kind)
		if err := e.fs.Rename(name, name+segment.SwapSuffix); err != nil {
			t.Fatal(err)
		}
	}
	l = e.open().get("t")
	if got := abortedTxns(t, l, 0, 4); len(got) != 1 {
		t.Errorf("aborted %v", got)
	}
	if entries, err := e.fs.ReadDir("/data/t-0"); err != nil || slices.ContainsFunc(entries, unfinished) {
		t.Errorf("%v %v", entries, err)
	}
}

func TestReplaceRefusesWhatIsGone(t *testing.T) {
	e := newEnv(t).open()
	c := small()
	c.RetentionBytes = 0
	l := e.create("t", c)
	for i := range 20 {
		committed(t, l, batch(1, fmt.Sprint("value ", i)))
	}
	old := l.Segments()
	cleaned, err := l.NewCleaned(old[0].Base())
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Replace(old, []*segment.Segment{cleaned}); err == nil {
		t.Error("the growing segment was replaced")
	}
	if _, err := l.DeleteOldSegments(); err != nil {
		t.Fatal(err)
	}
	if err := l.Replace(old[:1], []*segment.Segment{cleaned}); err == nil {
		t.Error("a segment that is gone was replaced")
	}
}

func TestCrashWhileReplacing(t *testing.T) {
	e := newEnv(t)
	faulty := vfs.NewFaulty(e.fs)
	e.o.FS = faulty
	e.open()
	l := e.create("t", small())
	var copies []*vfs.Mem
	var mu sync.Mutex
	old, want := compacted(t, l, func() {
		faulty.Before(func(c vfs.Call) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			if c.Changes() {
				copies = append(copies, e.fs.Kill(), e.fs.Crash())
			}
			return 0, nil
		})
	})
	if err := e.m.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	faulty.Before(nil)
	outcomes := [2]int{}
	for i, c := range append(copies, e.fs.Kill(), e.fs.Crash()) {
		e := newEnv(t)
		got := values(t, e.on(c).get("t"), 0, LogEnd)
		switch {
		case reflect.DeepEqual(got, old):
			outcomes[0]++
		case reflect.DeepEqual(got, want):
			outcomes[1]++
		default:
			t.Errorf("copy %d: %d values, neither the %d old nor the %d new ones: %v", i, len(got), len(old), len(want), got)
		}
		if err := e.m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
	if outcomes[0] == 0 || outcomes[1] == 0 {
		t.Errorf("old and new were found %v times", outcomes)
	}
}

// Readers, producers, retention, truncation and restarts of descriptors at once, for the race detector: whatever is
// read is whole and in order.
func TestConcurrentUse(t *testing.T) {
	e := newEnv(t)
	e.o.MaxOpenFiles = 4
	e.open()
	c := small()
	c.RetentionBytes = 3000
	l := e.create("t", c)
	const n = 400
	var writers, others sync.WaitGroup
	for id := range int64(3) {
		writers.Go(func() {
			for seq := range int32(n) {
				a, err := l.Append(idempotent(id, 0, seq, 1), 0)
				if err != nil {
					t.Error(err)
					return
				}
				l.AdvanceHighWatermark(a.LastOffset + 1)
				if seq%50 == 0 {
					if _, err := l.DeleteOldSegments(); err != nil {
						t.Error(err)
					}
					if err := l.Flush(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	done := make(chan struct{})
	for range 3 {
		others.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				readSome(t, l)
				l.CanAppendNow(100)
				l.Producers()
				if _, _, _, err := l.OffsetOfMaxTimestamp(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	close(done)
	others.Wait()
	if end := l.Bounds().End; end != 3*n {
		t.Errorf("end %d", end)
	}
}

// readSome reads from the log start to the high watermark; retention may overtake it.
func readSome(t *testing.T, l *Log) {
	offset := l.Bounds().Start
	for {
		r, err := l.Read(offset, 300, HighWatermark, true)
		if err != nil || r.Part.Size() == 0 {
			return
		}
		buf := make([]byte, r.Part.Len)
		if _, err := r.Part.File.ReadAt(buf, r.Part.Pos); err != nil {
			t.Error(err)
		}
		r.Part.File.Release()
		for rest := buf; ; {
			e, tail, err := record.NextEntry(rest)
			if err != nil {
				break
			}
			if e.CheckCRC() != nil || e.BaseOffset() != offset {
				t.Errorf("read %d at %d", e.BaseOffset(), offset)
				return
			}
			offset, rest = e.NextOffset(), tail
		}
	}
}
