package cluster

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/compat/raw"
)

// What users met elsewhere and only shows where there are several brokers; the cases of one are in compat/cases.

// put asks a broker to append one record of an idempotent producer (-1: of none) to a partition, with acks=all.
func put(topic string, partition int32, pid int64, sequence int32, timestamp int64) *kmsg.ProduceRequest {
	r := raw.With(kmsg.NewPtrProduceRequest(), 9)
	r.Acks, r.TimeoutMillis = -1, 10_000
	b := raw.NewBatch(timestamp, "v")
	if pid >= 0 {
		b = b.By(pid, 0, sequence)
	}
	r.Topics = []kmsg.ProduceRequestTopic{{
		Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: partition, Records: b.Encode()}},
	}}
	return r
}

func told(r *kmsg.ProduceResponse) (code int16, offset int64) {
	p := r.Topics[0].Partitions[0]
	return p.ErrorCode, p.BaseOffset
}

// offsetAt asks a broker for the offset of a time in partition 0 of a topic.
func offsetAt(t testing.TB, c *raw.Conn, topic string, timestamp int64) kmsg.ListOffsetsResponseTopicPartition {
	t.Helper()
	r := raw.With(kmsg.NewPtrListOffsetsRequest(), 5)
	r.ReplicaID = -1
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Timestamp = timestamp
	r.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
	return raw.Do[*kmsg.ListOffsetsResponse](c, r).Topics[0].Partitions[0]
}

// freshProducer gets a producer id.
func freshProducer(t testing.TB, c *raw.Conn) int64 {
	t.Helper()
	r := raw.With(kmsg.NewPtrInitProducerIDRequest(), 4)
	r.ProducerID, r.ProducerEpoch = -1, -1
	var answer *kmsg.InitProducerIDResponse
	harness.Eventually(t, limit, func() error {
		answer = raw.Do[*kmsg.InitProducerIDResponse](c, r)
		return kerr.ErrorForCode(answer.ErrorCode)
	})
	return answer.ProducerID
}

// TestNextLeaderKnowsBatches: what a leader took, its successor answers again with the offsets of then (case P1), and finds by time with
// the leader epoch that it was written in (case F3).
func TestNextLeaderKnowsBatches(t *testing.T) {
	c, tools := shared(t)
	topic := name("batches")
	createAt(t, c, tools, topic, "1:2:3")
	conn := raw.Dial(t, c.Broker(1).Addr)
	pid := freshProducer(t, conn)
	for sequence := range int32(6) {
		if code, offset := told(raw.Do[*kmsg.ProduceResponse](conn, put(topic, 0, pid, sequence, int64(1000+sequence)))); code != 0 || offset != int64(sequence) {
			t.Fatalf("sequence %d: error %d, offset %d", sequence, code, offset)
		}
	}
	c.Kill(1)
	leader := c.Leader(t, topic, 0)
	conn = raw.Dial(t, c.Broker(leader).Addr)
	for _, test := range []struct {
		sequence int32
		code     int16
		offset   int64
	}{{5, 0, 5}, {1, 0, 1}, {0, kerr.OutOfOrderSequenceNumber.Code, -1}, {9, kerr.OutOfOrderSequenceNumber.Code, -1}, {6, 0, 6}, {6, 0, 6}} {
		var code int16
		var offset int64
		harness.Eventually(t, limit, func() error { // until the new leader has shrunk the in-sync replicas, acks=all waits for the old one
			if code, offset = told(raw.Do[*kmsg.ProduceResponse](conn, put(topic, 0, pid, test.sequence, 2000))); code == kerr.RequestTimedOut.Code {
				return kerr.RequestTimedOut
			}
			return nil
		})
		if code != test.code || offset != test.offset {
			t.Errorf("sequence %d at the next leader: error %d, offset %d; want %d, %d", test.sequence, code, offset, test.code, test.offset)
		}
	}
	epoch := c.Partitions(t, topic)[0].LeaderEpoch
	if old := offsetAt(t, conn, topic, 1003); old.Offset != 3 || old.Timestamp != 1003 || old.LeaderEpoch != 0 {
		t.Errorf("a record of the leader before: %+v, want offset 3 of epoch 0", old)
	}
	if ours := offsetAt(t, conn, topic, 2000); ours.Offset != 6 || ours.LeaderEpoch != epoch || epoch == 0 {
		t.Errorf("a record of this leader: %+v, want offset 6 of epoch %d", ours, epoch)
	}
	if end := offsetAt(t, conn, topic, -1); end.Offset != 7 || end.Timestamp != -1 || end.LeaderEpoch != epoch {
		t.Errorf("the end: %+v, want 7 and epoch %d", end, epoch)
	}
	if begin := offsetAt(t, conn, topic, -2); begin.Offset != 0 || begin.LeaderEpoch != 0 {
		t.Errorf("the start: %+v, want 0 of epoch 0", begin)
	}
}

