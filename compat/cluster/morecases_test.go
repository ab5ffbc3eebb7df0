package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/compat/raw"
)

// endAt is the end of partition 0 of a topic at a level of isolation, as a broker tells it.
func endAt(t testing.TB, c *raw.Conn, topic string, isolation int8) int64 {
	t.Helper()
	r := raw.With(kmsg.NewPtrListOffsetsRequest(), 5)
	r.ReplicaID, r.IsolationLevel = -1, isolation
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Timestamp = -1
	r.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
	return raw.Do[*kmsg.ListOffsetsResponse](c, r).Topics[0].Partitions[0].Offset
}

// coordinatorOf connects to who coordinates a transactional id, once that is a living broker.
func coordinatorOf(t testing.TB, c *harness.Cluster, id string) (at int, conn *raw.Conn) {
	t.Helper()
	harness.Eventually(t, limit, func() error {
		r := raw.With(kmsg.NewPtrFindCoordinatorRequest(), 1)
		r.CoordinatorKey, r.CoordinatorType = id, 1
		found := raw.Do[*kmsg.FindCoordinatorResponse](raw.Dial(t, c.Broker(c.Alive()[0]).Addr), r)
		if err := kerr.ErrorForCode(found.ErrorCode); err != nil {
			return err
		}
		for _, alive := range c.Alive() {
			if int(found.NodeID) == alive {
				at = alive
				return nil
			}
		}
		return fmt.Errorf("the coordinator is %d", found.NodeID)
	})
	return at, raw.Dial(t, c.Broker(at).Addr)
}

// retried asks until the coordinator has loaded and nothing is under way.
func retried[R kmsg.Response](t testing.TB, c *raw.Conn, r kmsg.Request, codeOf func(R) int16) (answer R) {
	t.Helper()
	harness.Eventually(t, limit, func() error {
		answer = raw.Do[R](c, r)
		switch err := kerr.ErrorForCode(codeOf(answer)); err {
		case kerr.ConcurrentTransactions, kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.NotCoordinator:
			return err
		}
		return nil
	})
	return answer
}

// TestExpiryOutlivesTheCoordinator is case T1 where the coordinator dies: its successor aborts what expires, and fences the producer.
func TestExpiryOutlivesTheCoordinator(t *testing.T) {
	c, tools := shared(t)
	topic, id := name("expires"), name("tx")
	createAt(t, c, tools, topic, "1:2:3")
	at, conn := coordinatorOf(t, c, id)
	start := raw.With(kmsg.NewPtrInitProducerIDRequest(), 4)
	start.TransactionalID, start.TransactionTimeoutMillis, start.ProducerID, start.ProducerEpoch = &id, 3000, -1, -1
	initCode := func(a *kmsg.InitProducerIDResponse) int16 { return a.ErrorCode }
	producer := retried(t, conn, start, initCode)
	add := raw.With(kmsg.NewPtrAddPartitionsToTxnRequest(), 3)
	add.TransactionalID, add.ProducerID, add.ProducerEpoch = id, producer.ProducerID, producer.ProducerEpoch
	add.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: topic, Partitions: []int32{0}}}
	added := retried(t, conn, add, func(a *kmsg.AddPartitionsToTxnResponse) int16 { return a.Topics[0].Partitions[0].ErrorCode })
	if code := added.Topics[0].Partitions[0].ErrorCode; code != 0 {
		t.Fatalf("add: %v", kerr.ErrorForCode(code))
	}
	write := func() int16 {
		r := put(topic, 0, -1, 0, 1000)
		r.TransactionID = &id
		b := raw.NewBatch(1000, "v").By(producer.ProducerID, producer.ProducerEpoch, 0)
		b.Attributes = 0x10 // transactional
		r.Topics[0].Partitions[0].Records = b.Encode()
		code, _ := told(raw.Do[*kmsg.ProduceResponse](raw.Dial(t, c.Broker(c.Leader(t, topic, 0)).Addr), r))
		return code
	}
	if code := write(); code != 0 {
		t.Fatalf("produce: %v", kerr.ErrorForCode(code))
	}
	c.Kill(at)

	leader := raw.Dial(t, c.Broker(c.Leader(t, topic, 0)).Addr)
	harness.Eventually(t, limit, func() error { // a record and the marker that aborts it
		if all, stable := endAt(t, leader, topic, 0), endAt(t, leader, topic, 1); all != 2 || stable != 2 {
			return fmt.Errorf("the log ends at %d, what is stable at %d", all, stable)
		}
		return nil
	})
	_, conn = coordinatorOf(t, c, id)
	end := raw.With(kmsg.NewPtrEndTxnRequest(), 3)
	end.TransactionalID, end.ProducerID, end.ProducerEpoch, end.Commit = id, producer.ProducerID, producer.ProducerEpoch, true
	if a := retried(t, conn, end, func(a *kmsg.EndTxnResponse) int16 { return a.ErrorCode }); a.ErrorCode != kerr.ProducerFenced.Code {
		t.Errorf("a commit afterwards: %v", kerr.ErrorForCode(a.ErrorCode))
	}
	if code := write(); code != kerr.InvalidProducerEpoch.Code {
		t.Errorf("a record afterwards: %v", kerr.ErrorForCode(code))
	}
	if again := retried(t, conn, start, initCode); again.ErrorCode != 0 || again.ProducerID != producer.ProducerID || again.ProducerEpoch <= producer.ProducerEpoch {
		t.Errorf("the producer %d/%d comes back as %+v", producer.ProducerID, producer.ProducerEpoch, again)
	}
}

