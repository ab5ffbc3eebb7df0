// Package txn runs transactions against the broker: request by request, beside transcripts of Apache Kafka, with the clients
// that people use, and with accounts whose sum must never change.
package txn

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/compat/raw"
)

func TestMain(m *testing.M) { harness.Main(m) }

// update writes down what the peer, which must be Apache Kafka, answers: GREGOR_COMPAT_PEER=kafka-4.4 go test -run
// TestTranscripts -update ./compat/txn.
var update = flag.Bool("update", false, "write the transcripts of the peer")

// few makes the internal topics small, and transactions time out soon.
var few = map[string]string{
	"offsets.topic.num.partitions":                                "3",
	"offsets.topic.replication.factor":                            "1",
	"transaction.state.log.num.partitions":                        "3",
	"transaction.state.log.replication.factor":                    "1",
	"transaction.state.log.min.isr":                               "1",
	"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
	"group.initial.rebalance.delay.ms":                            "0",
}

// session is one client that says what it does and what it is answered, in words that are the same in every run.
type session struct {
	t     *testing.T
	b     *harness.Broker
	c     *raw.Conn
	topic string
	id    string // transactional id
	pid   int64
	epoch int16
	v2    bool // transaction version 2: Produce v12, EndTxn v5, TxnOffsetCommit v5, nothing is added by hand

	base  int16 // the epoch that is called 0
	first int64 // the producer id that is called "the first"
	seq   int32
	lines []string
}

func (s *session) say(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

func code(c int16) string {
	if c == 0 {
		return "NONE"
	}
	if e := kerr.TypedErrorForCode(c); e != nil {
		return e.Message
	}
	return fmt.Sprint(c)
}

// producer names a producer id and epoch.
func (s *session) producer(pid int64, epoch int16) string {
	switch {
	case pid < 0:
		return "no producer"
	case pid == s.first:
		return fmt.Sprintf("the first producer, epoch +%d", epoch-s.base)
	}
	return fmt.Sprintf("another producer, epoch %d", epoch)
}

// settled repeats a request while the transaction before is still ending or the coordinator is not there yet.
func settled[R kmsg.Response](s *session, r kmsg.Request, codeOf func(R) int16) R {
	s.t.Helper()
	var answer R
	harness.Eventually(s.t, time.Minute, func() error {
		answer = raw.Do[R](s.c, r)
		switch code := codeOf(answer); code {
		case kerr.ConcurrentTransactions.Code, kerr.CoordinatorLoadInProgress.Code, kerr.CoordinatorNotAvailable.Code, kerr.NotCoordinator.Code,
			kerr.NotEnoughReplicas.Code: // while a transaction cannot be verified
			return kerr.ErrorForCode(code)
		}
		return nil
	})
	return answer
}

func initRequest(version int16, id string, timeoutMs int32) *kmsg.InitProducerIDRequest {
	r := raw.With(kmsg.NewPtrInitProducerIDRequest(), version)
	r.TransactionalID, r.TransactionTimeoutMillis, r.ProducerID, r.ProducerEpoch = &id, timeoutMs, -1, -1
	return r
}

func initCode(a *kmsg.InitProducerIDResponse) int16 { return a.ErrorCode }

// init gets the producer id, and says so unless it is the session's first.
func (s *session) init(timeoutMs int32) {
	s.t.Helper()
	a := settled(s, initRequest(4, s.id, timeoutMs), initCode)
	if s.first < 0 {
		s.first, s.base = a.ProducerID, a.ProducerEpoch
	}
	s.pid, s.epoch, s.seq = a.ProducerID, a.ProducerEpoch, 0
	s.say("InitProducerId: %s, %s", code(a.ErrorCode), s.producer(a.ProducerID, a.ProducerEpoch))
}

func addRequest(version int16, id string, pid int64, epoch int16, topics ...string) *kmsg.AddPartitionsToTxnRequest {
	r := raw.With(kmsg.NewPtrAddPartitionsToTxnRequest(), version)
	r.TransactionalID, r.ProducerID, r.ProducerEpoch = id, pid, epoch
	for _, topic := range topics {
		t := kmsg.NewAddPartitionsToTxnRequestTopic()
		t.Topic, t.Partitions = topic, []int32{0}
		r.Topics = append(r.Topics, t)
	}
	return r
}

func addCode(a *kmsg.AddPartitionsToTxnResponse) int16 { return a.Topics[0].Partitions[0].ErrorCode }

// add adds partition 0 of the session's topic.
func (s *session) add() {
	s.t.Helper()
	a := settled(s, addRequest(3, s.id, s.pid, s.epoch, s.topic), addCode)
	s.say("AddPartitionsToTxn: %s", code(addCode(a)))
}

// produce writes one record in the transaction.
func (s *session) produce(version int16) int16 {
	s.t.Helper()
	b := raw.NewBatch(time.Now().UnixMilli(), "v").By(s.pid, s.epoch, s.seq)
	const transactional = 0x10
	b.Attributes |= transactional
	r := raw.With(kmsg.NewPtrProduceRequest(), version)
	r.TransactionID, r.Acks, r.TimeoutMillis = &s.id, -1, 10_000
	r.Topics = []kmsg.ProduceRequestTopic{{
		Topic: s.topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: 0, Records: b.Encode()}},
	}}
	a := settled(s, r, func(a *kmsg.ProduceResponse) int16 { return a.Topics[0].Partitions[0].ErrorCode })
	got := a.Topics[0].Partitions[0].ErrorCode
	if got == 0 {
		s.seq++
	}
	s.say("Produce v%d: %s", version, code(got))
	return got
}

