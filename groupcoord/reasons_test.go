package groupcoord

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// Why members say that they join and leave (KIP-800) stands in the log, in groups of both kinds; "not provided" where they do not say it.
func TestReasons(t *testing.T) {
	core, logged := observer.New(zap.InfoLevel)
	said := func(message, word string) {
		t.Helper()
		for _, line := range logged.TakeAll() {
			if reason, _ := line.ContextMap()["reason"].(string); line.Message == message && strings.Contains(reason, word) {
				return
			}
		}
		t.Errorf("no line %q gives the reason %q", message, word)
	}
	inBubble(t, nil, func(w *world) {
		w.close()
		w.c.o.Logger = zap.New(core)
		w.c = New(w.c.o)
		w.c.Elected(0, 1)
		synctest.Wait()
		first := w.do(9, joinReq("g", "", "range")).(*kmsg.JoinGroupResponse)
		join := joinReq("g", first.MemberID, "range")
		join.Reason = ptr("the first poll")
		j := w.do(9, join).(*kmsg.JoinGroupResponse)
		said("group rebalances", "the first poll")
		w.codeIs("sync", w.do(5, syncReq("g", j, j.MemberID, "all")), 0)
		again := joinReq("g", j.MemberID, "range")
		again.Reason = ptr("the subscription has changed")
		w.codeIs("join again", w.do(8, again), 0)
		said("group rebalances", "the subscription has changed")
		w.codeIs("join again, of a version without reasons", w.do(7, joinReq("g", j.MemberID, "range", "sticky")), 0)
		said("group rebalances", "not provided")
		leave := leaveReq("g", j.MemberID)
		leave.Members[0].Reason = ptr("the consumer is closed")
		w.codeIs("leave", w.do(5, leave), 0)
		said("member leaves its group", "the consumer is closed")

		static := w.do(9, staticReq("s", "", "i1")).(*kmsg.JoinGroupResponse)
		w.codeIs("sync", w.do(5, syncReq("s", static, static.MemberID, "all")), 0)
		other := joinReq("s", "", "sticky", "range")
		other.InstanceID, other.Reason = ptr("i1"), ptr("another assignor")
		w.background(w.send(9, other))
		said("group rebalances", "another assignor")
		left := leaveReq("s")
		left.Members = []kmsg.LeaveGroupRequestMember{{InstanceID: ptr("i1"), Reason: ptr("an administrator")}}
		w.codeIs("leave", w.do(5, left), 0)
		said("member leaves its group", "an administrator")
	})
	inScene(t, nil, func(s *scene) {
		s.world.close()
		s.world.c.o.Logger = zap.New(core)
		s.world.c = New(s.world.c.o)
		s.world.c.Elected(0, 1)
		synctest.Wait()
		s.alone()
		first := s.world.do(9, joinReq("g", "", "range")).(*kmsg.JoinGroupResponse)
		j := s.world.do(9, joinReq("g", first.MemberID, "range")).(*kmsg.JoinGroupResponse)
		logged.TakeAll()
		leave := leaveReq("g", j.MemberID)
		leave.Members[0].Reason = ptr("the upgrade")
		s.codeIs("leave", s.world.do(5, leave), 0)
		said("member leaves its group", "the upgrade")
	})
}