// TestDeleteRecordsOfReplicas is case S3 where there are several replicas: the low watermark is that of the last of them, a replica that
// does not follow is waited for, only the leader is asked, and who leads next begins where the log begins.
func TestDeleteRecordsOfReplicas(t *testing.T) {
	c, tools := shared(t)
	topic := name("trimmed")
	createAt(t, c, tools, topic, "1:2:3")
	fill(t, c, topic, 1, 10, 10)
	trim := func(at int, offset int64, timeout int32) (code int16, low int64) {
		t.Helper()
		r := raw.With(kmsg.NewPtrDeleteRecordsRequest(), 2)
		r.TimeoutMillis = timeout
		r.Topics = []kmsg.DeleteRecordsRequestTopic{{
			Topic: topic, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: 0, Offset: offset}},
		}}
		p := raw.Do[*kmsg.DeleteRecordsResponse](raw.Dial(t, c.Broker(at).Addr), r).Topics[0].Partitions[0]
		return p.ErrorCode, p.LowWatermark
	}
	if code, low := trim(1, 3, 30_000); code != 0 || low != 3 {
		t.Errorf("to 3: error %d, low watermark %d", code, low)
	}
	if code, _ := trim(2, 4, 30_000); code != kerr.NotLeaderForPartition.Code {
		t.Errorf("a follower answers %v", kerr.ErrorForCode(code))
	}
	c.Pause(3)
	if code, _ := trim(1, 5, 500); code != kerr.RequestTimedOut.Code {
		t.Errorf("while a replica stands still: %v", kerr.ErrorForCode(code))
	}
	c.Resume(3)
	c.AwaitInSync(t, limit, topic)
	if code, low := trim(1, 5, 30_000); code != 0 || low != 5 {
		t.Errorf("again: error %d, low watermark %d", code, low)
	}
	c.Stop(t, 1)
	if got := offsetAt(t, raw.Dial(t, c.Broker(c.Leader(t, topic, 0)).Addr), topic, -2); got.Offset != 5 {
		t.Errorf("the next leader's log begins at %+v, not 5", got)
	}
	c.Restart(t, 1)
	c.AwaitInSync(t, limit, topic)
	tools.run(t, "kafka-leader-election", "--election-type", "preferred", "--topic", topic, "--partition", "0")
	awaitLeaders(t, c, topic, 1)
	if got := offsetAt(t, raw.Dial(t, c.Broker(1).Addr), topic, -2); got.Offset != 5 {
		t.Errorf("the leader of before begins at %+v, not 5", got)
	}
}

// TestAutoCreationAnywhere is case A3 where there are several brokers: whichever is asked says that the leader is not known yet, also one
// that is not the controller, as each broker of 3.9 creates the topic itself, and a moment later that it is there.
func TestAutoCreationAnywhere(t *testing.T) {
	c, _ := shared(t)
	for id := 1; id <= 3; id++ {
		conn, topic := raw.Dial(t, c.Broker(id).Addr), name("anywhere")
		r := raw.With(kmsg.NewPtrMetadataRequest(), 4)
		r.AllowAutoTopicCreation = true
		r.Topics = []kmsg.MetadataRequestTopic{{Topic: &topic}}
		if got := raw.Do[*kmsg.MetadataResponse](conn, r).Topics[0].ErrorCode; got != kerr.LeaderNotAvailable.Code {
			t.Errorf("broker %d: %v, want LEADER_NOT_AVAILABLE", id, kerr.ErrorForCode(got))
		}
		harness.Eventually(t, limit, func() error {
			answer := raw.Do[*kmsg.MetadataResponse](conn, r).Topics[0]
			if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
				return err
			}
			if p := answer.Partitions[0]; p.ErrorCode != 0 || len(p.Replicas) != 3 {
				return fmt.Errorf("%+v", p)
			}
			return nil
		})
	}
}

// TestLeadersNamedOnceTheyServe is case P6 where there are several brokers: whoever any of them names as a leader takes records at once.
func TestLeadersNamedOnceTheyServe(t *testing.T) {
	c, _ := shared(t)
	if c.Broker(1).Kind != harness.Gregor {
		return // Kafka 3.9 has this fault: a leader may refuse what it has not been told of yet
	}
	const partitions = 9
	conns := map[int32]*raw.Conn{}
	for id := int32(1); id <= 3; id++ {
		conns[id] = raw.Dial(t, c.Broker(int(id)).Addr)
	}
	pid := freshProducer(t, conns[1])
	for round := range 10 {
		topic := name("served")
		create := raw.With(kmsg.NewPtrCreateTopicsRequest(), 5)
		create.TimeoutMillis = 30_000
		asked := kmsg.NewCreateTopicsRequestTopic()
		asked.Topic, asked.NumPartitions, asked.ReplicationFactor = topic, partitions, 3
		create.Topics = []kmsg.CreateTopicsRequestTopic{asked}
		admin := raw.Dial(t, c.Broker(c.Controller(t)).Addr)
		admin.Send(create)
		leaders := firstLeaders(t, conns[int32(round%3+1)], topic, partitions)
		for sequence := range int32(5) {
			for p, leader := range leaders {
				conns[leader].Send(put(topic, int32(p), pid, sequence, 1000))
			}
		}
		for sequence := range int64(5) {
			for p, leader := range leaders {
				if code, offset := told(raw.Receive[*kmsg.ProduceResponse](conns[leader])); code != 0 || offset != sequence {
					t.Fatalf("batch %d to %s-%d: %v, offset %d", sequence, topic, p, kerr.ErrorForCode(code), offset)
				}
			}
		}
		raw.Receive[*kmsg.CreateTopicsResponse](admin)
	}
}

