package cleaner

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/wire/clock"
)

// BenchmarkRound cleans 64 MiB of records of 1 KiB on disk, of which a tenth stays.
func BenchmarkRound(b *testing.B) {
	const total, batchRecords, keys = 64 << 20, 16, 6000
	b.SetBytes(total)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		c := testConfig()
		c.SegmentBytes, c.IndexIntervalBytes = 16<<20, 4096
		m, err := log.OpenManager(context.Background(), log.Options{Dirs: []string{b.TempDir()}, ClusterID: "c"})
		if err != nil {
			b.Fatal(err)
		}
		if err := m.Create([]log.New{{TopicPartition: tp, Config: &c}})[0]; err != nil {
			b.Fatal(err)
		}
		l := m.Get(tp)
		for n := range total / (batchRecords << 10) {
			recs := make([]record.Record, batchRecords)
			for i := range recs {
				key := binary.BigEndian.AppendUint32(nil, uint32((n*batchRecords+i)*7919%keys))
				recs[i] = record.Record{Timestamp: start.UnixMilli(), Key: key, Value: make([]byte, 1000)}
			}
			batch, err := record.Build(plain(record.None), recs)
			if err != nil {
				b.Fatal(err)
			}
			checked := record.Trusted(batch)
			if _, err := l.Append(&checked, 1); err != nil {
				b.Fatal(err)
			}
		}
		l.AdvanceHighWatermark(l.Bounds().End)
		cl, err := newCleaner(Options{Logs: m, Clock: clock.System})
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if !cl.once(context.Background()) || len(cl.failed) > 0 {
			b.Fatal("nothing was cleaned")
		}
		b.StopTimer()
		if err := m.Close(context.Background()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
