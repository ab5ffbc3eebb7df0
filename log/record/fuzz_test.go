package record

import (
	"bytes"
	"errors"
	"testing"
)

// fuzzLimits keep one run short.
var fuzzLimits = Limits{MaxRecordBytes: 1 << 20, MaxTotalBytes: 4 << 20}

func addSets(f *testing.F) {
	for _, s := range testSets() {
		f.Add(s.raw, s.version)
	}
	for _, log := range readSegments(f) {
		f.Add(log, int16(3))
	}
}

// FuzzRecords reads any bytes as a log: entries, all their fields, all their records.
func FuzzRecords(f *testing.F) {
	addSets(f)
	f.Fuzz(func(t *testing.T, log []byte, _ int16) {
		for len(log) > 0 {
			e, rest, err := NextEntry(log)
			if err != nil {
				if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrTruncated) {
					t.Fatal(err)
				}
				return
			}
			if len(rest) >= len(log) || e.Size() != len(e) {
				t.Fatal("no progress")
			}
			log = rest
			e.CheckCRC()
			e.LastOffset()
			e.MaxTimestamp()
			e.LastSequence()
			for _, err := range e.Records(fuzzLimits) {
				if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrTooLarge) && !errors.Is(err, ErrCompression) {
					t.Fatal(err)
				}
			}
		}
	})
}

// FuzzCheck produces any bytes. What is accepted can be read, has the right CRC and count, and is accepted again. The
// CRC of the input is made right first, or nothing would get past it.
func FuzzCheck(f *testing.F) {
	addSets(f)
	f.Fuzz(func(t *testing.T, raw []byte, version int16) {
		for _, topic := range []string{"create", "append", "compact", "gzip", "plain"} {
			in := bytes.Clone(raw)
			fixCRCs(in)
			rules := testRules(topic, testTime)
			c, err := Check(in, version, rules)
			if err != nil {
				var invalid *Invalid
				if !errors.As(err, &invalid) || invalid.Code() == 0 {
					t.Fatalf("%v is no *Invalid", err)
				}
				continue
			}
			if c.Batch == nil {
				continue
			}
			if err := c.Batch.Validate(); err != nil {
				t.Fatal(topic, err)
			}
			n := int64(0)
			for r, err := range c.Batch.Records(Limits{}) {
				if err != nil || r.Offset != c.Batch.BaseOffset()+n {
					t.Fatal(topic, r, err)
				}
				n++
			}
			if n != int64(c.Batch.Count()) || n != int64(c.Batch.LastOffsetDelta())+1 {
				t.Fatal(topic, n, c.Batch.Count())
			}
			// Times aside: who calls an append time its own is taken at its word where it is in range, as in Kafka, and its records then
			// have the times that they would have had without, any.
			stored := Batch(bytes.Clone(c.Batch))
			stored.setAttributes(stored.Attributes() &^ attrLogAppendTime)
			stored.updateCRC()
			rules.TimestampType = LogAppendTime
			again, err := Check(stored, 9, rules)
			if err != nil || again.Batch.Count() != c.Batch.Count() {
				t.Fatal(topic, err)
			}
		}
	})
}

func fixCRCs(log []byte) {
	for len(log) > 0 {
		e, rest, err := NextEntry(log)
		if err != nil {
			return
		}
		log = rest
		if b, ok := e.Batch(); ok {
			b.updateCRC()
		} else {
			sealLegacy(e)
		}
	}
}

// FuzzDownconvert converts any bytes. The result is a log of the magic.
func FuzzDownconvert(f *testing.F) {
	addSets(f)
	f.Fuzz(func(t *testing.T, log []byte, version int16) {
		magic := int8(version & 1)
		out, _, err := Downconvert(nil, log, magic, int64(version>>1), fuzzLimits)
		if err != nil {
			return
		}
		for len(out) > 0 {
			e, rest, err := NextEntry(out)
			if err != nil || e.Magic() > magic {
				t.Fatal(err)
			}
			out = rest
		}
	})
}

// FuzzDecompress opens any bytes with every codec.
func FuzzDecompress(f *testing.F) {
	for c := None; c <= Zstd; c++ {
		f.Add(int8(c), mustCompress(c, bytes.Repeat([]byte("compressible "), 50)))
	}
	f.Fuzz(func(t *testing.T, c int8, z []byte) {
		out, err := Decompress(nil, Codec(c&7), z, 1<<20)
		if len(out) > 1<<20 {
			t.Fatal("more than allowed")
		}
		if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrTooLarge) && !errors.Is(err, ErrCompression) {
			t.Fatal(err)
		}
	})
}

// FuzzCompress compresses any bytes with every codec and reads them again.
func FuzzCompress(f *testing.F) {
	f.Add([]byte("compressible compressible compressible"), 3)
	f.Fuzz(func(t *testing.T, p []byte, level int) {
		for c := None; c <= Zstd; c++ {
			z, err := Compress(nil, c, level, p)
			if err != nil {
				t.Fatal(err)
			}
			if out, err := Decompress(nil, c, z, int64(len(p))); err != nil || !bytes.Equal(out, p) {
				t.Fatal(c, level, err)
			}
		}
	})
}
