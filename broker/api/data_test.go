package api

import (
	"slices"
	"testing"

	"github.com/gregor-broker/gregor/broker/replica"
	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestCaseF3: offsets by time, their versions and their errors.
func TestCaseF3(t *testing.T) {
	p := newPlane(t)
	p.topic("t", 1)
	p.topic("empty", 1)
	c := p.client()
	c.mustProduce("t", 0, records(t, record.BatchOptions{Codec: record.LZ4}, "v", 2, 4, 6, 8))
	c.mustProduce("t", 0, records(t, record.BatchOptions{}, "v", 30, 20))
	for _, w := range []struct {
		topic     string
		version   int16
		asked     int64
		code      int16
		offset    int64
		timestamp int64
		epoch     int32
	}{
		{"t", 5, 1, 0, 0, 2, 0}, {"t", 5, 2, 0, 0, 2, 0}, {"t", 5, 3, 0, 1, 4, 0}, {"t", 5, 8, 0, 3, 8, 0}, {"t", 5, 9, 0, 4, 30, 0},
		{"t", 5, 25, 0, 4, 30, 0}, {"t", 5, 31, 0, -1, -1, -1}, {"t", 5, -1, 0, 6, -1, 0}, {"t", 5, -2, 0, 0, -1, 0},
		{"empty", 5, 0, 0, -1, -1, -1}, {"empty", 5, -1, 0, 0, -1, 0}, {"empty", 5, -2, 0, 0, -1, 0},
		{"t", 1, 3, 0, 1, 4, -1}, // no epochs below v4
		{"t", 6, -3, kerr.UnsupportedVersion.Code, -1, -1, -1}, {"t", 7, -3, 0, 4, 30, 0},
		{"t", 7, -4, kerr.UnsupportedVersion.Code, -1, -1, -1}, {"t", 8, -4, 0, 0, -1, 0},
		{"t", 8, -5, kerr.UnsupportedVersion.Code, -1, -1, -1}, {"t", 9, -5, 0, -1, -1, -1},
		{"t", 10, -6, kerr.UnsupportedVersion.Code, -1, -1, -1}, {"t", 11, -6, 0, -1, -1, -1},
		{"t", 11, -7, kerr.UnsupportedVersion.Code, -1, -1, -1},
		{"nope", 11, -1, kerr.UnknownTopicOrPartition.Code, -1, -1, -1},
	} {
		a := c.offset(w.version, w.topic, 0, w.asked)
		if a.ErrorCode != w.code || a.Offset != w.offset || a.Timestamp != w.timestamp || a.LeaderEpoch != w.epoch {
			t.Errorf("v%d of %s at %d: %+v; want %+v", w.version, w.topic, w.asked, a, w)
		}
	}
	if a := c.offsets(5, "t", 0, -1, -2); len(a) != 1 || a[0].ErrorCode != kerr.InvalidRequest.Code || a[0].Offset != -1 {
		t.Errorf("the partition twice: %+v", a)
	}
	now := p.services.Clock.Now().UnixMilli() + 1000
	if a := c.offset(0, "t", 0, now); a.ErrorCode != 0 || !slices.Equal(a.OldStyleOffsets, []int64{6, 0}) {
		t.Errorf("v0: %+v", a)
	}
	if a := c.offset(0, "t", 0, -3); a.ErrorCode != kerr.UnsupportedVersion.Code || len(a.OldStyleOffsets) != 0 {
		t.Errorf("v0 at -3: %+v", a)
	}
}

// TestCaseS3: trimming, and the codes of what cannot be trimmed.
func TestCaseS3(t *testing.T) {
	p := newPlane(t)
	p.configure("compacted", func(c *log.Config) { c.Compact, c.Delete = true, false })
	p.topic("t", 1)
	p.topic("compacted", 1)
	p.topic("__consumer_offsets", 1)
	c := p.client()
	for range 2 {
		c.mustProduce("t", 0, records(t, record.BatchOptions{}, "v", 1, 2, 3, 4, 5))
	}
	trim := func(topic string, partition int32, offset int64) kmsg.DeleteRecordsResponseTopicPartition {
		r := kmsg.NewPtrDeleteRecordsRequest()
		r.Version, r.TimeoutMillis = 2, 5000
		rt := kmsg.NewDeleteRecordsRequestTopic()
		rt.Topic = topic
		rt.Partitions = []kmsg.DeleteRecordsRequestTopicPartition{{Partition: partition, Offset: offset}}
		r.Topics = append(r.Topics, rt)
		return ask[*kmsg.DeleteRecordsResponse](c, r).Topics[0].Partitions[0]
	}
	for _, w := range []struct {
		topic     string
		partition int32
		offset    int64
		code      int16
		low       int64
	}{
		{"t", 0, 3, 0, 3}, {"t", 0, 11, 1, -1}, {"t", 0, -2, 1, -1}, {"compacted", 0, 0, 44, -1}, {"t", 9, 0, 3, -1}, {"nope", 0, 0, 3, -1},
		{"__consumer_offsets", 0, 0, 17, -1},
	} {
		if a := trim(w.topic, w.partition, w.offset); a.ErrorCode != w.code || a.LowWatermark != w.low {
			t.Errorf("%s-%d to %d: %+v; want error %d, low watermark %d", w.topic, w.partition, w.offset, a, w.code, w.low)
		}
	}
	if a := c.offset(5, "t", 0, -2); a.Offset != 3 {
		t.Errorf("the log starts at %d", a.Offset)
	}
	if a := c.fetch(fetchOf(11, at{"t", 0, 2, 1 << 20}))[0]; a.ErrorCode != kerr.OffsetOutOfRange.Code {
		t.Errorf("fetch at 2: error %d", a.ErrorCode)
	}
	a := c.fetch(fetchOf(11, at{"t", 0, 3, 1 << 20}))[0]
	if e, _, err := record.NextEntry(a.RecordBatches); err != nil || e.BaseOffset() != 0 || a.LogStartOffset != 3 {
		t.Errorf("fetch at 3: %v, log start %d", err, a.LogStartOffset)
	}
	if a := trim("t", 0, -1); a.ErrorCode != 0 || a.LowWatermark != 10 {
		t.Errorf("to the high watermark: %+v", a)
	}
	if a := c.produce(9, to{"t", 0, records(t, record.BatchOptions{}, "v", 1)})[0]; a.BaseOffset != 10 || a.LogStartOffset != 10 {
		t.Errorf("the next record: %+v", a)
	}
}

func TestInitProducerID(t *testing.T) {
	p := newPlane(t)
	c := p.client()
	init := func(version int16, transactional *string, id int64, epoch int16) *kmsg.InitProducerIDResponse {
		r := kmsg.NewPtrInitProducerIDRequest()
		r.Version, r.TransactionalID, r.ProducerID, r.ProducerEpoch = version, transactional, id, epoch
		return ask[*kmsg.InitProducerIDResponse](c, r)
	}
	empty, named := "", "tx"
	seen := map[int64]bool{}
	for range 1500 { // more than a block
		a := init(4, nil, -1, -1)
		if a.ErrorCode != 0 || a.ProducerEpoch != 0 || seen[a.ProducerID] {
			t.Fatalf("%+v", a)
		}
		seen[a.ProducerID] = true
	}
	for _, w := range []struct {
		name          string
		version       int16
		transactional *string
		id            int64
		epoch         int16
		code          int16
	}{
		{"v0", 0, nil, -1, -1, 0}, {"with a former id", 4, nil, 5, 3, 0}, {"id without epoch", 4, nil, 5, -1, 42},
		{"epoch without id", 4, nil, -1, 3, 42}, {"empty transactional id", 4, &empty, -1, -1, 42}, {"transactional, no timeout", 4, &named, -1, -1, 50},
	} {
		a := init(w.version, w.transactional, w.id, w.epoch)
		if a.ErrorCode != w.code || (a.ProducerID >= 0) != (w.code == 0) || a.ProducerID == w.id && w.id >= 0 {
			t.Errorf("%s: %+v, want error %d", w.name, a, w.code)
		}
	}
}

func TestOffsetForLeaderEpochAnswers(t *testing.T) {
	p := newPlane(t)
	p.topic("t", 1)
	c := p.client()
	c.mustProduce("t", 0, records(t, record.BatchOptions{}, "v", 1))
	for _, w := range []struct {
		topic          string
		current, epoch int32
		code           int16
		found          int32
		end            int64
	}{
		{"t", -1, 0, 0, 0, 1}, {"t", 0, 0, 0, 0, 1}, {"t", -1, 3, 0, -1, -1}, {"t", 3, 0, kerr.UnknownLeaderEpoch.Code, -1, -1},
		{"nope", -1, 0, 3, -1, -1},
	} {
		r := kmsg.NewPtrOffsetForLeaderEpochRequest()
		r.Version, r.ReplicaID = 4, -1
		rt := kmsg.NewOffsetForLeaderEpochRequestTopic()
		rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		rp.CurrentLeaderEpoch, rp.LeaderEpoch = w.current, w.epoch
		rt.Topic, rt.Partitions = w.topic, append(rt.Partitions, rp)
		r.Topics = append(r.Topics, rt)
		a := ask[*kmsg.OffsetForLeaderEpochResponse](c, r).Topics[0].Partitions[0]
		if a.ErrorCode != w.code || a.LeaderEpoch != w.found || a.EndOffset != w.end {
			t.Errorf("%+v: %+v", w, a)
		}
	}
}

func TestDescribeLogDirsAnswers(t *testing.T) {
	p := newPlane(t)
	p.topic("t", 2)
	c := p.client()
	value := records(t, record.BatchOptions{}, "v", 1)
	c.mustProduce("t", 1, value)
	r := kmsg.NewPtrDescribeLogDirsRequest()
	r.Version = 5
	all := ask[*kmsg.DescribeLogDirsResponse](c, r)
	if all.ErrorCode != 0 || len(all.Dirs) != 1 || all.Dirs[0].TotalBytes <= 0 || all.Dirs[0].UsableBytes <= 0 || all.Dirs[0].IsCordoned {
		t.Fatalf("%+v", all)
	}
	ps := all.Dirs[0].Topics[0].Partitions
	if len(ps) != 2 || ps[0].Size != 0 || ps[1].Size != int64(len(value)) || ps[1].OffsetLag != 0 || ps[1].IsFuture {
		t.Errorf("%+v", ps)
	}
	r.Topics = []kmsg.DescribeLogDirsRequestTopic{{Topic: "t", Partitions: []int32{1, 8}}}
	if some := ask[*kmsg.DescribeLogDirsResponse](c, r).Dirs[0].Topics; len(some) != 1 || len(some[0].Partitions) != 1 {
		t.Errorf("%+v", some)
	}
}

func TestDescribeProducersAnswers(t *testing.T) {
	p := newPlane(t)
	p.topic("t", 1)
	c := p.client()
	c.mustProduce("t", 0, records(t, record.BatchOptions{ProducerID: 5}, "v", 1, 2))
	describe := func(topic string, partition int32) kmsg.DescribeProducersResponseTopicPartition {
		r := kmsg.NewPtrDescribeProducersRequest()
		r.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: topic, Partitions: []int32{partition}}}
		return ask[*kmsg.DescribeProducersResponse](c, r).Topics[0].Partitions[0]
	}
	a := describe("t", 0)
	if a.ErrorCode != 0 || len(a.ActiveProducers) != 1 || a.ActiveProducers[0].ProducerID != 5 || a.ActiveProducers[0].LastSequence != 1 ||
		a.ActiveProducers[0].CurrentTxnStartOffset != -1 {
		t.Errorf("%+v", a)
	}
	for topic, code := range map[string]int16{"nope": 3, "bad/name": 17} {
		if a := describe(topic, 0); a.ErrorCode != code || a.ErrorMessage == nil {
			t.Errorf("%s: %+v", topic, a)
		}
	}
	if a := describe("t", 1); a.ErrorCode != 3 {
		t.Errorf("%+v", a)
	}
}

