package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/gregor-broker/gregor/wire/errcode"
)

// randomRecords makes records of every shape: null and empty fields, large values, headers, gaps in the offsets.
func randomRecords(r *rand.Rand, headers bool) []Record {
	recs := make([]Record, 1+r.IntN(40))
	blob := func() []byte {
		switch r.IntN(6) {
		case 0:
			return nil
		case 1:
			return []byte{}
		case 2:
			return bytes.Repeat([]byte("compressible "), r.IntN(8_000))
		}
		b := make([]byte, r.IntN(200))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}
	for i := range recs {
		recs[i] = Record{Offset: int64(i), Timestamp: testTime + r.Int64N(1<<40) - 1<<39, Key: blob(), Value: blob()}
		for range r.IntN(3) * btoi(headers) {
			recs[i].Headers = append(recs[i].Headers, Header{string(blob()), blob()})
		}
	}
	return recs
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func collect(t testing.TB, e Entry, lim Limits) (recs []Record) {
	t.Helper()
	for r, err := range e.Records(lim) {
		if err != nil {
			t.Fatal(err)
		}
		recs = append(recs, cloneRecord(r))
	}
	return recs
}

// TestRoundTrip builds batches and reads them again, and checks them as produced ones.
func TestRoundTrip(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		recs := randomRecords(r, true)
		codec := Codec(seed % 5)
		o := BatchOptions{Codec: codec, LeaderEpoch: 7, ProducerID: 9, ProducerEpoch: 3, BaseSequence: 5, Transactional: seed%2 == 0}
		b := mustBuild(o, recs...)
		if err := b.Validate(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if got := collect(t, Entry(b), Limits{}); !reflect.DeepEqual(got, recs) {
			t.Fatalf("seed %d, %v: read\n%v, built\n%v", seed, codec, got, recs)
		}
		before := bytes.Clone(b)
		rules := testRules("create", testTime)
		rules.MaxBatchBytes = math.MaxInt32
		c, err := Check(b, 9, rules)
		if err != nil || !bytes.Equal(c.Batch, before) || c.SourceCodec != codec || c.MaxTimestamp != b.MaxTimestamp() {
			t.Fatalf("seed %d, %v: %v %+v", seed, codec, err, c)
		}
	}
}

// TestRecompress stores every codec with every other and loses nothing.
func TestRecompress(t *testing.T) {
	for seed := range uint64(25) {
		r := rand.New(rand.NewPCG(seed, 2))
		recs := randomRecords(r, true)
		from, to := Codec(seed%5), Codec(seed/5%5)
		rules := testRules("create", testTime)
		rules.MaxBatchBytes = math.MaxInt32
		rules.Compression = Compression{Fixed: true, Codec: to}
		c, err := Check(mustBuild(noProducer(from), recs...), 9, rules)
		if err != nil || c.Batch.Codec() != to || c.Batch.Validate() != nil {
			t.Fatalf("seed %d, %v to %v: %v", seed, from, to, err)
		}
		if got := collect(t, Entry(c.Batch), Limits{}); !reflect.DeepEqual(got, recs) {
			t.Fatalf("seed %d, %v to %v: %v, want %v", seed, from, to, got, recs)
		}
	}
}

// TestUpAndDown converts sets of magic 0 and 1 up and down again.
func TestUpAndDown(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 3))
		magic, codec := int8(seed%2), Codec(seed%4)
		recs := randomRecords(r, false)
		var set []byte
		for i := range recs {
			if magic == 0 {
				recs[i].Timestamp = NoTimestamp
			}
			set = appendLegacy(set, magic, 0, int64(i), recs[i].Timestamp, recs[i].Key, recs[i].Value)
		}
		if codec != None {
			set = wrapper(magic, codec, int64(len(recs)-1), recs[0].Timestamp, 0, set)
		}
		rules := testRules("create", testTime)
		rules.MaxBatchBytes = math.MaxInt32
		c, err := Check(bytes.Clone(set), int16(magic)+1, rules)
		if err != nil || c.Batch.Codec() != codec || c.Batch.Validate() != nil || c.Converted != len(recs) {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if got := collect(t, Entry(c.Batch), Limits{}); !reflect.DeepEqual(got, recs) {
			t.Fatalf("seed %d: up\n%v, want\n%v", seed, got, recs)
		}
		down, converted, err := Downconvert(nil, c.Batch, magic, 0, Limits{})
		if err != nil || converted != len(recs) {
			t.Fatal(seed, converted, err)
		}
		if codec == None && !bytes.Equal(down, set) {
			t.Fatalf("seed %d: down\n%x, want\n%x", seed, down, set)
		}
		var got []Record
		for len(down) > 0 {
			e, rest, err := NextEntry(down)
			if err != nil || e.CheckCRC() != nil || e.Codec() != codec || e.Magic() != magic {
				t.Fatal(seed, err)
			}
			down = rest
			got = append(got, collect(t, e, Limits{})...)
		}
		if !reflect.DeepEqual(got, recs) {
			t.Fatalf("seed %d: down\n%v, want\n%v", seed, got, recs)
		}
	}
}

