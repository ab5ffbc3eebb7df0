package fetchenc

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/wire/payload"
)

// memory is a file in memory, counted.
type memory struct {
	data     []byte
	released int
}

func (m *memory) FD() int { return -1 }
func (m *memory) ReadAt(p []byte, pos int64) (int, error) {
	return copy(p, m.data[pos:]), nil
}
func (m *memory) Retain()  {}
func (m *memory) Release() { m.released++ }

func flatten(t *testing.T, parts []payload.Part) []byte {
	t.Helper()
	var all []byte
	for _, p := range parts {
		if p.File == nil {
			all = append(all, p.Bytes...)
			continue
		}
		buf := make([]byte, p.Len)
		if n, err := p.File.ReadAt(buf, p.Pos); n != p.Len || err != nil {
			t.Fatalf("read %d of %d bytes: %v", n, p.Len, err)
		}
		all = append(all, buf...)
	}
	return all
}

// TestEqualsGeneratedCodec: for every version, responses of random shape are the bytes that kmsg makes of them.
func TestEqualsGeneratedCodec(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 1))
	for version := int16(0); version <= 18; version++ {
		for i := range 300 {
			ours, theirs := randomResponse(rnd, version)
			got := flatten(t, Encode(nil, ours, version))
			if want := theirs.AppendTo(nil); !bytes.Equal(got, want) {
				t.Fatalf("seed %d, version %d, response %d:\n got %x\nwant %x", seed, version, i, got, want)
			}
		}
	}
}

func randomResponse(rnd *rand.Rand, version int16) (*Response, *kmsg.FetchResponse) {
	ours := &Response{ThrottleMillis: rnd.Int32(), ErrorCode: int16(rnd.IntN(100)), SessionID: rnd.Int32()}
	theirs := kmsg.NewPtrFetchResponse()
	theirs.Version = version
	theirs.ThrottleMillis, theirs.ErrorCode, theirs.SessionID = ours.ThrottleMillis, ours.ErrorCode, ours.SessionID
	for i := range rnd.IntN(4) {
		a, b := Topic{Topic: fmt.Sprint("topic-", i)}, kmsg.NewFetchResponseTopic()
		a.TopicID[3] = byte(rnd.IntN(256))
		b.Topic, b.TopicID = a.Topic, a.TopicID
		for range rnd.IntN(4) {
			p, q := randomPartition(rnd)
			a.Partitions, b.Partitions = append(a.Partitions, p), append(b.Partitions, q)
		}
		ours.Topics, theirs.Topics = append(ours.Topics, a), append(theirs.Topics, b)
	}
	if version >= withLeader {
		for i := range rnd.IntN(3) {
			b := Broker{NodeID: int32(i), Host: "host", Port: rnd.Int32()}
			if rnd.IntN(2) == 0 {
				rack := "r1"
				b.Rack = &rack
			}
			ours.Brokers = append(ours.Brokers, b)
			theirs.Brokers = append(theirs.Brokers, kmsg.FetchResponseBroker{NodeID: b.NodeID, Host: b.Host, Port: b.Port, Rack: b.Rack})
		}
	}
	return ours, theirs
}

func randomPartition(rnd *rand.Rand) (Partition, kmsg.FetchResponseTopicPartition) {
	p := Partition{
		Partition: rnd.Int32(), ErrorCode: int16(rnd.IntN(100)), HighWatermark: rnd.Int64(), LastStableOffset: rnd.Int64(),
		LogStartOffset: rnd.Int64(), PreferredReadReplica: rnd.Int32N(5) - 1,
	}
	q := kmsg.NewFetchResponseTopicPartition()
	q.Partition, q.ErrorCode, q.HighWatermark, q.LastStableOffset = p.Partition, p.ErrorCode, p.HighWatermark, p.LastStableOffset
	q.LogStartOffset, q.PreferredReadReplica = p.LogStartOffset, p.PreferredReadReplica
	if n := rnd.IntN(4); n > 0 { // 1 is an empty list, which is not null
		p.AbortedTransactions = make([]AbortedTransaction, n-1)
		q.AbortedTransactions = make([]kmsg.FetchResponseTopicPartitionAbortedTransaction, n-1)
		for i := range p.AbortedTransactions {
			p.AbortedTransactions[i] = AbortedTransaction{rnd.Int64(), rnd.Int64()}
			q.AbortedTransactions[i].ProducerID = p.AbortedTransactions[i].ProducerID
			q.AbortedTransactions[i].FirstOffset = p.AbortedTransactions[i].FirstOffset
		}
	}
	if rnd.IntN(3) == 0 {
		p.DivergingEpoch = &EpochEnd{rnd.Int32(), rnd.Int64()}
		q.DivergingEpoch.Epoch, q.DivergingEpoch.EndOffset = p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset
	}
	if rnd.IntN(3) == 0 {
		p.CurrentLeader = &Leader{rnd.Int32(), rnd.Int32()}
		q.CurrentLeader.LeaderID, q.CurrentLeader.LeaderEpoch = p.CurrentLeader.ID, p.CurrentLeader.Epoch
	}
	p.Records, q.RecordBatches = randomRecords(rnd)
	return p, q
}

func randomRecords(rnd *rand.Rand) (payload.Part, []byte) {
	data := make([]byte, rnd.IntN(3)*rnd.IntN(5000))
	for i := range data {
		data[i] = byte(rnd.Uint32())
	}
	if rnd.IntN(2) == 0 {
		return payload.Part{Bytes: data}, data
	}
	return payload.Part{File: &memory{data: append([]byte("before"), data...)}, Pos: 6, Len: len(data)}, data
}

func TestFilePassesOnUnreleasedAndEmptyOneIsReleased(t *testing.T) {
	full, empty := &memory{data: make([]byte, 10)}, &memory{}
	r := &Response{Topics: []Topic{{Partitions: []Partition{
		{Records: payload.Part{File: full, Len: 10}}, {Records: payload.Part{File: empty}},
	}}}}
	parts := Encode(nil, r, 12)
	if len(parts) != 3 || parts[1].File != full || full.released != 0 {
		t.Errorf("the file range must be a part of its own: %d parts, released %d times", len(parts), full.released)
	}
	if empty.released != 1 {
		t.Errorf("an empty range's file was released %d times", empty.released)
	}
}

func BenchmarkEncode(b *testing.B) {
	file := &memory{data: make([]byte, 1<<20)}
	r := &Response{Topics: []Topic{{Topic: "topic", Partitions: []Partition{{Records: payload.Part{File: file, Len: 1 << 20}}}}}}
	b.ReportAllocs()
	for b.Loop() {
		Encode(nil, r, 12)
	}
}
