package groupcoord

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/log/record"
)

// txnCommitReq commits an offset of t-0 in the transaction of a producer.
func txnCommitReq(group string, producer int64, offset int64) *kmsg.TxnOffsetCommitRequest {
	r := kmsg.NewPtrTxnOffsetCommitRequest()
	r.TransactionalID, r.Group, r.ProducerID, r.Generation = "tx", group, producer, -1
	t := kmsg.NewTxnOffsetCommitRequestTopic()
	t.Topic = "t"
	p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	p.Offset = offset
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	return r
}

// end ends the transaction of a producer; the answer must have come.
func (w *world) end(producer int64, commit bool) {
	w.t.Helper()
	answer := make(chan error, 1)
	w.c.EndTransaction(0, record.EndTxn{ProducerID: producer, Commit: commit}, func(err error) { answer <- err })
	if err := <-answer; err != nil {
		w.t.Error(err)
	}
}

// stableCode asks for an offset that no open transaction may change.
func (w *world) stableCode(group string) int16 {
	w.t.Helper()
	r := fetchReq(group, "t", 0)
	r.RequireStable = true
	return w.do(7, r).(*kmsg.OffsetFetchResponse).Topics[0].Partitions[0].ErrorCode
}

// Offsets of a transaction are invisible until its marker comes, also over a restart of the coordinator.
func TestTxnOffsetCommit(t *testing.T) {
	for _, commit := range []bool{true, false} {
		t.Run(fmt.Sprint("commit ", commit), func(t *testing.T) {
			inBubble(t, nil, func(w *world) {
				w.codeIs("before", w.do(8, commitReq("g", -1, "", "t", 1, 0)), 0)
				for v := range int16(6) {
					w.codeIs(fmt.Sprint("version ", v), w.do(v, txnCommitReq("g", 7, 5+int64(v))), 0)
				}
				for range 2 {
					if o, code := w.offset("g"), w.stableCode("g"); o != 1 || code != kerr.UnstableOffsetCommit.Code {
						t.Errorf("while the transaction is open: offset %d, stable: code %d", o, code)
					}
					w.restart()
				}
				w.end(7, commit)
				want := int64(1)
				if commit {
					want = 10
				}
				for range 2 {
					if o, code := w.offset("g"), w.stableCode("g"); o != want || code != 0 {
						t.Errorf("after the end: offset %d, want %d; stable: code %d", o, want, code)
					}
					w.restart()
				}
			})
		})
	}
}

// Metadata is limited in a transaction as outside of one.
func TestTxnOffsetCommitOfLongMetadata(t *testing.T) {
	inBubble(t, func(s *Settings) { s.OffsetMetadataMaxBytes = 10 }, func(w *world) {
		for length, want := range map[int]int16{10: 0, 11: kerr.OffsetMetadataTooLarge.Code} {
			r := txnCommitReq("g", 7, 5)
			r.Topics[0].Partitions[0].Metadata = ptr(strings.Repeat("m", length))
			w.codeIs(fmt.Sprint("length ", length), w.do(3, r), want)
			outside := commitReq("g", -1, "", "t", 5, 0)
			outside.Topics[0].Partitions[0].Metadata = r.Topics[0].Partitions[0].Metadata
			w.codeIs(fmt.Sprint("outside, length ", length), w.do(8, outside), want)
		}
	})
}

// Nobody sees a commit before its marker is replicated.
func TestTxnEndWaitsForTheHighWatermark(t *testing.T) {
	inBubble(t, nil, func(w *world) {
		w.codeIs("commit", w.do(3, txnCommitReq("g", 7, 5)), 0)
		w.log.Hold()
		answer := make(chan error, 1)
		w.c.EndTransaction(0, record.EndTxn{ProducerID: 7, Commit: true}, func(err error) { answer <- err })
		asked := w.send(8, fetchReq("g", "t", 0))
		mustWait(t, asked)
		if len(answer) > 0 {
			t.Error("the end is told before it is replicated")
		}
		w.log.Release()
		if p := now[*kmsg.OffsetFetchResponse](t, asked).Groups[0].Topics[0].Partitions[0]; p.Offset != 5 {
			t.Errorf("offset %d, want 5", p.Offset)
		}
		if err := <-answer; err != nil {
			t.Error(err)
		}
	})
}