// TestReplicaOfACompactedLog is case S1 for a replica that is made from a log with gaps and emptied batches: it has the same batches at the
// same offsets, and knows their producers.
func TestReplicaOfACompactedLog(t *testing.T) {
	c, tools := shared(t)
	client := c.Client(t)
	setAt(t, client, 1, "", "log.cleaner.backoff.ms", "200")
	defer setAt(t, client, 1, "", "log.cleaner.backoff.ms", "")
	topic := name("compacted")
	createAt(t, c, tools, topic, "1:2", "cleanup.policy=compact", "segment.ms=100", "min.cleanable.dirty.ratio=0.01", "max.compaction.lag.ms=1000")
	conn := raw.Dial(t, c.Broker(1).Addr)
	pid := freshProducer(t, conn)
	write := func(at int, pid int64, sequence int32, key string, values ...string) (code int16, offset int64) {
		t.Helper()
		b := raw.NewBatch(time.Now().UnixMilli(), values...) // segments are rolled by the times of records
		for i := range b.Records {
			b.Records[i].Key = []byte(key)
		}
		if pid >= 0 {
			b = b.By(pid, 0, sequence)
		}
		r := put(topic, 0, -1, 0, 1000)
		r.Topics[0].Partitions[0].Records = b.Encode()
		return told(raw.Do[*kmsg.ProduceResponse](raw.Dial(t, c.Broker(at).Addr), r))
	}
	write(1, pid, 0, "k", "1", "2", "3")
	write(1, -1, 0, "k", "4")
	write(1, -1, 0, "m", "5")
	write(1, -1, 0, "m", "6")
	n := 0
	harness.Eventually(t, limit, func() error {
		n++
		write(1, -1, 0, fmt.Sprint("other ", n), "v")
		if batches := batchesAt(t, conn, topic, 6); len(batches) < 3 || batches[0] != "0-2 0" || batches[2] != "5-5 1" {
			return fmt.Errorf("not compacted: %v", batches)
		}
		return nil
	})
	want := batchesAt(t, conn, topic, 6)
	tools.run(t, "kafka-reassign-partitions", "--execute", "--reassignment-json-file", reassign(t, topic, []int{3, 1}))
	harness.Eventually(t, limit, func() error {
		if p := c.Partitions(t, topic)[0]; fmt.Sprint(p.Replicas) != "[3 1]" || len(p.ISR) != 2 {
			return fmt.Errorf("%+v", p)
		}
		return nil
	})
	tools.run(t, "kafka-leader-election", "--election-type", "preferred", "--topic", topic, "--partition", "0")
	awaitLeaders(t, c, topic, 3)
	made := raw.Dial(t, c.Broker(3).Addr)
	if got := batchesAt(t, made, topic, 6); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the new replica has %v, the one before %v", got, want)
	}
	if code, offset := write(3, pid, 0, "k", "1", "2", "3"); code != 0 || offset != 0 {
		t.Errorf("the emptied batch, resent to the new replica: %v, offset %d", kerr.ErrorForCode(code), offset)
	}
}

// batchesAt reads a topic from its start up to an offset: from where to where each batch goes, and how many records it has.
func batchesAt(t testing.TB, c *raw.Conn, topic string, end int64) (batches []string) {
	t.Helper()
	for next := int64(0); next < end; {
		p := kmsg.NewFetchRequestTopicPartition()
		p.FetchOffset, p.PartitionMaxBytes = next, 1<<20
		r := raw.With(kmsg.NewPtrFetchRequest(), 11)
		r.ReplicaID, r.MaxBytes, r.SessionEpoch = -1, 1<<20, -1
		r.Topics = []kmsg.FetchRequestTopic{{Topic: topic, Partitions: []kmsg.FetchRequestTopicPartition{p}}}
		entries, _, err := raw.Entries(raw.Do[*kmsg.FetchResponse](c, r).Topics[0].Partitions[0].RecordBatches)
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) == 0 {
			return batches
		}
		for _, e := range entries {
			if next = e.LastOffset + 1; e.BaseOffset < end {
				batches = append(batches, fmt.Sprintf("%d-%d %d", e.BaseOffset, e.LastOffset, e.Count))
			}
		}
	}
	return batches
}
