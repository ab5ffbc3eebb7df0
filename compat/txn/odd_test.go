package txn

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/compat/raw"
)

// oddScripts are what no well-behaved client does, or only when something fails. Each request is asked once.
var oddScripts = []script{
	{"odd-init", false, func(s *session) { // -1 means none, other negative numbers are ids and epochs
		for _, id := range []*string{&s.id, nil} {
			for _, who := range []struct {
				pid   int64
				epoch int16
			}{{-1, 0}, {0, -1}, {-2, -2}, {-2, 5}, {5, -2}, {5, 5}} {
				s.initOnce(fmt.Sprintf("as %d/%d, id %t", who.pid, who.epoch, id != nil), 4, id, 60_000, who.pid, who.epoch)
			}
		}
		for _, version := range []int16{0, 1, 2, 3, 5} {
			s.initOnce(fmt.Sprint("v", version), version, &s.id, 60_000, -1, -1)
		}
		for _, timeout := range []int32{-1, 1, 900_000, math.MaxInt32} {
			s.initOnce(fmt.Sprint("timeout ", timeout), 4, &s.id, timeout, -1, -1)
		}
		for i, id := range []string{" ", "a/b\x00c", "ünï→", strings.Repeat("x", 1000)} {
			s.find(id)
			a := settled(s, initRequest(4, id, 60_000), initCode)
			s.say("InitProducerId, name %d: %s, epoch %d", i, code(a.ErrorCode), a.ProducerEpoch)
		}
	}},
	{"verification", false, func(s *session) {
		s.init(60_000)
		s.find("tx-unknown")
		unknown, missing := s.verification("tx-unknown", s.pid, s.epoch, s.topic), s.verification(s.id, s.pid, s.epoch, s.topic, s.topic+"-missing")
		s.verifyOnce(4, s.verification(s.id, s.pid, s.epoch, s.topic), unknown)
		s.verifyOnce(5, s.verification(s.id, s.pid, s.epoch, s.topic), unknown)
		s.verifyOnce(4, missing)
		s.verifyOnce(4, s.verification(s.id, s.pid, s.epoch-1, s.topic))
		s.verifyOnce(4, s.verification(s.id, s.pid, s.epoch+1, s.topic))
		s.verifyOnce(4, s.verification(s.id, s.pid+1000, s.epoch, s.topic))
		s.verifyOnce(4, s.verification("", s.pid, s.epoch, s.topic))
		s.add()
		s.verifyOnce(4, s.verification(s.id, s.pid, s.epoch, s.topic), unknown)
		s.end(true)
		s.init(60_000)
		s.verifyOnce(4, s.verification(s.id, s.pid, s.epoch, s.topic))
		for _, version := range []int16{0, 1, 2, 3} {
			s.addOnce("", version, s.pid, s.epoch)
			s.addOnce("of the epoch before", version, s.pid, s.epoch-1)
		}
		s.end(false)
	}},
	{"adding", true, func(s *session) { // a broker has partitions added for a producer of the second version
		s.init(60_000)
		add := s.verification(s.id, s.pid, s.epoch, s.topic)
		add.VerifyOnly = false
		s.verifyOnce(4, add)
		s.verifyOnce(4, add)
		add.Topics[0].Topic = s.topic + "-missing"
		s.verifyOnce(4, add)
		s.end(false)
	}},
	{"sequences", false, func(s *session) {
		null := initRequest(4, "", 0)
		null.TransactionalID = nil
		s.pid = raw.Do[*kmsg.InitProducerIDResponse](s.c, null).ProducerID
		s.first = s.pid
		for _, b := range []struct {
			epoch int16
			first int32
			n     int
		}{
			{0, 5, 1}, {0, 6, 1}, {0, 6, 1}, {0, 5, 1}, {0, 8, 1}, {0, 7, 2}, {0, 7, 2}, {0, 8, 1}, {0, 7, 1}, {0, 9, 1}, {0, 10, 1}, {0, 11, 1}, {0, 12, 1},
			{0, 7, 2}, {0, 6, 1}, {0, 0, 1}, {1, 3, 1}, {1, 0, 1}, {0, 13, 1}, {1, 0, 1}, {1, -1, 1}, {-1, 1, 1}, {1, math.MaxInt32, 1},
			{2, 0, 1}, {2, 1, 3}, {2, 1, 2}, {2, 2, 2}, {2, 4, 1},
		} {
			s.plain(s.pid, b.epoch, b.first, b.n)
		}
		wrapped := s.pid + 1_000_000
		for _, b := range []struct {
			first int32
			n     int
		}{{math.MaxInt32 - 1, 3}, {1, 1}, {math.MaxInt32 - 1, 3}, {2, 1}} {
			s.plain(wrapped, 0, b.first, b.n)
		}
		s.plain(wrapped+1, 0, math.MaxInt32, 1)
		s.plain(wrapped+1, 0, 0, 1)
		s.plain(wrapped+1, 0, math.MaxInt32, 1)
	}},
	{"odd-produce", false, func(s *session) {
		s.init(60_000)
		s.add()
		for _, version := range []int16{9, 11} {
			s.batch("without a transactional id", version, nil, 0x10, s.pid, s.epoch, 0)
			s.batch("outside a transaction", version, &s.id, 0, s.pid, s.epoch, 0)
		}
		s.batch("outside a transaction", 9, &s.id, 0, s.pid, s.epoch, 1)
		s.batch("in it", 9, &s.id, 0x10, s.pid, s.epoch, 2)
		s.batch("outside, while it is open", 9, &s.id, 0, s.pid, s.epoch, 3)
		s.batch("of no producer, transactional", 9, &s.id, 0x10, -1, -1, -1)
		s.batch("of no producer, plain", 9, &s.id, 0, -1, -1, -1)
		s.batch("a marker", 9, &s.id, 0x30, s.pid, s.epoch, 3)
		other := "tx-other"
		s.batch("with another's transactional id", 9, &other, 0x10, s.pid, s.epoch, 3)
		s.end(true)
		s.init(60_000)
		s.offsets()
		s.batch("after the commit, not added", 9, &s.id, 0x10, s.pid, s.epoch, 0)
		s.batch("after the commit, of the epoch before", 9, &s.id, 0x10, s.pid, s.epoch-1, 3)
	}},
	{"odd-markers", false, func(s *session) {
		s.init(60_000)
		s.marker("of nothing", s.topic, 0, 3, true)
		s.offsets()
		s.describe()
		s.write()
		s.marker("of a later epoch", s.topic, 5, 2, false)
		s.marker("of a later epoch", s.topic, 5, 3, false)
		s.offsets()
		s.describe()
		s.produce(9)
		s.end(true)
	}},
	{"odd-offsets", false, func(s *session) {
		s.init(60_000)
		s.addOffsets()
		for _, o := range []struct {
			name string
			to   func(r *kmsg.TxnOffsetCommitRequest)
		}{
			{"of the epoch before", func(r *kmsg.TxnOffsetCommitRequest) { r.ProducerEpoch-- }},
			{"of the epoch after", func(r *kmsg.TxnOffsetCommitRequest) { r.ProducerEpoch++ }},
			{"of another producer", func(r *kmsg.TxnOffsetCommitRequest) { r.ProducerID += 1000 }},
			{"without group", func(r *kmsg.TxnOffsetCommitRequest) { r.Group = "" }},
			{"of a topic that does not exist", func(r *kmsg.TxnOffsetCommitRequest) { r.Topics[0].Topic += "-missing" }},
			{"of a partition that does not exist", func(r *kmsg.TxnOffsetCommitRequest) { r.Topics[0].Partitions[0].Partition = 7 }},
			{"with a long word", func(r *kmsg.TxnOffsetCommitRequest) {
				r.Topics[0].Partitions[0].Metadata = kmsg.StringPtr(strings.Repeat("x", 5000))
			}},
			{"negative", func(r *kmsg.TxnOffsetCommitRequest) { r.Topics[0].Partitions[0].Offset = -1 }},
			{"good", func(*kmsg.TxnOffsetCommitRequest) {}},
		} {
			r := s.commitRequest(3, -1, "", 5)
			o.to(r)
			a := settled(s, r, func(a *kmsg.TxnOffsetCommitResponse) int16 { return a.Topics[0].Partitions[0].ErrorCode })
			s.say("TxnOffsetCommit %s: %s", o.name, code(a.Topics[0].Partitions[0].ErrorCode))
		}
		s.fetchOffset()
		s.end(true)
		s.init(60_000)
		s.fetchOffset()
	}},
	{"offsets-members", false, func(s *session) { // of a group that has members, while it is stable and while another joins
		s.init(60_000)
		s.addOffsets()
		member, generation := s.join()
		s.commitAsMembers(member, generation)
		other := raw.Dial(s.t, s.b.Addr)
		other.Send(s.joinRequest())
		harness.Eventually(s.t, time.Minute, func() error {
			r := raw.With(kmsg.NewPtrHeartbeatRequest(), 3)
			r.Group, r.MemberID, r.Generation = s.topic, member, generation
			if raw.Do[*kmsg.HeartbeatResponse](s.c, r).ErrorCode != kerr.RebalanceInProgress.Code {
				return kerr.RebalanceInProgress
			}
			return nil
		})
		s.commitAsMembers(member, generation)
		s.end(true)
		s.init(60_000)
		s.fetchOffset()
	}},
	{"listing", false, func(s *session) {
		s.init(60_000)
		s.transaction(s.id)
		s.write()
		s.transaction(s.id)
		s.transaction(s.id + "-unknown")
		s.transaction("")
		for _, l := range []struct {
			name string
			r    kmsg.ListTransactionsRequest
		}{
			{"its producer", kmsg.ListTransactionsRequest{ProducerIDFilters: []int64{s.pid}, DurationFilterMillis: -1}},
			{"its producer, complete", kmsg.ListTransactionsRequest{ProducerIDFilters: []int64{s.pid}, StateFilters: []string{"CompleteCommit"}, DurationFilterMillis: -1}},
			{"its producer, small letters", kmsg.ListTransactionsRequest{ProducerIDFilters: []int64{s.pid}, StateFilters: []string{"ongoing"}, DurationFilterMillis: -1}},
			{"its producer, one unknown state", kmsg.ListTransactionsRequest{
				ProducerIDFilters: []int64{s.pid}, StateFilters: []string{"Ongoing", "What"}, DurationFilterMillis: -1}},
			{"its producer, an hour long", kmsg.ListTransactionsRequest{Version: 1, ProducerIDFilters: []int64{s.pid}, DurationFilterMillis: 3_600_000}},
			{"its producer, any length", kmsg.ListTransactionsRequest{Version: 1, ProducerIDFilters: []int64{s.pid}, DurationFilterMillis: -7}},
			{"another producer", kmsg.ListTransactionsRequest{ProducerIDFilters: []int64{s.pid + 1000}, DurationFilterMillis: -1}},
		} {
			a := raw.Do[*kmsg.ListTransactionsResponse](s.c, &l.r)
			var found []string
			for _, t := range a.TransactionStates {
				found = append(found, fmt.Sprintf("%s %s of %s", t.TransactionalID, t.TransactionState, s.producer(t.ProducerID, s.base)))
			}
			s.say("ListTransactions, %s: %s, %q, unknown %q", l.name, code(a.ErrorCode), found, a.UnknownStateFilters)
		}
		r := raw.With(kmsg.NewPtrDescribeProducersRequest(), 0)
		for _, name := range []string{s.topic, s.topic + "-missing", "bad/name"} {
			t := kmsg.NewDescribeProducersRequestTopic()
			t.Topic, t.Partitions = name, []int32{0, 7}
			r.Topics = append(r.Topics, t)
		}
		for _, t := range raw.Do[*kmsg.DescribeProducersResponse](s.c, r).Topics {
			for _, p := range t.Partitions {
				s.say("DescribeProducers %s-%d: %s, %d producers", t.Topic, p.Partition, code(p.ErrorCode), len(p.ActiveProducers))
			}
		}
		s.end(true)
	}},
}