// firstLeaders asks one broker until it names a leader for each partition.
func firstLeaders(t *testing.T, conn *raw.Conn, topic string, partitions int) []int32 {
	t.Helper()
	leaders := make([]int32, partitions)
	r := raw.With(kmsg.NewPtrMetadataRequest(), 9)
	r.Topics = []kmsg.MetadataRequestTopic{{Topic: &topic}}
	for began := time.Now(); ; {
		led := 0
		for _, p := range raw.Do[*kmsg.MetadataResponse](conn, r).Topics[0].Partitions {
			if p.ErrorCode == 0 && p.Leader > 0 {
				leaders[p.Partition] = p.Leader
				led++
			}
		}
		if led == partitions {
			return leaders
		}
		if time.Since(began) > limit {
			t.Fatalf("%d of %d partitions have a leader", led, partitions)
		}
	}
}

// TestC1PausedBroker is case C1: a broker that stood still for longer than its session, here the controller and a leader, registers
// anew in a session of its own, is in Metadata and in sync again without a restart, and what it took as a leader that it was no more it
// never said was written, unless it is.
func TestC1PausedBroker(t *testing.T) {
	c, tools := shared(t)
	victim := c.Controller(t)
	a, b := victim%3+1, (victim+1)%3+1
	topic := name("paused")
	createAt(t, c, tools, topic, fmt.Sprintf("%d:%d:%d,%d:%d:%d", victim, a, b, a, b, victim))
	load := startLoad(t, c, topic, 2)
	load.more(t, 100)
	stale := name("stale")
	createAt(t, c, tools, stale, fmt.Sprintf("%d:%d:%d", victim, a, b))
	conn := raw.Dial(t, c.Broker(victim).Addr)
	if code, offset := told(raw.Do[*kmsg.ProduceResponse](conn, put(stale, 0, -1, 0, 1000))); code != 0 || offset != 0 {
		t.Fatalf("before: error %d, offset %d", code, offset)
	}
	before, pid := sessionOf(t, tools, victim), c.Broker(victim).Pid()

	c.Pause(victim)
	conn.Send(put(stale, 0, -1, 0, 2000)) // it will read this when it runs again
	harness.Eventually(t, limit, func() error {
		if ids := tools.zookeeper(t, "ls", "/brokers/ids"); strings.Contains(ids, fmt.Sprint(victim)) {
			return fmt.Errorf("brokers %s", ids)
		}
		return nil
	})
	leader := c.Leader(t, stale, 0)
	load.more(t, 100)
	if code, offset := told(raw.Do[*kmsg.ProduceResponse](raw.Dial(t, c.Broker(leader).Addr), put(stale, 0, -1, 0, 3000))); code != 0 {
		t.Errorf("meanwhile: error %d, offset %d", code, offset)
	}
	c.Resume(victim)
	code, offset := told(raw.Receive[*kmsg.ProduceResponse](conn))
	load.more(t, 100)
	c.AwaitInSync(t, limit)
	if code == 0 {
		if found := offsetAt(t, raw.Dial(t, c.Broker(leader).Addr), stale, 2000); found.Offset != offset || found.Timestamp != 2000 {
			t.Errorf("the leader that stood still said that a record is at %d; there is %+v", offset, found)
		}
	}
	t.Logf("the leader that stood still said: error %d, offset %d", code, offset)
	if after := sessionOf(t, tools, victim); after == before {
		t.Errorf("its node is of the session of before: %s", after)
	}
	if got := c.Broker(victim).Pid(); got != pid {
		t.Errorf("it was restarted: process %d, before %d", got, pid)
	}
	c.Controller(t)
	load.finish(t)
}

var ephemeralOwner = regexp.MustCompile(`ephemeralOwner = (0x\w+)`)

// sessionOf returns the session with ZooKeeper in which a broker is registered.
func sessionOf(t testing.TB, tools *tools, id int) string {
	t.Helper()
	out := tools.RunAlone(t, "zookeeper-shell", "-server", tools.cluster.ZooKeeper.Addr, "stat", fmt.Sprint("/brokers/ids/", id))
	found := ephemeralOwner.FindStringSubmatch(out.Stdout)
	if found == nil {
		t.Fatalf("no owner of /brokers/ids/%d:\n%s", id, out)
	}
	return found[1]
}
