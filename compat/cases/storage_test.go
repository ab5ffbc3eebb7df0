package cases

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/compat/raw"
)

// keyed returns a batch with the same key in every record.
func keyed(key string, values ...string) raw.Batch {
	batch := raw.NewBatch(now(), values...)
	for i := range batch.Records {
		batch.Records[i].Key = []byte(key)
	}
	return batch
}

// TestS1CompactionKeepsOffsets: compaction moves no offset, keeps an emptied batch that holds a producer's last sequence,
// and a fetch inside a gap returns what comes after it.
func TestS1CompactionKeepsOffsets(t *testing.T) {
	everywhereAnew(t, map[string]string{"log.cleaner.backoff.ms": "200"}, s1CompactionKeepsOffsets)
}

func s1CompactionKeepsOffsets(t *testing.T, b *server) {
	c := raw.Dial(t, b.Addr)
	topic := topic(t, b, 1, "cleanup.policy", "compact", "segment.ms", "100", "min.cleanable.dirty.ratio", "0.01",
		"max.compaction.lag.ms", "1000")
	producerA, producerB := producerID(t, c), producerID(t, c)
	mustProduce(t, c, topic, keyed("k", "1", "2", "3").By(producerA, 0, 0).Encode())
	mustProduce(t, c, topic, keyed("k", "4").By(producerB, 0, 0).Encode())
	for _, value := range []string{"5", "6"} { // of no producer: the first is gone without a trace
		mustProduce(t, c, topic, keyed("m", value).Encode())
	}

	// A segment only rolls when something comes, and the active one is not compacted: so feed it with other keys.
	var entries []raw.Stored
	sequence := int32(1)
	harness.Eventually(t, time.Minute, func() error {
		mustProduce(t, c, topic, keyed(fmt.Sprint("other", sequence), "v").By(producerB, 0, sequence).Encode())
		sequence++
		entries = readOn(t, c, topic, 0)
		if entries[0].Count > 0 && entries[0].BaseOffset < 3 || entries[2].BaseOffset == 4 {
			return fmt.Errorf("not compacted: the first batch has %d records, the third begins at %d", entries[0].Count, entries[2].BaseOffset)
		}
		return nil
	})
	first := entries[0]
	if first.BaseOffset != 0 || first.LastOffset != 2 || first.Count != 0 || first.ProducerID != producerA || first.BaseSequence != 0 {
		t.Errorf("the batch of the idle producer is stored as %+v; want offsets 0 to 2, no records, sequence 0", first)
	}
	end := 5 + int64(sequence)
	s1Reads(t, c, topic, end)

	r := raw.With(kmsg.NewPtrDescribeProducersRequest(), 0)
	r.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: topic, Partitions: []int32{0}}}
	producers := raw.Do[*kmsg.DescribeProducersResponse](c, r).Topics[0].Partitions[0].ActiveProducers
	last := map[int64]int32{}
	for _, p := range producers {
		last[p.ProducerID] = p.LastSequence
	}
	if len(last) != 2 || last[producerA] != 2 || last[producerB] != sequence-1 {
		t.Errorf("last sequences %v; want 2 of %d and %d of %d", last, producerA, sequence-1, producerB)
	}

	b.Stop()
	b.Restart(nil)
	c = raw.Dial(t, b.Addr)
	awaitLeader(t, c, topic)
	s1Reads(t, c, topic, end)
	// The emptied batch is what its producer is known by.
	again := produce(t, c, topic, keyed("k", "1", "2", "3").By(producerA, 0, 0).Encode())
	wantCode(t, "the emptied batch, resent", again.ErrorCode, nil)
	if again.BaseOffset != 0 {
		t.Errorf("the emptied batch, resent, is said to be at %d", again.BaseOffset)
	}
	wantCode(t, "its producer's next but one", produce(t, c, topic, keyed("x", "1").By(producerA, 0, 4).Encode()).ErrorCode, kerr.OutOfOrderSequenceNumber)
	if offset := mustProduce(t, c, topic, keyed("x", "1").By(producerA, 0, 3).Encode()); offset != end {
		t.Errorf("its producer's next went to %d, not %d", offset, end)
	}
}

// s1Reads: wherever a reader of the compacted log begins it comes to what follows, and the log is as long as it was.
func s1Reads(t *testing.T, c *raw.Conn, topic string, end int64) {
	t.Helper()
	for offset, want := range []int64{0, 0, 0, 3, 5, 5} { // where the first batch begins
		got := readOn(t, c, topic, int64(offset))
		if first, last := got[0], got[len(got)-1]; first.BaseOffset != want || first.LastOffset < int64(offset) || last.LastOffset != end-1 {
			t.Errorf("a reader from %d gets batches from %d to %d, want %d to %d", offset, first.BaseOffset, last.LastOffset, want, end-1)
		}
	}
	if start := listOffset(t, c, topic, -2).Offset; start != 0 {
		t.Errorf("the log starts at %d, not 0", start)
	}
	if got := listOffset(t, c, topic, -1).Offset; got != end {
		t.Errorf("the log ends at %d, not %d", got, end)
	}
}

