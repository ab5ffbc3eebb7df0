package api

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/record"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestCaseF1: limits are soft for the first batch from v3 on, and hard before.
func TestCaseF1(t *testing.T) {
	p := newPlane(t)
	p.topic("t", 2)
	c := p.client()
	big := records(t, record.BatchOptions{}, strings.Repeat("x", 600_000), 1)
	small := records(t, record.BatchOptions{}, "v", 1)
	c.mustProduce("t", 0, big)
	for range 2 {
		c.mustProduce("t", 0, small)
		c.mustProduce("t", 1, small)
	}
	for _, w := range []struct {
		version int16
		order   []int32
		sizes   []int
	}{
		{11, []int32{0, 1}, []int{len(big), 0}},
		{11, []int32{1, 0}, []int{len(small), 0}},
		{2, []int32{0, 1}, []int{0, 0}}, // as Apache Kafka 3.9.2 answers
		{2, []int32{1, 0}, []int{0, 0}},
		{0, []int32{0, 1}, []int{0, 0}},
	} {
		r := fetchOf(w.version, at{"t", w.order[0], 0, 1}, at{"t", w.order[1], 0, 1})
		r.MaxBytes = 1
		for i, a := range c.fetch(r) {
			if a.Partition != w.order[i] || a.ErrorCode != 0 || len(a.RecordBatches) != w.sizes[i] {
				t.Errorf("v%d, order %v: partition %d, error %d, %d bytes; want %d", w.version, w.order, a.Partition, a.ErrorCode,
					len(a.RecordBatches), w.sizes[i])
			}
		}
	}
	r := fetchOf(3, at{"t", 0, 0, 1}, at{"t", 1, 0, 1})
	r.MaxBytes = 1
	if a := c.fetch(r); len(a[0].RecordBatches) < 600_000 || len(a[1].RecordBatches) != 0 {
		t.Errorf("v3: %d and %d bytes", len(a[0].RecordBatches), len(a[1].RecordBatches))
	}
}

// TestCaseF5: on ZooKeeper, as with 3.9, old clients are refused a topic that is set to zstd, by its setting alone;
// embedded, as with 4.4, from v4 on they are not. Elsewhere zstd passes unless it would need conversion.
func TestCaseF5(t *testing.T) {
	const refused = 76
	for _, embedded := range []bool{true, false} {
		p := newPlane(t)
		p.services.Embedded = embedded
		p.configure("z", func(c *log.Config) { c.Compression = record.Compression{Fixed: true, Codec: record.Zstd} })
		p.topic("z", 1)
		p.topic("p", 1)
		c := p.client()
		zstd := records(t, record.BatchOptions{Codec: record.Zstd}, "v", 1)
		c.mustProduce("z", 0, slices.Clone(zstd))
		c.mustProduce("p", 0, slices.Clone(zstd))
		bySetting := int16(refused)
		if embedded {
			bySetting = 0
		}
		for _, w := range []struct {
			version int16
			topic   string
			code    int16
		}{
			{2, "z", refused}, {3, "z", refused}, {4, "z", bySetting}, {9, "z", bySetting}, {10, "z", 0},
			{2, "p", refused}, {3, "p", refused}, {4, "p", 0}, {9, "p", 0}, {10, "p", 0},
		} {
			a := c.fetch(fetchOf(w.version, at{w.topic, 0, 0, 1 << 20}))[0]
			if a.ErrorCode != w.code || (len(a.RecordBatches) > 0) != (w.code == 0) {
				t.Errorf("embedded %v, v%d of %s: error %d, %d bytes; want %d", embedded, w.version, w.topic, a.ErrorCode, len(a.RecordBatches), w.code)
			}
		}
	}
}

func TestFetchOfOldVersionsConverts(t *testing.T) {
	p := newPlane(t)
	p.topic("t", 1)
	c := p.client()
	c.mustProduce("t", 0, records(t, record.BatchOptions{}, "first", 1, 2))
	c.mustProduce("t", 0, records(t, record.BatchOptions{Codec: record.Gzip}, "second", 3))
	for version := range int16(4) {
		a := c.fetch(fetchOf(version, at{"t", 0, 1, 1 << 20}))[0]
		e, _, err := record.NextEntry(a.RecordBatches)
		want := int8(1)
		if version < 2 {
			want = 0
		}
		if err != nil || a.HighWatermark != 3 || e.Magic() != want || e.BaseOffset() != 1 || !bytes.Contains(e, []byte("first")) {
			t.Errorf("v%d: %v, %x", version, err, a.RecordBatches)
		}
	}
}

