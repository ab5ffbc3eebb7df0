package groupcoord

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Case G1: clients that try their first JoinGroup again leave no ghosts behind.
func TestG1FirstJoin(t *testing.T) {
	inBubble(t, nil, func(w *world) {
		first := w.do(4, joinReq("g", "", "range")).(*kmsg.JoinGroupResponse)
		if first.ErrorCode != 79 || first.MemberID == "" || first.Generation != -1 {
			t.Fatalf("first join: %+v, want MEMBER_ID_REQUIRED with an id", first)
		}
		if d := w.do(5, describeReq("g")).(*kmsg.DescribeGroupsResponse).Groups[0]; d.State != "Empty" || len(d.Members) != 0 {
			t.Errorf("a promised id shows: %+v", d)
		}
		pass(10*time.Second - time.Millisecond)
		second := w.do(4, joinReq("g", "", "range")).(*kmsg.JoinGroupResponse)
		pass(time.Millisecond)
		synctest.Wait()
		w.codeIs("join with an id whose time is over", w.do(4, joinReq("g", first.MemberID, "range")), 25)
		if j := w.do(4, joinReq("g", second.MemberID, "range")).(*kmsg.JoinGroupResponse); j.ErrorCode != 0 || j.Generation != 1 {
			t.Errorf("join with a promised id: %+v", j)
		}
		if j := w.do(3, joinReq("g3", "", "range")).(*kmsg.JoinGroupResponse); j.ErrorCode != 0 || j.Generation != 1 || j.LeaderID != j.MemberID {
			t.Errorf("v3 joins at once: %+v", j)
		}
		if j := w.do(5, staticReq("gs", "", "i1")).(*kmsg.JoinGroupResponse); j.ErrorCode != 0 || j.Generation != 1 {
			t.Errorf("a static member joins at once: %+v", j)
		}
		w.codeIs("unknown member id", w.do(5, joinReq("new", "made-up", "range")), 25)
		w.codeIs("the group was not made", w.do(6, describeReq("new")), 69)
		short := joinReq("g", "", "range")
		short.SessionTimeoutMillis = 1
		w.codeIs("session of 1 ms", w.do(5, short), 26)
		long := joinReq("g", "", "range")
		long.SessionTimeoutMillis = 1_800_001
		w.codeIs("session of more than 30 minutes", w.do(5, long), 26)
		w.codeIs("no common protocol", w.do(5, joinReq("g", "", "other")), 23)
		connect := joinReq("g", "", "range")
		connect.ProtocolType = "connect"
		w.codeIs("another protocol type", w.do(5, connect), 23)
	})
}

// Case G3: commits from outside of a group, and from inside at the wrong time.
func TestG3Commits(t *testing.T) {
	inBubble(t, nil, func(w *world) {
		w.codeIs("a unknown group", w.do(7, commitReq("a", -1, "", "t", 42, 0)), 0)
		if d := w.do(6, describeReq("a")).(*kmsg.DescribeGroupsResponse).Groups[0]; d.State != "Empty" || d.ProtocolType != "" {
			t.Errorf("a simple group: %+v", d)
		}
		j := w.stable("g")
		w.codeIs("c stable group", w.do(7, commitReq("g", -1, "", "t", 42, 0)), 25)
		w.codeIs("leave", w.do(3, leaveReq("g", j.MemberID)), 0)
		w.codeIs("b empty group", w.do(7, commitReq("g", -1, "", "t", 42, 0)), 0)
		w.codeIs("d unknown group with a generation", w.do(7, commitReq("d", 3, "", "t", 42, 0)), 22)
		j = w.join("e")
		w.codeIs("e while completing", w.do(7, commitReq("e", j.Generation, j.MemberID, "t", 42, 0)), 27)
		w.codeIs("sync", w.do(5, syncReq("e", j, j.MemberID, "all")), 0)
		again := joinReq("e", j.MemberID, "range", "sticky")
		other := w.send(9, joinReq("e", w.do(9, joinReq("e", "", "range")).(*kmsg.JoinGroupResponse).MemberID, "range"))
		mustWait(t, other)
		w.codeIs("while preparing", w.do(7, commitReq("e", j.Generation, j.MemberID, "t", 43, 0)), 0)
		w.codeIs("the group goes on", w.do(9, again), 0)
		r := w.do(7, commitReq("f", -1, "", "t", 42, 0, 9)).(*kmsg.OffsetCommitResponse).Topics[0].Partitions
		if r[0].ErrorCode != 0 || r[1].ErrorCode != 3 {
			t.Errorf("f: %+v, want 0 and UNKNOWN_TOPIC_OR_PARTITION", r)
		}
		big := commitReq("g2", -1, "", "t", 42, 0)
		big.Topics[0].Partitions[0].Metadata = ptr(string(make([]byte, 5000)))
		w.codeIs("g metadata of 5000 bytes", w.do(7, big), 12)
	})
}

// A high watermark that stands still for longer than the session timeout must not end a session: heartbeats do not wait.
func TestHeartbeatsDoNotWaitForTheHighWatermark(t *testing.T) {
	inBubble(t, nil, func(w *world) {
		j := w.stable("g")
		w.log.Hold()
		commit := w.send(8, commitReq("g", j.Generation, j.MemberID, "t", 42, 0))
		for range 12 {
			pass(3 * time.Second)
			w.codeIs("heartbeat", now[*kmsg.HeartbeatResponse](t, w.send(4, heartbeatReq("g", j))), 0)
		}
		w.codeIs("the commit gave up", now[*kmsg.OffsetCommitResponse](t, commit), 15)
		w.log.Release()
		if s := w.state("g"); s != "Stable" {
			t.Errorf("the group is %s after the standstill", s)
		}
		if o := w.offset("g"); o != 42 {
			t.Errorf("offset %d: what was written counts once it is replicated", o)
		}
	})
}
