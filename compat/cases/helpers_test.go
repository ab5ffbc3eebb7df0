package cases

import (
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/compat/raw"
)

func TestMain(m *testing.M) { harness.Main(m) }

// server is a broker and whose answers are the right ones for it: its own, if it is a Kafka.
type server struct {
	*harness.Broker
	Kind harness.Kind // Gregor for what it does alone; Kafka39 also for gregor on ZooKeeper
}

// start starts a broker for one test.
func start(t testing.TB, o harness.Options) *server {
	t.Helper()
	b := harness.Start(t, o)
	return &server{b, b.Kind}
}

// everywhere runs a case on the broker under test and, if that is gregor, on one in a ZooKeeper cluster, whose standard is Kafka 3.9.
func everywhere(t *testing.T, run func(*testing.T, *server)) {
	t.Run("alone", func(t *testing.T) {
		b := harness.Shared(t)
		run(t, &server{b, b.Kind})
	})
	if harness.Peer() != harness.Gregor {
		return
	}
	t.Run("zookeeper", func(t *testing.T) {
		run(t, &server{harness.SharedOnZooKeeper(t), harness.Kafka39})
	})
}

// everywhereAnew is everywhere for a case that wants a broker of its own, with these settings.
func everywhereAnew(t *testing.T, props map[string]string, run func(*testing.T, *server)) {
	t.Run("alone", func(t *testing.T) { run(t, start(t, harness.Options{Props: props})) })
	if harness.Peer() != harness.Gregor {
		return
	}
	t.Run("zookeeper", func(t *testing.T) {
		harness.NeedCluster(t)
		with := map[string]string{"broker.id": "0", "zookeeper.connect": harness.StartEnsemble(t, nil).Addr, "zookeeper.connection.timeout.ms": "30000"}
		maps.Copy(with, props)
		run(t, &server{harness.Start(t, harness.Options{Props: with}), harness.Kafka39})
	})
}

// Versions that name topics and that both Kafka 3.9 and 4.4 serve; the cases use them unless they are about a version.
const (
	produceVersion = 9
	fetchVersion   = 11
	listVersion    = 5
)

var names atomic.Int64

// name returns a name for a topic or group that no other test uses, as all share one broker.
func name(t testing.TB) string {
	base := strings.NewReplacer("/", "-", "_", "-").Replace(t.Name())
	return fmt.Sprintf("%s.%d", strings.ToLower(base), names.Add(1))
}

// topic creates a topic and returns its name.
func topic(t testing.TB, b *server, partitions int, configs ...string) string {
	t.Helper()
	n := name(t)
	harness.CreateTopic(t, b.Broker, n, partitions, configs...)
	return n
}

// only skips the test on brokers that do not know what it is about.
func only(t testing.TB, b *server, why string, kinds ...harness.Kind) {
	t.Helper()
	for _, kind := range kinds {
		if b.Kind == kind {
			return
		}
	}
	t.Skipf("%s: %s", b.Kind, why)
}

const legacy = "Kafka 4 dropped these versions"

// wantCode fails the test unless an answer has the error code.
func wantCode(t testing.TB, what string, got int16, want *kerr.Error) {
	t.Helper()
	code := int16(0)
	wanted := "NONE"
	if want != nil {
		code, wanted = want.Code, want.Message
	}
	if got != code {
		t.Errorf("%s: error %d (%v), want %s(%d)", what, got, kerr.ErrorForCode(got), wanted, code)
	}
}

// produceRequest asks for one batch or message set to be appended to partition 0.
func produceRequest(version, acks int16, topic string, records []byte) *kmsg.ProduceRequest {
	r := raw.With(kmsg.NewPtrProduceRequest(), version)
	r.Acks, r.TimeoutMillis = acks, 10_000
	r.Topics = []kmsg.ProduceRequestTopic{{
		Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: 0, Records: records}},
	}}
	return r
}

// partition0 returns the only partition of a produce answer.
func partition0(t testing.TB, r *kmsg.ProduceResponse) kmsg.ProduceResponseTopicPartition {
	t.Helper()
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		t.Fatalf("a produce answer with other than one partition: %+v", r)
	}
	return r.Topics[0].Partitions[0]
}

// produceVersioned appends to partition 0 with acks=all and returns the answer of that partition.
func produceVersioned(t testing.TB, c *raw.Conn, version int16, topic string, records []byte) kmsg.ProduceResponseTopicPartition {
	t.Helper()
	return partition0(t, raw.Do[*kmsg.ProduceResponse](c, produceRequest(version, -1, topic, records)))
}

func produce(t testing.TB, c *raw.Conn, topic string, records []byte) kmsg.ProduceResponseTopicPartition {
	t.Helper()
	return produceVersioned(t, c, produceVersion, topic, records)
}

