package log

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/wire/clock"
)

func benchEnv(b testing.TB) *env {
	e := &env{t: b}
	e.o = Options{Dirs: []string{b.TempDir()}, Clock: clock.System, BrokerID: 1, ClusterID: "cluster"}
	return e.open()
}

func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{100, 1 << 10, 16 << 10, 1 << 20} {
		for _, id := range []int64{-1, 7} {
			b.Run(fmt.Sprintf("%dB/idempotent=%v", size, id >= 0), func(b *testing.B) {
				e := benchEnv(b)
				c := DefaultConfig()
				c.SegmentBytes = 64 << 20
				c.FileDeleteDelayMs = 0
				c.RetentionBytes = 128 << 20
				l := e.create("t", c)
				o := record.BatchOptions{}.NoProducer()
				if id >= 0 {
					o = record.BatchOptions{ProducerID: id}
				}
				batch := batchOf(o, clock.System.Now().UnixMilli(), string(make([]byte, size)))
				b.SetBytes(int64(len(batch.Batch)))
				b.ReportAllocs()
				seq := int32(0)
				for b.Loop() {
					if id >= 0 {
						setSequence(batch.Batch, seq)
						seq++
					}
					a, err := l.Append(batch, 0)
					if err != nil {
						b.Fatal(err)
					}
					l.AdvanceHighWatermark(a.LastOffset + 1)
					if a.LastOffset%1024 == 0 {
						if _, err := l.DeleteOldSegments(); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
	}
}

// setSequence changes the sequence number without the checksum, which the log does not look at.
func setSequence(b record.Batch, seq int32) {
	b[53], b[54], b[55], b[56] = byte(seq>>24), byte(seq>>16), byte(seq>>8), byte(seq)
}

func BenchmarkRead(b *testing.B) {
	e := benchEnv(b)
	l := e.create("t", nil)
	one := batch(clock.System.Now().UnixMilli(), string(make([]byte, 1000)))
	for range 50_000 {
		committed(b, l, one)
	}
	end := l.Bounds().End
	for _, c := range []struct {
		name string
		at   func(i int64) int64
	}{
		{"tail", func(int64) int64 { return end - 1 }},
		{"sequential", func(i int64) int64 { return i % end }},
		{"scattered", func(i int64) int64 { return i * 7919 % end }},
		{"end", func(int64) int64 { return end }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := int64(0); b.Loop(); i++ {
				r, err := l.Read(c.at(i), 1<<20, HighWatermark, true)
				if err != nil {
					b.Fatal(err)
				}
				if r.Part.File != nil {
					r.Part.File.Release()
				}
			}
		})
	}
}

// The paths of produce and fetch allocate next to nothing once they are warm.
func TestAllocationsOfAppendAndRead(t *testing.T) {
	l := benchEnv(t).create("t", nil)
	one := batch(clock.System.Now().UnixMilli(), string(make([]byte, 1000)))
	committed(t, l, one)
	if n := testing.AllocsPerRun(500, func() {
		if _, err := l.Append(one, 0); err != nil {
			t.Fatal(err)
		}
	}); n > 1 {
		t.Errorf("an append makes %v allocations", n)
	}
	l.AdvanceHighWatermark(l.Bounds().End)
	if n := testing.AllocsPerRun(500, func() {
		r, err := l.Read(0, 1<<20, HighWatermark, true)
		if err != nil {
			t.Fatal(err)
		}
		r.Part.File.Release()
	}); n > 1 {
		t.Errorf("a read makes %v allocations", n)
	}
}

func BenchmarkBounds(b *testing.B) {
	l := benchEnv(b).create("t", nil)
	b.ReportAllocs()
	for b.Loop() {
		l.Bounds()
	}
}

// BenchmarkPartitions10000 is the life of 10,000 partitions: created, one batch each, stopped in order, started again.
// Run it with -benchtime 1x.
func BenchmarkPartitions10000(b *testing.B) {
	const n = 10_000
	for _, filled := range []bool{false, true} {
		b.Run(fmt.Sprintf("filled=%v", filled), func(b *testing.B) {
			for b.Loop() {
				e := benchEnv(b)
				before := liveBytes()
				news := make([]New, n)
				for i := range news {
					news[i] = New{TopicPartition: TopicPartition{Topic: fmt.Sprint("topic-", i/100), Partition: int32(i % 100)}, TopicID: TopicID{1}}
				}
				took(b, "create-s", func() {
					for i, err := range e.m.Create(news) {
						if err != nil {
							b.Fatal(i, err)
						}
					}
				})
				for _, l := range e.m.All() {
					if err := l.AssignEpoch(0); err != nil {
						b.Fatal(err)
					}
					if filled {
						committed(b, l, batch(clock.System.Now().UnixMilli(), "value"))
					}
				}
				b.ReportMetric(float64(liveBytes()-before)/n, "live-B/partition")
				took(b, "stop-s", func() { e.m.Close(context.Background()) })
				runtime.GC()
				took(b, "start-s", func() { e.open() })
				b.ReportMetric(float64(liveBytes()-before)/n, "restarted-B/partition")
				took(b, "stop2-s", func() { e.m.Close(context.Background()) })
			}
		})
	}
}

func took(b *testing.B, name string, f func()) {
	began := clock.System.Monotonic()
	f()
	b.ReportMetric((clock.System.Monotonic() - began).Seconds(), name)
}

func liveBytes() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
