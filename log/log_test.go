package log

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/wire/clock"
)

// small is a configuration whose segments hold a few batches.
func small() *Config {
	c := DefaultConfig()
	c.SegmentBytes, c.IndexIntervalBytes, c.SegmentIndexBytes = 500, 100, 1<<20
	return c
}

func TestAppendAndRead(t *testing.T) {
	e := newEnv(t).open()
	l := e.create("t", nil)
	for i, c := range []*record.Checked{batch(1000, "a", "b", "c"), batch(2000, "d"), batch(3000, "e", "f")} {
		a, err := l.Append(c, 5)
		want := []Appended{{0, 2, -1, 0, false}, {3, 3, -1, 0, false}, {4, 5, -1, 0, false}}[i]
		if err != nil || a != want {
			t.Errorf("append %d: %+v %v, want %+v", i, a, err, want)
		}
		if c.Batch.LeaderEpoch() != 5 {
			t.Errorf("append %d: leader epoch %d", i, c.Batch.LeaderEpoch())
		}
	}
	if got := l.Bounds(); got != (Bounds{0, 6, 0, 0}) {
		t.Errorf("bounds %+v", got)
	}
	l.AdvanceHighWatermark(4)
	for _, c := range []struct {
		offset int64
		iso    Isolation
		want   string
	}{
		{0, LogEnd, "abcdef"}, {2, LogEnd, "cdef"}, {5, LogEnd, "f"}, {6, LogEnd, ""},
		{0, HighWatermark, "abcd"}, {3, HighWatermark, "d"}, {4, HighWatermark, ""}, {6, HighWatermark, ""}, {1, Committed, "bcd"},
	} {
		if got := strings.Join(values(t, l, c.offset, c.iso), ""); got != c.want {
			t.Errorf("from %d with isolation %d: %q, want %q", c.offset, c.iso, got, c.want)
		}
	}
	for _, offset := range []int64{-1, 7} {
		if _, err := l.Read(offset, 100, LogEnd, true); !errors.Is(err, kerr.OffsetOutOfRange) {
			t.Errorf("offset %d: %v", offset, err)
		}
	}
	if moved := l.AdvanceHighWatermark(3); moved || l.Bounds().HighWatermark != 4 {
		t.Error("the high watermark went back")
	}
	if moved := l.AdvanceHighWatermark(99); !moved || l.Bounds().HighWatermark != 6 {
		t.Errorf("the high watermark is %d, want the log end", l.Bounds().HighWatermark)
	}
	if err := e.m.CheckpointAll(); err != nil {
		t.Error(err)
	}
}

func TestReadLimits(t *testing.T) {
	l := newEnv(t).open().create("t", nil)
	first := mustAppend(t, l, batch(1, strings.Repeat("x", 100)))
	_ = first
	mustAppend(t, l, batch(1, strings.Repeat("y", 100)))
	total := int(l.Size())
	one := total / 2
	for _, c := range []struct {
		max    int
		minOne bool
		want   int
	}{{total, false, total}, {total + 1, false, total}, {one, false, one}, {one + 5, false, one + 5}, {one - 1, false, 0}, {one - 1, true, one}, {0, true, one}, {0, false, 0}} {
		r, err := l.Read(0, c.max, LogEnd, c.minOne)
		if err != nil || r.Part.Size() != c.want {
			t.Errorf("at most %d, at least one %v: %d bytes %v, want %d", c.max, c.minOne, r.Part.Size(), err, c.want)
		}
		if r.Part.File != nil {
			r.Part.File.Release()
		}
	}
	for offset, want := range map[int64]int64{0: int64(total), 1: int64(one), 2: 0, 3: 0} {
		if got := l.BytesFrom(offset, LogEnd); got != want {
			t.Errorf("%d bytes from %d, want %d", got, offset, want)
		}
	}
	if got := l.BytesFrom(0, HighWatermark); got != 0 {
		t.Errorf("%d bytes below a high watermark of 0", got)
	}
	l.AdvanceHighWatermark(1)
	if got := l.BytesFrom(0, HighWatermark); got != int64(one) {
		t.Errorf("%d bytes below a high watermark of 1, want %d", got, one)
	}
}

