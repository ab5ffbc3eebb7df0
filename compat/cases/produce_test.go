package cases

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/compat/raw"
)

// TestP1ResentBatches: of the last five batches of a producer a resent one is answered with its first offset and not stored
// again; older ones and gaps are refused; sequences wrap.
func TestP1ResentBatches(t *testing.T) { everywhere(t, p1ResentBatches) }

func p1ResentBatches(t *testing.T, b *server) {
	c := raw.Dial(t, b.Addr)
	topic := topic(t, b, 1)
	pid := producerID(t, c)
	single := func(sequence int32) []byte { return raw.NewBatch(now(), "v").By(pid, 0, sequence).Encode() }

	batches := make([][]byte, 6)
	for i := range batches {
		batches[i] = single(int32(i))
		if offset := mustProduce(t, c, topic, batches[i]); offset != int64(i) {
			t.Fatalf("batch %d went to offset %d", i, offset)
		}
	}
	for _, i := range []int64{5, 1} {
		p := produce(t, c, topic, batches[i])
		wantCode(t, fmt.Sprintf("batch %d resent", i), p.ErrorCode, nil)
		if p.BaseOffset != i {
			t.Errorf("batch %d resent: base offset %d, want its first, %d", i, p.BaseOffset, i)
		}
	}
	wantCode(t, "batch 0, the sixth last, resent", produce(t, c, topic, batches[0]).ErrorCode, kerr.OutOfOrderSequenceNumber)
	wantCode(t, "a gap", produce(t, c, topic, single(9)).ErrorCode, kerr.OutOfOrderSequenceNumber)
	two := raw.NewBatch(now(), "a", "b").By(pid, 0, 4).Encode()
	wantCode(t, "first sequence of one batch, last of another", produce(t, c, topic, two).ErrorCode, kerr.OutOfOrderSequenceNumber)
	if end := listOffset(t, c, topic, -1).Offset; end != 6 {
		t.Errorf("the log ends at %d, not 6", end)
	}

	pid = producerID(t, c)
	mustProduce(t, c, topic, single(math.MaxInt32))
	mustProduce(t, c, topic, single(0))
	pid = producerID(t, c)
	mustProduce(t, c, topic, raw.NewBatch(now(), "a", "b").By(pid, 0, math.MaxInt32).Encode()) // sequences MaxInt32 and 0
	mustProduce(t, c, topic, single(1))
}

// TestP1AfterRestart: a broker that was stopped or killed knows of each producer its last batch at least: a snapshot has no more than that.
func TestP1AfterRestart(t *testing.T) { everywhereAnew(t, nil, p1AfterRestart) }

func p1AfterRestart(t *testing.T, b *server) {
	for what, end := range map[string]func(){"stopped": b.Stop, "killed": b.Kill} {
		c := raw.Dial(t, b.Addr)
		topic := topic(t, b, 1)
		pid := producerID(t, c)
		single := func(sequence int32) []byte { return raw.NewBatch(now(), "v").By(pid, 0, sequence).Encode() }
		for sequence := range int32(7) {
			mustProduce(t, c, topic, single(sequence))
		}
		end()
		b.Restart(nil)
		c = raw.Dial(t, b.Addr)
		awaitLeader(t, c, topic)
		again := produce(t, c, topic, single(6))
		wantCode(t, what+": the last batch, resent", again.ErrorCode, nil)
		if again.BaseOffset != 6 {
			t.Errorf("%s: the last batch, resent: base offset %d", what, again.BaseOffset)
		}
		for _, sequence := range []int32{0, 1, 8} {
			wantCode(t, fmt.Sprintf("%s: sequence %d", what, sequence), produce(t, c, topic, single(sequence)).ErrorCode, kerr.OutOfOrderSequenceNumber)
		}
		if offset := mustProduce(t, c, topic, single(7)); offset != 7 {
			t.Errorf("%s: the next batch went to %d, not 7", what, offset)
		}
	}
}

// TestP2Acks: acks=0 gets no answer and leaves no hole in the order of answers; its only error is
// a closed connection.
func TestP2Acks(t *testing.T) { everywhere(t, p2Acks) }

