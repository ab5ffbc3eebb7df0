package groupcoord

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/wire/clock"
)

// The first join of a group waits the initial delay, again for each newcomer, up to the rebalance timeout in all.
func TestInitialRebalanceDelay(t *testing.T) {
	inBubble(t, func(s *Settings) { s.Group.InitialRebalanceDelay = 3 * time.Second }, func(w *world) {
		begin := clock.System.Now()
		newcomer := func(rebalanceMs int32) <-chan kmsg.Response {
			r := joinReq("g", "", "range")
			r.RebalanceTimeoutMillis = rebalanceMs
			return w.send(3, r)
		}
		a := newcomer(7000)
		pass(2 * time.Second)
		b := newcomer(5000)
		pass(time.Second)
		mustWait(t, a)
		pass(2999 * time.Millisecond)
		mustWait(t, a)
		c := newcomer(5000)
		pass(time.Millisecond)
		mustWait(t, c)
		pass(time.Second)
		synctest.Wait()
		for _, answer := range []<-chan kmsg.Response{a, b, c} {
			if j := now[*kmsg.JoinGroupResponse](t, answer); j.Generation != 1 {
				t.Errorf("%+v", j)
			}
		}
		if d := clock.System.Now().Sub(begin); d != 7*time.Second {
			t.Errorf("the join phase lasted %v, want the rebalance timeout of the first member", d)
		}
	})
}

// A rebalance waits for the known members, at most the longest rebalance timeout; who does not come is dropped.
func TestRebalanceTimeoutDropsMembers(t *testing.T) {
	inBubble(t, nil, func(w *world) {
		a := w.stable("g")
		id := w.do(9, joinReq("g", "", "range")).(*kmsg.JoinGroupResponse).MemberID
		b := w.send(9, joinReq("g", id, "range"))
		for range 19 { // a lives, but does not join
			pass(3 * time.Second)
			w.codeIs("heartbeat", w.do(4, heartbeatReq("g", a)), 27)
		}
		pass(3 * time.Second)
		j := now[*kmsg.JoinGroupResponse](t, b)
		if j.Generation != 2 || j.LeaderID != j.MemberID || len(j.Members) != 1 {
			t.Errorf("after 60 s: %+v", j)
		}
		w.codeIs("the old member", w.do(4, heartbeatReq("g", a)), 25)
	})
}

func TestSessionTimeoutEmptiesTheGroup(t *testing.T) {
	inBubble(t, nil, func(w *world) {
		j := w.stable("g")
		for range 5 {
			pass(9 * time.Second)
			w.codeIs("heartbeat", w.do(4, heartbeatReq("g", j)), 0)
		}
		pass(9 * time.Second)
		w.codeIs("a commit is a sign of life", w.do(8, commitReq("g", j.Generation, j.MemberID, "t", 1, 0)), 0)
		pass(9999 * time.Millisecond)
		if s := w.state("g"); s != "Stable" {
			t.Errorf("just before the end: %s", s)
		}
		pass(time.Millisecond)
		synctest.Wait()
		if s := w.state("g"); s != "Empty" {
			t.Errorf("after the session: %s", s)
		}
		w.codeIs("heartbeat", w.do(4, heartbeatReq("g", j)), 25)
		w.codeIs("a fenced commit", w.do(8, commitReq("g", j.Generation, j.MemberID, "t", 2, 0)), 25)
	})
}

// A member that learnt its generation and never asks for its assignment is removed when the rebalance timeout is over.
func TestSyncTimeout(t *testing.T) {
	inBubble(t, nil, func(w *world) {
		j := w.join("g")
		for range 6 {
			pass(9 * time.Second)
			w.codeIs("heartbeat", w.do(4, heartbeatReq("g", j)), 0)
		}
		pass(6 * time.Second)
		synctest.Wait()
		w.codeIs("heartbeat", w.do(4, heartbeatReq("g", j)), 25)
		if s := w.state("g"); s != "Empty" {
			t.Errorf("state %s", s)
		}
	})
}