// Case P1.
func TestIdempotentProducer(t *testing.T) {
	e := newEnv(t).open()
	l := e.create("t", nil)
	for seq := range int32(6) {
		mustAppend(t, l, idempotent(9, 0, seq, 1))
	}
	for seq, want := range map[int32]int64{5: 5, 1: 1} {
		if a := mustAppend(t, l, idempotent(9, 0, seq, 1)); !a.Duplicate || a.BaseOffset != want {
			t.Errorf("sequence %d again: %+v, want offset %d", seq, a, want)
		}
	}
	for _, seq := range []int32{0, 9} {
		if _, err := l.Append(idempotent(9, 0, seq, 1), 0); !errors.Is(err, kerr.OutOfOrderSequenceNumber) {
			t.Errorf("sequence %d: %v", seq, err)
		}
	}
	if end := l.Bounds().End; end != 6 {
		t.Errorf("log end %d, want 6", end)
	}
	mustAppend(t, l, idempotent(10, 0, 2147483646, 2))
	if a := mustAppend(t, l, idempotent(10, 0, 0, 1)); a.BaseOffset != 8 {
		t.Errorf("sequence 0 after the wrap is at %d, want 8", a.BaseOffset)
	}
	// A stop in order keeps each producer's last batch, a kill all that the log can tell.
	l = e.reopen().get("t")
	if a := mustAppend(t, l, idempotent(9, 0, 5, 1)); !a.Duplicate || a.BaseOffset != 5 {
		t.Errorf("the last batch after a restart: %+v", a)
	}
	l = e.on(e.fs.Kill()).get("t")
	if a := mustAppend(t, l, idempotent(9, 0, 5, 1)); !a.Duplicate || a.BaseOffset != 5 {
		t.Errorf("the last batch after a kill: %+v", a)
	}
	if _, err := l.Append(idempotent(9, 0, 7, 1), 0); !errors.Is(err, kerr.OutOfOrderSequenceNumber) {
		t.Errorf("a gap after a kill: %v", err)
	}
	want := []ProducerState{{9, 0, 5, epoch0.UnixMilli(), -1, -1}, {10, 0, 0, epoch0.UnixMilli(), -1, -1}}
	if got := l.Producers(); !reflect.DeepEqual(got, want) {
		t.Errorf("producers %+v, want %+v", got, want)
	}
}

