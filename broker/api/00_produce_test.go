package api

import (
	"bytes"
	"math"
	"testing"

	"github.com/gregor-broker/gregor/broker/metadata"
	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/record"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func metadataOfAll() *kmsg.MetadataRequest {
	r := kmsg.NewPtrMetadataRequest()
	r.Version = 9
	return r
}

// TestCaseP1: a producer's last five batches are answered again with their offsets.
func TestCaseP1(t *testing.T) {
	p := newPlane(t)
	p.topic("t", 1)
	c := p.client()
	r := kmsg.NewPtrInitProducerIDRequest()
	r.Version = 4
	id := ask[*kmsg.InitProducerIDResponse](c, r)
	if id.ErrorCode != 0 || id.ProducerID < 0 || id.ProducerEpoch != 0 {
		t.Fatalf("%+v", id)
	}
	send := func(id int64, seq int32) kmsg.ProduceResponseTopicPartition {
		return c.produce(9, to{"t", 0, records(t, record.BatchOptions{ProducerID: id, BaseSequence: seq}, "v", 1)})[0]
	}
	for seq := range int32(6) {
		if a := send(id.ProducerID, seq); a.ErrorCode != 0 || a.BaseOffset != int64(seq) {
			t.Fatalf("sequence %d: %+v", seq, a)
		}
	}
	outOfOrder := kerr.OutOfOrderSequenceNumber.Code
	for _, w := range []struct {
		seq    int32
		code   int16
		offset int64
	}{{5, 0, 5}, {1, 0, 1}, {0, outOfOrder, -1}, {9, outOfOrder, -1}} {
		if a := send(id.ProducerID, w.seq); a.ErrorCode != w.code || a.BaseOffset != w.offset {
			t.Errorf("sequence %d again: error %d, offset %d; want %d, %d", w.seq, a.ErrorCode, a.BaseOffset, w.code, w.offset)
		}
	}
	for _, seq := range []int32{math.MaxInt32, 0} {
		if a := send(id.ProducerID+1, seq); a.ErrorCode != 0 {
			t.Errorf("sequence %d where they wrap: error %d", seq, a.ErrorCode)
		}
	}
	if end := c.end("t", 0); end != 8 {
		t.Errorf("the log ends at %d, want 8", end)
	}
}

// TestCaseP2: acks=0 has no answer; its errors close the connection.
func TestCaseP2(t *testing.T) {
	p := newPlane(t)
	p.topic("t", 1)
	value := records(t, record.BatchOptions{}, "v", 1)
	c := p.client()
	c.send(produceOf(9, 0, to{"t", 0, value}))
	c.send(metadataOfAll())
	answerTo[*kmsg.MetadataResponse](c, metadataOfAll())
	if end := c.end("t", 0); end != 1 {
		t.Errorf("the log ends at %d, want 1", end)
	}
	bad := p.client()
	bad.send(produceOf(9, 0, to{"nope", 0, value}))
	if corr, _, ok := bad.frame(); ok {
		t.Errorf("request %d was answered, want the connection closed", corr)
	}
	for _, a := range ask[*kmsg.ProduceResponse](c, produceOf(9, 2, to{"t", 0, value})).Topics[0].Partitions {
		if a.ErrorCode != kerr.InvalidRequiredAcks.Code || a.BaseOffset != -1 {
			t.Errorf("acks=2: %+v", a)
		}
	}
}