// Who may commit in a transaction: members of the generation, and old clients, which name none. After
// ClassicGroup.validateOffsetCommit with isTransactional.
func TestTxnOffsetCommitFencing(t *testing.T) {
	inBubble(t, nil, func(w *world) {
		j := w.stable("g")
		static := "i1"
		for _, c := range []struct {
			name       string
			group      string
			generation int32
			member     string
			instance   *string
			want       *kerr.Error
		}{
			{"the member", "g", j.Generation, j.MemberID, nil, nil},
			{"an old client", "g", -1, "", nil, nil},
			{"an old generation", "g", j.Generation - 1, j.MemberID, nil, kerr.IllegalGeneration},
			{"a made-up member", "g", j.Generation, "nobody", nil, kerr.UnknownMemberID},
			{"a static member that is not there", "g", j.Generation, j.MemberID, &static, kerr.UnknownMemberID},
			{"a generation of an unknown group", "nope", 3, "", nil, kerr.IllegalGeneration},
			{"an unknown group without generation", "new", -1, "", nil, nil},
			{"no group", "", -1, "", nil, kerr.InvalidGroupID},
		} {
			r := txnCommitReq(c.group, 7, 5)
			r.Generation, r.MemberID, r.InstanceID = c.generation, c.member, c.instance
			want := int16(0)
			if c.want != nil {
				want = c.want.Code
			}
			w.codeIs(c.name, w.do(3, r), want)
		}
		long := txnCommitReq("g", 7, 5)
		text := strings.Repeat("x", 5000)
		long.Topics[0].Partitions[0].Metadata = &text
		w.codeIs("long metadata", w.do(3, long), kerr.OffsetMetadataTooLarge.Code)
		missing := txnCommitReq("g", 7, 5)
		missing.Topics[0].Partitions[0].Partition = 9
		w.codeIs("no such partition", w.do(3, missing), kerr.UnknownTopicOrPartition.Code)
		w.end(7, false)
	})
}

// What the log or the transaction's coordinator refuses changes nothing, and the client hears why.
func TestTxnOffsetCommitRefused(t *testing.T) {
	inBubble(t, nil, func(w *world) {
		w.codeIs("before", w.do(8, commitReq("g", -1, "", "t", 1, 0)), 0)
		for _, c := range []struct {
			guard   any
			refused error
			want    *kerr.Error
		}{
			{kerr.InvalidProducerEpoch, nil, kerr.InvalidProducerEpoch},
			{kerr.InvalidTxnState, nil, kerr.InvalidTxnState},
			{kerr.NotLeaderForPartition, nil, kerr.NotCoordinator},
			{kerr.NotEnoughReplicas, nil, kerr.CoordinatorNotAvailable},
			{nil, kerr.InvalidTxnState, kerr.InvalidTxnState},
			{nil, kerr.TransactionAbortable, kerr.TransactionAbortable},
			{nil, kerr.NetworkException, kerr.CoordinatorLoadInProgress},
			{nil, kerr.NotLeaderForPartition, kerr.NotCoordinator},
		} {
			answer := make(chan kmsg.Response, 1)
			w.c.TxnOffsetCommit(Caller{}, txnCommitReq("g", 7, 5), c.guard, c.refused, func(r kmsg.Response) { answer <- r })
			w.codeIs(fmt.Sprintf("%v, %v", c.guard, c.refused), <-answer, c.want.Code)
		}
		if o, code := w.offset("g"), w.stableCode("g"); o != 1 || code != 0 {
			t.Errorf("offset %d; stable: code %d", o, code)
		}
	})
}

// Offsets expire, but not under a transaction that would replace them, and a group that only has pending ones stays.
func TestPendingOffsetsDoNotExpire(t *testing.T) {
	inBubble(t, func(s *Settings) { s.OffsetsRetention = time.Minute }, func(w *world) {
		w.codeIs("before", w.do(8, commitReq("g", -1, "", "t", 1, 0)), 0)
		w.codeIs("pending", w.do(3, txnCommitReq("g", 7, 5)), 0)
		w.codeIs("only pending", w.do(3, txnCommitReq("new", 7, 6)), 0)
		pass(time.Hour)
		if o := w.offset("g"); o != 1 {
			t.Errorf("offset %d under an open transaction, want 1", o)
		}
		w.end(7, true)
		if g, n := w.offset("g"), w.offset("new"); g != 5 || n != 6 {
			t.Errorf("offsets %d and %d, want 5 and 6", g, n)
		}
		pass(time.Hour)
		if g, n := w.offset("g"), w.offset("new"); g != -1 || n != -1 {
			t.Errorf("offsets %d and %d after their time", g, n)
		}
	})
}