// As 4.4.0 answers.
func TestDescribeTopicPartitionsOfABadCursor(t *testing.T) {
	p := newPlane(t)
	p.topic("t", 1)
	r := kmsg.NewPtrDescribeTopicPartitionsRequest()
	for _, name := range []string{"t", "nope"} {
		asked := kmsg.NewDescribeTopicPartitionsRequestTopic()
		asked.Topic = name
		r.Topics = append(r.Topics, asked)
	}
	r.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: "t", Partition: -5}
	c := p.client()
	got := ask[*kmsg.DescribeTopicPartitionsResponse](c, r)
	if len(got.Topics) != 2 || got.NextCursor != nil {
		t.Fatalf("%+v", got)
	}
	for i, topic := range got.Topics {
		if *topic.Topic != r.Topics[i].Topic || topic.ErrorCode != kerr.InvalidRequest.Code {
			t.Errorf("%s: %+v", *topic.Topic, topic)
		}
	}
	r.Cursor.Topic, r.Cursor.Partition = "u", 0 // is not among those that are asked for
	if got := ask[*kmsg.DescribeTopicPartitionsResponse](c, r); len(got.Topics) != 2 || got.Topics[0].ErrorCode != kerr.InvalidRequest.Code {
		t.Errorf("a cursor at another topic: %+v", got)
	}
	r.Topics, r.Cursor.Partition = nil, -5
	if got := ask[*kmsg.DescribeTopicPartitionsResponse](c, r); len(got.Topics) != 0 {
		t.Errorf("of all topics: %+v", got)
	}
}

