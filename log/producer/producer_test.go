package producer

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/gregor-broker/gregor/log/record"
)

// sent is a batch of a producer as the log sees it: n records from offset on.
func sent(id int64, epoch int16, seq int32, n int, offset int64, txn bool) record.Batch {
	b, err := record.Build(record.BatchOptions{
		BaseOffset: offset, ProducerID: id, ProducerEpoch: epoch, BaseSequence: seq, Transactional: txn,
	}, make([]record.Record, n))
	if err != nil {
		panic(err)
	}
	return b
}

// Each step sends a batch; "" is stored, "dup OFFSET" and error codes are the log's answers. Case P1 and the rules of
// ProducerAppendInfo.
func TestSequences(t *testing.T) {
	type step struct {
		epoch int16
		seq   int32
		n     int
		txn   bool
		dup   int64 // first offset answered; -1 for none
		err   *kerr.Error
	}
	store := func(epoch int16, seq int32, n int) step { return step{epoch: epoch, seq: seq, n: n, dup: -1} }
	dup := func(seq int32, n int, at int64) step { return step{seq: seq, n: n, dup: at} }
	fails := func(epoch int16, seq int32, err *kerr.Error) step {
		return step{epoch: epoch, seq: seq, n: 1, dup: -1, err: err}
	}
	for name, steps := range map[string][]step{
		"P1: the last five are duplicates, older ones and gaps are out of order": {
			store(0, 0, 1), store(0, 1, 1), store(0, 2, 1), store(0, 3, 1), store(0, 4, 1), store(0, 5, 1),
			dup(5, 1, 5), dup(1, 1, 1), fails(0, 0, kerr.OutOfOrderSequenceNumber), fails(0, 9, kerr.OutOfOrderSequenceNumber),
		},
		"P1: sequences wrap":                             {store(0, math.MaxInt32-1, 2), store(0, 0, 1), dup(math.MaxInt32-1, 2, 0)},
		"a batch wraps inside":                           {store(0, math.MaxInt32, 3), dup(math.MaxInt32, 3, 0), store(0, 2, 1)},
		"first and last must both match":                 {store(0, 0, 3), fails(0, 0, kerr.OutOfOrderSequenceNumber), dup(0, 3, 0)},
		"an unknown producer begins anywhere":            {store(3, 77, 2), store(3, 79, 1)},
		"a new epoch begins at 0":                        {store(0, 5, 1), fails(1, 6, kerr.OutOfOrderSequenceNumber), store(1, 0, 1)},
		"an old epoch is fenced":                         {store(1, 0, 1), fails(0, 1, kerr.InvalidProducerEpoch)},
		"an old epoch's batch is no duplicate":           {store(0, 0, 1), store(1, 0, 1), fails(0, 0, kerr.InvalidProducerEpoch)},
		"a plain batch while a transaction is open":      {{txn: true, n: 1, dup: -1}, fails(0, 1, kerr.InvalidTxnState)},
		"a transactional batch after another is no news": {{txn: true, n: 1, dup: -1}, {txn: true, seq: 1, n: 1, dup: -1}},
	} {
		t.Run(name, func(t *testing.T) {
			var s State
			offset := int64(0)
			for i, st := range steps {
				b := sent(7, st.epoch, st.seq, st.n, offset, st.txn)
				d, isDup, err := s.Check(b, Origin{})
				if st.err != nil {
					if !errors.Is(err, st.err) {
						t.Fatalf("step %d: %v, want %v", i, err, st.err)
					}
					continue
				}
				if err != nil || isDup != (st.dup >= 0) || isDup && (d.FirstOffset != st.dup || d.LastOffset != st.dup+int64(st.n)-1) {
					t.Fatalf("step %d: duplicate %v %+v, error %v", i, isDup, d, err)
				}
				if !isDup {
					s.Apply(b)
					offset += int64(st.n)
				}
			}
		})
	}
}

