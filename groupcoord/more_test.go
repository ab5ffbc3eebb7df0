package groupcoord

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/groupcoord/runtime"
	"github.com/gregor-broker/gregor/wire/clock"
)

// The partitions are those that Apache Kafka 4.4.0 stored the groups in, except that of the last: its id is not in the basic
// multilingual plane, so its hash runs over two code units.
func TestPartitionFor(t *testing.T) {
	for group, want := range map[string]int32{
		"": 0, "g1795982696": 37, "g1795982696s": 32, "g1795982933-f": 4, "g1795982933-s": 41, "g1795982933-ret": 43, "😀": 49,
	} {
		if got := runtime.PartitionFor(group, 50); got != want {
			t.Errorf("%q: %d, want %d", group, got, want)
		}
	}
	if got := runtime.PartitionFor("polygenelubricants", 50); got != 0 {
		t.Errorf("the one hash without an absolute value: %d", got)
	}
}

// A group larger than what is searched linearly.
func TestLargeGroup(t *testing.T) {
	inBubble(t, func(s *Settings) { s.Group.InitialRebalanceDelay = time.Second }, func(w *world) {
		const n = 60
		var answers []<-chan kmsg.Response
		for i := range n {
			if i%2 == 0 {
				answers = append(answers, w.send(9, staticReq("g", "", fmt.Sprint("i", i))))
			} else {
				answers = append(answers, w.send(3, joinReq("g", "", "range")))
			}
		}
		pass(3 * time.Second)
		var joined []*kmsg.JoinGroupResponse
		var leader *kmsg.JoinGroupResponse
		var assigned []string
		for _, a := range answers {
			j := now[*kmsg.JoinGroupResponse](t, a)
			joined = append(joined, j)
			assigned = append(assigned, j.MemberID, "for "+j.MemberID)
			if j.LeaderID == j.MemberID {
				leader = j
			}
		}
		if leader == nil || len(leader.Members) != n {
			t.Fatalf("leader: %+v", leader)
		}
		var syncs []<-chan kmsg.Response
		for _, j := range joined {
			if j != leader {
				syncs = append(syncs, w.send(5, syncReq("g", j)))
			}
		}
		w.codeIs("leader", w.do(5, syncReq("g", leader, assigned...)), 0)
		for _, a := range syncs {
			if s := now[*kmsg.SyncGroupResponse](t, a); !strings.HasPrefix(string(s.MemberAssignment), "for ") {
				t.Errorf("%+v", s)
			}
		}
		again := w.do(9, staticReq("g", "", "i10")).(*kmsg.JoinGroupResponse)
		if s := w.do(5, syncReq("g", again)).(*kmsg.SyncGroupResponse); string(s.MemberAssignment) != "for "+joined[10].MemberID {
			t.Errorf("a replaced static member: %+v", s)
		}
		var ids []string
		for i := 1; i < n; i += 2 {
			ids = append(ids, joined[i].MemberID)
		}
		w.codeIs("leave", w.do(3, leaveReq("g", ids...)), 0)
		w.restart()
		if d := w.do(5, describeReq("g")).(*kmsg.DescribeGroupsResponse).Groups[0]; len(d.Members) != n {
			t.Errorf("stored until the next generation is: %d members", len(d.Members))
		}
	})
}

// A replacement of a static member that cannot be stored is taken back.
func TestStaticReplacementRefused(t *testing.T) {
	inBubble(t, nil, func(w *world) {
		a := w.do(5, staticReq("g", "", "i1")).(*kmsg.JoinGroupResponse)
		w.codeIs("sync", w.do(5, syncReq("g", a, a.MemberID, "a")), 0)
		w.log.Refuse(errNotEnough)
		if j := w.do(9, staticReq("g", "", "i1")).(*kmsg.JoinGroupResponse); j.ErrorCode != 15 || j.MemberID != "" || j.LeaderID != a.MemberID {
			t.Errorf("refused: %+v", j)
		}
		w.log.Refuse(nil)
		beat := heartbeatReq("g", a)
		beat.InstanceID = ptr("i1")
		w.codeIs("the old process goes on", w.do(4, beat), 0)
		pass(11 * time.Second)
		synctest.Wait()
		if s := w.state("g"); s != "Empty" {
			t.Errorf("without heartbeats: %s", s)
		}
	})
}

// Without its internal topic no broker is the coordinator, as in Kafka 3.9 and 4.4.
func TestWithoutInternalTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		defer w.close()
		w.c.o.Partitions = func() int32 { return 0 }
		none := &kmsg.JoinGroupResponse{MemberID: "m"}
		del := kmsg.NewPtrOffsetDeleteRequest()
		del.Group = "g"
		groups := kmsg.NewPtrDeleteGroupsRequest()
		groups.Groups = []string{"g"}
		for v, r := range map[int16]kmsg.Request{
			9: joinReq("g", "", "range"), 5: syncReq("g", none), 4: heartbeatReq("g", none), 3: leaveReq("g", "m"), 8: commitReq("g", -1, "", "t", 1, 0),
			7: fetchReq("g", "t", 0), 0: del, 6: describeReq("g"), 2: groups,
		} {
			w.codeIs(fmt.Sprintf("%T", r), w.do(v, r), 16)
		}
		w.codeIs("heartbeat without a group", w.do(4, heartbeatReq("", none)), 24)
		w.codeIs("sync without a group", w.do(5, syncReq("", none)), 24)
		if w.c.PartitionFor("g") != -1 {
			t.Error("a partition of a topic that does not exist")
		}
	})
}