// Versions 10 and 11 of Metadata have the field of the topic's id, and may not use it.
func TestMetadataByIDTooEarly(t *testing.T) {
	p := newPlane(t)
	id := p.topic("t", 1)
	c := p.client()
	name := "t"
	for _, asked := range []kmsg.MetadataRequestTopic{{}, {TopicID: id}, {Topic: &name, TopicID: id}} {
		for version := int16(10); version <= 12; version++ {
			r := kmsg.NewPtrMetadataRequest()
			r.Version, r.Topics = version, []kmsg.MetadataRequestTopic{asked, {Topic: &name}}
			got := ask[*kmsg.MetadataResponse](c, r).Topics
			if version == 12 && asked.TopicID == id { // names beside ids count for nothing
				if len(got) != 1 || got[0].ErrorCode != 0 || *got[0].Topic != "t" {
					t.Errorf("version 12 of %+v: %+v", asked, got)
				}
				continue
			}
			if len(got) != 2 || (got[1].ErrorCode == kerr.InvalidRequest.Code) != (version < 12) || (got[0].ErrorCode == kerr.InvalidRequest.Code) != (version < 12) {
				t.Errorf("version %d of %+v: %+v", version, asked, got)
			}
		}
	}
}

func TestDuplicates(t *testing.T) {
	for _, n := range []int{3, pairwise + 3} {
		keys := make([]partitionKey, n)
		for i := range keys {
			keys[i].partition = int32(i)
		}
		find := func() []double { return duplicates(n, func(i int) partitionKey { return keys[i] }) }
		if find() != nil {
			t.Errorf("%d different partitions: found %v", n, find())
		}
		keys[n-1] = keys[0]
		got := find()
		if got == nil || got[0] != (double{again: true}) || got[n-1] != (double{before: true}) || got[1] != (double{}) {
			t.Errorf("of %d: %v", n, got)
		}
	}
}

// BenchmarkRequest measures a request from the frame to the answer, over a pipe: what a client's code takes is in it.
func BenchmarkRequest(b *testing.B) {
	p := newPlane(b)
	p.topic("t", 1)
	c := p.client()
	value := records(b, record.BatchOptions{}, "a record of some hundred bytes, as many producers send them one by one, all day long", clock.System.Now().UnixMilli())
	c.mustProduce("t", 0, value)
	b.Run("produce", func(b *testing.B) {
		r := produceOf(9, replica.AcksAll, to{"t", 0, value})
		b.ReportAllocs()
		for b.Loop() {
			c.send(r)
			c.frame()
		}
	})
	b.Run("fetch", func(b *testing.B) {
		r := fetchOf(11, at{"t", 0, 0, 1000})
		b.ReportAllocs()
		for b.Loop() {
			c.send(r)
			c.frame()
		}
	})
}