// TestFetchWithoutConversion: with message.downconversion.enable=false old clients are refused, newer ones are not.
func TestFetchWithoutConversion(t *testing.T) {
	p := newPlane(t)
	p.topic(planeUnconverted, 1)
	c := p.client()
	c.mustProduce(planeUnconverted, 0, records(t, record.BatchOptions{}, "v", 1))
	for version := range int16(5) {
		a := c.fetch(fetchOf(version, at{planeUnconverted, 0, 0, 1 << 20}))[0]
		if version < 4 && (a.ErrorCode != kerr.UnsupportedVersion.Code || len(a.RecordBatches) > 0) {
			t.Errorf("v%d: code %d and %d bytes, want UNSUPPORTED_VERSION and none", version, a.ErrorCode, len(a.RecordBatches))
		}
		if version == 4 && (a.ErrorCode != 0 || len(a.RecordBatches) == 0) {
			t.Errorf("v4: code %d and %d bytes, want the records", a.ErrorCode, len(a.RecordBatches))
		}
	}
}

// TestEveryFetchVersion reads the same through every version.
func TestEveryFetchVersion(t *testing.T) {
	p := newPlane(t)
	id := p.topic("t", 2)
	c := p.client()
	value := records(t, record.BatchOptions{}, "v", 1)
	c.mustProduce("t", 1, value)
	for version := fetch.Served(Embedded).Min; version <= fetch.Served(Embedded).Max; version++ {
		r := fetchOf(version, at{"t", 0, 0, 1 << 20}, at{"t", 1, 0, 1 << 20})
		r.Topics[0].TopicID = id
		answers := c.fetch(r)
		if len(answers) != 2 || answers[0].ErrorCode != 0 || len(answers[0].RecordBatches) != 0 || !bytes.Contains(answers[1].RecordBatches, []byte("v")) {
			t.Errorf("v%d: %+v", version, answers)
		}
		if version >= 5 && answers[1].LogStartOffset != 0 || version >= 4 && answers[1].LastStableOffset != 1 {
			t.Errorf("v%d: log start %d, last stable offset %d", version, answers[1].LogStartOffset, answers[1].LastStableOffset)
		}
	}
}

func TestFetchErrors(t *testing.T) {
	p := newPlane(t)
	id := p.topic("t", 1)
	p.announce("elsewhere", log.TopicID{1}, 1, 2)
	c := p.client()
	c.mustProduce("t", 0, records(t, record.BatchOptions{}, "v", 1))
	byID := func(id log.TopicID) *kmsg.FetchRequest {
		r := fetchOf(16, at{"", 0, 0, 1 << 20})
		r.Topics[0].TopicID = id
		return r
	}
	follower := fetchOf(11, at{"t", 0, 0, 1 << 20})
	follower.ReplicaID = 2
	fenced := fetchOf(11, at{"t", 0, 0, 1 << 20})
	fenced.Topics[0].Partitions[0].CurrentLeaderEpoch = 5
	for _, w := range []struct {
		name string
		r    *kmsg.FetchRequest
		code int16
	}{
		{"by name", fetchOf(12, at{"t", 0, 0, 1 << 20}), 0},
		{"by id", byID(id), 0},
		{"unknown topic", fetchOf(12, at{"nope", 0, 0, 1 << 20}), kerr.UnknownTopicOrPartition.Code},
		{"unknown partition", fetchOf(12, at{"t", 1, 0, 1 << 20}), kerr.UnknownTopicOrPartition.Code},
		{"unknown id", byID(log.TopicID{7}), kerr.UnknownTopicID.Code},
		{"out of range", fetchOf(12, at{"t", 0, 2, 1 << 20}), kerr.OffsetOutOfRange.Code},
		{"led by another", fetchOf(12, at{"elsewhere", 0, 0, 1 << 20}), kerr.NotLeaderForPartition.Code},
		{"no replica", follower, kerr.NotLeaderForPartition.Code},
		{"newer epoch", fenced, kerr.UnknownLeaderEpoch.Code},
	} {
		if a := c.fetch(w.r)[0]; a.ErrorCode != w.code || (len(a.RecordBatches) > 0) != (w.code == 0) {
			t.Errorf("%s: error %d, %d bytes; want %d", w.name, a.ErrorCode, len(a.RecordBatches), w.code)
		}
	}
	answer := ask[*kmsg.FetchResponse](c, byID(log.TopicID{1}))
	if l := answer.Topics[0].Partitions[0].CurrentLeader; l.LeaderID != 2 || l.LeaderEpoch != 7 || len(answer.Brokers) != 1 || answer.Brokers[0].Host != "broker-2" {
		t.Errorf("the current leader: %+v, %+v", l, answer.Brokers)
	}
}

