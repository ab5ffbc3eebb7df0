package cleaner

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/record"
)

var seedFlag = flag.Uint64("seed", 0, "the one seed to run TestModel with")

// model is what was ever appended, as a log without compaction would have it.
type model struct {
	*env
	r       *rand.Rand
	records map[int64]modelRecord
	seq     map[int64]int32 // next sequence by producer
	txns    map[int64]bool  // open transactions
}

type modelRecord struct {
	record.Record
	producer int64
	txn      bool
	aborted  bool
}

// Producers 1 to 3 are idempotent, 11 and 12 transactional, 0 is none.
func isTransactional(pid int64) bool { return pid > 10 }

// TestModel appends at random, cleans now and then, crashes, and compares what a reader sees with what it would see had
// nothing ever been cleaned. To run one seed: go test ./log/cleaner -run TestModel -seed N
func TestModel(t *testing.T) {
	seeds := []uint64{*seedFlag}
	if *seedFlag == 0 {
		seeds = seeds[:0]
		for seed := uint64(1); seed <= 25; seed++ {
			seeds = append(seeds, seed)
		}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			c := testConfig()
			c.SegmentBytes = 400 + int32(seed%5)*400
			m := newModel(t, seed, c)
			if seed%3 == 0 {
				m.cleaner.Reconfigure(Settings{DedupeBytes: 6 * slotBytes, LoadFactor: 1})
			}
			for range 250 {
				m.step()
			}
			for pid := range m.txns {
				m.end(pid)
			}
			m.rollUp()
			m.env.clean()
			m.check()
		})
	}
}

func newModel(t *testing.T, seed uint64, c log.Config) *model {
	return &model{
		env: newEnv(t, c), r: rand.New(rand.NewPCG(seed, 7)), records: map[int64]modelRecord{},
		seq: map[int64]int32{}, txns: map[int64]bool{},
	}
}

func (m *model) step() {
	switch n := m.r.IntN(100); {
	case n < 45:
		m.write(0)
	case n < 60:
		m.write(1 + m.r.Int64N(3))
	case n < 78:
		m.write(11 + m.r.Int64N(2))
	case n < 86:
		if pid := 11 + m.r.Int64N(2); m.txns[pid] {
			m.end(pid)
		}
	case n < 90:
		m.clock.Advance(time.Duration(m.r.IntN(800)) * time.Millisecond)
	case n < 98:
		m.env.clean()
		m.check()
	default:
		limits := *m.cleaner.settings.Load()
		m.crash()
		m.cleaner.Reconfigure(limits)
		m.check()
	}
}

func (m *model) write(pid int64) {
	o := plain(record.Codec(m.r.IntN(5)))
	if pid > 0 {
		o.ProducerID, o.ProducerEpoch, o.BaseSequence, o.Transactional = pid, 0, m.seq[pid], isTransactional(pid)
	}
	recs := make([]record.Record, 1+m.r.IntN(4))
	for i := range recs {
		recs[i] = record.Record{Timestamp: m.clock.Now().UnixMilli() + m.r.Int64N(100) - 50, Key: fmt.Append(nil, "k", m.r.IntN(10))}
		if m.r.IntN(5) > 0 {
			recs[i].Value = bytes.Repeat(fmt.Append(nil, m.r.IntN(1000)), 1+m.r.IntN(20))
		}
	}
	at := m.append(o, recs)
	for i, r := range recs {
		r.Offset = at.BaseOffset + int64(i)
		m.records[r.Offset] = modelRecord{Record: r, producer: pid, txn: isTransactional(pid)}
	}
	m.seq[pid] += int32(len(recs))
	if isTransactional(pid) {
		m.txns[pid] = true
	}
}

func (m *model) end(pid int64) {
	commit := m.r.IntN(2) == 0
	m.marker(pid, 0, commit)
	delete(m.txns, pid)
	for offset, r := range m.records {
		if r.producer == pid && r.txn {
			r.txn, r.aborted = false, !commit
			m.records[offset] = r
		}
	}
}

// rollUp appends until everything before is cleanable.
func (m *model) rollUp() {
	for range 2 * m.config.SegmentBytes / 130 {
		m.write(0)
	}
}

func (m *model) check() {
	m.t.Helper()
	bounds := m.log.Bounds()
	aborted := abortedTxns(m.t, m.log, bounds.Start, bounds.End)
	all := m.entries(bounds.Start)
	for _, from := range []int64{0, m.r.Int64N(bounds.End + 1), m.r.Int64N(bounds.End + 1)} {
		m.checkView(m.view(all, aborted, from, bounds.Stable), from, bounds.Stable)
	}
	for _, p := range m.log.Producers() {
		if p.LastSequence != m.seq[p.ProducerID]-1 {
			m.t.Fatalf("producer %d has last sequence %d, wrote %d", p.ProducerID, p.LastSequence, m.seq[p.ProducerID]-1)
		}
		m.checkOpen(p)
	}
}

func (m *model) checkOpen(p log.ProducerState) {
	if (p.TxnStartOffset >= 0) != m.txns[p.ProducerID] {
		m.t.Fatalf("producer %d has a transaction from %d, open is %v", p.ProducerID, p.TxnStartOffset, m.txns[p.ProducerID])
	}
}

// view is the last records by key that a read_committed consumer gets that begins at offset from.
func (m *model) view(all []record.Entry, aborted []log.AbortedTxn, from, stable int64) map[string]record.Record {
	last := map[string]record.Record{}
	for _, e := range all {
		if e.IsControl() || e.LastOffset() < from || e.BaseOffset() >= stable || skipped(e, aborted) {
			continue
		}
		for r, err := range e.Records(record.Limits{}) {
			was := m.records[r.Offset]
			if err != nil || !bytes.Equal(r.Key, was.Key) || !bytes.Equal(r.Value, was.Value) || r.Timestamp != was.Timestamp || (r.Value == nil) != (was.Value == nil) {
				m.t.Fatalf("read %+v, written %+v, %v", r, was.Record, err)
			}
			if r.Offset >= from {
				last[string(r.Key)] = was.Record
			}
		}
	}
	return last
}

func skipped(e record.Entry, aborted []log.AbortedTxn) bool {
	for _, a := range aborted {
		if e.IsTransactional() && e.ProducerID() == a.ProducerID && e.BaseOffset() >= a.FirstOffset && e.LastOffset() <= a.LastOffset {
			return true
		}
	}
	return false
}

// checkView demands the last value of every key that was written from offset from on; what was deleted last may be gone.
func (m *model) checkView(got map[string]record.Record, from, stable int64) {
	m.t.Helper()
	want := map[string]record.Record{}
	for offset := from; offset < stable; offset++ {
		if r, ok := m.records[offset]; ok && !r.aborted && !r.txn {
			want[string(r.Key)] = r.Record
		}
	}
	for k, r := range want {
		if g, ok := got[k]; (ok || r.Value != nil) && g.Offset != r.Offset {
			m.t.Fatalf("from %d the last of %s is at %d, want %d", from, k, g.Offset, r.Offset)
		}
	}
	for k, r := range got {
		if want[k].Offset != r.Offset {
			m.t.Fatalf("from %d %s has a record at %d that should not be seen", from, k, r.Offset)
		}
	}
}
