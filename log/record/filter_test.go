package record

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestFilter compacts entries of every magic and codec at random, and reads what is left.
func TestFilter(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 5))
		magic, codec := int8(seed%3), Codec(seed/3%5)
		recs := randomRecords(r, magic == 2)
		var e Entry
		if magic == 2 {
			e = Entry(mustBuild(BatchOptions{Codec: codec, ProducerID: 5, ProducerEpoch: 1, BaseSequence: 9}, recs...))
		} else {
			set := [][]byte{}
			for i := range recs {
				if magic == 0 {
					recs[i].Timestamp = NoTimestamp
				}
				set = append(set, appendLegacy(nil, magic, 0, int64(i), recs[i].Timestamp, recs[i].Key, recs[i].Value))
			}
			codec = max(Gzip, min(codec, LZ4))
			e = Entry(wrapper(magic, codec, int64(len(recs)-1), recs[0].Timestamp, 0, set...))
		}
		stays := make([]bool, len(recs))
		var want []Record
		tombstones := false
		for i := range recs {
			if stays[i] = r.IntN(3) > 0; stays[i] {
				want = append(want, recs[i])
				tombstones = tombstones || recs[i].Value == nil
			}
		}
		calls := 0
		out, kept, err := Filter(e, &Filtering{Horizon: 77, Keep: func(rec *Record) bool { calls++; return stays[rec.Offset] }}, Limits{})
		if err != nil || kept != len(want) || calls != len(recs) {
			t.Fatalf("seed %d: %d kept of %d, %d calls, %v", seed, kept, len(want), calls, err)
		}
		if len(want) == 0 {
			if out != nil {
				t.Fatalf("seed %d: nothing should be left", seed)
			}
			continue
		}
		got := collect(t, out, Limits{})
		if len(got) != len(want) {
			t.Fatalf("seed %d: %d records, want %d", seed, len(got), len(want))
		}
		for i := range got {
			if got[i].Offset != want[i].Offset || got[i].Timestamp != want[i].Timestamp || !bytes.Equal(got[i].Value, want[i].Value) {
				t.Fatalf("seed %d: %+v, want %+v", seed, got[i], want[i])
			}
		}
		if out.CheckCRC() != nil || out.Codec() != codec {
			t.Fatalf("seed %d: %x", seed, []byte(out))
		}
		if b, ok := out.Batch(); ok {
			checkFiltered(t, b, Batch(e), tombstones)
		}
	}
}

// checkFiltered demands that the header still says what it must.
func checkFiltered(t *testing.T, b, was Batch, tombstones bool) {
	t.Helper()
	if b.BaseOffset() != was.BaseOffset() || b.LastOffset() != was.LastOffset() || b.LastSequence() != was.LastSequence() ||
		b.ProducerID() != was.ProducerID() || b.LeaderEpoch() != was.LeaderEpoch() {
		t.Fatalf("%x became %x", []byte(was[:HeaderSize]), []byte(b[:HeaderSize]))
	}
	if b.HasDeleteHorizon() != tombstones || tombstones && b.BaseTimestamp() != 77 {
		t.Fatalf("delete horizon %v %d, tombstones %v", b.HasDeleteHorizon(), b.BaseTimestamp(), tombstones)
	}
}

func TestFilterEmpties(t *testing.T) {
	b := mustBuild(BatchOptions{BaseOffset: 7, Codec: LZ4, ProducerID: 5, ProducerEpoch: 1, BaseSequence: 9, Transactional: true}, threeRecords()[1:]...)
	none := func(*Record) bool { return false }
	out, kept, err := Filter(Entry(b), &Filtering{Keep: none, KeepEmpty: true}, Limits{})
	empty, _ := out.Batch()
	if err != nil || kept != 0 || empty.Validate() != nil || empty.Count() != 0 || empty.Size() != HeaderSize ||
		empty.BaseOffset() != 7 || empty.LastOffset() != 8 || empty.LastSequence() != 10 || empty.MaxTimestamp() != b.MaxTimestamp() ||
		empty.Codec() != None || !empty.IsTransactional() {
		t.Fatalf("%x %v", []byte(out), err)
	}
	again, _, err := Filter(out, &Filtering{Keep: none, KeepEmpty: true}, Limits{})
	if err != nil || !bytes.Equal(again, out) {
		t.Errorf("emptied again: %x %v", []byte(again), err)
	}
	if out, _, err := Filter(out, &Filtering{Keep: none}, Limits{}); err != nil || out != nil {
		t.Errorf("an empty batch stays: %x %v", []byte(out), err)
	}
	marker := Entry(BuildMarker(5, 1, Commit, 0, testTime))
	out, _, err = Filter(marker, &Filtering{Keep: func(*Record) bool { return true }, Marker: true, Horizon: 99}, Limits{})
	if b, _ := out.Batch(); err != nil || !b.HasDeleteHorizon() || b.BaseTimestamp() != 99 || b.MaxTimestamp() != testTime || !b.IsControl() {
		t.Errorf("a marker with a horizon: %x %v", []byte(out), err)
	}
	if out, _, err := Filter(Entry(b), &Filtering{Keep: func(*Record) bool { return true }, Horizon: 1}, Limits{}); err != nil || &out[0] == &b[0] {
		t.Errorf("a tombstone got no horizon, %v", err)
	}
}

// FuzzFilter filters any bytes. What it returns is an entry that can be read.
func FuzzFilter(f *testing.F) {
	addSets(f)
	f.Fuzz(func(t *testing.T, log []byte, pick int16) {
		e, _, err := NextEntry(log)
		if err != nil {
			return
		}
		n := 0
		out, kept, err := Filter(e, &Filtering{KeepEmpty: pick < 0, Horizon: 5, Keep: func(*Record) bool { n++; return pick>>(n%16)&1 == 1 }}, fuzzLimits)
		if err != nil || out == nil {
			return
		}
		m, rest, err := NextEntry(out)
		if err != nil || len(rest) > 0 {
			t.Fatal(err, len(rest))
		}
		for _, err := range m.Records(fuzzLimits) {
			if kept--; err != nil {
				t.Fatal(err)
			}
		}
		if kept != 0 {
			t.Fatal("records are missing")
		}
	})
}