// write adds and produces, as the session's clients do.
func (s *session) write() {
	s.t.Helper()
	if s.v2 {
		s.produce(12)
		return
	}
	s.add()
	s.produce(9)
}

func endRequest(version int16, id string, pid int64, epoch int16, commit bool) *kmsg.EndTxnRequest {
	r := raw.With(kmsg.NewPtrEndTxnRequest(), version)
	r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Commit = id, pid, epoch, commit
	return r
}

func endCode(a *kmsg.EndTxnResponse) int16 { return a.ErrorCode }

func (s *session) endVersion() int16 {
	if s.v2 {
		return 5
	}
	return 3
}

func word(commit bool) string {
	if commit {
		return "commit"
	}
	return "abort"
}

// end ends the transaction and goes on with the epoch that it is given.
func (s *session) end(commit bool) {
	s.t.Helper()
	a := s.endAs("", s.endVersion(), s.id, s.pid, s.epoch, commit)
	if a.ErrorCode == 0 && a.ProducerID >= 0 && s.v2 {
		s.pid, s.epoch, s.seq = a.ProducerID, a.ProducerEpoch, 0
	}
}

func (s *session) endAs(who string, version int16, id string, pid int64, epoch int16, commit bool) *kmsg.EndTxnResponse {
	s.t.Helper()
	a := settled(s, endRequest(version, id, pid, epoch, commit), endCode)
	then := ""
	if version >= 5 {
		then = ", then " + s.producer(a.ProducerID, a.ProducerEpoch)
	}
	s.say("EndTxn v%d %s%s: %s%s", version, word(commit), who, code(a.ErrorCode), then)
	return a
}

// offsets says what the two isolation levels show of the topic.
func (s *session) offsets() {
	s.t.Helper()
	for level, name := range []string{"uncommitted", "committed"} {
		l := raw.With(kmsg.NewPtrListOffsetsRequest(), 5)
		l.ReplicaID, l.IsolationLevel = -1, int8(level)
		lt := kmsg.NewListOffsetsRequestTopic()
		lt.Topic = s.topic
		lp := kmsg.NewListOffsetsRequestTopicPartition()
		lp.Timestamp = -1
		byTime := lp
		lt.Partitions = append(lt.Partitions, lp)
		l.Topics = append(l.Topics, lt)
		end := raw.Do[*kmsg.ListOffsetsResponse](s.c, l).Topics[0].Partitions[0].Offset
		byTime.Timestamp = 1
		l.Topics[0].Partitions[0] = byTime
		at := raw.Do[*kmsg.ListOffsetsResponse](s.c, l).Topics[0].Partitions[0].Offset
		s.say("read %s: end %d, first record by time %d, fetch %s", name, end, at, s.fetch(int8(level)))
	}
}