// Case F3.
func TestOffsetsByTimestamp(t *testing.T) {
	e := newEnv(t).open()
	l := e.create("t", nil)
	check := func(ts, wantOffset, wantStamp int64, wantEpoch int32) {
		t.Helper()
		offset, stamp, epoch, err := l.OffsetForTimestamp(ts)
		if err != nil || offset != wantOffset || stamp != wantStamp || epoch != wantEpoch {
			t.Errorf("timestamp %d: offset %d timestamp %d epoch %d %v, want %d %d %d", ts, offset, stamp, epoch, err, wantOffset, wantStamp, wantEpoch)
		}
	}
	check(1, -1, -1, -1)
	if got := l.LegacyOffsets(-1, 10); !slices.Equal(got, []int64{0}) {
		t.Errorf("legacy offsets of an empty log: %v", got)
	}
	stamps := func(codec record.Codec, list ...int64) *record.Checked {
		recs := make([]record.Record, len(list))
		for i, ts := range list {
			recs[i].Timestamp = ts
		}
		b, err := record.Build(record.BatchOptions{Codec: codec}.NoProducer(), recs)
		if err != nil {
			t.Fatal(err)
		}
		c := record.Trusted(b)
		return &c
	}
	for i, c := range []*record.Checked{stamps(record.LZ4, 2, 4, 6, 8), stamps(record.None, 30, 20)} {
		if _, err := l.Append(c, int32(i)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		check(1, 0, 2, 0)
		check(2, 0, 2, 0)
		check(3, 1, 4, 0)
		check(8, 3, 8, 0)
		check(9, 4, 30, 1)
		check(25, 4, 30, 1)
		check(31, -1, -1, -1)
		if offset, ts, epoch, err := l.OffsetOfMaxTimestamp(); offset != 4 || ts != 30 || epoch != 1 || err != nil {
			t.Errorf("greatest timestamp: offset %d timestamp %d epoch %d %v", offset, ts, epoch, err)
		}
		l = e.reopen().get("t")
	}
	now := e.clock.Now().UnixMilli()
	for _, c := range []struct {
		ts   int64
		max  int
		want []int64
	}{{-1, 10, []int64{6, 0}}, {-2, 10, []int64{0}}, {now, 10, []int64{6, 0}}, {now, 1, []int64{6}}, {5, 10, nil}} {
		if got := l.LegacyOffsets(c.ts, c.max); !slices.Equal(got, c.want) {
			t.Errorf("legacy offsets at %d: %v, want %v", c.ts, got, c.want)
		}
	}
}

func TestTimestampsOverSegmentsAndIndexEntries(t *testing.T) {
	e := newEnv(t).open()
	l := e.create("t", small())
	for i := range int64(200) {
		committed(t, l, batch(1000+10*i, fmt.Sprint("value ", i)))
	}
	if n := len(l.Segments()); n < 10 {
		t.Fatalf("only %d segments", n)
	}
	for range 2 {
		for ts := int64(990); ts < 3005; ts += 5 {
			want := max((ts-1000+9)/10, 0)
			if ts < 1000 {
				want = 0
			}
			if want > 199 {
				want = -1
			}
			if got, _, _, err := l.OffsetForTimestamp(ts); got != want || err != nil {
				t.Fatalf("timestamp %d is at %d %v, want %d", ts, got, err, want)
			}
		}
		for offset := range int64(200) {
			if got := values(t, l, offset, HighWatermark); len(got) != int(200-offset) || got[0] != fmt.Sprint("value ", offset) {
				t.Fatalf("%d values from %d", len(got), offset)
			}
		}
		l = e.reopen().get("t")
	}
}

// Case S3.
func TestDeleteRecords(t *testing.T) {
	e := newEnv(t).open()
	l := e.create("t", nil)
	for range 3 {
		committed(t, l, batch(epoch0.UnixMilli(), "0", "1", "2", "3", "4"))
	}
	if start, err := l.DeleteRecords(3); start != 3 || err != nil {
		t.Errorf("to 3: %d %v", start, err)
	}
	if _, err := l.Read(2, 100, HighWatermark, true); !errors.Is(err, kerr.OffsetOutOfRange) {
		t.Errorf("fetch at 2: %v", err)
	}
	whole := readAll(t, l, 3, HighWatermark)
	if b := record.Batch(whole); b.BaseOffset() != 0 {
		t.Errorf("fetch at 3 begins with the batch at %d, want 0", b.BaseOffset())
	}
	for _, to := range []int64{16, -2} {
		if _, err := l.DeleteRecords(to); !errors.Is(err, kerr.OffsetOutOfRange) {
			t.Errorf("to %d: %v", to, err)
		}
	}
	if start, err := l.DeleteRecords(1); start != 3 || err != nil {
		t.Errorf("back to 1: %d %v", start, err)
	}
	compacted := DefaultConfig()
	compacted.Compact, compacted.Delete = true, false
	if _, err := e.create("compacted", compacted).DeleteRecords(-1); !errors.Is(err, kerr.PolicyViolation) {
		t.Errorf("on a compacted topic: %v", err)
	}
	if l = e.reopen().get("t"); l.Bounds().Start != 3 {
		t.Errorf("after a restart the log starts at %d, want 3", l.Bounds().Start)
	}
	if start, err := l.DeleteRecords(-1); start != 15 || err != nil {
		t.Errorf("to the high watermark: %d %v", start, err)
	}
	if l = e.reopen().get("t"); l.Bounds() != (Bounds{15, 15, 15, 15}) {
		t.Errorf("after everything was deleted: %+v", l.Bounds())
	}
	if a := committed(t, l, batch(epoch0.UnixMilli(), "next")); a.BaseOffset != 15 || a.LogStartOffset != 15 {
		t.Errorf("the next batch: %+v", a)
	}
	if n, err := l.DeleteOldSegments(); n != 0 || err != nil {
		t.Errorf("%d segments deleted, %v: the only one still has records", n, err)
	}
}

func TestRolls(t *testing.T) {
	day := int64(24 * 3600 * 1000)
	for name, c := range map[string]struct {
		change func(*Config)
		stamps []int64
		want   int
	}{
		"by size":               {func(c *Config) { c.SegmentBytes = 80 }, []int64{1, 1, 1}, 3},
		"never over size":       {func(c *Config) { c.SegmentBytes = 140 }, []int64{1, 1, 1}, 2},
		"by time":               {func(c *Config) { c.SegmentMs = day }, []int64{0, day, day + 1, day + 2}, 2},
		"by full offset index":  {func(c *Config) { c.IndexIntervalBytes, c.SegmentIndexBytes = 0, 40 }, []int64{1, 1, 1, 1, 1, 1, 1, 1}, 2},
		"by full time index":    {func(c *Config) { c.IndexIntervalBytes, c.SegmentIndexBytes = 0, 36 }, []int64{1, 2, 3, 4, 5, 6}, 2},
		"by max.compaction.lag": {func(c *Config) { c.Compact, c.MaxCompactionLagMs = true, 1000 }, []int64{0, 1000, 1001}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			config := DefaultConfig()
			c.change(config)
			e := newEnv(t).open()
			l := e.create("t", config)
			for _, ts := range c.stamps {
				committed(t, l, batch(ts, ""))
			}
			if n := len(l.Segments()); n != c.want {
				t.Errorf("%d segments, want %d", n, c.want)
			}
			if got := len(values(t, l, 0, HighWatermark)); got != len(c.stamps) {
				t.Errorf("%d records read", got)
			}
		})
	}
	l := newEnv(t).open().create("t", &Config{SegmentBytes: 60, SegmentMs: day, SegmentIndexBytes: 100})
	if _, err := l.Append(batch(1, "x"), 0); !errors.Is(err, kerr.RecordListTooLarge) {
		t.Errorf("a batch larger than a segment: %v", err)
	}
}