// find makes the broker coordinate a transactional id.
func (s *session) find(id string) {
	s.t.Helper()
	find := raw.With(kmsg.NewPtrFindCoordinatorRequest(), 1)
	find.CoordinatorKey, find.CoordinatorType = id, 1
	settled(s, find, func(a *kmsg.FindCoordinatorResponse) int16 { return a.ErrorCode })
}

func (s *session) initOnce(who string, version int16, id *string, timeoutMs int32, pid int64, epoch int16) {
	s.t.Helper()
	r := raw.With(kmsg.NewPtrInitProducerIDRequest(), version)
	r.TransactionalID, r.TransactionTimeoutMillis, r.ProducerID, r.ProducerEpoch = id, timeoutMs, pid, epoch
	a := settled(s, r, initCode)
	if s.first < 0 && id != nil {
		s.first = a.ProducerID
	}
	s.say("InitProducerId %s: %s, %s", who, code(a.ErrorCode), s.producer(a.ProducerID, a.ProducerEpoch))
}

func (s *session) addOnce(who string, version int16, pid int64, epoch int16) {
	s.t.Helper()
	a := raw.Do[*kmsg.AddPartitionsToTxnResponse](s.c, addRequest(version, s.id, pid, epoch, s.topic))
	s.say("AddPartitionsToTxn v%d %s: %s", version, who, code(addCode(a)))
}