func TestProduceErrors(t *testing.T) {
	p := newPlane(t)
	p.topic("t", 1)
	p.topic("__consumer_offsets", 1)
	p.announce("elsewhere", log.TopicID{1}, 1, 2)
	p.configure("compacted", func(c *log.Config) { c.Compact, c.Delete = true, false })
	p.topic("compacted", 1)
	c := p.client()
	good := func() []byte { return records(t, record.BatchOptions{}, "v", 1) }
	two := append(good(), good()...)
	damaged := good()
	damaged[len(damaged)-1] ^= 1
	unkeyed, err := record.Build(record.BatchOptions{LeaderEpoch: -1}.NoProducer(), []record.Record{{Value: []byte("v")}, {Value: []byte("w")}})
	if err != nil {
		t.Fatal(err)
	}
	transactional := records(t, record.BatchOptions{ProducerID: 5, Transactional: true}, "v", 1)
	zstd := func() []byte { return records(t, record.BatchOptions{Codec: record.Zstd}, "v", 1) }
	for _, w := range []struct {
		name    string
		version int16
		set     to
		code    int16
	}{
		{"good", 9, to{"t", 0, good()}, 0},
		{"unknown topic", 9, to{"nope", 0, good()}, kerr.UnknownTopicOrPartition.Code},
		{"unknown partition", 9, to{"t", 1, good()}, kerr.UnknownTopicOrPartition.Code},
		{"led by another", 9, to{"elsewhere", 0, good()}, kerr.NotLeaderForPartition.Code},
		{"internal", 9, to{"__consumer_offsets", 0, good()}, kerr.InvalidTopicException.Code},
		{"two batches", 9, to{"t", 0, two}, kerr.InvalidRecord.Code},
		{"damaged", 9, to{"t", 0, damaged}, kerr.CorruptMessage.Code},
		{"without key", 9, to{"compacted", 0, unkeyed}, kerr.InvalidRecord.Code},
		{"zstd in v6", 6, to{"t", 0, zstd()}, kerr.UnsupportedCompressionType.Code},
		{"zstd in v7", 7, to{"t", 0, zstd()}, 0},
		{"transactional without id", 9, to{"t", 0, transactional}, kerr.TransactionalIDAuthorizationFailed.Code},
	} {
		a := c.produce(w.version, w.set)[0]
		if a.ErrorCode != w.code {
			t.Errorf("%s: error %d, want %d", w.name, a.ErrorCode, w.code)
		}
		if w.version >= 8 && (a.ErrorMessage == nil) != (w.code == 0) {
			t.Errorf("%s: message %v", w.name, a.ErrorMessage)
		}
		if w.name == "without key" && (len(a.ErrorRecords) != 2 || a.ErrorRecords[1].RelativeOffset != 1 || a.ErrorRecords[1].ErrorMessage == nil) {
			t.Errorf("%s: records at fault %+v", w.name, a.ErrorRecords)
		}
	}
	r := produceOf(9, -1, to{"t", 0, transactional}, to{"t", 0, good()})
	name := "tx"
	r.TransactionID = &name
	r.Topics[1].Topic = "compacted"
	answer := ask[*kmsg.ProduceResponse](c, r)
	if got := answer.Topics[0].Partitions[0].ErrorCode; got != 0 {
		t.Errorf("transactional, which nobody verifies here: error %d", got)
	}
	if got := answer.Topics[1].Partitions[0].ErrorCode; got != 0 {
		t.Errorf("beside it: error %d", got)
	}
	tool := p.client()
	tool.id = adminClient
	if a := tool.produce(9, to{"__consumer_offsets", 0, good()})[0]; a.ErrorCode != 0 {
		t.Errorf("a tool's produce to an internal topic: error %d", a.ErrorCode)
	}
}

// TestProduceTellsTheLeader: from v10 on a client that asks the wrong broker learns the right one (KIP-951).
func TestProduceTellsTheLeader(t *testing.T) {
	p := newPlane(t)
	p.announce("elsewhere", log.TopicID{1}, 2, 2)
	c := p.client()
	value := records(t, record.BatchOptions{}, "v", 1)
	r := ask[*kmsg.ProduceResponse](c, produceOf(10, -1, to{"elsewhere", 0, value}, to{"elsewhere", 1, value}))
	for _, topic := range r.Topics {
		for _, a := range topic.Partitions {
			if a.ErrorCode != kerr.NotLeaderForPartition.Code || a.CurrentLeader.LeaderID != 2 || a.CurrentLeader.LeaderEpoch != 7 {
				t.Errorf("%+v", a)
			}
		}
	}
	if len(r.Brokers) != 1 || r.Brokers[0].NodeID != 2 || r.Brokers[0].Host != "broker-2" {
		t.Errorf("brokers %+v", r.Brokers)
	}
}