func TestDownconvertDrops(t *testing.T) {
	marker := BuildMarker(1, 0, Commit, 0, testTime)
	log := join(marker, three(Zstd), three(None))
	if got, _, err := Downconvert(nil, log, 1, 0, Limits{}); !errors.Is(err, kerr.UnsupportedCompressionType) || len(got) > 0 {
		t.Errorf("zstd first: %d bytes, %v", len(got), err)
	}
	got, _, err := Downconvert(nil, join(marker, three(Gzip), three(Zstd)), 1, 0, Limits{})
	if err != nil || len(got) == 0 {
		t.Errorf("zstd later: %d bytes, %v", len(got), err)
	}
	if got, _, err := Downconvert(nil, marker, 0, 0, Limits{}); err != nil || len(got) > 0 {
		t.Errorf("a marker: %d bytes, %v", len(got), err)
	}
	log = join(three(None), three(None)[:40])
	got, converted, err := Downconvert(nil, log, 1, 2, Limits{})
	if e, rest, _ := NextEntry(got); err != nil || converted != 1 || e.LastOffset() != 2 || len(rest) > 0 {
		t.Errorf("from offset 2: %x, %v", got, err)
	}
}

func TestAccessors(t *testing.T) {
	b := mustBuild(BatchOptions{BaseOffset: 40, LeaderEpoch: 3, ProducerID: 1 << 40, ProducerEpoch: 9, BaseSequence: math.MaxInt32 - 1, Transactional: true},
		Record{Offset: 42, Timestamp: 5}, Record{Offset: 50, Timestamp: 2})
	got := fmt.Sprint(b.BaseOffset(), b.LastOffset(), b.NextOffset(), b.Size() == len(b), b.LeaderEpoch(), b.ProducerID(), b.ProducerEpoch(),
		b.BaseSequence(), b.LastSequence(), b.Count(), b.BaseTimestamp(), b.MaxTimestamp(), b.IsTransactional(), b.IsControl(), b.HasDeleteHorizon())
	want := "40 50 51 true 3 1099511627776 9 2147483646 8 2 5 5 true false false"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	b.SetBaseOffset(7)
	b.SetLeaderEpoch(8)
	if b.Validate() != nil || b.BaseOffset() != 7 || b.LeaderEpoch() != 8 {
		t.Error("offset and epoch are not covered by the CRC")
	}
	e := Entry(message(1, 9, attrLogAppendTime, 77, "k", "v"))
	if e.ProducerID() != -1 || e.LastSequence() != -1 || e.BaseSequence() != -1 || e.ProducerEpoch() != -1 || e.LeaderEpoch() != -1 ||
		e.BaseOffset() != 9 || e.NextOffset() != 10 || e.MaxTimestamp() != 77 || e.TimestampType() != LogAppendTime || e.IsControl() {
		t.Errorf("legacy accessors of %x", []byte(e))
	}
}