func TestRetention(t *testing.T) {
	hour := int64(3600 * 1000)
	now := epoch0.UnixMilli()
	for name, c := range map[string]struct {
		change func(*Config)
		hw     int64
		want   int64 // log start afterwards; ten batches, two in each segment, one hour apart, the last one now
	}{
		"by time":                  {func(c *Config) { c.RetentionMs = 4*hour + 1 }, 10, 4},
		"all by time":              {func(c *Config) { c.RetentionMs = 0 }, 10, 8},
		"never above the HW":       {func(c *Config) { c.RetentionMs = 0 }, 5, 4},
		"by size":                  {func(c *Config) { c.RetentionMs, c.RetentionBytes = -1, 300 }, 10, 4},
		"compacted: not at all":    {func(c *Config) { c.RetentionMs, c.RetentionBytes, c.Delete, c.Compact = 0, 0, false, true }, 10, 0},
		"unlimited":                {func(c *Config) { c.RetentionMs = -1 }, 10, 0},
		"what is below the start":  {func(c *Config) { c.RetentionMs = -1 }, -7, 7},
		"size of nothing: all but": {func(c *Config) { c.RetentionMs, c.RetentionBytes = -1, 0 }, 10, 10},
	} {
		t.Run(name, func(t *testing.T) {
			config := DefaultConfig()
			config.SegmentBytes = 145
			c.change(config)
			e := newEnv(t).open()
			l := e.create("t", config)
			for i := range int64(10) {
				mustAppend(t, l, idempotentAt(now-(9-i)*hour, int32(i)))
			}
			if n := len(l.Segments()); n != 5 {
				t.Fatalf("%d segments", n)
			}
			l.AdvanceHighWatermark(c.hw)
			if c.hw < 0 {
				l.AdvanceHighWatermark(10)
				if _, err := l.DeleteRecords(-c.hw); err != nil {
					t.Fatal(err)
				}
			}
			e.clock.Advance(1)
			if _, err := l.DeleteOldSegments(); err != nil {
				t.Fatal(err)
			}
			if got := l.Bounds().Start; got != c.want {
				t.Errorf("the log starts at %d, want %d", got, c.want)
			}
			if got := values(t, l, c.want, LogEnd); len(got) != int(10-c.want) {
				t.Errorf("%d records left", len(got))
			}
			l = e.reopen().get("t")
			if got := l.Bounds(); got.Start != c.want || got.End != 10 {
				t.Errorf("after a restart: %+v", got)
			}
			mustAppend(t, l, idempotentAt(now, 10)) // the producer's state outlives its batches
		})
	}
}

func idempotentAt(ts int64, seq int32) *record.Checked {
	return batchOf(record.BatchOptions{ProducerID: 3, BaseSequence: seq}, ts, "")
}

