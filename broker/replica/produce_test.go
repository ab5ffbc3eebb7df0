package replica

import (
	"errors"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/record"
)

func TestProduceRefusals(t *testing.T) {
	f := newFixture(t)
	f.lead("t", idOf(1), 1)
	f.lead("__consumer_offsets", idOf(2), 1)
	compacted := log.DefaultConfig()
	compacted.Compact, compacted.Delete = true, false
	f.configs["compacted"] = compacted
	f.lead("compacted", idOf(3), 1)
	f.minISR["lonely"] = 2
	lonely := f.order("lonely", idOf(4), 1, 0, self)
	lonely.TopicStates[0].PartitionStates[0].Replicas = []int32{self, 2}
	f.mustObey(lonely)

	nothingKeyed, err := record.Build(record.BatchOptions{LeaderEpoch: -1}.NoProducer(), []record.Record{{Value: []byte("v")}})
	if err != nil {
		t.Fatal(err)
	}
	transactional, err := record.Build(record.BatchOptions{LeaderEpoch: -1, ProducerID: 1, Transactional: true}, []record.Record{{Value: []byte("v")}})
	if err != nil {
		t.Fatal(err)
	}
	damaged := one(t, "v")
	damaged[len(damaged)-1] ^= 1
	for _, c := range []struct {
		name  string
		p     ProduceParams
		e     ProduceEntry
		want  *kerr.Error
		start int64 // log start offset that is answered
	}{
		{"acks=2", ProduceParams{Acks: 2}, ProduceEntry{Topic: "t", Records: one(t, "v")}, kerr.InvalidRequiredAcks, -1},
		{"internal", ProduceParams{Acks: 1}, ProduceEntry{Topic: "__consumer_offsets", Records: one(t, "v")}, kerr.InvalidTopicException, -1},
		{"internal, by a tool", ProduceParams{Acks: 1, Internal: true}, ProduceEntry{Topic: "__consumer_offsets", Records: one(t, "v")}, nil, 0},
		{"unknown topic", ProduceParams{Acks: 1}, ProduceEntry{Topic: "nope", Records: one(t, "v")}, kerr.UnknownTopicOrPartition, -1},
		{"unknown partition", ProduceParams{Acks: 1}, ProduceEntry{Topic: "t", Partition: 9, Records: one(t, "v")}, kerr.UnknownTopicOrPartition, -1},
		{"negative partition", ProduceParams{Acks: 1}, ProduceEntry{Topic: "t", Partition: -1, Records: one(t, "v")}, kerr.UnknownTopicOrPartition, -1},
		{"other id", ProduceParams{Acks: 1}, ProduceEntry{Topic: "t", TopicID: idOf(9), Records: one(t, "v")}, kerr.InconsistentTopicID, -1},
		{"no record set", ProduceParams{Acks: 1}, ProduceEntry{Topic: "t"}, kerr.InvalidRecord, -1},
		{"damaged", ProduceParams{Acks: 1}, ProduceEntry{Topic: "t", Records: damaged}, kerr.CorruptMessage, -1},
		{"without key", ProduceParams{Acks: 1}, ProduceEntry{Topic: "compacted", Records: nothingKeyed}, kerr.InvalidRecord, 0},
		{"not verified", ProduceParams{Acks: 1}, ProduceEntry{Topic: "t", Records: transactional}, kerr.InvalidTxnState, 0},
		{"below min ISR", ProduceParams{Acks: -1}, ProduceEntry{Topic: "lonely", Records: one(t, "v")}, kerr.NotEnoughReplicas, -1},
		{"below min ISR, acks=1", ProduceParams{Acks: 1}, ProduceEntry{Topic: "lonely", Records: one(t, "v")}, nil, 0},
		{"refused before", ProduceParams{Acks: 1}, ProduceEntry{Topic: "t", Err: kerr.TopicAuthorizationFailed}, kerr.TopicAuthorizationFailed, -1},
	} {
		c.p.Version = 11
		f.Produce(c.p, []ProduceEntry{c.e}, func(rs []ProduceResult) {
			r := rs[0]
			if c.want == nil && r.Err != nil || c.want != nil && !errors.Is(r.Err, c.want) {
				t.Errorf("%s: %v, want %v", c.name, r.Err, c.want)
			}
			if r.LogStartOffset != c.start || c.want != nil && r.BaseOffset != -1 {
				t.Errorf("%s: base offset %d, log start %d", c.name, r.BaseOffset, r.LogStartOffset)
			}
		})
	}
	if hw := f.find("lonely", 0).log.Bounds().HighWatermark; hw != 0 {
		t.Errorf("the high watermark went to %d below min ISR", hw)
	}
	f.minISR["lonely"] = 1
	f.ConfigChanged("lonely")
	if hw := f.find("lonely", 0).log.Bounds().HighWatermark; hw != 1 {
		t.Errorf("the high watermark is %d after min.insync.replicas was lowered", hw)
	}
}

