package cases

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/compat/raw"
)

// TestF1OneBigBatch: from v3 on the first partition that has something returns its whole first batch above every limit, the
// others nothing.
func TestF1OneBigBatch(t *testing.T) { everywhere(t, f1OneBigBatch) }

func f1OneBigBatch(t *testing.T, b *server) {
	c := raw.Dial(t, b.Addr)
	topic := topic(t, b, 2)
	big := raw.NewBatch(now(), strings.Repeat("x", 600_000)).Encode()
	small := raw.NewBatch(now(), "small").Encode()
	toPartition := func(partition int32, batch []byte) {
		r := produceRequest(produceVersion, -1, topic, batch)
		r.Topics[0].Partitions[0].Partition = partition
		wantCode(t, "produce", partition0(t, raw.Do[*kmsg.ProduceResponse](c, r)).ErrorCode, nil)
	}
	toPartition(0, big)
	for range 3 {
		toPartition(0, small)
		toPartition(1, small)
	}
	sizes := []int{len(big), len(small)}

	for _, order := range [][]at{{{0, 0}, {1, 0}}, {{1, 0}, {0, 0}}} {
		answer := raw.Do[*kmsg.FetchResponse](c, fetchRequest(fetchVersion, topic, 1, 1, order...))
		partitions := answer.Topics[0].Partitions
		if len(partitions) != 2 {
			t.Fatalf("%d partitions in the answer", len(partitions))
		}
		for i, p := range partitions {
			want := 0
			if i == 0 {
				want = sizes[order[0].partition]
			}
			if p.Partition != order[i].partition || p.ErrorCode != 0 || len(p.RecordBatches) != want {
				t.Errorf("order %v: place %d holds partition %d with error %d and %d bytes; want %d with %d", order, i, p.Partition,
					p.ErrorCode, len(p.RecordBatches), order[i].partition, want)
			}
		}
	}
	// An empty partition first: the one exception to the limits is for the first that has something.
	answer := raw.Do[*kmsg.FetchResponse](c, fetchRequest(fetchVersion, topic, 1, 1, at{1, 3}, at{0, 0}))
	if n := len(answer.Topics[0].Partitions[1].RecordBatches); n != len(big) {
		t.Errorf("after an empty partition: %d bytes, want the first batch's %d", n, len(big))
	}
}

// TestF1HardLimits: up to v2 the limits are hard. Where the first batch does not fit there is nothing at all, as from Kafka 3.9, although
// the high watermark says that there is more: by that the client sees that its limit is too small.
func TestF1HardLimits(t *testing.T) { everywhere(t, f1HardLimits) }

func f1HardLimits(t *testing.T, b *server) {
	only(t, b, legacy, harness.Gregor, harness.Kafka39)
	c := raw.Dial(t, b.Addr)
	topic := topic(t, b, 1)
	mustProduce(t, c, topic, raw.NewBatch(now(), strings.Repeat("x", 600_000)).Encode())
	mustProduce(t, c, topic, raw.NewBatch(now(), "small").Encode())
	for _, version := range []int16{0, 1, 2} {
		for _, test := range []struct {
			offset  int64
			limit   int32
			message bool
		}{{0, 1, false}, {0, 5000, false}, {1, 1, false}, {1, 72, false}, {1, 73, true}, {1, 1000, true}, {0, 1_000_000, true}} {
			answer := raw.Do[*kmsg.FetchResponse](c, fetchRequest(version, topic, 0, test.limit, at{0, test.offset}))
			p := answer.Topics[0].Partitions[0]
			entries, _, err := raw.Entries(p.RecordBatches)
			if p.ErrorCode != 0 || p.HighWatermark != 2 || err != nil {
				t.Errorf("v%d, %+v: error %d, high watermark %d, %v", version, test, p.ErrorCode, p.HighWatermark, err)
			}
			if !test.message {
				if len(p.RecordBatches) > 0 {
					t.Errorf("v%d, %+v: %d bytes, want none", version, test, len(p.RecordBatches))
				}
				continue
			}
			wantMagic := int8(0)
			if version == 2 {
				wantMagic = 1
			}
			if len(entries) == 0 || entries[0].BaseOffset != test.offset || entries[0].Magic != wantMagic || !entries[0].ValidCRC {
				t.Errorf("v%d, %+v: messages %.200v; want one of format v%d at the offset", version, test, entries, wantMagic)
			}
		}
	}
}

// TestF1ConvertedWithinLimits: what is converted for old consumers grows; no more comes than was stored within their limit, save the first
// batch, which is whole.
func TestF1ConvertedWithinLimits(t *testing.T) { everywhere(t, f1ConvertedWithinLimits) }