func TestDeletedSegmentsGoLater(t *testing.T) {
	e := newEnv(t).open()
	c := small()
	c.RetentionBytes = 0
	l := e.create("t", c)
	for i := range 20 {
		committed(t, l, batch(1, fmt.Sprint("value ", i)))
	}
	r, err := l.Read(0, 100, HighWatermark, true)
	if err != nil {
		t.Fatal(err)
	}
	e.clock.Advance(e.m.o.InitialTaskDelay)
	waitFor(t, func() bool { return l.Bounds().Start > 0 })
	deletedFiles := func() (n int) {
		entries, err := e.fs.ReadDir("/data/t-0")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range entries {
			if strings.HasSuffix(f.Name(), ".deleted") {
				n++
			}
		}
		return n
	}
	waitFor(t, func() bool { return deletedFiles() > 0 }) // they are renamed after readers were told
	// Their removal is scheduled after the check.
	waitFor(t, func() bool { e.clock.Advance(e.m.dirs[0].delay(c.FileDeleteDelayMs)); return deletedFiles() == 0 })
	buf := make([]byte, r.Part.Len)
	if _, err := r.Part.File.ReadAt(buf, r.Part.Pos); err != nil || record.Batch(buf).BaseOffset() != 0 {
		t.Errorf("what was returned before can no longer be read: %v", err)
	}
	r.Part.File.Release()
}

// waitFor waits for what another goroutine does, for up to a minute of the machine's time, however busy it is.
func waitFor(t testing.TB, done func() bool) {
	t.Helper()
	late, timer := clock.System.NewTimer(time.Minute)
	defer timer.Stop()
	for !done() {
		select {
		case <-late:
			t.Fatal("waited in vain")
		default:
			yield()
		}
	}
}

func TestTruncate(t *testing.T) {
	for _, to := range []int64{0, 1, 2, 3, 17, 18, 39, 40, 41} {
		t.Run(fmt.Sprint(to), func(t *testing.T) {
			e := newEnv(t).open()
			l := e.create("t", small())
			for i := range int32(20) {
				c := idempotent(4, 0, 2*i, 2)
				if _, err := l.Append(c, i/5); err != nil {
					t.Fatal(err)
				}
			}
			l.AdvanceHighWatermark(10)
			if err := l.Flush(); err != nil {
				t.Fatal(err)
			}
			before := readAll(t, l, 0, LogEnd)
			if err := l.TruncateTo(to); err != nil {
				t.Fatal(err)
			}
			end := min(to, 40)
			checkTruncated(t, l, before, end)
			end -= end % 2 // what the file has ends with a batch
			l = e.on(e.fs.Kill()).get("t")
			checkTruncated(t, l, before, end)
			if _, err := l.Append(idempotent(4, 0, int32(end), 2), 9); err != nil {
				t.Errorf("the producer goes on: %v", err)
			}
		})
	}
}

// checkTruncated compares a log of 20 batches of two records with what it was.
func checkTruncated(t *testing.T, l *Log, before []byte, end int64) {
	t.Helper()
	if got := l.Bounds(); got.End != end || got.HighWatermark > min(end, 10) {
		t.Fatalf("bounds %+v", got)
	}
	after := readAll(t, l, 0, LogEnd)
	if !bytes.HasPrefix(before, after) || len(after) != len(before)/20*int(end/2) {
		t.Fatalf("%d bytes left", len(after))
	}
	if epoch, _ := l.LatestEpoch(); end > 0 && epoch != int32((end-1)/10) {
		t.Errorf("epoch %d", epoch)
	}
}

// TestTruncateForgetsAnEmptyEpoch: a leader that was deposed before it wrote anything must not claim its epoch.
func TestTruncateForgetsAnEmptyEpoch(t *testing.T) {
	for _, to := range []int64{2, 3} {
		l := newEnv(t).open().create("t", small())
		if _, err := l.Append(idempotent(4, 0, 0, 2), 1); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(l.AssignEpoch(5), l.TruncateTo(to)); err != nil {
			t.Fatal(err)
		}
		if epoch, _ := l.LatestEpoch(); epoch != 1 || l.Bounds().End != 2 {
			t.Errorf("truncated to %d: latest epoch %d, end %d", to, epoch, l.Bounds().End)
		}
	}
}

