package txn

import (
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/compat/raw"
)

// script is what one client does.
type script struct {
	name string
	both bool // also under transaction version 2
	run  func(s *session)
}

// scripts are what clients do in transactions; the answers of Kafka 3.9.2 and 4.4.0 are in testdata. Those of which v2 is set
// are run a second time by a client of transaction version 2.
var scripts = []script{
	{"commit", true, func(s *session) {
		s.init(60_000)
		s.write()
		s.write()
		s.describe()
		s.offsets()
		s.end(true)
		s.write() // which is taken once the transaction before has ended
		s.offsets()
		s.end(true)
	}},
	{"abort", true, func(s *session) {
		s.init(60_000)
		s.write()
		s.end(false)
		s.write()
		s.end(true)
		s.init(60_000) // when this is answered everything has ended
		s.offsets()
		s.describe()
	}},
	{"empty", true, func(s *session) { // case T3 b
		s.init(60_000)
		s.end(true)
		s.end(false)
		s.write()
		s.end(true)
	}},
	{"retried-end", true, func(s *session) { // case T3 c
		s.init(60_000)
		s.write()
		pid, epoch := s.pid, s.epoch
		s.end(true)
		s.endAs(", again", s.endVersion(), s.id, pid, epoch, true)
		s.endAs(", in the other way", s.endVersion(), s.id, pid, epoch, false)
		s.write()
		pid, epoch = s.pid, s.epoch
		s.end(false)
		s.endAs(", again", s.endVersion(), s.id, pid, epoch, false)
		s.endAs(", in the other way", s.endVersion(), s.id, pid, epoch, true)
	}},
	{"fencing", true, func(s *session) { // case T3 d
		s.init(60_000)
		s.init(60_000)
		s.write()
		for _, version := range []int16{1, s.endVersion()} {
			s.endAs(" of the epoch before", version, s.id, s.pid, s.epoch-1, true)
			s.endAs(" of the epoch after", version, s.id, s.pid, s.epoch+1, true)
			s.endAs(" of another producer", version, s.id, s.pid+1000, s.epoch, true)
			s.endAs(" of an unknown id", version, s.id+"-unknown", s.pid, s.epoch, true)
		}
		for _, version := range []int16{1, 3} {
			a := raw.Do[*kmsg.AddPartitionsToTxnResponse](s.c, addRequest(version, s.id, s.pid, s.epoch-1, s.topic))
			s.say("AddPartitionsToTxn v%d of the epoch before: %s", version, code(addCode(a)))
		}
		s.end(true)
	}},
	{"busy-init", true, func(s *session) { // case T3 a
		s.init(60_000)
		s.write()
		old := *s
		a := raw.Do[*kmsg.InitProducerIDResponse](s.c, initRequest(4, s.id, 60_000))
		s.say("InitProducerId in a transaction: %s", code(a.ErrorCode))
		s.init(60_000)
		s.offsets()
		old.lines = nil
		old.produce(9)
		s.say("the former producer: %s", old.lines[0])
		s.endAs(" of the former producer", 3, old.id, old.pid, old.epoch, true)
	}},
	{"recovered-init", false, func(s *session) { // KIP-360: a producer that says who it was
		s.init(60_000)
		s.write()
		s.end(true)
		for _, who := range []struct {
			name  string
			pid   int64
			epoch int16
		}{{"of the current epoch", s.pid, s.epoch}, {"of the epoch before, again", s.pid, s.epoch}, {"of another producer", s.pid + 1000, 0}} {
			r := initRequest(4, s.id, 60_000)
			r.ProducerID, r.ProducerEpoch = who.pid, who.epoch
			a := settled(s, r, initCode)
			s.say("InitProducerId %s: %s, %s", who.name, code(a.ErrorCode), s.producer(a.ProducerID, a.ProducerEpoch))
		}
	}},
	{"invalid-init", false, func(s *session) { // case T1, second half
		for _, r := range []struct {
			name    string
			id      string
			timeout int32
		}{{"timeout 0", s.id, 0}, {"timeout 900001", s.id, 900_001}, {"no id", "", 60_000}} {
			a := settled(s, initRequest(4, r.id, r.timeout), initCode)
			s.say("InitProducerId, %s: %s, %s", r.name, code(a.ErrorCode), s.producer(a.ProducerID, a.ProducerEpoch))
		}
		null := initRequest(4, "", 0)
		null.TransactionalID = nil
		a := settled(s, null, initCode)
		s.say("InitProducerId, null id and timeout 0: %s, epoch %d", code(a.ErrorCode), a.ProducerEpoch)
	}},
	{"timeout", true, func(s *session) { // case T1
		s.init(1_000)
		s.write()
		harness.Eventually(s.t, time.Minute, func() error {
			if s.stable() < 2 {
				return kerr.ConcurrentTransactions
			}
			return nil
		})
		s.offsets()
		s.endAs("", 1, s.id, s.pid, s.epoch, true)
		s.endAs("", s.endVersion(), s.id, s.pid, s.epoch, true)
		s.produce(9)
		s.init(60_000)
	}},
	{"partly-failed-add", false, func(s *session) { // case T5
		s.init(60_000)
		a := settled(s, addRequest(3, s.id, s.pid, s.epoch, s.topic, s.topic+"-missing"), addCode)
		for _, t := range a.Topics {
			name := "good"
			if t.Topic != s.topic {
				name = "missing"
			}
			s.say("AddPartitionsToTxn, %s: %s", name, code(t.Partitions[0].ErrorCode))
		}
		s.end(true)
		s.add()
		before := s.written()
		s.add()
		s.addOffsetsTwice()
		s.say("records of its coordinator for what is added again, and one for the group: %d", s.written()-before)
		s.end(true)
	}},
	{"not-added", false, func(s *session) { // KIP-890 part 1
		s.init(60_000)
		s.produce(9)
		s.produce(11)
		s.offsets()
		s.end(true)
	}},
	{"markers", false, func(s *session) { // what kafka-transactions abort does
		s.init(60_000)
		s.init(60_000)
		s.write()
		s.marker("of an old epoch", s.topic, -1, 0, false)
		s.marker("of a topic that does not exist", s.topic+"-missing", 0, 0, false)
		s.marker("abort", s.topic, 0, 7, false)
		s.offsets()
		s.describe()
		s.marker("of an old coordinator", s.topic, 0, 6, false)
		s.marker("abort, again", s.topic, 0, 7, false)
		s.produce(9)
	}},
	{"offsets", true, func(s *session) {
		s.init(60_000)
		s.txnCommit(5)
		s.fetchOffset()
		s.end(true)
		s.init(60_000)
		s.fetchOffset()
		s.txnCommit(9)
		s.end(false)
		s.init(60_000)
		s.fetchOffset()
	}},
	{"offsets-not-added", false, func(s *session) {
		s.init(60_000)
		for _, version := range []int16{3, 4} {
			s.txnCommitAs(version, -1, "", 5)
		}
		s.fetchOffset()
	}},
	{"offsets-fencing", false, func(s *session) {
		s.init(60_000)
		s.addOffsets()
		s.txnCommitAs(3, 3, "", 5)
		s.txnCommitAs(3, -1, "nobody", 5)
		s.txnCommitAs(3, -1, "", 5)
		s.end(true)
	}},
}