func f1ConvertedWithinLimits(t *testing.T, b *server) {
	only(t, b, legacy, harness.Gregor, harness.Kafka39)
	c := raw.Dial(t, b.Addr)
	topic := topic(t, b, 1)
	fifty := raw.NewBatch(now(), strings.Split(strings.Repeat("v", 50), "")...).Encode()
	for range 20 {
		mustProduce(t, c, topic, fifty)
	}
	for version := range int16(4) {
		converted := 50 * len(raw.Message(int8(version/2), 0, 0, 0, nil, []byte("v")))
		for _, limit := range []int{len(fifty), 5000, 8000} {
			set := fetchRecords(t, c, version, topic, int32(limit))
			entries, _, err := raw.Entries(set)
			if err != nil || len(entries) < 50 || len(set) > max(limit, converted) {
				t.Errorf("v%d, at most %d: %d messages in %d bytes, %v; want 50 or more in %d or less", version, limit, len(entries), len(set), err, max(limit, converted))
			}
		}
	}
}

// fetchRecords returns what a fetch from the start, of at most so many bytes of the partition, brings.
func fetchRecords(t *testing.T, c *raw.Conn, version int16, topic string, limit int32) []byte {
	t.Helper()
	return raw.Do[*kmsg.FetchResponse](c, fetchRequest(version, topic, 8<<20, limit, at{0, 0})).Topics[0].Partitions[0].RecordBatches
}

// TestF3OffsetsByTime: the first record at or after a timestamp, with the epoch of its batch; -1 and no error when there
// is none.
func TestF3OffsetsByTime(t *testing.T) { everywhere(t, f3OffsetsByTime) }

func f3OffsetsByTime(t *testing.T, b *server) {
	c := raw.Dial(t, b.Addr)
	topic := topic(t, b, 1)

	for _, timestamp := range []int64{-1, -2} {
		if got := listOffset(t, c, topic, timestamp); got.Offset != 0 || got.Timestamp != -1 {
			t.Errorf("empty topic, %d: %+v, want offset 0 and timestamp -1", timestamp, got)
		}
	}
	for _, timestamp := range []int64{0, 5} {
		if got := listOffset(t, c, topic, timestamp); got.Offset != -1 || got.Timestamp != -1 {
			t.Errorf("empty topic, time %d: %+v, want -1 and -1", timestamp, got)
		}
	}

	rising := raw.NewBatch(2, "a", "b", "c", "d").With(raw.LZ4)
	for i := range rising.Records {
		rising.Records[i].Timestamp = int64(2 * (i + 1))
	}
	mustProduce(t, c, topic, rising.Encode())
	falling := raw.NewBatch(30, "e", "f")
	falling.Records[1].Timestamp = 20
	mustProduce(t, c, topic, falling.Encode())

	for _, test := range []struct{ time, offset, timestamp int64 }{
		{1, 0, 2}, {2, 0, 2}, {3, 1, 4}, {8, 3, 8}, {9, 4, 30}, {25, 4, 30}, {31, -1, -1}, {-1, 6, -1}, {-2, 0, -1},
	} {
		got := listOffset(t, c, topic, test.time)
		if got.Offset != test.offset || got.Timestamp != test.timestamp {
			t.Errorf("time %d: offset %d, timestamp %d; want %d, %d", test.time, got.Offset, got.Timestamp, test.offset, test.timestamp)
		}
		if want := int32(0); test.offset >= 0 && test.time != -2 && got.LeaderEpoch != want {
			t.Errorf("time %d: leader epoch %d, want %d", test.time, got.LeaderEpoch, want)
		}
	}
	// The record with the largest timestamp.
	p := listOffsets(t, c, 7, topic, 0, -3)[0]
	if p.ErrorCode != 0 || p.Offset != 4 || p.Timestamp != 30 {
		t.Errorf("max timestamp: %+v, want offset 4, timestamp 30", p)
	}

	twice := listOffsets(t, c, listVersion, topic, 0, -1, -2)
	for i, p := range twice {
		wantCode(t, fmt.Sprintf("the same partition twice, %d", i), p.ErrorCode, kerr.InvalidRequest)
	}
	if want := map[string]int{"3.9": 2, "4.4": 1}[standard(b)]; len(twice) != want {
		t.Errorf("the same partition twice is answered %d times, want %d", len(twice), want)
	}
	epoch := listRequest(topic, 0, -1)
	epoch.Topics[0].Partitions[0].CurrentLeaderEpoch = -2
	fenced := raw.Do[*kmsg.ListOffsetsResponse](c, raw.With(epoch, 5)).Topics[0].Partitions[0]
	wantCode(t, "leader epoch -2", fenced.ErrorCode, kerr.FencedLeaderEpoch)
	wantCode(t, "unknown partition", listOffsets(t, c, listVersion, topic, 7, -1)[0].ErrorCode, kerr.UnknownTopicOrPartition)
}

