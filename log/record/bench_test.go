package record

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// benchBatch is a batch of about total bytes of records with values of size bytes, half of it noise.
func benchBatch(c Codec, total, size int) Batch {
	r := rand.New(rand.NewPCG(1, 1))
	var recs []Record
	for n := 0; n < total; n += size + 8 {
		v := make([]byte, size)
		for i := range size / 2 {
			v[i] = byte(r.Uint32())
		}
		recs = append(recs, Record{Timestamp: testTime + int64(len(recs)), Value: v})
	}
	return mustBuild(noProducer(c), recs...)
}

func BenchmarkCheck(b *testing.B) {
	for _, c := range []Codec{None, Gzip, Snappy, LZ4, Zstd} {
		for _, shape := range [][2]int{{100, 100}, {16 << 10, 100}, {1 << 20, 100}, {1 << 20, 1 << 10}} {
			if c != None && shape[0] == 100 {
				continue
			}
			b.Run(fmt.Sprintf("%v/batch=%d/record=%d", c, shape[0], shape[1]), func(b *testing.B) {
				batch := benchBatch(c, shape[0], shape[1])
				rules := testRules("create", testTime)
				rules.MaxBatchBytes = 4 << 20
				b.SetBytes(int64(len(batch)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := Check(batch, 9, rules); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkCRC(b *testing.B) {
	for _, size := range []int{161, 16 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			batch := benchBatch(None, size, 100)
			b.SetBytes(int64(len(batch)))
			for b.Loop() {
				if batch.computeCRC() != batch.CRC() {
					b.Fatal("wrong")
				}
			}
		})
	}
}

func BenchmarkRecompress(b *testing.B) {
	for c := None; c <= Zstd; c++ {
		b.Run(fmt.Sprintf("to %v", c), func(b *testing.B) {
			source := LZ4
			if c == LZ4 {
				source = Snappy
			}
			batch := benchBatch(source, 1<<20, 1<<10)
			rules := testRules("create", testTime)
			rules.MaxBatchBytes, rules.Compression = 4<<20, Compression{Fixed: true, Codec: c}
			b.SetBytes(1 << 20)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Check(batch, 9, rules); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRecords(b *testing.B) {
	for c := None; c <= Zstd; c++ {
		b.Run(c.String(), func(b *testing.B) {
			batch := benchBatch(c, 1<<20, 1<<10)
			b.SetBytes(1 << 20)
			b.ReportAllocs()
			for b.Loop() {
				for _, err := range batch.Records(Limits{}) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

func BenchmarkBuild(b *testing.B) {
	for c := None; c <= Zstd; c++ {
		b.Run(c.String(), func(b *testing.B) {
			var recs []Record
			for r := range benchBatch(None, 16<<10, 100).Records(Limits{}) {
				recs = append(recs, cloneRecord(r))
			}
			b.SetBytes(16 << 10)
			b.ReportAllocs()
			for b.Loop() {
				mustBuild(noProducer(c), recs...)
			}
		})
	}
}

func BenchmarkDownconvert(b *testing.B) {
	for _, c := range []Codec{None, Gzip, LZ4} {
		b.Run(c.String(), func(b *testing.B) {
			batch := benchBatch(c, 1<<20, 1<<10)
			b.SetBytes(1 << 20)
			b.ReportAllocs()
			var dst []byte
			for b.Loop() {
				var err error
				if dst, _, err = Downconvert(dst[:0], batch, 1, 0, Limits{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkUpconvert(b *testing.B) {
	log, _, err := Downconvert(nil, benchBatch(None, 1<<20, 1<<10), 1, 0, Limits{})
	if err != nil {
		b.Fatal(err)
	}
	rules := testRules("create", testTime)
	rules.MaxBatchBytes = 4 << 20
	b.SetBytes(1 << 20)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Check(bytes.Clone(log), 2, rules); err != nil {
			b.Fatal(err)
		}
	}
}
