package replica

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/log/vfs"
	"github.com/gregor-broker/gregor/wire/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const self = 1 // our broker id

// fixture is a manager over logs in memory, whose pool is a goroutine per function.
type fixture struct {
	*Manager
	t       testing.TB
	pool    sync.WaitGroup
	configs map[string]*log.Config // DefaultConfig where missing
	minISR  map[string]int
	joins   func(j *Joining, done func([]error)) // Options.Join
	led     []string                             // what OnLeader was told
	epoch   int32                                // of the controller
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	fs := vfs.NewMem(1<<32, clock.System.Now)
	if err := fs.Mkdir("/logs"); err != nil {
		t.Fatal(err)
	}
	logs, err := log.OpenManager(context.Background(), log.Options{
		Dirs: []string{"/logs"}, FS: fs, Clock: clock.System, Logger: zap.NewNop(), BrokerID: self,
		VerifyTransactions: func() bool { return true },
	})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, configs: map[string]*log.Config{}, minISR: map[string]int{}}
	f.Manager = New(Options{
		BrokerID: self, Logs: logs, Clock: clock.System, Logger: zap.NewNop(),
		Pool:      func(fn func()) { f.pool.Go(fn) },
		Join:      func(j *Joining, done func([]error)) { f.joins(j, done) },
		ConfigFor: f.configFor, MinISR: func(topic string) int { return max(1, f.minISR[topic]) },
		OnLeader: func(tp log.TopicPartition, epoch int32, leader bool) {
			f.led = append(f.led, fmt.Sprintf("%s-%d epoch %d %v", tp.Topic, tp.Partition, epoch, leader))
		},
	})
	t.Cleanup(func() { f.close(logs) })
	return f
}

func (f *fixture) configFor(topic string) *log.Config {
	if c := f.configs[topic]; c != nil {
		return c
	}
	return log.DefaultConfig()
}

func (f *fixture) close(logs *log.Manager) {
	f.Manager.Close()
	f.pool.Wait()
	if err := logs.Close(context.Background()); err != nil {
		f.t.Errorf("closing the logs: %v", err)
	}
}

func idOf(b byte) log.TopicID { return log.TopicID{0: b} }

// order is a LeaderAndISR for partitions 0…n-1 of a topic; isr must name us to make us the leader.
func (f *fixture) order(topic string, id log.TopicID, n int, leaderEpoch int32, isr ...int32) *kmsg.LeaderAndISRRequest {
	r := kmsg.NewPtrLeaderAndISRRequest()
	r.Version, r.ControllerEpoch = 7, f.epoch
	t := kmsg.NewLeaderAndISRRequestTopicState()
	t.Topic, t.TopicID = topic, id
	for i := range n {
		p := kmsg.NewLeaderAndISRRequestTopicPartition()
		p.Partition, p.Leader, p.LeaderEpoch, p.ISR, p.Replicas = int32(i), self, leaderEpoch, isr, isr
		t.PartitionStates = append(t.PartitionStates, p)
	}
	r.TopicStates = append(r.TopicStates, t)
	return r
}

// lead makes us the only replica of a topic's partitions.
func (f *fixture) lead(topic string, id log.TopicID, n int) {
	f.t.Helper()
	f.mustObey(f.order(topic, id, n, 0, self))
}

func (f *fixture) mustObey(r *kmsg.LeaderAndISRRequest) {
	f.t.Helper()
	response := f.LeaderAndISR(r, 0)
	if response.ErrorCode != 0 {
		f.t.Fatalf("the order was refused with %d", response.ErrorCode)
	}
	for _, t := range response.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode != 0 {
				f.t.Fatalf("partition %d was refused with %d", p.Partition, p.ErrorCode)
			}
		}
	}
}

func (f *fixture) remove(topic string, n int) { f.stopReplicas(topic, n, true) }

// stop stops partition 0 of a topic.
func (f *fixture) stop(topic string, remove bool) { f.stopReplicas(topic, 1, remove) }

func (f *fixture) stopReplicas(topic string, n int, remove bool) {
	r := kmsg.NewPtrStopReplicaRequest()
	r.Version, r.ControllerEpoch = 4, f.epoch
	t := kmsg.NewStopReplicaRequestTopic()
	t.Topic = topic
	for i := range n {
		p := kmsg.NewStopReplicaRequestTopicPartitionState()
		p.Partition, p.LeaderEpoch, p.Delete = int32(i), epochDuringDelete, remove
		t.PartitionStates = append(t.PartitionStates, p)
	}
	r.Topics = append(r.Topics, t)
	f.StopReplica(r, 0)
}