// TestF3OffsetsBySegment: v0 answers segment base offsets and the log end, falling.
func TestF3OffsetsBySegment(t *testing.T) { everywhere(t, f3OffsetsBySegment) }

func f3OffsetsBySegment(t *testing.T, b *server) {
	only(t, b, legacy, harness.Gregor, harness.Kafka39)
	c := raw.Dial(t, b.Addr)
	topic := topic(t, b, 1, "segment.bytes", "1048576") // 4.4's least
	var afterFirst int64
	for i := range 3 { // a segment each
		mustProduce(t, c, topic, raw.NewBatch(now(), strings.Repeat("x", 700_000)).Encode())
		if i == 0 {
			afterFirst = now()
			harness.Elapse(t, 50*time.Millisecond) // more than files' times are apart at least
		}
	}
	for _, test := range []struct {
		time int64
		want []int64
	}{{now() + 60_000, []int64{3, 2, 1, 0}}, {-1, []int64{3, 2, 1, 0}}, {-2, []int64{0}}, {afterFirst, []int64{0}}, {5, []int64{}}} {
		p := listOffsets(t, c, 0, topic, 0, test.time)[0]
		if p.ErrorCode != 0 || fmt.Sprint(p.OldStyleOffsets) != fmt.Sprint(test.want) {
			t.Errorf("v0 at %d: error %d, %v; want %v", test.time, p.ErrorCode, p.OldStyleOffsets, test.want)
		}
	}
}

// TestF5ZstdForOldClients: 3.9 refuses old fetches of a topic that is set to zstd, by its setting alone; elsewhere, and
// with 4.4 everywhere, zstd passes through where nothing must be converted.
func TestF5ZstdForOldClients(t *testing.T) { everywhere(t, f5ZstdForOldClients) }

func f5ZstdForOldClients(t *testing.T, b *server) {
	c := raw.Dial(t, b.Addr)
	set := topic(t, b, 1, "compression.type", "zstd")
	free := topic(t, b, 1, "compression.type", "producer")
	empty := topic(t, b, 1, "compression.type", "zstd")
	batch := raw.NewBatch(now(), "zstandard").With(raw.Zstd).Encode()
	mustProduce(t, c, set, batch)
	mustProduce(t, c, free, batch)

	bySetting := kerr.UnsupportedCompressionType
	if b.Kind != harness.Kafka39 {
		bySetting = nil
	}
	for _, version := range []int16{4, 9} {
		what := fmt.Sprintf("fetch v%d ", version)
		wantCode(t, what+"of a zstd topic", fetchFrom(t, c, version, set, 0).ErrorCode, bySetting)
		wantCode(t, what+"of an empty zstd topic", fetchFrom(t, c, version, empty, 0).ErrorCode, bySetting)
		passed := fetchFrom(t, c, version, free, 0)
		wantCode(t, what+"of zstd records", passed.ErrorCode, nil)
		if len(passed.RecordBatches) != len(batch) || !bytes.Equal(passed.RecordBatches[61:], batch[61:]) {
			t.Errorf("%s: zstd records were changed", what)
		}
	}
	if b.Kind != harness.Kafka44 {
		for _, topic := range []string{set, free} {
			wantCode(t, "fetch v2, which needs conversion", fetchFrom(t, c, 2, topic, 0).ErrorCode, kerr.UnsupportedCompressionType)
		}
	}
	for _, topic := range []string{set, free} {
		got := fetchFrom(t, c, 10, topic, 0)
		if got.ErrorCode != 0 || len(got.RecordBatches) != len(batch) {
			t.Errorf("fetch v10 of %s: error %d, %d bytes", topic, got.ErrorCode, len(got.RecordBatches))
		}
	}
	for _, version := range []int16{3, 6} {
		wantCode(t, fmt.Sprintf("produce v%d", version), produceVersioned(t, c, version, free, batch).ErrorCode, kerr.UnsupportedCompressionType)
	}
	wantCode(t, "produce v7", produceVersioned(t, c, 7, free, batch).ErrorCode, nil)
}
