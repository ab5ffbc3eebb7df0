package cleaner

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/checkpoint"
	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/log/segment"
	"github.com/gregor-broker/gregor/log/vfs"
)

func (e *env) want(lines ...string) {
	e.t.Helper()
	var got []string
	for _, l := range e.show(0) {
		if !strings.Contains(l, "roll=") {
			got = append(got, l)
		}
	}
	if !slices.Equal(got, lines) {
		e.t.Errorf("the log is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(lines, "\n"))
	}
}

// TestEmptiedBatch is case S1 of the faults that users met elsewhere: KAFKA-5443, kafka-python issue 1571, librdkafka
// issue 1472, druid issue 5404.
func TestEmptiedBatch(t *testing.T) {
	e := newEnv(t, testConfig())
	a := record.BatchOptions{ProducerID: 1, BaseSequence: 0}
	b := record.BatchOptions{ProducerID: 2, BaseSequence: 0}
	e.append(a, kv("k", "1", "k", "2", "k", "3"))
	e.append(b, kv("k", "4"))
	e.roll()
	e.clean()
	e.want("0-2", "3-3 3:k=4")
	if bounds := e.log.Bounds(); bounds.Start != 0 {
		t.Errorf("the log starts at %d", bounds.Start)
	}
	for from := range int64(4) {
		if first := e.entries(from)[0]; first.NextOffset() <= from || from == 3 && first.BaseOffset() != 3 {
			t.Errorf("a reader at %d gets %d-%d", from, first.BaseOffset(), first.LastOffset())
		}
	}
	e.crash()
	e.want("0-2", "3-3 3:k=4")
	producers := e.log.Producers()
	if len(producers) != 2 || producers[0].LastSequence != 2 || producers[1].LastSequence != 0 {
		t.Errorf("producers after recovery: %+v", producers)
	}
	a.BaseSequence = 3
	e.append(a, kv("k", "5"))
	e.roll()
	e.clean()
	// A's sequence is in its new batch; the emptied one may go. B's last batch stays.
	if got := e.show(0)[0]; got != "3-3" {
		t.Errorf("the log begins with %s", got)
	}
}

func TestTombstones(t *testing.T) {
	for codec := record.None; codec <= record.Zstd; codec++ {
		e := newEnv(t, testConfig())
		e.append(plain(codec), kv("a", "1", "b", "1", "c", "1"))
		e.append(plain(codec), kv("a", "", "b", "2"))
		e.append(plain(codec), kv("never", ""))
		e.roll()
		e.clean()
		e.want("0-2 2:c=1", "3-4 horizon+1000 3:a 4:b=2", "5-5 horizon+1000 5:never")
		for r, err := range e.entries(3)[0].Records(record.Limits{}) {
			if err != nil || r.Timestamp != start.UnixMilli()+2*(r.Offset-3) {
				t.Errorf("the delete horizon changed a timestamp: %+v, %v", r, err)
			}
		}
		e.clock.Advance(999 * time.Millisecond)
		e.roll()
		e.clean()
		e.want("0-2 2:c=1", "3-4 horizon+1000 3:a 4:b=2", "5-5 horizon+1000 5:never")
		e.clock.Advance(time.Millisecond)
		e.roll()
		e.clean()
		e.want("0-2 2:c=1", "3-4 horizon+1000 4:b=2")
	}
}

func TestTransactions(t *testing.T) {
	e := newEnv(t, testConfig())
	tx := func(pid int64, seq int32) record.BatchOptions {
		return record.BatchOptions{ProducerID: pid, BaseSequence: seq, Transactional: true}
	}
	e.append(plain(record.None), kv("a", "0", "b", "0"))
	e.append(tx(1, 0), kv("a", "committed"))
	e.append(tx(2, 0), kv("b", "aborted"))
	e.append(tx(2, 1), kv("b", "aborted2"))
	e.marker(2, 0, false)
	e.marker(1, 0, true)
	e.roll()
	e.clean()
	// The aborted data is gone at once, save the header with the producer's last sequence; its marker stays, as does the
	// committed one.
	e.want("0-1 1:b=0", "2-2 2:a=committed", "4-4", "5-5 marker:0", "6-6 marker:1")
	if list := abortedTxns(t, e.log, 0, 100); len(list) != 1 || list[0].FirstOffset != 3 || list[0].LastOffset != 5 {
		t.Errorf("aborted transactions: %+v", list)
	}
	e.append(plain(record.None), kv("a", "1"))
	e.roll()
	e.clean()
	// The header of the emptied batch still stands for the transaction; nothing of 1's is left, so its marker gets a
	// horizon. Batch 2 has the last sequence of producer 1.
	e.want("0-1 1:b=0", "2-2", "4-4", "5-5 marker:0", "6-6 marker:1", "9-9 9:a=1")
	e.append(tx(2, 2), kv("c", "2"))
	e.append(tx(1, 1), kv("c", "1"))
	e.marker(1, 0, true)
	e.marker(2, 0, true)
	e.roll()
	e.clean()
	e.clean()
	e.roll()
	e.clean()
	e.clock.Advance(time.Second)
	e.roll()
	e.clean()
	for _, l := range e.show(0) {
		if strings.HasPrefix(l, "4-4") || strings.HasPrefix(l, "5-5") || strings.HasPrefix(l, "6-6") {
			t.Errorf("%q should be gone", l)
		}
	}
	if list := abortedTxns(t, e.log, 0, 100); len(list) != 0 {
		t.Errorf("aborted transactions: %+v", list)
	}
}

// TestOpenTransaction keeps what is not yet decided.
func TestOpenTransaction(t *testing.T) {
	e := newEnv(t, testConfig())
	e.append(plain(record.None), kv("a", "0"))
	e.append(record.BatchOptions{ProducerID: 1, Transactional: true}, kv("a", "1"))
	e.roll()
	e.append(plain(record.None), kv("a", "2"))
	e.roll()
	before := e.show(0)
	if e.clean() != 0 || !slices.Equal(e.show(0), before) {
		t.Error("what follows the last stable offset was cleaned")
	}
	e.marker(1, 0, true)
	e.roll()
	if e.clean() == 0 {
		t.Error("nothing was cleaned after the transaction")
	}
}

func TestWhen(t *testing.T) {
	fill := func(e *env, n int) {
		for range n {
			e.append(plain(record.None), []record.Record{{Timestamp: e.clock.Now().UnixMilli(), Key: []byte("k"), Value: make([]byte, 400)}})
		}
	}
	t.Run("only dirty enough", func(t *testing.T) {
		c := testConfig()
		c.MinCleanableDirtyRatio = 0.5
		e := newEnv(t, c)
		for i := range 8 { // eight segments that stay
			e.append(plain(record.None), []record.Record{{Timestamp: start.UnixMilli(), Key: []byte{byte(i)}, Value: make([]byte, 400)}})
		}
		fill(e, 1)
		if n := e.clean(); n != 1 {
			t.Errorf("%d rounds over a new log", n)
		}
		fill(e, 4)
		if n := e.clean(); n != 0 {
			t.Errorf("%d rounds when a third is dirty", n)
		}
		fill(e, 6)
		if n := e.clean(); n != 1 {
			t.Errorf("%d rounds when more than half is dirty", n)
		}
	})
	t.Run("min.compaction.lag.ms", func(t *testing.T) {
		c := testConfig()
		c.MinCompactionLagMs = 1000
		e := newEnv(t, c)
		fill(e, 3)
		e.clock.Advance(999 * time.Millisecond)
		if n := e.clean(); n != 0 {
			t.Errorf("%d rounds too early", n)
		}
		e.clock.Advance(time.Millisecond)
		if n := e.clean(); n != 1 {
			t.Errorf("%d rounds in time", n)
		}
	})
	t.Run("max.compaction.lag.ms", func(t *testing.T) {
		c := testConfig()
		c.MinCleanableDirtyRatio, c.MaxCompactionLagMs = 1, 1000
		e := newEnv(t, c)
		fill(e, 3)
		if n := e.clean(); n != 0 {
			t.Errorf("%d rounds too early", n)
		}
		e.clock.Advance(1001 * time.Millisecond)
		if n := e.clean(); n != 1 {
			t.Errorf("%d rounds in time", n)
		}
	})
	t.Run("cleanup.policy", func(t *testing.T) {
		c := testConfig()
		c.Compact, c.Delete = false, true
		e := newEnv(t, c)
		fill(e, 3)
		if n := e.clean(); n != 0 {
			t.Errorf("%d rounds without compact", n)
		}
		c.Compact = true
		e.log.SetConfig(&c)
		if n := e.clean(); n != 1 {
			t.Errorf("%d rounds with compact,delete", n)
		}
	})
}

// TestCheckpoint keeps what is clean over a restart, and does not take over what an older log of the name had.
func TestCheckpoint(t *testing.T) {
	e := newEnv(t, testConfig())
	for range 5 {
		e.append(plain(record.None), []record.Record{{Timestamp: start.UnixMilli(), Key: []byte("k"), Value: make([]byte, 400)}})
	}
	e.clean()
	offsets, err := checkpoint.ReadOffsets(e.fs, "/d", checkpoint.CleanerOffsets)
	if err != nil || offsets[tp] != 4 {
		t.Fatalf("%v %v", offsets, err)
	}
	e.crash()
	if n := e.clean(); n != 0 {
		t.Errorf("%d rounds after a restart", n)
	}
	e.manager.Delete([]log.TopicPartition{tp})
	if err := e.manager.Create([]log.New{{TopicPartition: tp, TopicID: log.TopicID{1}, Config: &e.config}})[0]; err != nil {
		t.Fatal(err)
	}
	e.log = e.manager.Get(tp)
	e.clean()
	if offsets, err := checkpoint.ReadOffsets(e.fs, "/d", checkpoint.CleanerOffsets); err != nil || len(offsets) != 0 {
		t.Fatalf("%v %v", offsets, err)
	}
	for range 8 {
		e.append(plain(record.None), []record.Record{{Timestamp: start.UnixMilli(), Key: []byte("k"), Value: make([]byte, 400)}})
	}
	e.clean()
	if got := e.show(0); len(got) != 2 {
		t.Errorf("the new log is %v", got)
	}
}

// TestFullMap needs several rounds for more keys than fit.
func TestFullMap(t *testing.T) {
	e := newEnv(t, testConfig())
	e.cleaner.Reconfigure(Settings{DedupeBytes: 10 * slotBytes, LoadFactor: 1})
	for round := range 3 {
		for k := range 25 {
			e.append(plain(record.None), kv(string(rune('A'+k)), string(rune('0'+round))))
		}
	}
	e.roll()
	if n := e.clean(); n < 3 {
		t.Errorf("%d rounds", n)
	}
	got := e.show(0)
	if len(got) > 25+3 {
		t.Errorf("%d batches are left: %v", len(got), got)
	}
}

// TestDamage leaves a log alone whose bytes are wrong.
func TestDamage(t *testing.T) {
	e := newEnv(t, testConfig())
	e.append(plain(record.None), kv("a", "1", "b", "1"))
	e.append(plain(record.None), kv("a", "2"))
	e.roll()
	f, err := e.fs.Open("/d/c-0/00000000000000000000.log")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{0xff}, 70); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	segments := e.log.Segments()
	if n := e.clean(); n != 1 || !slices.Equal(segments, e.log.Segments()) {
		t.Errorf("%d rounds over a damaged log", n)
	}
	if n := e.clean(); n != 0 {
		t.Errorf("%d rounds at once after a failure", n)
	}
	e.clock.Advance(failurePause)
	if n := e.clean(); n != 1 {
		t.Errorf("%d rounds a while after a failure", n)
	}
}