// verification asks as a broker does whether partition 0 of topics is in a transaction.
func (s *session) verification(id string, pid int64, epoch int16, topics ...string) kmsg.AddPartitionsToTxnRequestTransaction {
	t := kmsg.NewAddPartitionsToTxnRequestTransaction()
	t.TransactionalID, t.ProducerID, t.ProducerEpoch, t.VerifyOnly = id, pid, epoch, true
	for _, topic := range topics {
		t.Topics = append(t.Topics, kmsg.AddPartitionsToTxnRequestTransactionTopic{Topic: topic, Partitions: []int32{0}})
	}
	return t
}

func (s *session) verifyOnce(version int16, transactions ...kmsg.AddPartitionsToTxnRequestTransaction) {
	s.t.Helper()
	r := raw.With(kmsg.NewPtrAddPartitionsToTxnRequest(), version)
	r.Transactions = transactions
	a := raw.Do[*kmsg.AddPartitionsToTxnResponse](s.c, r)
	var list []string
	for _, t := range a.Transactions {
		for _, topic := range t.Topics {
			for _, p := range topic.Partitions {
				list = append(list, fmt.Sprintf("%q %s %s", t.TransactionalID, topic.Topic, code(p.ErrorCode)))
			}
		}
	}
	slices.Sort(list)
	s.say("AddPartitionsToTxn v%d of %d transactions: %s, %s", version, len(transactions), code(a.ErrorCode), strings.Join(list, ", "))
}

