package record

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// testdata/segments are segments that Apache Kafka 3.9.2 (ZooKeeper mode) and 4.4.0 (KRaft) wrote for idempotent,
// transactional and aborted batches, group offsets and transaction states.

func readSegments(t testing.TB) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("testdata/segments/*.log")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	segments := map[string][]byte{}
	for _, f := range files {
		if segments[f], err = os.ReadFile(f); err != nil {
			t.Fatal(err)
		}
	}
	return segments
}

// TestSegments reads Kafka's segments and builds every uncompressed batch of them anew, byte for byte.
func TestSegments(t *testing.T) {
	for name, log := range readSegments(t) {
		next, batches := int64(0), 0
		for len(log) > 0 {
			e, rest, err := NextEntry(log)
			if err != nil {
				t.Fatal(name, err)
			}
			log = rest
			b, ok := e.Batch()
			if !ok || b.Validate() != nil || b.BaseOffset() != next || e.BaseOffset() != next {
				t.Fatalf("%s: batch at %d: %v, offset %d", name, next, b.Validate(), b.BaseOffset())
			}
			next = b.NextOffset()
			batches++
			if got := rebuildSame(t, b); !bytes.Equal(got, b) {
				t.Errorf("%s: batch at %d:\n%x, built again\n%x", name, b.BaseOffset(), []byte(b), []byte(got))
			}
		}
		if batches == 0 {
			t.Error(name, "is empty")
		}
	}
}

// rebuildSame builds a batch with the header and records of b.
func rebuildSame(t *testing.T, b Batch) Batch {
	var recs []Record
	for r, err := range b.Records(Limits{}) {
		if err != nil {
			t.Fatal(err)
		}
		recs = append(recs, cloneRecord(r))
	}
	if b.IsControl() {
		marker, err := ParseControl(recs[0].Key)
		epoch, err2 := CoordinatorEpoch(recs[0].Value)
		if err != nil || err2 != nil || marker != Abort && marker != Commit {
			t.Fatal(marker, err, err2)
		}
		m := BuildMarker(b.ProducerID(), b.ProducerEpoch(), marker, epoch, recs[0].Timestamp)
		m.SetBaseOffset(b.BaseOffset())
		m.SetLeaderEpoch(b.LeaderEpoch())
		return m
	}
	return mustBuild(BatchOptions{
		BaseOffset: b.BaseOffset(), LeaderEpoch: b.LeaderEpoch(), Codec: b.Codec(), TimestampType: b.TimestampType(),
		ProducerID: b.ProducerID(), ProducerEpoch: b.ProducerEpoch(), BaseSequence: b.BaseSequence(),
		Transactional: b.IsTransactional(), Control: b.IsControl(),
	}, recs...)
}

func cloneRecord(r Record) Record {
	r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
	var headers []Header
	for _, h := range r.Headers {
		headers = append(headers, Header{h.Key, bytes.Clone(h.Value)})
	}
	r.Headers = headers
	return r
}