// TestSessionOverTheWire: what did not change is left out, forgotten partitions go, a deleted topic's id is refused.
func TestSessionOverTheWire(t *testing.T) {
	p := newPlane(t)
	id := p.topic("t", 2)
	c := p.client()
	value := records(t, record.BatchOptions{}, "v", 1)
	first := fetchOf(13, at{"t", 0, 0, 1 << 20}, at{"t", 1, 0, 1 << 20})
	first.Topics[0].TopicID, first.SessionEpoch = id, 0
	answer := ask[*kmsg.FetchResponse](c, first)
	if answer.SessionID == 0 || len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 2 {
		t.Fatalf("%+v", answer)
	}
	session, epoch := answer.SessionID, int32(0)
	next := func(change func(*kmsg.FetchRequest)) *kmsg.FetchResponse {
		epoch++
		r := fetchOf(13)
		r.SessionID, r.SessionEpoch = session, epoch
		change(r)
		return ask[*kmsg.FetchResponse](c, r)
	}
	nothing := func(*kmsg.FetchRequest) {}
	if a := next(nothing); a.ErrorCode != 0 || a.SessionID != session || len(a.Topics) != 0 {
		t.Errorf("nothing new: %+v", a)
	}
	c.mustProduce("t", 1, value)
	a := next(nothing)
	if len(a.Topics) != 1 || len(a.Topics[0].Partitions) != 1 || a.Topics[0].Partitions[0].Partition != 1 || len(a.Topics[0].Partitions[0].RecordBatches) != len(value) {
		t.Errorf("a record: %+v", a)
	}
	a = next(func(r *kmsg.FetchRequest) {
		forgotten := kmsg.NewFetchRequestForgottenTopic()
		forgotten.TopicID, forgotten.Partitions = id, []int32{1}
		r.ForgottenTopics = append(r.ForgottenTopics, forgotten)
	})
	if len(a.Topics) != 0 {
		t.Errorf("after the busy partition was forgotten: %+v", a)
	}
	p.delete("t", 2)
	p.topic("t", 2)
	a = next(nothing)
	if len(a.Topics) != 1 || a.Topics[0].Partitions[0].ErrorCode != kerr.UnknownTopicID.Code {
		t.Errorf("after the topic was created again: %+v", a)
	}
	for _, w := range []struct {
		name           string
		version        int16
		session, epoch int32
		code           int16
	}{
		{"names in a session of ids", 12, session, epoch + 1, kerr.FetchSessionTopicIDError.Code},
		{"wrong epoch", 13, session, epoch, kerr.InvalidFetchSessionEpoch.Code},
		{"unknown session", 13, session + 1, 1, kerr.FetchSessionIDNotFound.Code},
	} {
		r := fetchOf(w.version)
		r.SessionID, r.SessionEpoch = w.session, w.epoch
		if got := ask[*kmsg.FetchResponse](c, r); got.ErrorCode != w.code || len(got.Topics) != 0 {
			t.Errorf("%s: %+v, want error %d", w.name, got, w.code)
		}
	}
}

// TestFetchWaitsForAProduce: a parked fetch holds up nothing else, not even on its own connection.
func TestFetchWaitsForAProduce(t *testing.T) {
	p := newPlane(t)
	p.topic("t", 1)
	consumer, producer := p.client(), p.client()
	r := fetchOf(11, at{"t", 0, 0, 1 << 20})
	r.MaxWaitMillis = 3_600_000
	consumer.send(r)
	producer.mustProduce("t", 0, records(t, record.BatchOptions{}, "v", 1))
	if a := answerTo[*kmsg.FetchResponse](consumer, r); len(a.Topics[0].Partitions[0].RecordBatches) == 0 {
		t.Errorf("%+v", a)
	}
	r = fetchOf(11, at{"t", 0, 1, 1 << 20})
	r.MaxWaitMillis = 3_600_000
	consumer.send(r)
	p.delete("t", 1)
	if a := answerTo[*kmsg.FetchResponse](consumer, r); a.Topics[0].Partitions[0].ErrorCode != kerr.UnknownTopicOrPartition.Code {
		t.Errorf("after the topic was deleted: %+v", a)
	}
}