func TestNextEntry(t *testing.T) {
	for _, magic := range []int8{0, 1, 2} {
		whole := message(magic, 3, 0, testTime, "k", "v")
		if magic == 2 {
			whole = three(None)
		}
		for n := range whole {
			if _, rest, err := NextEntry(whole[:n]); !errors.Is(err, ErrTruncated) || len(rest) != n {
				t.Fatalf("magic %d cut at %d: %v", magic, n, err)
			}
		}
		e, rest, err := NextEntry(join(whole, []byte("rest")))
		if err != nil || string(rest) != "rest" || !bytes.Equal(e, whole) {
			t.Fatal(magic, err)
		}
		for size := int32(-2); size < int32(len(whole)-sizeOverhead); size++ {
			small := bytes.Clone(whole)
			binary.BigEndian.PutUint32(small[posSize:], uint32(size))
			if e, _, err := NextEntry(small); err == nil {
				_ = fmt.Sprint(e.BaseOffset(), e.LastOffset(), e.MaxTimestamp(), e.LastSequence(), e.CheckCRC()) // must not panic
			} else if !errors.Is(err, ErrCorrupt) {
				t.Fatal(magic, size, err)
			}
		}
	}
}

func TestInvalidKnowsItsCode(t *testing.T) {
	_, err := Check(nil, 9, testRules("create", 0))
	if errcode.Of(err) != kerr.InvalidRecord.Code || *errcode.Message(err) == "" {
		t.Error(errcode.Of(err), err)
	}
}

// TestManyRecordErrors bounds what a batch of many bad records makes us remember.
func TestManyRecordErrors(t *testing.T) {
	recs := make([]Record, 5000)
	_, err := Check(mustBuild(noProducer(None), recs...), 9, testRules("compact", testTime))
	var invalid *Invalid
	if !errors.As(err, &invalid) || len(invalid.RecordErrors) != maxRecordErrors || !bytes.Contains([]byte(err.Error()), []byte("5000 record errors")) {
		t.Error(err)
	}
}

// TestFaults: what is wrong with a set is counted as Kafka counts it.
func TestFaults(t *testing.T) {
	change := func(b Batch, f func(Batch)) Batch {
		f(b)
		b.updateCRC()
		return b
	}
	old := wrapper(1, Gzip, 0, testTime, 0, appendLegacy(nil, 1, 0, 0, testTime, nil, []byte("v")))
	for name, c := range map[string]struct {
		topic   string
		version int16
		raw     []byte
		want    Faults
	}{
		"keys":       {"compact", 9, mustBuild(noProducer(None), Record{Key: []byte("k")}, Record{}, Record{}), Faults{FaultKey: 2}},
		"old keys":   {"compact", 2, old, Faults{FaultKey: 1}},
		"CRC":        {"create", 9, append(three(None)[:HeaderSize+5:HeaderSize+5], three(Gzip)[HeaderSize+5:]...), Faults{FaultChecksum: 1}},
		"count":      {"create", 9, change(three(None), func(b Batch) { b[posCount+3] = 2 }), Faults{FaultNumbers: 1}},
		"two magics": {"create", 2, join(message(0, 0, 0, 0, "k", ""), message(1, 1, 0, 0, "k", "")), Faults{FaultMagic: 1}},
		"nothing":    {"create", 9, nil, Faults{}},
	} {
		_, err := Check(c.raw, c.version, testRules(c.topic, testTime))
		var invalid *Invalid
		if !errors.As(err, &invalid) || invalid.Faults != c.want {
			t.Errorf("%s: %v, %+v", name, err, invalid)
		}
	}
}