func TestTransactionsHoldTheStableOffset(t *testing.T) {
	var s State
	s.Apply(sent(1, 0, 0, 2, 10, true))
	s.Apply(sent(2, 0, 0, 1, 12, true))
	s.Apply(sent(1, 0, 2, 1, 13, true))
	if got := s.FirstUnstable(); got != 10 {
		t.Errorf("first unstable offset %d, want 10", got)
	}
	first, stable, ended := s.ApplyMarker(Marker{ProducerID: 1, CoordinatorEpoch: 4, Offset: 14})
	if first != 10 || stable != 12 || !ended {
		t.Errorf("marker: first %d stable %d ended %v, want 10 12 true", first, stable, ended)
	}
	if got := s.FirstUnstable(); got != 10 || !s.Pending() {
		t.Errorf("before the marker is replicated the first unstable offset is %d, want 10", got)
	}
	s.Replicated(14)
	if got := s.FirstUnstable(); got != 10 {
		t.Errorf("with the high watermark at the marker it is %d, want 10", got)
	}
	s.Replicated(15)
	if got := s.FirstUnstable(); got != 12 || s.Pending() {
		t.Errorf("with the high watermark after the marker it is %d, want 12", got)
	}
	if _, stable, _ := s.ApplyMarker(Marker{ProducerID: 2, Offset: 15}); stable != 16 {
		t.Errorf("the last marker allows %d, want 16", stable)
	}
	if _, _, ended := s.ApplyMarker(Marker{ProducerID: 2, Offset: 16}); ended {
		t.Error("a marker without transaction ended one")
	}
	s.Replicated(99)
	if got := s.FirstUnstable(); got != -1 {
		t.Errorf("without transactions the first unstable offset is %d, want -1", got)
	}
}

func TestMarkersAreFenced(t *testing.T) {
	var s State
	if _, err := s.CheckMarker(Marker{ProducerID: 1}); err != nil {
		t.Errorf("a marker of an unknown producer: %v", err)
	}
	s.ApplyMarker(Marker{ProducerID: 1, ProducerEpoch: 2, CoordinatorEpoch: 5})
	if _, err := s.CheckMarker(Marker{ProducerID: 1, ProducerEpoch: 1, CoordinatorEpoch: 5}); !errors.Is(err, kerr.InvalidProducerEpoch) {
		t.Errorf("old producer epoch: %v", err)
	}
	if _, err := s.CheckMarker(Marker{ProducerID: 1, ProducerEpoch: 2, CoordinatorEpoch: 4}); !errors.Is(err, kerr.TransactionCoordinatorFenced) {
		t.Errorf("old coordinator epoch: %v", err)
	}
	// A marker may bump the epoch; data then begins at 0.
	if _, _, err := s.Check(sent(1, 2, 3, 1, 0, false), Origin{}); !errors.Is(err, kerr.OutOfOrderSequenceNumber) {
		t.Errorf("sequence 3 after a marker with a new epoch: %v", err)
	}
	if _, _, err := s.Check(sent(1, 2, 0, 1, 0, false), Origin{}); err != nil {
		t.Errorf("sequence 0 after a marker with a new epoch: %v", err)
	}
}

func TestExpiry(t *testing.T) {
	var s State
	s.Apply(sent(1, 0, 0, 1, 0, false)) // their timestamps are 0
	s.Apply(sent(2, 0, 0, 1, 1, true))
	if s.Expire(999, 1000); s.Len() != 2 {
		t.Error("a producer expired too early")
	}
	if s.Expire(1000, 1000); s.Len() != 1 || s.Rows()[0].ProducerID != 2 {
		t.Errorf("left are %v, want only the one with an open transaction", s.Rows())
	}
}

func snapshots(t testing.TB) [][]byte {
	t.Helper()
	names, err := filepath.Glob("../testdata/*/*/*.snapshot")
	if err != nil || len(names) < 8 {
		t.Fatal(names, err)
	}
	var all [][]byte
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, raw)
	}
	return all
}

func TestKafkasSnapshots(t *testing.T) {
	for _, raw := range snapshots(t) {
		var s State
		if err := s.Load(raw, 0, math.MaxInt64); err != nil {
			t.Error(err)
			continue
		}
		if len(raw) != snapshotHeader+snapshotEntry*s.Len() {
			t.Errorf("%d producers of %d bytes", s.Len(), len(raw))
		}
		again := s.Snapshot()
		if s.Len() <= 1 && !bytes.Equal(again, raw) {
			t.Errorf("written again as %x, was %x", again, raw)
		}
		var s2 State
		if err := s2.Load(again, 0, math.MaxInt64); err != nil || !bytes.Equal(s2.Snapshot(), again) {
			t.Errorf("a snapshot does not survive a round trip: %v", err)
		}
	}
}