// batch is a record set as a client sends it, with one record per timestamp.
func batch(t testing.TB, codec record.Codec, value string, timestamps ...int64) record.Batch {
	t.Helper()
	return producerBatch(t, -1, -1, codec, value, timestamps...)
}

func producerBatch(t testing.TB, producer int64, sequence int32, codec record.Codec, value string, timestamps ...int64) record.Batch {
	t.Helper()
	recs := make([]record.Record, len(timestamps))
	for i, ts := range timestamps {
		recs[i] = record.Record{Offset: int64(i), Timestamp: ts, Key: []byte("k"), Value: []byte(value)}
	}
	o := record.BatchOptions{Codec: codec, LeaderEpoch: -1}.NoProducer()
	if producer >= 0 {
		o.ProducerID, o.ProducerEpoch, o.BaseSequence = producer, 0, sequence
	}
	b, err := record.Build(o, recs)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func one(t testing.TB, value string) record.Batch {
	return batch(t, record.None, value, clock.System.Now().UnixMilli())
}

// put produces one record set with acks=1 and returns its result.
func (f *fixture) put(topic string, partition int32, records []byte) ProduceResult {
	f.t.Helper()
	var got []ProduceResult
	f.Produce(ProduceParams{Version: 11, Acks: AcksLeader}, []ProduceEntry{{Topic: topic, Partition: partition, Records: records}},
		func(rs []ProduceResult) { got = rs })
	if len(got) != 1 {
		f.t.Fatal("a produce with acks=1 was not answered at once")
	}
	return got[0]
}

func (f *fixture) mustPut(topic string, partition int32, records []byte) ProduceResult {
	f.t.Helper()
	r := f.put(topic, partition, records)
	if r.Err != nil {
		f.t.Fatalf("produce to %s-%d: %v", topic, partition, r.Err)
	}
	return r
}

// from is a fetch of a partition with a megabyte of room.
func from(topic string, partition int32, offset int64) FetchEntry {
	return FetchEntry{
		Topic: topic, Partition: partition, Offset: offset, MaxBytes: 1 << 20, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1,
	}
}

// look is a consumer's fetch that does not wait.
func look() FetchParams { return FetchParams{ReplicaID: Consumer, MaxBytes: 50 << 20, MinBytes: 1} }

// get fetches, and returns the results, which must come at once; their files are released.
func (f *fixture) get(p FetchParams, entries ...FetchEntry) []FetchResult {
	f.t.Helper()
	var got []FetchResult
	f.Fetch(p, entries, func(rs []FetchResult) { got = rs })
	if got == nil {
		f.t.Fatal("the fetch was not answered at once")
	}
	for i := range got {
		if file := got[i].Records.File; file != nil {
			f.t.Cleanup(file.Release)
		}
	}
	return got
}

// start fetches and returns where the results will come.
func (f *fixture) start(p FetchParams, entries ...FetchEntry) <-chan []FetchResult {
	c := make(chan []FetchResult, 1)
	f.Fetch(p, entries, func(rs []FetchResult) {
		sizes(rs)
		c <- rs
	})
	return c
}

// sizes returns the bytes of the results, and releases their files.
func sizes(rs []FetchResult) []int {
	n := make([]int, len(rs))
	for i := range rs {
		n[i] = rs[i].Records.Size()
		if file := rs[i].Records.File; file != nil {
			file.Release()
			rs[i].Records.File = nil
			rs[i].Records.Bytes = make([]byte, n[i])
		}
	}
	return n
}

func sleep(d time.Duration) {
	c, _ := clock.System.NewTimer(d)
	<-c
}

// deleteRecords deletes, and returns the result, which must come at once.
func (f *fixture) deleteRecords(topic string, partition int32, to int64) (int64, error) {
	f.t.Helper()
	var got []DeleteResult
	f.DeleteRecords(time.Minute, []DeleteEntry{{Topic: topic, Partition: partition, Offset: to}}, func(rs []DeleteResult) { got = rs })
	if got == nil {
		f.t.Fatal("the deletion was not answered at once")
	}
	return got[0].LowWatermark, got[0].Err
}