// mustProduce appends a batch and returns its base offset.
func mustProduce(t testing.TB, c *raw.Conn, topic string, records []byte) int64 {
	t.Helper()
	p := produce(t, c, topic, records)
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		t.Fatalf("produce to %s: %v", topic, err)
	}
	return p.BaseOffset
}

// producerID returns a fresh producer id; its epoch is 0.
func producerID(t testing.TB, c *raw.Conn) int64 {
	t.Helper()
	r := raw.With(kmsg.NewPtrInitProducerIDRequest(), 4)
	r.ProducerID, r.ProducerEpoch = -1, -1
	var answer *kmsg.InitProducerIDResponse
	harness.Eventually(t, 30*time.Second, func() error { // Kafka fetches its first block of ids behind the answer
		answer = raw.Do[*kmsg.InitProducerIDResponse](c, r)
		return kerr.ErrorForCode(answer.ErrorCode)
	})
	if answer.ProducerEpoch != 0 {
		t.Errorf("the epoch of a fresh producer id is %d, not 0", answer.ProducerEpoch)
	}
	return answer.ProducerID
}

// at is a partition and an offset to fetch from.
type at struct {
	partition int32
	offset    int64
}

// fetchRequest asks for partitions of one topic in the given order, without a session.
func fetchRequest(version int16, topic string, maxBytes, partitionMaxBytes int32, ats ...at) *kmsg.FetchRequest {
	r := raw.With(kmsg.NewPtrFetchRequest(), version)
	r.ReplicaID, r.MaxWaitMillis, r.MinBytes, r.MaxBytes, r.SessionEpoch = -1, 500, 1, maxBytes, -1
	asked := kmsg.NewFetchRequestTopic()
	asked.Topic = topic
	for _, a := range ats {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes = a.partition, a.offset, partitionMaxBytes
		asked.Partitions = append(asked.Partitions, p)
	}
	r.Topics = []kmsg.FetchRequestTopic{asked}
	return r
}

// fetchFrom fetches partition 0 of a topic with ample limits.
func fetchFrom(t testing.TB, c *raw.Conn, version int16, topic string, offset int64) kmsg.FetchResponseTopicPartition {
	t.Helper()
	answer := raw.Do[*kmsg.FetchResponse](c, fetchRequest(version, topic, 8<<20, 8<<20, at{0, offset}))
	if len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1 {
		t.Fatalf("a fetch answer with other than one partition: %+v", answer)
	}
	return answer.Topics[0].Partitions[0]
}

// stored returns the batches of partition 0 from an offset on.
func stored(t testing.TB, c *raw.Conn, topic string, offset int64) []raw.Stored {
	t.Helper()
	p := fetchFrom(t, c, fetchVersion, topic, offset)
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		t.Fatalf("fetch %s from %d: %v", topic, offset, err)
	}
	entries, left, err := raw.Entries(p.RecordBatches)
	if err != nil || len(left) > 0 {
		t.Fatalf("fetch %s from %d: %d bytes left over, %v", topic, offset, len(left), err)
	}
	for _, e := range entries {
		if !e.ValidCRC {
			t.Errorf("%s: the batch at offset %d has a wrong CRC", topic, e.BaseOffset)
		}
	}
	return entries
}

// listed is an answer of ListOffsets.
type listed struct {
	Offset, Timestamp int64
	LeaderEpoch       int32
}

// listOffset asks partition 0 for the offset of a timestamp.
func listOffset(t testing.TB, c *raw.Conn, topic string, timestamp int64) listed {
	t.Helper()
	p := listOffsets(t, c, listVersion, topic, 0, timestamp)[0]
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		t.Fatalf("ListOffsets %s at %d: %v", topic, timestamp, err)
	}
	return listed{p.Offset, p.Timestamp, p.LeaderEpoch}
}

// listOffsets asks a partition for the offsets of timestamps, in one request.
func listOffsets(t testing.TB, c *raw.Conn, version int16, topic string, partition int32, timestamps ...int64) []kmsg.ListOffsetsResponseTopicPartition {
	t.Helper()
	r := raw.With(kmsg.NewPtrListOffsetsRequest(), version)
	r.ReplicaID = -1
	asked := kmsg.NewListOffsetsRequestTopic()
	asked.Topic = topic
	for _, timestamp := range timestamps {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp, p.MaxNumOffsets, p.CurrentLeaderEpoch = partition, timestamp, 10, -1
		asked.Partitions = append(asked.Partitions, p)
	}
	r.Topics = []kmsg.ListOffsetsRequestTopic{asked}
	answer := raw.Do[*kmsg.ListOffsetsResponse](c, r)
	if len(answer.Topics) != 1 {
		t.Fatalf("a ListOffsets answer with %d topics", len(answer.Topics))
	}
	return answer.Topics[0].Partitions
}

// now in milliseconds since the epoch.
func now() int64 { return time.Now().UnixMilli() }