func TestGroupMaxSize(t *testing.T) {
	inBubble(t, func(s *Settings) { s.Group.MaxSize = 1 }, func(w *world) {
		j := w.stable("g")
		w.codeIs("one too many", w.do(9, joinReq("g", "", "range")), 81)
		w.codeIs("the member itself may join again", w.do(9, joinReq("g", j.MemberID, "range")), 0)
	})
}

// A group that was stored with more members than fit now rebalances as soon as it is loaded.
func TestLoadedOverCapacity(t *testing.T) {
	inBubble(t, nil, func(w *world) {
		a := w.stable("g")
		id := w.do(9, joinReq("g", "", "range")).(*kmsg.JoinGroupResponse).MemberID
		b := w.send(9, joinReq("g", id, "range"))
		a2 := w.do(9, joinReq("g", a.MemberID, "range")).(*kmsg.JoinGroupResponse)
		b2 := now[*kmsg.JoinGroupResponse](t, b)
		sync := w.send(5, syncReq("g", b2))
		mustWait(t, sync)
		w.codeIs("leader", w.do(5, syncReq("g", a2, a2.MemberID, "a", b2.MemberID, "b")), 0)
		if s := now[*kmsg.SyncGroupResponse](t, sync); string(s.MemberAssignment) != "b" {
			t.Errorf("%+v", s)
		}
		w.config.Group.MaxSize = 1
		w.restart()
		w.codeIs("heartbeat", w.do(4, heartbeatReq("g", a2)), 27)
		first := w.send(9, joinReq("g", a.MemberID, "range"))
		mustWait(t, first)
		w.codeIs("the last one to come", w.do(9, joinReq("g", id, "range")), 81)
	})
}

// Members go on after the coordinator has moved or was restarted.
func TestMembersSurviveRestart(t *testing.T) {
	inBubble(t, nil, func(w *world) {
		j := w.stable("g")
		w.codeIs("commit", w.do(8, commitReq("g", j.Generation, j.MemberID, "t", 42, 0)), 0)
		w.restart()
		w.codeIs("heartbeat", w.do(4, heartbeatReq("g", j)), 0)
		if s := w.do(5, syncReq("g", j)).(*kmsg.SyncGroupResponse); string(s.MemberAssignment) != "all" {
			t.Errorf("assignment after restart: %+v", s)
		}
		w.codeIs("commit", w.do(8, commitReq("g", j.Generation, j.MemberID, "t", 43, 0)), 0)
		if o := w.offset("g"); o != 43 {
			t.Errorf("offset %d", o)
		}
		d := w.do(5, describeReq("g")).(*kmsg.DescribeGroupsResponse).Groups[0]
		if d.State != "Stable" || d.Protocol != "range" || d.Members[0].ClientHost != "/127.0.0.1" || string(d.Members[0].MemberAssignment) != "all" {
			t.Errorf("%+v", d)
		}
		pass(11 * time.Second)
		if s := w.state("g"); s != "Empty" {
			t.Errorf("a member that does not come back: %s", s)
		}
	})
}