func TestOffsetMap(t *testing.T) {
	m := newOffsetMap(math.MaxInt32, 0.9)
	if m.get([]byte("k")) != -1 {
		t.Error("an empty map knows a key")
	}
	key := func(i int) []byte { return []byte{byte(i), byte(i >> 8), byte(i >> 16)} }
	for i := range 20_000 {
		m.put(key(i%10_000), int64(i))
	}
	for i := range 10_000 {
		if got := m.get(key(i)); got != int64(i+10_000) {
			t.Fatalf("key %d: %d", i, got)
		}
	}
	if m.used != 10_000 || m.get(key(10_000)) != -1 {
		t.Error(m.used)
	}
	small := newOffsetMap(4*slotBytes, 0.5)
	if !small.put(key(1), 0) || !small.put(key(2), 0) || !small.put(key(1), 3) || small.put(key(3), 4) || small.get(key(3)) != -1 {
		t.Error("a map of two keys takes three")
	}
}

// A cleaned segment is as old as the last of those that it replaces: retention, tombstones of old formats and offsets by
// time of version 0 go by it.
func TestModificationTime(t *testing.T) {
	e := newEnv(t, testConfig())
	for range 6 {
		e.append(plain(record.None), kv("a", "1", "b", "1"))
		e.roll()
		e.clock.Advance(time.Hour)
	}
	modified := func() (bases, times []int64) {
		for _, s := range e.log.Segments() {
			ms, err := s.ModTime()
			if err != nil {
				t.Fatal(err)
			}
			bases, times = append(bases, s.Base()), append(times, ms)
		}
		return bases, times
	}
	oldBases, oldTimes := modified()
	e.clock.Advance(time.Hour)
	larger := e.config
	larger.SegmentBytes = 3000 // so that several become one
	e.log.SetConfig(&larger)
	e.clean()
	bases, times := modified()
	if len(bases) >= len(oldBases) {
		t.Fatalf("of segments %v there are %v", oldBases, bases)
	}
	for i := range bases[:len(bases)-1] {
		last := 0
		for last+1 < len(oldBases) && oldBases[last+1] < bases[i+1] {
			last++
		}
		if times[i] != oldTimes[last] {
			t.Errorf("segment %d was modified at %d, want %d", bases[i], times[i], oldTimes[last])
		}
	}
}