// transaction says what the coordinator knows of an id.
func (s *session) transaction(id string) {
	s.t.Helper()
	r := raw.With(kmsg.NewPtrDescribeTransactionsRequest(), 0)
	r.TransactionalIDs = []string{id}
	a := raw.Do[*kmsg.DescribeTransactionsResponse](s.c, r).TransactionStates[0]
	var topics []string
	for _, t := range a.Topics {
		topics = append(topics, fmt.Sprint(t.Topic, t.Partitions))
	}
	s.say("DescribeTransactions %q: %s, %q, %s, timeout %d, started %t, %q",
		id, code(a.ErrorCode), a.State, s.producer(a.ProducerID, a.ProducerEpoch), a.TimeoutMillis, a.StartTimestamp > 0, topics)
}

// send produces one batch and returns the answer.
func (s *session) send(version int16, id *string, acks int16, records []byte) kmsg.ProduceResponseTopicPartition {
	s.t.Helper()
	r := raw.With(kmsg.NewPtrProduceRequest(), version)
	r.TransactionID, r.Acks, r.TimeoutMillis = id, acks, 10_000
	r.Topics = []kmsg.ProduceRequestTopic{{Topic: s.topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Records: records}}}}
	return raw.Do[*kmsg.ProduceResponse](s.c, r).Topics[0].Partitions[0]
}