func TestProduceByTopicID(t *testing.T) {
	p := newPlane(t)
	id := p.topic("t", 1)
	c := p.client()
	r := produceOf(13, -1, to{"", 0, records(t, record.BatchOptions{}, "v", 1)}, to{"", 0, records(t, record.BatchOptions{}, "v", 1)})
	r.Topics[0].TopicID, r.Topics[1].TopicID = id, log.TopicID{9}
	answer := ask[*kmsg.ProduceResponse](c, r)
	if len(answer.Topics) != 2 || answer.Topics[0].TopicID != id || answer.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Errorf("%+v", answer.Topics)
	}
	if got := answer.Topics[1].Partitions[0].ErrorCode; got != kerr.UnknownTopicID.Code {
		t.Errorf("unknown id: error %d", got)
	}
}

// TestProduceSamePartitionTwice: the last record set counts, as in Kafka's map.
func TestProduceSamePartitionTwice(t *testing.T) {
	p := newPlane(t)
	p.topic("t", 2)
	c := p.client()
	answers := c.produce(9,
		to{"t", 0, records(t, record.BatchOptions{}, "first", 1)},
		to{"t", 1, records(t, record.BatchOptions{}, "other", 1)},
		to{"t", 0, records(t, record.BatchOptions{}, "last", 1, 2)})
	if len(answers) != 2 || answers[0].Partition != 1 || answers[1].Partition != 0 || c.end("t", 0) != 2 {
		t.Errorf("%+v, log end %d", answers, c.end("t", 0))
	}
	if a := c.produce(9); len(a) != 0 {
		t.Errorf("an empty request is answered with %+v", a)
	}
}

func TestOldFormatsAreStoredAsBatches(t *testing.T) {
	p := newPlane(t)
	p.topic("t", 1)
	c := p.client()
	batch := records(t, record.BatchOptions{}, "old", 5)
	for version := range int16(3) {
		magic := min(version, 1)
		if version == 1 {
			magic = 0
		}
		legacy, _, err := record.Downconvert(nil, batch, int8(magic), 0, record.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if a := c.produce(version, to{"t", 0, legacy})[0]; a.ErrorCode != 0 || a.BaseOffset != int64(version) {
			t.Errorf("v%d: %+v", version, a)
		}
	}
	got := c.fetch(fetchOf(11, at{"t", 0, 0, 1 << 20}))[0].RecordBatches
	for n := 0; len(got) > 0; n++ {
		e, rest, err := record.NextEntry(got)
		if err != nil || e.Magic() != 2 || e.BaseOffset() != int64(n) || !bytes.Contains(e, []byte("old")) {
			t.Fatalf("entry %d: %v, %v", n, e, err)
		}
		got = rest
	}
}

// TestLeaderThatHasNotHeard: another broker may name this one the leader of a new topic a moment before this one is told of the topic; it
// takes records then, as it leads (case P6), and knows nothing of what it does not lead.
func TestLeaderThatHasNotHeard(t *testing.T) {
	p := newPlane(t)
	p.topic("t", 1)
	p.services.Metadata = metadata.NewCache()
	c := p.client()
	set := records(t, record.BatchOptions{}, "v", 1)
	for topic, want := range map[string]int16{"t": 0, "nowhere": kerr.UnknownTopicOrPartition.Code} {
		if got := ask[*kmsg.ProduceResponse](c, produceOf(9, 1, to{topic, 0, set})).Topics[0].Partitions[0].ErrorCode; got != want {
			t.Errorf("%s: error %d, want %d", topic, got, want)
		}
	}
}