// Static members keep their place over a restart of theirs, and the one that came later wins.
func TestStaticMembers(t *testing.T) {
	inBubble(t, nil, func(w *world) {
		a := w.do(5, staticReq("g", "", "i1")).(*kmsg.JoinGroupResponse)
		b := w.send(5, staticReq("g", "", "i2"))
		a = w.do(5, staticReq("g", a.MemberID, "i1")).(*kmsg.JoinGroupResponse)
		bj := now[*kmsg.JoinGroupResponse](t, b)
		sync := w.send(5, syncReq("g", bj))
		w.codeIs("sync", w.do(5, syncReq("g", a, a.MemberID, "a", bj.MemberID, "b")), 0)
		now[*kmsg.SyncGroupResponse](t, sync)

		again := w.do(9, staticReq("g", "", "i2")).(*kmsg.JoinGroupResponse)
		if again.ErrorCode != 0 || again.Generation != a.Generation || again.SkipAssignment || len(again.Members) != 0 || again.LeaderID != a.MemberID {
			t.Errorf("a follower comes again: %+v", again)
		}
		if s := w.do(5, syncReq("g", again)).(*kmsg.SyncGroupResponse); string(s.MemberAssignment) != "b" {
			t.Errorf("its assignment: %+v", s)
		}
		w.restart()
		beat := heartbeatReq("g", bj)
		beat.InstanceID = ptr("i2")
		w.codeIs("the old process, after a restart of ours", w.do(4, beat), 82)
		leader := w.do(9, staticReq("g", "", "i1")).(*kmsg.JoinGroupResponse)
		if !leader.SkipAssignment || len(leader.Members) != 2 || leader.LeaderID != leader.MemberID {
			t.Errorf("the leader comes again: %+v", leader)
		}

		// With another protocol set the group must rebalance; the waiting JoinGroup of an older process is fenced.
		other := staticReq("g", "", "i2")
		other.Protocols[0].Metadata = subscription("u")
		other.SessionTimeoutMillis = 120000
		more := kmsg.NewJoinGroupRequestProtocol()
		more.Name = "sticky"
		other.Protocols = append([]kmsg.JoinGroupRequestProtocol{more}, other.Protocols...)
		w.codeIs("same selected protocol: no rebalance", w.do(9, other), 0)
		if s := w.state("g"); s != "Stable" {
			t.Fatal(s)
		}
		first := w.send(9, staticReq("g", leader.MemberID, "i1")) // the leader joins again: a rebalance
		mustWait(t, first)
		second := w.send(9, staticReq("g", "", "i1"))
		if j := now[*kmsg.JoinGroupResponse](t, first); j.ErrorCode != 82 {
			t.Errorf("the older process: %+v", j)
		}
		mustWait(t, second)
		pass(time.Minute)
		synctest.Wait()
		if j := now[*kmsg.JoinGroupResponse](t, second); j.ErrorCode != 0 || len(j.Members) != 2 {
			t.Errorf("static members that do not come stay: %+v", j)
		}
	})
}

// An assignment that cannot be stored reaches nobody, and the group rebalances.
func TestAssignmentRefused(t *testing.T) {
	inBubble(t, nil, func(w *world) {
		j := w.join("g")
		w.log.Refuse(errNotEnough)
		w.codeIs("sync", w.do(5, syncReq("g", j, j.MemberID, "all")), 15)
		w.codeIs("heartbeat", w.do(4, heartbeatReq("g", j)), 27)
		w.codeIs("commit", w.do(8, commitReq("g", j.Generation, j.MemberID, "t", 1, 0)), 15)
		w.log.Refuse(nil)
		j = w.do(9, joinReq("g", j.MemberID, "range")).(*kmsg.JoinGroupResponse)
		w.codeIs("sync", w.do(5, syncReq("g", j, j.MemberID, "all")), 0)
		if o := w.offset("g"); o != -1 {
			t.Errorf("a refused commit shows: %d", o)
		}
	})
}

// Until the high watermark passes the assignment the group is not stable, and who waits for it does not expire.
func TestAssignmentWaitsForTheHighWatermark(t *testing.T) {
	inBubble(t, func(s *Settings) { s.OffsetsCommitTimeout = time.Minute }, func(w *world) {
		j := w.join("g")
		w.log.Hold()
		sync := w.send(5, syncReq("g", j, j.MemberID, "all"))
		pass(30 * time.Second)
		mustWait(t, sync)
		w.codeIs("commit", w.do(8, commitReq("g", j.Generation, j.MemberID, "t", 1, 0)), 27)
		retry := w.send(5, syncReq("g", j, j.MemberID, "all"))
		if s := now[*kmsg.SyncGroupResponse](t, sync); s.ErrorCode != 27 {
			t.Errorf("a SyncGroup that was sent again: %+v", s)
		}
		w.log.Release()
		if s := now[*kmsg.SyncGroupResponse](t, retry); string(s.MemberAssignment) != "all" {
			t.Errorf("%+v", s)
		}
	})
}