// stable returns the last stable offset.
func (s *session) stable() int64 {
	r := raw.With(kmsg.NewPtrListOffsetsRequest(), 5)
	r.ReplicaID, r.IsolationLevel = -1, 1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = s.topic
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Timestamp = -1
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	return raw.Do[*kmsg.ListOffsetsResponse](s.c, r).Topics[0].Partitions[0].Offset
}

// marker ends the session's transaction behind its coordinator's back; epoch is relative to the session's.
func (s *session) marker(what, topic string, epoch int16, coordinator int32, commit bool) {
	s.t.Helper()
	r := raw.With(kmsg.NewPtrWriteTxnMarkersRequest(), 1)
	m := kmsg.NewWriteTxnMarkersRequestMarker()
	m.ProducerID, m.ProducerEpoch, m.CoordinatorEpoch, m.Committed = s.pid, s.epoch+epoch, coordinator, commit
	t := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
	t.Topic, t.Partitions = topic, []int32{0}
	m.Topics = append(m.Topics, t)
	r.Markers = append(r.Markers, m)
	a := raw.Do[*kmsg.WriteTxnMarkersResponse](s.c, r)
	s.say("WriteTxnMarkers, %s: %s", what, code(a.Markers[0].Topics[0].Partitions[0].ErrorCode))
}

// addOffsets adds the session's group, which is named as its topic.
func (s *session) addOffsets() {
	s.t.Helper()
	r := raw.With(kmsg.NewPtrAddOffsetsToTxnRequest(), 3)
	r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Group = s.id, s.pid, s.epoch, s.topic
	a := settled(s, r, func(a *kmsg.AddOffsetsToTxnResponse) int16 { return a.ErrorCode })
	s.say("AddOffsetsToTxn: %s", code(a.ErrorCode))
}

// addOffsetsTwice adds the session's group, and adds it again.
func (s *session) addOffsetsTwice() {
	s.t.Helper()
	s.addOffsets()
	s.addOffsets()
}