func TestTruncateFully(t *testing.T) {
	e := newEnv(t).open()
	l := e.create("t", small())
	for range 20 {
		committed(t, l, batch(1, "value"))
	}
	for _, start := range []int64{100, 5} {
		if err := l.TruncateFullyTo(start); err != nil {
			t.Fatal(err)
		}
		if got := l.Bounds(); got != (Bounds{start, start, start, start}) {
			t.Errorf("bounds %+v", got)
		}
		if a := committed(t, l, batch(1, "again")); a.BaseOffset != start {
			t.Errorf("the next batch is at %d", a.BaseOffset)
		}
		l = e.on(e.fs.Kill()).get("t")
		if got := l.Bounds(); got.Start != start || got.End != start+1 {
			t.Errorf("after a kill: %+v", got)
		}
	}
}

func TestFollowerKeepsBytes(t *testing.T) {
	e := newEnv(t).open()
	leader, follower := e.create("leader", nil), e.create("follower", small())
	for i := range int32(10) {
		if _, err := leader.Append(idempotent(1, 0, i*3, 3), i/4); err != nil {
			t.Fatal(err)
		}
	}
	raw := readAll(t, leader, 0, LogEnd)
	a, err := follower.AppendAsFollower(raw)
	if err != nil || a.BaseOffset != 0 || a.LastOffset != 29 {
		t.Fatalf("%+v %v", a, err)
	}
	if got := readAll(t, follower, 0, LogEnd); !bytes.Equal(got, raw) {
		t.Error("the bytes differ")
	}
	for epoch := range int32(4) {
		gotEpoch, got := follower.EndOffsetForEpoch(epoch)
		wantEpoch, want := leader.EndOffsetForEpoch(epoch)
		if got != want || gotEpoch != wantEpoch {
			t.Errorf("epoch %d ends at %d, want %d", epoch, got, want)
		}
	}
	if _, err := follower.AppendAsFollower(raw); !errors.Is(err, ErrUnexpectedOffset) {
		t.Errorf("the same again: %v", err)
	}
	raw[len(raw)-1]++
	if err := follower.TruncateFullyTo(0); err != nil {
		t.Fatal(err)
	}
	if _, err := follower.AppendAsFollower(raw); !errors.Is(err, kerr.CorruptMessage) || follower.Bounds().End != 0 {
		t.Errorf("damaged bytes: %v, end %d", err, follower.Bounds().End)
	}
	gap := batch(1, "after a gap")
	gap.Batch.SetBaseOffset(7)
	if _, err := follower.AppendAsFollower(gap.Batch); err != nil || follower.Bounds().End != 8 {
		t.Errorf("a gap: %v, end %d", err, follower.Bounds().End)
	}
	if got := values(t, follower, 0, LogEnd); !slices.Equal(got, []string{"after a gap"}) {
		t.Errorf("reading at the gap: %v", got)
	}
}

// TestOldEpochWritesNothing: records of an older epoch behind those of a newer one would make the log's history a lie.
func TestOldEpochWritesNothing(t *testing.T) {
	l := newEnv(t).open().create("t", nil)
	if err := l.AssignEpoch(5); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(batch(1, "a"), 4); !errors.Is(err, ErrOldEpoch) || !errors.Is(err, kerr.NotLeaderForPartition) || l.Bounds().End != 0 {
		t.Errorf("%v, end %d", err, l.Bounds().End)
	}
	if _, err := l.Append(batch(1, "a"), 5); err != nil {
		t.Error(err)
	}
}

func TestEpochs(t *testing.T) {
	e := newEnv(t).open()
	l := e.create("t", nil)
	if _, ok := l.LatestEpoch(); ok {
		t.Error("a new log has an epoch")
	}
	for i, epoch := range []int32{0, 3, 5} {
		if err := l.AssignEpoch(epoch); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(batch(1, "a", "b"), epoch); err != nil {
			t.Fatal(err)
		}
		if got, _ := l.LatestEpoch(); got != epoch {
			t.Errorf("step %d: latest epoch %d", i, got)
		}
	}
	for _, reopen := range []func(){func() { e.reopen() }, func() { e.on(e.fs.Kill()) }} {
		if epoch, end := l.EndOffsetForEpoch(4); epoch != 3 || end != 4 {
			t.Errorf("epoch 4: %d ends at %d, want 3 at 4", epoch, end)
		}
		if epoch, ok := l.EpochForOffset(3); epoch != 3 || !ok {
			t.Errorf("offset 3 has epoch %d", epoch)
		}
		reopen()
		l = e.get("t")
	}
}
