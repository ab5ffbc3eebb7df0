package datadir

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gregor-broker/gregor/compat/harness"
)

// TestSoak kills the broker again and again under producers and a group that go on: what was acknowledged is there, once
// and in order. GREGOR_SOAK says for how long ("make soak"); without it, for three kills.
func TestSoak(t *testing.T) {
	limit, kills := time.Duration(0), 3
	if text := os.Getenv("GREGOR_SOAK"); text != "" {
		var err error
		if limit, err = time.ParseDuration(text); err != nil {
			t.Fatalf("GREGOR_SOAK: %v", err)
		}
		kills = 1 << 30
	}
	b := harness.Start(t, harness.Options{Props: map[string]string{"log.segment.bytes": "1048576"}})
	harness.CreateTopic(t, b, "soak", 4)
	// The client gives up no record, so that all it sends is acknowledged in the end.
	producer := harness.Client(t, b, kgo.DefaultProduceTopic("soak"), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RecordRetries(1<<30), kgo.MaxBufferedRecords(2000), kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }))
	var stop atomic.Bool
	var acked, failed atomic.Int64
	sent := [4]int64{}
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		for n := int64(0); !stop.Load(); n++ {
			partition := n % 4
			r := &kgo.Record{Partition: int32(partition), Value: fmt.Appendf(nil, "%d of partition %d, and some more bytes", sent[partition], partition)}
			sent[partition]++
			producer.Produce(t.Context(), r, func(_ *kgo.Record, err error) {
				if err != nil {
					failed.Add(1)
				}
				acked.Add(1)
			})
		}
	}()
	ctx := harness.Context(t, limit+5*time.Minute)
	began := time.Now()
	for kill := 0; kill < kills && (limit == 0 || time.Since(began) < limit); kill++ {
		// Some thousand more acknowledged records between kills.
		target := acked.Load() + 3000
		harness.Eventually(t, 2*time.Minute, func() error {
			if n := acked.Load(); n < target {
				return fmt.Errorf("%d of %d records acknowledged", n, target)
			}
			return nil
		})
		b.Kill()
		b.Restart(nil)
	}
	stop.Store(true)
	<-finished
	if err := producer.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if n := failed.Load(); n > 0 {
		t.Errorf("%d records failed", n)
	}
	read := readAll(t, b, "soak")
	for partition, n := range sent {
		records := read[int32(partition)]
		if int64(len(records)) != n {
			t.Errorf("partition %d: %d records, want the %d that were acknowledged", partition, len(records), n)
		}
		for i, r := range records {
			if want := fmt.Sprintf("%d of partition %d, and some more bytes", i, partition); r.value != want {
				t.Errorf("partition %d: record %d is %q", partition, i, r.value)
				break
			}
		}
	}
	t.Logf("%d records", acked.Load())
}

// TestTornTail: after kill -9, bytes of a batch that was never whole are cut off, and lost indexes are built anew.
func TestTornTail(t *testing.T) {
	b := harness.Start(t, harness.Options{Props: map[string]string{"log.segment.bytes": "1048576", "log.index.interval.bytes": "500"}})
	harness.CreateTopic(t, b, "torn", 1)
	fill(t, b, "torn", kgo.NoCompression(), nil, 12000)
	before := readAll(t, b, "torn")
	dir := b.PartitionDir(t, "torn", 0)
	b.Kill()

	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(logs) < 3 {
		t.Fatalf("%d segments, %v", len(logs), err)
	}
	last := logs[len(logs)-1]
	segment, err := os.ReadFile(last)
	if err != nil {
		t.Fatal(err)
	}
	// Half of the segment's first batch once more.
	torn := append(segment, segment[:100]...)
	if err := os.WriteFile(last, torn, 0o644); err != nil {
		t.Fatal(err)
	}
	indexes, err := filepath.Glob(filepath.Join(dir, "*index"))
	if err != nil {
		t.Fatal(err)
	}
	for i, path := range indexes {
		switch i % 3 {
		case 0:
			err = os.Remove(path)
		case 1:
			err = os.WriteFile(path, []byte("no index at all"), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	b.Restart(nil)
	awaitTopic(t, b, "torn", 1)
	same(t, "torn", readAll(t, b, "torn"), before)
	if info, err := os.Stat(last); err != nil || info.Size() != int64(len(segment)) {
		t.Errorf("the last segment has %d bytes, %v; want %d", info.Size(), err, len(segment))
	}
	fill(t, b, "torn", kgo.ZstdCompression(), nil, 10)
	if n := len(readAll(t, b, "torn")[0]); n != 12010 {
		t.Errorf("%d records, want 12010", n)
	}
}