// A failed append may have lost what was applied: the state is read again, and who waits is sent to look for the coordinator.
func TestFailedAppendReloads(t *testing.T) {
	inBubble(t, nil, func(w *world) {
		j := w.stable("g")
		w.codeIs("commit", w.do(8, commitReq("g", j.Generation, j.MemberID, "t", 42, 0)), 0)
		w.log.FailNext(errDisk)
		w.codeIs("the append fails", w.do(8, commitReq("g", j.Generation, j.MemberID, "t", 43, 0)), 16)
		synctest.Wait()
		if o := w.offset("g"); o != 42 {
			t.Errorf("offset %d after the reload, want 42", o)
		}
		w.codeIs("the member goes on", w.do(4, heartbeatReq("g", j)), 0)
		w.log.FailNext(errDisk)
		w.log.FailReplay(errDisk)
		w.codeIs("again", w.do(8, commitReq("g", j.Generation, j.MemberID, "t", 44, 0)), 16)
		synctest.Wait()
		w.codeIs("while it cannot load", w.do(8, fetchReq("g", "t", 0)), 14)
		w.codeIs("heartbeats are fine meanwhile", w.do(4, heartbeatReq("g", j)), 0)
		pass(time.Second)
		synctest.Wait()
		if o := w.offset("g"); o != 42 {
			t.Errorf("offset %d after the second reload, want 42", o)
		}
	})
}

// Reads wait for what was written before them, so they never show what may be lost.
func TestReadsWaitForTheHighWatermark(t *testing.T) {
	inBubble(t, func(s *Settings) { s.OffsetsCommitTimeout = time.Minute }, func(w *world) {
		w.log.Hold()
		commit := w.send(8, commitReq("g", -1, "", "t", 42, 0))
		fetch := w.send(8, fetchReq("g", "t", 0))
		describe := w.send(5, describeReq("g"))
		list := w.send(4, kmsg.NewPtrListGroupsRequest())
		for _, a := range []<-chan kmsg.Response{commit, fetch, describe, list} {
			mustWait(t, a)
		}
		w.c.Resigned(0, 2) // the new leader has not got it
		w.codeIs("commit", now[*kmsg.OffsetCommitResponse](t, commit), 16)
		w.codeIs("fetch", now[*kmsg.OffsetFetchResponse](t, fetch), 16)
		w.codeIs("describe", now[*kmsg.DescribeGroupsResponse](t, describe), 16)
		w.codeIs("list", now[*kmsg.ListGroupsResponse](t, list), 0)
		w.log.Truncate(0)
		w.log.Release()
		w.codeIs("not ours", w.do(8, fetchReq("g", "t", 0)), 16)
		w.c.Elected(0, 3)
		synctest.Wait()
		if o := w.offset("g"); o != -1 {
			t.Errorf("offset %d, want none", o)
		}
	})
}

// When the partition moves away, members that wait are sent to look for the coordinator.
func TestResignedAnswersAll(t *testing.T) {
	inBubble(t, nil, func(w *world) {
		j := w.stable("g")
		id := w.do(9, joinReq("g", "", "range")).(*kmsg.JoinGroupResponse).MemberID
		join := w.send(9, joinReq("g", id, "range"))
		completing := w.join("h")
		idle := w.send(9, joinReq("h", "", "range"))
		now[*kmsg.JoinGroupResponse](t, idle)
		mustWait(t, join)
		w.c.Resigned(0, 0)
		w.codeIs("an older term is over", w.do(4, heartbeatReq("h", completing)), 0)
		w.c.Resigned(0, 1)
		w.codeIs("waiting join", now[*kmsg.JoinGroupResponse](t, join), 16)
		w.codeIs("heartbeat", w.do(4, heartbeatReq("g", j)), 16)
	})
}

var (
	errNotEnough = kerr.NotEnoughReplicas
	errDisk      = kerr.KafkaStorageError
)