func TestSnapshotKeepsWhatMatters(t *testing.T) {
	var s State
	for i := range int32(7) {
		s.Apply(sent(1, 3, i, 1, int64(i), false))
	}
	s.Apply(sent(2, 0, 0, 4, 7, true))
	s.ApplyMarker(Marker{ProducerID: 3, ProducerEpoch: 1, CoordinatorEpoch: 9, Offset: 11, Timestamp: 5})
	var loaded State
	if err := loaded.Load(s.Snapshot(), 0, 1000); err != nil {
		t.Fatal(err)
	}
	if got := loaded.FirstUnstable(); got != 7 {
		t.Errorf("first unstable offset %d, want 7", got)
	}
	if _, dup, err := loaded.Check(sent(1, 3, 6, 1, 0, false), Origin{}); !dup || err != nil {
		t.Errorf("the last batch is no duplicate after loading: %v", err)
	}
	if _, _, err := loaded.Check(sent(1, 3, 7, 1, 0, false), Origin{}); err != nil {
		t.Errorf("the next sequence: %v", err)
	}
	if rows := loaded.Rows(); rows[2] != (Row{3, 1, -1, 5, 9, -1}) {
		t.Errorf("a producer without data is %+v", rows[2])
	}
	if err := loaded.Load(s.Snapshot(), 2000, 1000); err != nil || loaded.Len() != 1 {
		t.Errorf("%d producers loaded after all but the one with a transaction expired", loaded.Len())
	}
}

func FuzzSnapshot(f *testing.F) {
	for _, raw := range snapshots(f) {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var s State
		if err := s.Load(raw, 0, math.MaxInt64); err != nil {
			if s.Len() != 0 {
				t.Error("a damaged snapshot left producers")
			}
			return
		}
		var again State
		if err := again.Load(s.Snapshot(), 0, math.MaxInt64); err != nil || again.FirstUnstable() != s.FirstUnstable() || again.Len() != s.Len() {
			t.Errorf("does not survive a round trip: %v", err)
		}
	})
}

func BenchmarkCheckApply(b *testing.B) {
	var s State
	batch := sent(7, 0, 0, 1, 0, false)
	b.ReportAllocs()
	for seq := int32(0); b.Loop(); seq++ {
		batch[53], batch[54], batch[55], batch[56] = byte(seq>>24), byte(seq>>16), byte(seq>>8), byte(seq)
		if _, _, err := s.Check(batch, Origin{}); err != nil {
			b.Fatal(err)
		}
		s.Apply(batch)
	}
}