// TestStats: what the cleaner saw and did last is what it tells.
func TestStats(t *testing.T) {
	c := testConfig()
	c.MinCleanableDirtyRatio, c.MaxCompactionLagMs = 0.6, 1000
	e := newEnv(t, c)
	fill := func(n int) {
		for range n {
			e.append(plain(record.None), []record.Record{{Timestamp: e.clock.Now().UnixMilli(), Key: []byte("k"), Value: make([]byte, 400)}})
		}
	}
	fill(3)
	e.clean()
	s := e.cleaner.Stats()
	if s.BufferPercent != 0 || s.RecopyPercent != 50 || s.Bytes == 0 || len(s.Uncleanable) != 0 {
		t.Errorf("after two segments that have one key: %+v", s)
	}
	fill(1)
	if n := e.clean(); n != 0 {
		t.Errorf("%d rounds", n)
	}
	if s = e.cleaner.Stats(); s.DirtyPercent != 50 || s.Delay != 0 {
		t.Errorf("one of two segments is dirty: %+v", s)
	}
	e.clock.Advance(3 * time.Second)
	e.fs.Before(func(c vfs.Call) (int, error) {
		if strings.HasSuffix(c.Name, segment.CleanedSuffix) {
			return 0, errInjected
		}
		return c.Size, nil
	})
	e.cleaner.o.Logger = zap.NewNop() // the failure is meant
	e.cleaner.once(context.Background())
	e.fs.Before(nil)
	s = e.cleaner.Stats()
	if u := s.Uncleanable["/d"]; u.Partitions != 1 || u.Bytes < 400 || s.Delay != 2*time.Second || s.LookedAt != e.clock.Monotonic() {
		t.Errorf("after a failure: %+v", s)
	}
	e.clock.Advance(failurePause)
	if n := e.clean(); n != 1 {
		t.Errorf("%d rounds", n)
	}
	if s = e.cleaner.Stats(); len(s.Uncleanable) != 0 {
		t.Errorf("after it could be cleaned: %+v", s)
	}
}