// TestControlBatches says who may write them.
func TestControlBatches(t *testing.T) {
	rules := testRules("gzip", testTime)
	if _, err := Check(BuildMarker(5, 1, Abort, 9, testTime), 9, rules); errcode.Of(err) != kerr.InvalidRecord.Code {
		t.Error("a client wrote a marker:", err)
	}
	rules.Client = false
	c, err := Check(BuildMarker(5, 1, Abort, 9, testTime), 9, rules)
	if err != nil || c.Batch.Codec() != None {
		t.Error(err, "a coordinator's marker, which is not compressed")
	}
}

// TestLargeRecords skims records that are larger than the window, right ones and wrong ones.
func TestLargeRecords(t *testing.T) {
	big := bytes.Repeat([]byte("large "), 50_000)
	whole := rawRecord(0, 5, Record{Key: big, Value: big, Headers: []Header{{"h", big}, {string(big), nil}}})
	_, start := varint(whole, 0)
	body := whole[start:]
	sized := func(size int, body []byte) []byte { return append(appendVarint(nil, int64(size)), body...) }
	// Behind the last header's null value.
	nullKey := append(body[:len(body)-1-len(big)-varintSize(int64(len(big))):len(body)-1-len(big)-varintSize(int64(len(big)))], 1, 1)
	for name, c := range map[string]struct {
		payload []byte
		ok      bool
	}{
		"right":             {whole, true},
		"cut":               {whole[:len(whole)-1], false},
		"cut in the middle": {whole[:len(whole)/2], false},
		"size too large":    {join(sized(len(body)+1, body), []byte{0}), false},
		"size too small":    {sized(len(body)-1, body), false},
		"header key null":   {sized(len(nullKey), nullKey), false},
		"not a varint":      {sized(len(body), join([]byte{0}, bytes.Repeat([]byte{0xff}, 11), body[12:])), false},
	} {
		for codec := Gzip; codec <= Zstd; codec++ {
			s := newSurvey(withPayload(codec, 1, c.payload), testRules("create", testTime))
			if codec == Zstd { // at once, whatever its size, unless it is streamed by hand
				v := streamWindow(bytes.NewReader(c.payload), 1<<30)
				if err := s.walk(&v); (err == nil) != c.ok {
					t.Errorf("%s, streamed: %v", name, err)
				}
				v.close()
			}
			if err := s.open(); (err == nil) != c.ok {
				t.Errorf("%s, %v: %v", name, codec, err)
			}
		}
	}
	b := withPayload(LZ4, 1, whole)
	if recs := collect(t, Entry(b), Limits{}); len(recs) != 1 || !bytes.Equal(recs[0].Value, big) || len(recs[0].Headers) != 2 {
		t.Error("a large record is not read")
	}
}

// TestLogAppendTime is case P5 of the faults that users met elsewhere: redpanda issue 626, KAFKA-13710, KAFKA-14991.
func TestLogAppendTime(t *testing.T) {
	const now = 1_800_000_000_000
	sent := mustBuild(noProducer(Gzip), Record{Timestamp: 1000}, Record{Timestamp: 2000}, Record{Timestamp: 3000})
	c, err := Check(bytes.Clone(sent), 9, testRules("append", now))
	if err != nil || c.LogAppendTime != now || c.MaxTimestamp != now || c.OffsetOfMaxTimestamp != 2 {
		t.Fatalf("%+v %v", c, err)
	}
	b := c.Batch
	if b.TimestampType() != LogAppendTime || b.MaxTimestamp() != now || b.BaseTimestamp() != 1000 || b.Validate() != nil {
		t.Errorf("%x", []byte(b))
	}
	for r, err := range b.Records(Limits{}) {
		if err != nil || r.Timestamp != now {
			t.Error(r, err)
		}
	}
	if c, err := Check(sent, 9, testRules("create", now)); err != nil || c.LogAppendTime != -1 || c.MaxTimestamp != 3000 {
		t.Errorf("%+v %v", c, err)
	}
	var invalid *Invalid
	if _, err := Check(b, 9, testRules("append", now)); !errors.As(err, &invalid) || invalid.Code() != 32 || len(invalid.RecordErrors) != 3 {
		t.Errorf("a batch that says it has log append time: %v", err)
	}
}