// What KIP-890 says of the first batch of a transaction: it needs the guard of the verification that is under way, and
// whatever ends the transaction in between voids that.
func TestVerification(t *testing.T) {
	const id = 7
	fails := func(t *testing.T, s *State, b record.Batch, g Guard, want *kerr.Error) {
		t.Helper()
		if _, _, err := s.Check(b, Origin{Verified: true, Guard: g}); !errors.Is(err, want) {
			t.Errorf("error %v, want %v", err, want)
		}
	}
	passes := func(t *testing.T, s *State, b record.Batch, g Guard) {
		t.Helper()
		if _, dup, err := s.Check(b, Origin{Verified: true, Guard: g}); err != nil || dup {
			t.Fatalf("duplicate %v, error %v", dup, err)
		}
	}
	first := sent(id, 0, 0, 1, 0, true)
	t.Run("no guard, no append", func(t *testing.T) {
		fails(t, &State{}, first, Guard{}, kerr.InvalidTxnState)
	})
	t.Run("the guard lets the transaction begin, once", func(t *testing.T) {
		var s State
		g, ask := s.BeginVerification(id, 0, 0, false, 0)
		if again, _ := s.BeginVerification(id, 0, 1, false, 0); !ask || again != g {
			t.Fatalf("asked %v; guards %v %v", ask, g, again)
		}
		passes(t, &s, first, g)
		s.Apply(first)
		if _, ask := s.BeginVerification(id, 0, 1, false, 0); ask {
			t.Error("the coordinator is asked about an open transaction")
		}
		passes(t, &s, sent(id, 0, 1, 1, 1, true), Guard{})
		s.ApplyMarker(Marker{ProducerID: id, Offset: 2})
		fails(t, &s, sent(id, 0, 1, 1, 3, true), g, kerr.InvalidTxnState)
	})
	t.Run("a marker voids the guard", func(t *testing.T) {
		var s State
		g, _ := s.BeginVerification(id, 0, 0, false, 0)
		s.ApplyMarker(Marker{ProducerID: id, Offset: 0})
		fails(t, &s, first, g, kerr.InvalidTxnState)
	})
	// Where brokers do not tell each other that a marker is of transaction version 2, epochs do: the transaction before has the next
	// one's, its own end a higher one.
	t.Run("a marker of the transaction before, which bumped the epoch, leaves it alone", func(t *testing.T) {
		var s State
		s.Apply(sent(id, 3, 0, 1, 0, true))
		g, _ := s.BeginVerification(id, 4, 0, true, 0)
		s.ApplyMarker(Marker{ProducerID: id, ProducerEpoch: 4, Offset: 1})
		next := sent(id, 4, 0, 1, 2, true)
		passes(t, &s, next, g)
		s.ApplyMarker(Marker{ProducerID: id, ProducerEpoch: 5, Offset: 2})
		fails(t, &s, next, g, kerr.InvalidTxnState)
	})
	t.Run("another epoch is another transaction", func(t *testing.T) {
		var s State
		s.Apply(first)
		if _, ask := s.BeginVerification(id, 1, 0, false, 0); !ask {
			t.Error("a newer epoch is taken for the open transaction")
		}
		fails(t, &s, sent(id, 1, 0, 1, 1, true), Guard{}, kerr.InvalidTxnState)
	})
	t.Run("a higher sequence waits for a lower one", func(t *testing.T) {
		var s State
		g, _ := s.BeginVerification(id, 0, 3, false, 0)
		s.BeginVerification(id, 0, 1, false, 0)
		fails(t, &s, sent(id, 0, 3, 1, 0, true), g, kerr.OutOfOrderSequenceNumber)
		passes(t, &s, sent(id, 0, 1, 1, 0, true), g)
		s.BeginVerification(id, 1, 4, false, 0) // of a new epoch nothing else counts
		passes(t, &s, sent(id, 1, 4, 1, 0, true), g)
	})
	t.Run("under version 2 a producer begins with 0", func(t *testing.T) {
		var s State
		g, _ := s.BeginVerification(id, 0, 2, true, 0)
		fails(t, &s, sent(id, 0, 2, 1, 0, true), g, kerr.OutOfOrderSequenceNumber)
	})
	t.Run("a coordinator's batches have no sequence", func(t *testing.T) {
		var s State
		g, _ := s.BeginVerification(id, 0, -1, false, 0)
		from := Origin{Coordinator: true, Verified: true, Guard: g}
		for range 2 {
			b := sent(id, 0, -1, 1, 0, true)
			if _, dup, err := s.Check(b, from); dup || err != nil {
				t.Fatalf("duplicate %v, error %v", dup, err)
			}
			s.Apply(b)
		}
	})
	t.Run("expiry", func(t *testing.T) {
		var s State
		g, _ := s.BeginVerification(id, 0, 0, false, 1000)
		s.Expire(1000+50, 50)
		fails(t, &s, first, g, kerr.InvalidTxnState)
	})
}

// Under transaction version 2 a marker's epoch is above that of the data (KIP-1228).
func TestBumpedMarkers(t *testing.T) {
	var s State
	s.Apply(sent(1, 3, 0, 1, 0, true))
	m := Marker{ProducerID: 1, ProducerEpoch: 3, Bumped: true, Offset: 1}
	if _, err := s.CheckMarker(m); !errors.Is(err, kerr.InvalidProducerEpoch) {
		t.Errorf("a marker with the data's epoch: %v", err)
	}
	m.ProducerEpoch = 4
	if again, err := s.CheckMarker(m); again || err != nil {
		t.Errorf("the marker: %v %v", again, err)
	}
	s.ApplyMarker(m)
	if again, err := s.CheckMarker(m); !again || err != nil {
		t.Errorf("the marker again: %v %v", again, err)
	}
	s.Apply(sent(1, 4, 0, 1, 2, true))
	if _, err := s.CheckMarker(m); !errors.Is(err, kerr.InvalidProducerEpoch) {
		t.Errorf("a late marker in the next transaction: %v", err)
	}
}