// written is where the log of the session's coordinator ends.
func (s *session) written() int64 {
	s.t.Helper()
	hash := int32(0) // of Java
	for _, c := range s.id {
		hash = 31*hash + c
	}
	partitions, err := strconv.Atoi(few["transaction.state.log.num.partitions"])
	if err != nil {
		s.t.Fatal(err)
	}
	r := raw.With(kmsg.NewPtrListOffsetsRequest(), 5)
	r.ReplicaID = -1
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp = hash&math.MaxInt32%int32(partitions), -1
	r.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "__transaction_state", Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
	answer := raw.Do[*kmsg.ListOffsetsResponse](s.c, r).Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
		s.t.Fatal(err)
	}
	return answer.Offset
}

// txnCommit commits an offset of the session's group in the transaction, as the session's clients do.
func (s *session) txnCommit(offset int64) {
	s.t.Helper()
	if s.v2 {
		s.txnCommitAs(5, -1, "", offset)
		return
	}
	s.addOffsets()
	s.txnCommitAs(3, -1, "", offset)
}

func (s *session) txnCommitAs(version int16, generation int32, member string, offset int64) {
	s.t.Helper()
	r := s.commitRequest(version, generation, member, offset)
	a := settled(s, r, func(a *kmsg.TxnOffsetCommitResponse) int16 { return a.Topics[0].Partitions[0].ErrorCode })
	s.say("TxnOffsetCommit v%d, generation %d, member %q: %s", version, generation, member, code(a.Topics[0].Partitions[0].ErrorCode))
}

// commitRequest commits an offset of the session's group, whose coordinator it makes the broker.
func (s *session) commitRequest(version int16, generation int32, member string, offset int64) *kmsg.TxnOffsetCommitRequest {
	s.t.Helper()
	find := raw.With(kmsg.NewPtrFindCoordinatorRequest(), 1)
	find.CoordinatorKey = s.topic
	settled(s, find, func(a *kmsg.FindCoordinatorResponse) int16 { return a.ErrorCode })
	r := raw.With(kmsg.NewPtrTxnOffsetCommitRequest(), version)
	r.TransactionalID, r.Group, r.ProducerID, r.ProducerEpoch, r.Generation, r.MemberID = s.id, s.topic, s.pid, s.epoch, generation, member
	t := kmsg.NewTxnOffsetCommitRequestTopic()
	t.Topic = s.topic
	p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	p.Offset = offset
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	return r
}

func (s *session) fetchOffset() {
	s.t.Helper()
	for _, stable := range []bool{false, true} {
		r := raw.With(kmsg.NewPtrOffsetFetchRequest(), 7)
		r.Group, r.RequireStable = s.topic, stable
		t := kmsg.NewOffsetFetchRequestTopic()
		t.Topic, t.Partitions = s.topic, []int32{0}
		r.Topics = append(r.Topics, t)
		a := settled(s, r, func(a *kmsg.OffsetFetchResponse) int16 { return a.ErrorCode }).Topics[0].Partitions[0]
		s.say("OffsetFetch, stable %v: %s %d", stable, code(a.ErrorCode), a.Offset)
	}
}

// TestTranscripts is the protocol of transactions, answer by answer, as Kafka 3.9.2 and 4.4.0 give them. The cases T1, T3 and T5
// are among the scripts.
func TestTranscripts(t *testing.T) {
	b := harness.SharedWith(t, few)
	version := "4.4"
	if b.Kind == harness.Kafka39 {
		version = "3.9"
	}
	runScripts(t, b, version)
}

// TestTranscriptsOnZooKeeper is the same for a broker of a ZooKeeper cluster, whose standard is Kafka 3.9.2.
func TestTranscriptsOnZooKeeper(t *testing.T) {
	harness.NeedCluster(t)
	if harness.Peer() != harness.Gregor {
		t.Skip("the transcripts are of a broker alone")
	}
	c := harness.StartCluster(t, harness.ClusterOptions{Kinds: []harness.Kind{harness.Gregor}, Props: few})
	runScripts(t, c.Broker(1), "3.9")
}

// runScripts compares with, or writes, the transcripts of one version of Kafka.
func runScripts(t *testing.T, b *harness.Broker, version string) {
	for _, script := range slices.Concat(scripts, oddScripts) {
		for _, v2 := range []bool{false, true} {
			name := script.name
			if v2 {
				if !script.both || version == "3.9" {
					continue
				}
				name += "-v2"
			}
			t.Run(name, func(t *testing.T) {
				s := newSession(t, b, name, v2)
				script.run(s)
				s.compare(name, version)
			})
		}
	}
}
