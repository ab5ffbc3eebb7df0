package log

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/gregor-broker/gregor/log/record"
)

// modelBatch is a batch as the model remembers it: one record for each value, all with one timestamp.
type modelBatch struct {
	base, stamp int64
	values      []string
	producer    int64 // -1 without
	txn         bool
	marker      int // 0 data, 1 commit, 2 abort
}

func (b modelBatch) last() int64 { return b.base + max(int64(len(b.values)), 1) - 1 }

// model is a log as a list of batches.
type model struct {
	batches        []modelBatch
	start, end, hw int64
}

// stable is the last stable offset; aborted the aborted transactions. Of transactions whose marker is not below the
// high watermark a log that was loaded may know nothing, as in Kafka: then the last stable offset is that of the open
// ones only.
func (m *model) stable() (stable, ofOpen int64, aborted []AbortedTxn) {
	open := map[int64]int64{}
	undecided := []int64{}
	for _, b := range m.batches {
		first, was := open[b.producer]
		switch {
		case b.marker == 0 && b.txn && !was:
			open[b.producer] = b.base
		case b.marker != 0:
			delete(open, b.producer)
			if was && b.last() >= m.hw {
				undecided = append(undecided, first)
			}
			if was && b.marker == 2 {
				aborted = append(aborted, AbortedTxn{b.producer, first, b.last()})
			}
		}
	}
	stable = m.hw
	for _, first := range open {
		stable = min(stable, first)
	}
	ofOpen = stable
	for _, first := range undecided {
		stable = min(stable, first)
	}
	return max(stable, m.start), max(ofOpen, m.start), aborted
}

// read lists the values from offset on below limit, of whole batches.
func (m *model) read(offset, limit int64) []string {
	var out []string
	for _, b := range m.batches {
		for i, v := range b.values {
			if o := b.base + int64(i); o >= offset && o < limit && b.marker == 0 {
				out = append(out, v)
			}
		}
	}
	return out
}

func (m *model) at(stamp int64) int64 {
	for _, b := range m.batches {
		if b.stamp >= stamp && b.last() >= m.start {
			return max(b.base, m.start)
		}
	}
	return -1
}

func (m *model) truncate(to int64) {
	m.batches = slices.DeleteFunc(m.batches, func(b modelBatch) bool { return b.last() >= to })
	m.end, m.hw, m.start = to, min(m.hw, to), min(m.start, to)
}

// modelRun drives a log and its model through the same random life.
type modelRun struct {
	t     *testing.T
	r     *rand.Rand
	e     *env
	l     *Log
	m     model
	seqs  map[int64]int32
	count int
	// loaded says that the producers were read from a snapshot once.
	loaded bool
}

// TestModel compares a log with its model. Set GREGOR_SEED to replay one run.
func TestModel(t *testing.T) {
	seeds := []uint64{rand.Uint64(), rand.Uint64(), rand.Uint64(), rand.Uint64()}
	if s := os.Getenv("GREGOR_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seeds = []uint64{seed}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Logf("replay with GREGOR_SEED=%d go test -run TestModel ./log", seed)
			e := newEnv(t).open()
			run := &modelRun{t: t, r: rand.New(rand.NewPCG(seed, 0)), e: e, l: e.create("t", modelConfig()), seqs: map[int64]int32{}}
			for range 600 {
				run.step()
			}
		})
	}
}

func modelConfig() *Config {
	c := small()
	c.RetentionMs, c.SegmentBytes, c.IndexIntervalBytes = -1, 2000, 200
	return c
}

func (r *modelRun) step() {
	r.t.Helper()
	switch n := r.r.IntN(100); {
	case n < 50:
		r.append()
	case n < 58:
		r.endTxn()
	case n < 75:
		o := r.m.hw + r.r.Int64N(r.m.end-r.m.hw+1)
		// A high watermark is where a batch begins.
		for _, b := range r.m.batches {
			if b.base <= o && o <= b.last() {
				o = b.base
			}
		}
		r.l.AdvanceHighWatermark(o)
		r.m.hw = max(r.m.hw, o)
	case n < 80:
		to := r.r.Int64N(r.m.hw + 1)
		if start, err := r.l.DeleteRecords(to); err != nil || start != max(to, r.m.start) {
			r.t.Fatalf("delete to %d: %d %v", to, start, err)
		}
		r.m.start = max(r.m.start, to)
	case n < 84:
		if _, err := r.l.DeleteOldSegments(); err != nil {
			r.t.Fatal(err)
		}
	case n < 86:
		r.truncate()
	case n < 90:
		if err := r.l.Flush(); err != nil {
			r.t.Fatal(err)
		}
	case n < 93:
		r.restart()
	default:
		r.duplicate()
	}
	r.compare()
}

func (r *modelRun) append() {
	b := modelBatch{base: r.m.end, stamp: epoch0.UnixMilli() + int64(r.count) + r.r.Int64N(50), producer: int64(r.r.IntN(4)) - 1}
	for range 1 + r.r.IntN(3) {
		r.count++
		b.values = append(b.values, fmt.Sprint("value ", r.count))
	}
	o := record.BatchOptions{}.NoProducer()
	if b.producer >= 0 {
		b.txn = b.producer > 0
		o = record.BatchOptions{ProducerID: b.producer, BaseSequence: r.seqs[b.producer], Transactional: b.txn}
		r.seqs[b.producer] += int32(len(b.values))
	}
	a, err := r.l.Append(batchOf(o, b.stamp, b.values...), 0)
	if err != nil || a.BaseOffset != b.base || a.LastOffset != b.last() || a.Duplicate {
		r.t.Fatalf("append %+v: %+v %v", b, a, err)
	}
	r.m.batches = append(r.m.batches, b)
	r.m.end = b.last() + 1
}