func TestProduceAnswers(t *testing.T) {
	f := newFixture(t)
	f.lead("t", idOf(1), 2)
	for _, acks := range []int16{0, 1, -1} {
		calls := 0
		f.Produce(ProduceParams{Version: 11, Acks: acks}, []ProduceEntry{
			{Topic: "t", Partition: 1, Records: batch(t, record.None, "v", 1, 2, 3)},
			{Topic: "nope", Records: one(t, "v")},
			{Topic: "t", Partition: 0, Records: one(t, "v")},
		}, func(rs []ProduceResult) {
			calls++
			if rs[0].Err != nil || rs[1].Err == nil || rs[2].Err != nil || rs[0].LogAppendTime != -1 || rs[0].LogStartOffset != 0 {
				t.Errorf("acks %d: %+v", acks, rs)
			}
		})
		if calls != 1 {
			t.Errorf("acks %d: answered %d times at once", acks, calls)
		}
	}
	if b := f.find("t", 1).log.Bounds(); b.End != 9 || b.HighWatermark != 9 {
		t.Errorf("bounds %+v after three batches of three", b)
	}
}

// TestP1 is case P1: the last five batches of a producer are known again.
func TestP1(t *testing.T) {
	f := newFixture(t)
	f.lead("t", idOf(1), 1)
	send := func(seq int32) ProduceResult { return f.put("t", 0, producerBatch(t, 7, seq, 0, "v", 1)) }
	for seq := range int32(6) {
		if r := send(seq); r.Err != nil || r.BaseOffset != int64(seq) {
			t.Fatalf("sequence %d: %+v", seq, r)
		}
	}
	for _, c := range []struct {
		seq    int32
		offset int64
		want   *kerr.Error
	}{{5, 5, nil}, {1, 1, nil}, {0, -1, kerr.OutOfOrderSequenceNumber}, {9, -1, kerr.OutOfOrderSequenceNumber}} {
		r := send(c.seq)
		if c.want == nil && r.Err != nil || c.want != nil && !errors.Is(r.Err, c.want) || r.BaseOffset != c.offset {
			t.Errorf("sequence %d again: %+v, want offset %d, %v", c.seq, r, c.offset, c.want)
		}
	}
	if end := f.find("t", 0).log.Bounds().End; end != 6 {
		t.Errorf("the log ends at %d, want 6", end)
	}
	for _, seq := range []int32{math.MaxInt32, 0} {
		if r := f.put("t", 0, producerBatch(t, 8, seq, 0, "v", 1)); r.Err != nil {
			t.Errorf("sequence %d around the end: %v", seq, r.Err)
		}
	}
}