func p2Acks(t *testing.T, b *server) {
	topic := topic(t, b, 1)
	batch := raw.NewBatch(now(), "v").Encode()
	metadata := raw.With(kmsg.NewPtrMetadataRequest(), 9)
	metadata.Topics = []kmsg.MetadataRequestTopic{}

	t.Run("0", func(t *testing.T) {
		c := raw.Dial(t, b.Addr)
		for range 3 {
			c.SendNoAnswer(produceRequest(produceVersion, 0, topic, batch))
			raw.Do[*kmsg.MetadataResponse](c, metadata)
		}
		if n := len(stored(t, c, topic, 0)); n != 3 {
			t.Errorf("%d batches are stored, not 3", n)
		}
	})
	t.Run("0 unknown topic", func(t *testing.T) {
		c := raw.Dial(t, b.Addr)
		c.SendNoAnswer(produceRequest(produceVersion, 0, name(t), batch))
		c.SendNoAnswer(metadata)
		c.ExpectClosed()
	})
	t.Run("2", func(t *testing.T) {
		c := raw.Dial(t, b.Addr)
		p := partition0(t, raw.Do[*kmsg.ProduceResponse](c, produceRequest(produceVersion, 2, topic, batch)))
		wantCode(t, "acks=2", p.ErrorCode, kerr.InvalidRequiredAcks)
	})
	t.Run("1", func(t *testing.T) {
		c := raw.Dial(t, b.Addr)
		p := partition0(t, raw.Do[*kmsg.ProduceResponse](c, produceRequest(produceVersion, 1, topic, batch)))
		wantCode(t, "acks=1", p.ErrorCode, nil)
	})
}

// TestP5LogAppendTime: the broker's time replaces the records', in the batch's header only.
func TestP5LogAppendTime(t *testing.T) { everywhere(t, p5LogAppendTime) }

func p5LogAppendTime(t *testing.T, b *server) {
	c := raw.Dial(t, b.Addr)
	topic := topic(t, b, 1, "message.timestamp.type", "LogAppendTime")
	batch := raw.NewBatch(1000, "a", "b", "c").With(raw.Gzip)
	batch.Records[1].Timestamp, batch.Records[2].Timestamp = 2000, 3000

	before := now()
	p := produce(t, c, topic, batch.Encode())
	after := now()
	wantCode(t, "produce", p.ErrorCode, nil)
	if p.LogAppendTime < before || p.LogAppendTime > after {
		t.Errorf("log append time %d is not between %d and %d", p.LogAppendTime, before, after)
	}
	entries := stored(t, c, topic, 0)
	if len(entries) != 1 {
		t.Fatalf("%d batches are stored", len(entries))
	}
	e := entries[0]
	if e.Attributes != int16(raw.Gzip)|8 || e.MaxTime != p.LogAppendTime || e.BaseTimestamp != 1000 || len(e.Records) != 3 {
		t.Errorf("stored batch: attributes %#x, max timestamp %d, base timestamp %d, %d records; want 0x9, %d, 1000, 3",
			e.Attributes, e.MaxTime, e.BaseTimestamp, len(e.Records), p.LogAppendTime)
	}
	for i, r := range e.Records {
		if r.Timestamp != p.LogAppendTime {
			t.Errorf("record %d reads as %d", i, r.Timestamp)
		}
	}

	marked := raw.NewBatch(1000, "a")
	marked.Attributes = 8
	refused := produce(t, c, topic, marked.Encode())
	wantCode(t, "a batch that says log append time itself", refused.ErrorCode, kerr.InvalidTimestamp)
	if len(refused.ErrorRecords) != 1 || refused.ErrorRecords[0].RelativeOffset != 0 || refused.ErrorMessage == nil || *refused.ErrorMessage == "" {
		t.Errorf("record errors %+v, message %v; want index 0 and words", refused.ErrorRecords, refused.ErrorMessage)
	}
	refused = produceVersioned(t, c, 7, topic, marked.Encode())
	wantCode(t, "the same in a version without record errors", refused.ErrorCode, kerr.InvalidTimestamp)
	if end := listOffset(t, c, topic, -1).Offset; end != 3 {
		t.Errorf("the log ends at %d, not 3", end)
	}
}

// TestP5TimestampLimits: a record from the future beyond message.timestamp.after.max.ms is refused by its index, and
// nothing of its batch is stored.
func TestP5TimestampLimits(t *testing.T) { everywhere(t, p5TimestampLimits) }