// fetch says what a Fetch from the start brings.
func (s *session) fetch(level int8) string {
	s.t.Helper()
	r := raw.With(kmsg.NewPtrFetchRequest(), 11)
	r.ReplicaID, r.MaxBytes, r.IsolationLevel, r.SessionEpoch = -1, 1<<20, level, -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic = s.topic
	p := kmsg.NewFetchRequestTopicPartition()
	p.PartitionMaxBytes, p.LogStartOffset, p.CurrentLeaderEpoch = 1<<20, -1, -1
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	a := raw.Do[*kmsg.FetchResponse](s.c, r).Topics[0].Partitions[0]
	var batches []string
	for rest := a.RecordBatches; len(rest) > 0; {
		var b kmsg.RecordBatch
		size := 12 + int(uint32(rest[8])<<24|uint32(rest[9])<<16|uint32(rest[10])<<8|uint32(rest[11]))
		if err := b.ReadFrom(rest[:size]); err != nil {
			s.t.Fatal(err)
		}
		const control, transactional = 0x20, 0x10
		kind := "plain"
		switch {
		case b.Attributes&control != 0:
			kind = fmt.Sprintf("marker %x", b.Records[len(b.Records)-13:len(b.Records)-7])
		case b.Attributes&transactional != 0:
			kind = "data"
		}
		epoch := fmt.Sprint(" +", b.ProducerEpoch-s.base)
		if b.ProducerID != s.first {
			epoch = ""
		}
		batches = append(batches, fmt.Sprintf("%d %s%s", b.FirstOffset, kind, epoch))
		rest = rest[size:]
	}
	var aborted []string
	for _, x := range a.AbortedTransactions {
		aborted = append(aborted, fmt.Sprint(x.FirstOffset))
	}
	list := "none"
	if a.AbortedTransactions != nil {
		list = "[" + strings.Join(aborted, " ") + "]"
	}
	return fmt.Sprintf("%s high watermark %d, last stable offset %d, aborted %s, batches [%s]",
		code(a.ErrorCode), a.HighWatermark, a.LastStableOffset, list, strings.Join(batches, ", "))
}

// describe says what the partition knows of producers.
func (s *session) describe() {
	s.t.Helper()
	r := raw.With(kmsg.NewPtrDescribeProducersRequest(), 0)
	t := kmsg.NewDescribeProducersRequestTopic()
	t.Topic, t.Partitions = s.topic, []int32{0}
	r.Topics = append(r.Topics, t)
	for _, p := range raw.Do[*kmsg.DescribeProducersResponse](s.c, r).Topics[0].Partitions[0].ActiveProducers {
		s.say("DescribeProducers: %s, last sequence %d, coordinator epoch %d, transaction from %d",
			s.producer(p.ProducerID, int16(p.ProducerEpoch)), p.LastSequence, p.CoordinatorEpoch, p.CurrentTxnStartOffset)
	}
}

// newSession begins a session with a topic and a transactional id of its own.
func newSession(t *testing.T, b *harness.Broker, name string, v2 bool) *session {
	t.Helper()
	s := &session{t: t, b: b, c: raw.Dial(t, b.Addr), topic: name, id: "tx-" + name, v2: v2, first: -1}
	harness.CreateTopic(t, b, s.topic, 1)
	find := raw.With(kmsg.NewPtrFindCoordinatorRequest(), 1)
	find.CoordinatorKey, find.CoordinatorType = s.id, 1
	settled(s, find, func(a *kmsg.FindCoordinatorResponse) int16 { return a.ErrorCode })
	return s
}

// compare checks the session's words against the transcript of the Kafka that the broker imitates, or writes it.
func (s *session) compare(name, version string) {
	s.t.Helper()
	path := filepath.Join("testdata", name+"-"+version+".txt")
	got := strings.Join(s.lines, "\n") + "\n"
	if *update {
		if s.b.Kind == harness.Gregor {
			s.t.Fatal("transcripts come from Apache Kafka")
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			s.t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	if got != string(want) {
		s.t.Errorf("%s\nKafka %s says\n%s", got, version, want)
	}
}