// readOn reads from an offset to the end of the log, as a consumer does.
func readOn(t *testing.T, c *raw.Conn, topic string, from int64) (all []raw.Stored) {
	t.Helper()
	for end := listOffset(t, c, topic, -1).Offset; from < end; {
		got := stored(t, c, topic, from)
		if len(got) == 0 || got[len(got)-1].LastOffset < from {
			t.Fatalf("a reader at %d does not come any further", from)
		}
		all = append(all, got...)
		from = got[len(got)-1].LastOffset + 1
	}
	return all
}

// awaitLeader waits until a topic's partition can be asked.
func awaitLeader(t *testing.T, c *raw.Conn, topic string) {
	t.Helper()
	harness.Eventually(t, time.Minute, func() error {
		start := listOffsets(t, c, listVersion, topic, 0, -2)[0]
		if err := kerr.ErrorForCode(start.ErrorCode); err != nil {
			return err
		}
		return kerr.ErrorForCode(fetchFrom(t, c, fetchVersion, topic, start.Offset).ErrorCode) // 3.9 hears of its topics one after the other
	})
}

// deleteRecords asks for partition 0, or another, to be trimmed to an offset.
func deleteRecords(t testing.TB, c *raw.Conn, topic string, partition int32, offset int64) kmsg.DeleteRecordsResponseTopicPartition {
	t.Helper()
	r := raw.With(kmsg.NewPtrDeleteRecordsRequest(), 1)
	r.TimeoutMillis = 10_000
	r.Topics = []kmsg.DeleteRecordsRequestTopic{{
		Topic: topic, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: partition, Offset: offset}},
	}}
	answer := raw.Do[*kmsg.DeleteRecordsResponse](c, r)
	if len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1 {
		t.Fatalf("DeleteRecords answers %+v", answer)
	}
	return answer.Topics[0].Partitions[0]
}

// TestS3DeleteRecords: trimming raises the log start to the very offset, inside a batch if need be, and restarts keep it.
func TestS3DeleteRecords(t *testing.T) { everywhereAnew(t, nil, s3DeleteRecords) }

func s3DeleteRecords(t *testing.T, b *server) {
	c := raw.Dial(t, b.Addr)
	topic1, compacted := topic(t, b, 1), topic(t, b, 1, "cleanup.policy", "compact")
	five := func() []byte { return raw.NewBatch(now(), "a", "b", "c", "d", "e").Encode() }
	mustProduce(t, c, topic1, five())
	mustProduce(t, c, topic1, five())

	trimmed := deleteRecords(t, c, topic1, 0, 3)
	wantCode(t, "to 3", trimmed.ErrorCode, nil)
	if trimmed.LowWatermark != 3 {
		t.Errorf("low watermark %d, not 3", trimmed.LowWatermark)
	}
	if start := listOffset(t, c, topic1, -2).Offset; start != 3 {
		t.Errorf("the log starts at %d, not 3", start)
	}
	if got := stored(t, c, topic1, 3); len(got) != 2 || got[0].BaseOffset != 0 || got[0].Count != 5 {
		t.Errorf("fetch at 3: %+v; want the whole first batch and the second", got)
	}
	before := fetchFrom(t, c, fetchVersion, topic1, 2)
	wantCode(t, "fetch at 2", before.ErrorCode, kerr.OffsetOutOfRange)
	wantCode(t, "back to 1", deleteRecords(t, c, topic1, 0, 1).ErrorCode, nil)
	if start := listOffset(t, c, topic1, -2).Offset; start != 3 {
		t.Errorf("after an older offset the log starts at %d, not 3", start)
	}

	wantCode(t, "behind the high watermark", deleteRecords(t, c, topic1, 0, 11).ErrorCode, kerr.OffsetOutOfRange)
	wantCode(t, "to -2", deleteRecords(t, c, topic1, 0, -2).ErrorCode, kerr.OffsetOutOfRange)
	wantCode(t, "of a compacted topic", deleteRecords(t, c, compacted, 0, 0).ErrorCode, kerr.PolicyViolation)
	wantCode(t, "of partition 9", deleteRecords(t, c, topic1, 9, 0).ErrorCode, kerr.UnknownTopicOrPartition)

	all := deleteRecords(t, c, topic1, 0, -1)
	wantCode(t, "to the high watermark", all.ErrorCode, nil)
	if all.LowWatermark != 10 {
		t.Errorf("low watermark %d, not 10", all.LowWatermark)
	}
	if got := stored(t, c, topic1, 10); len(got) != 0 {
		t.Errorf("the trimmed log has %+v", got)
	}
	if offset := mustProduce(t, c, topic1, five()); offset != 10 {
		t.Errorf("the next batch went to %d, not 10", offset)
	}

	b.Stop()
	b.Restart(nil)
	c = raw.Dial(t, b.Addr)
	awaitLeader(t, c, topic1)
	start, end := listOffset(t, c, topic1, -2).Offset, listOffset(t, c, topic1, -1).Offset
	if start != 10 || end != 15 {
		t.Errorf("after a restart the log goes from %d to %d, not from 10 to 15", start, end)
	}
}