// duplicate sends the last data batch of a producer again.
func (r *modelRun) duplicate() {
	for i := len(r.m.batches) - 1; i >= 0; i-- {
		b := r.m.batches[i]
		if b.producer < 0 || b.marker != 0 {
			continue
		}
		seq := r.seqs[b.producer] - int32(len(b.values))
		o := record.BatchOptions{ProducerID: b.producer, BaseSequence: seq, Transactional: b.txn}
		a, err := r.l.Append(batchOf(o, b.stamp, b.values...), 0)
		if err != nil || !a.Duplicate || a.BaseOffset != b.base {
			r.t.Fatalf("batch %+v again: %+v %v", b, a, err)
		}
		return
	}
}

func (r *modelRun) endTxn() {
	b := modelBatch{base: r.m.end, producer: int64(1 + r.r.IntN(2)), marker: 1 + r.r.IntN(2), stamp: r.e.clock.Now().UnixMilli()}
	if _, err := r.l.WriteMarker(Marker{ProducerID: b.producer, Commit: b.marker == 1}); err != nil {
		r.t.Fatal(err)
	}
	r.m.batches = append(r.m.batches, b)
	r.m.end++
}

// truncate cuts at a batch, and lets the producers go back.
func (r *modelRun) truncate() {
	if len(r.m.batches) == 0 {
		return
	}
	to := r.m.batches[r.r.IntN(len(r.m.batches))].base
	if to < r.m.start {
		return
	}
	r.loaded = true
	if err := r.l.TruncateTo(to); err != nil {
		r.t.Fatal(err)
	}
	for _, b := range r.m.batches {
		if b.base >= to && b.producer >= 0 {
			r.seqs[b.producer] -= int32(len(b.values))
		}
	}
	r.m.truncate(to)
}

func (r *modelRun) restart() {
	r.loaded = true
	if r.r.IntN(2) == 0 {
		if err := r.e.m.CheckpointAll(); err != nil {
			r.t.Fatal(err)
		}
		old := r.e.m
		r.e.on(r.e.fs.Kill())
		old.Close(context.Background())
	} else {
		r.e.reopen()
	}
	r.l = r.e.get("t")
	r.l.SetConfig(modelConfig())
}

func (r *modelRun) compare() {
	r.t.Helper()
	stable, ofOpen, aborted := r.m.stable()
	if got := r.l.Bounds().Stable; r.loaded && got >= stable && got <= ofOpen {
		stable = got
	}
	if got, want := r.l.Bounds(), (Bounds{r.m.start, r.m.end, r.m.hw, stable}); got != want {
		r.t.Fatalf("bounds %+v, want %+v", got, want)
	}
	offset := r.m.start + r.r.Int64N(r.m.end-r.m.start+1)
	iso := Isolation(r.r.IntN(3))
	limit := []int64{r.m.end, r.m.hw, stable}[iso]
	if got, want := modelValues(r.t, r.l, offset, iso), r.m.read(offset, limit); !slices.Equal(got, want) {
		r.t.Fatalf("from %d with isolation %d: %v, want %v", offset, iso, got, want)
	}
	if got, want := r.l.BytesFrom(offset, iso) > 0, offset < limit; got != want {
		r.t.Fatalf("bytes from %d: %v, want %v", offset, got, want)
	}
	stamp := epoch0.UnixMilli() + r.r.Int64N(int64(r.count)+60)
	if got, _, _, err := r.l.OffsetForTimestamp(stamp); got != r.m.at(stamp) || err != nil {
		r.t.Fatalf("timestamp %d is at %d %v, want %d", stamp, got, err, r.m.at(stamp))
	}
	first := (*r.l.segs.Load())[0].Base()
	aborted = slices.DeleteFunc(aborted, func(a AbortedTxn) bool { return a.LastOffset < max(first, offset) })
	got := abortedTxns(r.t, r.l, offset, r.m.end)
	if len(got)+len(aborted) > 0 && !reflect.DeepEqual(got, aborted) {
		r.t.Fatalf("aborted from %d: %v, want %v", offset, got, aborted)
	}
	if _, err := r.l.Read(r.m.end+1, 1, LogEnd, true); !errors.Is(err, ErrOffsetOutOfRange) {
		r.t.Fatalf("reading after the end: %v", err)
	}
}

// modelValues is values without markers.
func modelValues(t *testing.T, l *Log, offset int64, iso Isolation) []string {
	t.Helper()
	var out []string
	for rest := readAll(t, l, offset, iso); len(rest) > 0; {
		entry, tail, err := record.NextEntry(rest)
		if err != nil {
			t.Fatal(err)
		}
		rest = tail
		for r, err := range entry.Records(record.Limits{}) {
			if err != nil {
				t.Fatal(err)
			}
			if r.Offset >= offset && !entry.IsControl() {
				out = append(out, string(r.Value))
			}
		}
	}
	return out
}