// While a partition loads, everything but a heartbeat must come again.
func TestWhileLoading(t *testing.T) {
	inBubble(t, nil, func(w *world) {
		w.c.Resigned(0, 1)
		w.log.FailReplay(errDisk)
		w.c.Elected(0, 2)
		synctest.Wait()
		none := &kmsg.JoinGroupResponse{MemberID: "m"}
		w.codeIs("heartbeat", w.do(4, heartbeatReq("g", none)), 0)
		w.codeIs("join", w.do(9, joinReq("g", "", "range")), 14)
		w.codeIs("list", w.do(5, kmsg.NewPtrListGroupsRequest()), 14)
		groups := kmsg.NewPtrDeleteGroupsRequest()
		groups.Groups = []string{"g"}
		w.codeIs("delete", w.do(2, groups), 14)
		w.codeIs("describe", w.do(6, describeReq("g")), 14)
	})
}

// Groups that do not consume topics, and consumers whose subscription cannot be read.
func TestOtherProtocols(t *testing.T) {
	inBubble(t, func(s *Settings) { s.OffsetsRetention = time.Hour }, func(w *world) {
		member := func(group, kind string, metadata []byte) *kmsg.JoinGroupResponse {
			r := joinReq(group, "", "range")
			r.ProtocolType, r.Protocols[0].Metadata, r.SessionTimeoutMillis = kind, metadata, 1800000
			j := w.do(3, r).(*kmsg.JoinGroupResponse)
			s := syncReq(group, j, j.MemberID, "a")
			s.ProtocolType = &kind
			w.codeIs("sync", w.do(5, s), 0)
			return j
		}
		del := kmsg.NewPtrOffsetDeleteRequest()
		del.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}}}
		connect := member("connect", "connect", []byte("?"))
		odd := member("odd", "consumer", []byte("?"))
		del.Group = "connect"
		w.codeIs("a group that does not consume", w.do(0, del), 68)
		del.Group = "odd"
		if r := w.do(0, del).(*kmsg.OffsetDeleteResponse); r.Topics[0].Partitions[0].ErrorCode != 86 {
			t.Errorf("consumers of who knows what: %+v", r)
		}
		for group, j := range map[string]*kmsg.JoinGroupResponse{"connect": connect, "odd": odd} {
			c := commitReq(group, j.Generation, j.MemberID, "t", 7, 0)
			c.Topics[0].Partitions[0].Metadata = ptr("ü😀")
			w.codeIs("commit", w.do(8, c), 0)
		}
		for range 8 {
			pass(20 * time.Minute)
			w.codeIs("heartbeat", w.do(4, heartbeatReq("connect", connect)), 0)
			w.codeIs("heartbeat", w.do(4, heartbeatReq("odd", odd)), 0)
		}
		for _, group := range []string{"connect", "odd"} {
			p := w.do(8, fetchReq(group, "t", 0)).(*kmsg.OffsetFetchResponse).Groups[0].Topics[0].Partitions[0]
			if p.Offset != 7 || *p.Metadata != "ü😀" {
				t.Errorf("%s, after more than the retention time: %+v", group, p)
			}
		}
	})
}

func TestJavaLength(t *testing.T) {
	for s, want := range map[string]int{"": 0, "abc": 3, "ü": 1, "😀": 2, "\xff": 1} {
		if got := JavaLength(s); got != want {
			t.Errorf("%q: %d, want %d", s, got, want)
		}
	}
}

// Times are counted by the steady clock: when the wall clock jumps, no session ends.
func TestWallClockMayJump(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.close()
		fake := clock.NewFake(time.UnixMilli(1e12))
		o := w.c.o
		o.Clock = fake
		w.c = New(o)
		w.c.Elected(0, 1)
		synctest.Wait()
		first := now[*kmsg.JoinGroupResponse](t, w.send(9, joinReq("g", "", "range")))
		answer := w.send(9, joinReq("g", first.MemberID, "range"))
		synctest.Wait()
		j := now[*kmsg.JoinGroupResponse](t, answer)
		w.codeIs("sync", now[*kmsg.SyncGroupResponse](t, w.send(5, syncReq("g", j, j.MemberID, "a"))), 0)
		fake.Jump(time.UnixMilli(2e12))
		synctest.Wait()
		w.codeIs("heartbeat after a jump", now[*kmsg.HeartbeatResponse](t, w.send(4, heartbeatReq("g", j))), 0)
		fake.Advance(11 * time.Second)
		synctest.Wait()
		w.codeIs("heartbeat after the session", now[*kmsg.HeartbeatResponse](t, w.send(4, heartbeatReq("g", j))), 25)
		w.close()
	})
}

// TestPendingMemberLeaves: someone who was given a member id and gives it back instead of joining with it disturbs a stable group where
// that is so in Kafka, in 4.4 and not in 3.9.
func TestPendingMemberLeaves(t *testing.T) {
	for kafka4, want := range map[bool]string{true: "PreparingRebalance", false: "Stable"} {
		inBubble(t, func(s *Settings) { s.Kafka4 = kafka4 }, func(w *world) {
			w.stable("g")
			id := w.do(9, joinReq("g", "", "range")).(*kmsg.JoinGroupResponse).MemberID
			w.codeIs("leave", w.do(4, leaveReq("g", id)), 0)
			if got := w.state("g"); got != want {
				t.Errorf("with Kafka4 %v the group is %s, want %s", kafka4, got, want)
			}
		})
	}
}