// plain writes records of an idempotent producer.
func (s *session) plain(pid int64, epoch int16, first int32, n int) {
	s.t.Helper()
	a := s.send(9, nil, -1, raw.NewBatch(time.Now().UnixMilli(), slices.Repeat([]string{"v"}, n)...).By(pid, epoch, first).Encode())
	s.say("Produce of %s, sequence %d and %d more: %s, offset %d", s.producer(pid, epoch), first, n-1, code(a.ErrorCode), a.BaseOffset)
}

// batch writes one record in a batch with these attributes.
func (s *session) batch(what string, version int16, id *string, attributes int16, pid int64, epoch int16, first int32) {
	s.t.Helper()
	b := raw.NewBatch(time.Now().UnixMilli(), "v").By(pid, epoch, first)
	b.Attributes = attributes
	records := b.Encode()
	var a kmsg.ProduceResponseTopicPartition
	harness.Eventually(s.t, time.Minute, func() error {
		if a = s.send(version, id, -1, records); a.ErrorCode == kerr.NotEnoughReplicas.Code {
			return kerr.NotEnoughReplicas
		}
		return nil
	})
	s.say("Produce v%d %s: %s, offset %d", version, what, code(a.ErrorCode), a.BaseOffset)
}

// joinRequest joins the session's group as a new member.
func (s *session) joinRequest() *kmsg.JoinGroupRequest {
	r := raw.With(kmsg.NewPtrJoinGroupRequest(), 3)
	r.Group, r.SessionTimeoutMillis, r.RebalanceTimeoutMillis, r.ProtocolType = s.topic, 30_000, 60_000, "consumer"
	r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte{0}}}
	return r
}

// join makes the session the only member of its group.
func (s *session) join() (member string, generation int32) {
	s.t.Helper()
	s.commitRequest(3, -1, "", 0) // finds the coordinator
	j := settled(s, s.joinRequest(), func(a *kmsg.JoinGroupResponse) int16 { return a.ErrorCode })
	r := raw.With(kmsg.NewPtrSyncGroupRequest(), 2)
	r.Group, r.Generation, r.MemberID = s.topic, j.Generation, j.MemberID
	r.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: j.MemberID, MemberAssignment: []byte{0}}}
	settled(s, r, func(a *kmsg.SyncGroupResponse) int16 { return a.ErrorCode })
	return j.MemberID, j.Generation
}

// commitAsMembers commits offsets as those who are in the group, were in it, and are not.
func (s *session) commitAsMembers(member string, generation int32) {
	s.t.Helper()
	for i, as := range []struct {
		who        string
		generation int32
		member     string
		instance   *string
	}{
		{"the member", generation, member, nil},
		{"the member, of the generation before", generation - 1, member, nil},
		{"the member, of the generation after", generation + 1, member, nil},
		{"the member, of no generation", -1, member, nil},
		{"nobody, of the generation", generation, "", nil},
		{"another, of the generation", generation, "nobody", nil},
		{"another, of no generation", -1, "nobody", nil},
		{"nobody, of no generation", -1, "", nil},
		{"the member, with an instance id", generation, member, kmsg.StringPtr("i")},
		{"nobody, with an instance id", -1, "", kmsg.StringPtr("i")},
	} {
		r := s.commitRequest(3, as.generation, as.member, int64(100+i))
		r.InstanceID = as.instance
		a := settled(s, r, func(a *kmsg.TxnOffsetCommitResponse) int16 { return a.Topics[0].Partitions[0].ErrorCode })
		s.say("TxnOffsetCommit as %s: %s", as.who, code(a.Topics[0].Partitions[0].ErrorCode))
	}
}