func TestCanAppendNow(t *testing.T) {
	f := newFixture(t)
	gzip := log.DefaultConfig()
	gzip.Compression = record.Compression{Fixed: true, Codec: record.Gzip}
	f.configs["gzip"] = gzip
	small := log.DefaultConfig()
	small.SegmentBytes = 100
	f.configs["small"] = small
	for i, topic := range []string{"t", "gzip", "small"} {
		f.lead(topic, idOf(byte(i+1)), 1)
	}
	f.mustPut("small", 0, one(t, "v"))
	for topic, want := range map[string]bool{"t": true, "gzip": false, "small": false, "nope": true} {
		if got := f.CanAppendNow(topic, 0, 90); got != want {
			t.Errorf("%s: %v, want %v", topic, got, want)
		}
	}
}

func TestLogAppendTime(t *testing.T) {
	f := newFixture(t)
	c := log.DefaultConfig()
	c.TimestampType = record.LogAppendTime
	f.configs["t"] = c
	f.lead("t", idOf(1), 1)
	before := f.clock.Now().UnixMilli()
	r := f.mustPut("t", 0, batch(t, record.None, "v", 1000, 2000))
	if r.LogAppendTime < before || r.LogAppendTime > f.clock.Now().UnixMilli() {
		t.Errorf("log append time %d", r.LogAppendTime)
	}
}

// parked produces with acks=-1 to a partition whose other replica never fetches.
func parked(t *testing.T, f *fixture, timeout time.Duration) <-chan []ProduceResult {
	t.Helper()
	c := make(chan []ProduceResult, 1)
	f.Produce(ProduceParams{Version: 11, Acks: AcksAll, Timeout: timeout},
		[]ProduceEntry{{Topic: "t", Records: one(t, "v")}}, func(rs []ProduceResult) { c <- slices.Clone(rs) })
	select {
	case rs := <-c:
		t.Fatalf("answered before the other replica had it: %+v", rs)
	default:
	}
	return c
}

func TestAcksAllWaits(t *testing.T) {
	for name, c := range map[string]struct {
		then func(*fixture)
		want *kerr.Error
	}{
		"time is up":       {func(*fixture) { sleep(2 * time.Second) }, kerr.RequestTimedOut},
		"topic deleted":    {func(f *fixture) { f.remove("t", 1) }, kerr.UnknownTopicOrPartition},
		"leadership moves": {func(f *fixture) { f.mustObey(f.moved("t", 2)) }, kerr.NotLeaderForPartition},
		"new epoch":        {func(f *fixture) { f.mustObey(f.order("t", idOf(1), 1, 2, self)) }, kerr.NotLeaderForPartition},
		"shutdown":         {func(f *fixture) { f.Manager.Close() }, kerr.RequestTimedOut},
		"the other has it": {func(f *fixture) {
			p := f.find("t", 0)
			p.log.AdvanceHighWatermark(1)
			p.acks.Notify()
		}, nil},
		"it has, and drops out": {func(f *fixture) {
			p := f.find("t", 0)
			p.log.AdvanceHighWatermark(1)
			p.minISR.Store(2)
			r := *p.role.Load()
			r.isr, r.maximalISR = r.isr[:1], 1
			p.role.Store(&r)
			p.acks.Notify()
		}, kerr.NotEnoughReplicasAfterAppend},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				f.mustObey(f.order("t", idOf(1), 1, 1, self, 2))
				answer := parked(t, f, time.Second)
				c.then(f)
				r := (<-answer)[0]
				if c.want == nil && r.Err != nil || c.want != nil && !errors.Is(r.Err, c.want) {
					t.Errorf("%v, want %v", r.Err, c.want)
				}
				if (c.want == nil) != (r.BaseOffset == 0) {
					t.Errorf("base offset %d", r.BaseOffset)
				}
				if n := f.Stats(nil).Expired.Produces; (n == 1) != errors.Is(r.Err, kerr.RequestTimedOut) {
					t.Errorf("%d produces expired", n)
				}
			})
		})
	}
}

// moved is an order that makes another broker the leader.
func (f *fixture) moved(topic string, epoch int32) *kmsg.LeaderAndISRRequest {
	r := f.order(topic, idOf(1), 1, epoch, self, 2)
	r.TopicStates[0].PartitionStates[0].Leader = 2
	return r
}