func p5TimestampLimits(t *testing.T, b *server) {
	c := raw.Dial(t, b.Addr)
	topic := topic(t, b, 1, "message.timestamp.after.max.ms", "1000")

	p := produce(t, c, topic, raw.NewBatch(now(), "in time").Encode())
	wantCode(t, "a record of now", p.ErrorCode, nil)
	if p.LogAppendTime != -1 {
		t.Errorf("log append time %d, want -1 for CreateTime", p.LogAppendTime)
	}
	late := raw.NewBatch(now(), "in time", "an hour ahead")
	late.Records[1].Timestamp += time.Hour.Milliseconds()
	p = produce(t, c, topic, late.Encode())
	wantCode(t, "a record an hour ahead", p.ErrorCode, kerr.InvalidTimestamp)
	if len(p.ErrorRecords) != 1 || p.ErrorRecords[0].RelativeOffset != 1 || p.ErrorMessage == nil || *p.ErrorMessage == "" {
		t.Errorf("record errors %+v, message %v; want index 1 and words", p.ErrorRecords, p.ErrorMessage)
	}
	if end := listOffset(t, c, topic, -1).Offset; end != 1 {
		t.Errorf("the log ends at %d, not 1", end)
	}

	// What Kafka does with a batch that claims log append time for a CreateTime topic.
	marked := raw.NewBatch(now(), "a")
	marked.Attributes = 8
	p = produce(t, c, topic, marked.Encode())
	wantCode(t, "a batch that says log append time, to a CreateTime topic", p.ErrorCode, nil)
	if e := stored(t, c, topic, 1); len(e) != 1 || e[0].Attributes&8 != 0 {
		t.Errorf("stored as %+v", e)
	}
}

// TestP6LeaderNamedOnceItServes: a partition that Metadata gives a leader takes records at once, so that the first of several pipelined
// idempotent batches is not refused alone.
func TestP6LeaderNamedOnceItServes(t *testing.T) { everywhere(t, p6LeaderNamedOnceItServes) }

func p6LeaderNamedOnceItServes(t *testing.T, b *server) {
	if b.Kind == harness.Kafka44 {
		t.Skip("Kafka 4.4 has this fault")
	}
	const rounds, partitions = 10, 20
	for range rounds {
		admin, c := raw.Dial(t, b.Addr), raw.Dial(t, b.Addr)
		topic := name(t)
		create := raw.With(kmsg.NewPtrCreateTopicsRequest(), 5)
		create.TimeoutMillis = 30_000
		asked := kmsg.NewCreateTopicsRequestTopic()
		asked.Topic, asked.NumPartitions, asked.ReplicationFactor = topic, partitions, 1
		create.Topics = []kmsg.CreateTopicsRequestTopic{asked}
		var wg sync.WaitGroup
		wg.Add(1)
		admin.Send(create)
		defer wg.Wait()
		go func() {
			defer wg.Done()
			if answer, ok := admin.Receive().(*kmsg.CreateTopicsResponse); ok && answer.Topics[0].ErrorCode != 0 {
				t.Errorf("create %s: %v", topic, kerr.ErrorForCode(answer.Topics[0].ErrorCode))
			}
		}()
		pipelineOnceLed(t, c, topic, partitions)
		wg.Wait()
	}
}

// pipelineOnceLed asks for a topic's metadata until all partitions have leaders, and then pipelines five batches to each.
func pipelineOnceLed(t *testing.T, c *raw.Conn, topic string, partitions int32) {
	t.Helper()
	metadata := raw.With(kmsg.NewPtrMetadataRequest(), 9)
	metadata.Topics = []kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr(topic)}}
	pid := producerID(t, c)
	for led := int32(0); led < partitions; led = 0 {
		for _, p := range raw.Do[*kmsg.MetadataResponse](c, metadata).Topics[0].Partitions {
			if p.ErrorCode == 0 && p.Leader >= 0 {
				led++
			}
		}
		if led == partitions {
			break
		}
	}
	for sequence := range int32(5) {
		r := produceRequest(produceVersion, -1, topic, nil)
		r.Topics[0].Partitions = nil
		for p := range partitions {
			r.Topics[0].Partitions = append(r.Topics[0].Partitions, kmsg.ProduceRequestTopicPartition{
				Partition: p, Records: raw.NewBatch(now(), "v").By(pid, 0, sequence).Encode(),
			})
		}
		c.Send(r)
	}
	for sequence := range int64(5) {
		for _, p := range raw.Receive[*kmsg.ProduceResponse](c).Topics[0].Partitions {
			if p.ErrorCode != 0 || p.BaseOffset != sequence {
				t.Fatalf("batch %d to %s-%d: %v, base offset %d", sequence, topic, p.Partition, kerr.ErrorForCode(p.ErrorCode), p.BaseOffset)
			}
		}
	}
}
