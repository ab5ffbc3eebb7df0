package groupcoord

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// scene is a world whose group "g" is in some state, in which member "m1" has, or claims, an epoch.
type scene struct {
	*world
	script
	epoch   int32
	classic *kmsg.JoinGroupResponse // of a classic member, if there is one
}

// hb sends a heartbeat and returns the member's epoch.
func (s *scene) hb(r *kmsg.ConsumerGroupHeartbeatRequest) int32 {
	resp := s.world.do(1, r).(*kmsg.ConsumerGroupHeartbeatResponse)
	return resp.MemberEpoch
}

func (s *scene) alone() { s.epoch = s.hb(s.beat("g", "m1", 0, nil)) }

func (s *scene) classicStable() {
	j := s.world.join("g")
	s.codeIs("sync", s.world.do(5, syncReq("g", j, j.MemberID, string(assigned("ta", 0, 1, 2, 3)))), 0)
	s.classic = j
}

var scenes = []struct {
	name  string
	enter func(s *scene)
}{
	{"absent", func(*scene) {}},
	{"simple", func(s *scene) { s.world.do(8, commitReq("g", -1, "", "ta", 1, 0)) }},
	{"classic, first rebalance", func(s *scene) { s.world.background(s.send(3, joinReq("g", "", "range"))) }},
	{"classic, completing", func(s *scene) { s.classic = s.world.join("g") }},
	{"classic, stable", func(s *scene) { s.classicStable() }},
	{"classic, preparing", func(s *scene) {
		s.classicStable()
		s.world.background(s.send(3, joinReq("g", "", "range")))
	}},
	{"alone", func(s *scene) { s.alone() }},
	{"alone, loaded again", func(s *scene) { s.alone(); s.restart() }},
	{"alone, expression", func(s *scene) { s.epoch = s.hb(s.beat("g", "m1", 0, nil, matching("t."))) }},
	{"must revoke", func(s *scene) {
		s.alone()
		s.hb(s.beat("g", "m2", 0, nil))
		s.hb(s.beat("g", "m1", s.epoch, []int32{0, 1, 2, 3}))
	}},
	{"waits for another", func(s *scene) {
		s.hb(s.beat("g", "m2", 0, nil))
		s.alone()
	}},
	{"another has gone", func(s *scene) {
		s.hb(s.beat("g", "m2", 0, nil))
		s.alone()
		s.hb(s.beat("g", "m2", -1, nil))
	}},
	{"static, paused", func(s *scene) {
		s.epoch = s.hb(s.beat("g", "m1", 0, nil, as("i1")))
		s.hb(s.beat("g", "m1", -2, nil, as("i1")))
	}},
	{"with a classic member", func(s *scene) {
		s.alone()
		first := s.world.do(9, joinReq("g", "", "range")).(*kmsg.JoinGroupResponse)
		s.classic = s.world.do(9, joinReq("g", first.MemberID, "range")).(*kmsg.JoinGroupResponse)
	}},
	{"empty", func(s *scene) {
		s.alone()
		s.hb(s.beat("g", "m1", -1, nil))
	}},
}

type step struct {
	name string
	send func(s *scene) <-chan kmsg.Response
}

// beats are heartbeats of m1 and others.
func beats() []step {
	var list []step
	add := func(name string, f func(s *scene) *kmsg.ConsumerGroupHeartbeatRequest) {
		list = append(list, step{name, func(s *scene) <-chan kmsg.Response { return s.send(1, f(s)) }})
	}
	type hb = *kmsg.ConsumerGroupHeartbeatRequest
	add("heartbeat", func(s *scene) hb { return s.beat("g", "m1", s.epoch, nil) })
	add("heartbeat, owns all", func(s *scene) hb { return s.beat("g", "m1", s.epoch, []int32{0, 1, 2, 3}) })
	add("heartbeat, owns nothing", func(s *scene) hb { return s.beat("g", "m1", s.epoch, []int32{}) })
	add("heartbeat, later epoch", func(s *scene) hb { return s.beat("g", "m1", s.epoch+1, nil) })
	add("heartbeat, earlier epoch", func(s *scene) hb { return s.beat("g", "m1", max(s.epoch-1, 1), []int32{}) })
	add("heartbeat, other topic", func(s *scene) hb { return s.beat("g", "m1", s.epoch, nil, to("tb")) })
	add("heartbeat, other assignor", func(s *scene) hb { return s.beat("g", "m1", s.epoch, nil, with("range")) })
	add("heartbeat, expression", func(s *scene) hb { return s.beat("g", "m1", s.epoch, nil, matching("t[ab]")) })
	add("heartbeat, bad expression", func(s *scene) hb { return s.beat("g", "m1", s.epoch, nil, matching("t[")) })
	add("heartbeat as i1", func(s *scene) hb { return s.beat("g", "m1", s.epoch, nil, as("i1")) })
	add("join again", func(s *scene) hb { return s.beat("g", "m1", 0, nil) })
	add("another joins", func(s *scene) hb { return s.beat("g", "m9", 0, nil) })
	add("another joins as i1", func(s *scene) hb { return s.beat("g", "m9", 0, nil, as("i1")) })
	add("leave", func(s *scene) hb { return s.beat("g", "m1", -1, nil) })
	add("pause as i1", func(s *scene) hb { return s.beat("g", "m1", -2, nil, as("i1")) })
	add("leave as nobody", func(s *scene) hb { return s.beat("g", "nobody", -1, nil) })
	return list
}

// orClassic is the group's classic member, or one who is nobody.
func (s *scene) orClassic() *kmsg.JoinGroupResponse {
	if s.classic != nil {
		return s.classic
	}
	return nobody
}

var otherSteps = []step{
	{"classic join as new", func(s *scene) <-chan kmsg.Response { return s.send(3, joinReq("g", "", "range")) }},
	{"classic join as member", func(s *scene) <-chan kmsg.Response { return s.send(9, joinReq("g", s.orClassic().MemberID, "range")) }},
	{"classic join as i1", func(s *scene) <-chan kmsg.Response { return s.send(9, staticReq("g", "", "i1")) }},
	{"classic join of connect", func(s *scene) <-chan kmsg.Response {
		r := joinReq("g", "", "range")
		r.ProtocolType = "connect"
		return s.send(3, r)
	}},
	{"classic sync", func(s *scene) <-chan kmsg.Response { return s.send(5, syncReq("g", s.orClassic())) }},
	{"classic heartbeat", func(s *scene) <-chan kmsg.Response { return s.send(4, heartbeatReq("g", s.orClassic())) }},
	{"classic leave", func(s *scene) <-chan kmsg.Response { return s.send(4, leaveReq("g", s.orClassic().MemberID)) }},
	{"commit", func(s *scene) <-chan kmsg.Response { return s.send(9, commitReq("g", s.epoch, "m1", "ta", 5, 0)) }},
	{"commit, earlier epoch", func(s *scene) <-chan kmsg.Response { return s.send(9, commitReq("g", s.epoch-1, "m1", "ta", 5, 0)) }},
	{"commit from outside", func(s *scene) <-chan kmsg.Response { return s.send(9, commitReq("g", -1, "", "ta", 5, 0)) }},
	{"fetch as nobody", func(s *scene) <-chan kmsg.Response {
		r := fetchReq("g", "ta", 0)
		r.Groups[0].MemberID, r.Groups[0].MemberEpoch = ptr("nobody"), 1
		return s.send(9, r)
	}},
	{"delete group", func(s *scene) <-chan kmsg.Response {
		return s.send(2, deleteGroupReq())
	}},
	{"topic grows, heartbeat", func(s *scene) <-chan kmsg.Response {
		s.world.topics.add("ta", 6, 0xA)
		return s.send(1, s.beat("g", "m1", s.epoch, nil))
	}},
	{"topic goes, heartbeat", func(s *scene) <-chan kmsg.Response {
		s.world.topics.remove("ta")
		return s.send(1, s.beat("g", "m1", s.epoch, nil))
	}},
	{"refused: another joins", func(s *scene) <-chan kmsg.Response {
		s.log.Refuse(errNotEnough)
		defer s.log.Refuse(nil)
		answer := s.send(1, s.beat("g", "m9", 0, nil))
		synctest.Wait()
		return answer
	}},
	{"refused: leave", func(s *scene) <-chan kmsg.Response {
		s.log.Refuse(errNotEnough)
		defer s.log.Refuse(nil)
		answer := s.send(1, s.beat("g", "m1", -1, nil))
		synctest.Wait()
		return answer
	}},
	{"10 s pass", func(*scene) <-chan kmsg.Response { pass(10 * time.Second); return nil }},
	{"46 s pass", func(*scene) <-chan kmsg.Response { pass(46 * time.Second); return nil }},
	{"partition lost", func(s *scene) <-chan kmsg.Response { s.c.Resigned(0, 9); return nil }},
}

// TestEveryConsumerStateAndEvent lets everything happen in every state of a group of the consumer protocol, and of a classic
// one that members of that protocol join. testdata/consumer-states.txt says what the answer is and what the group is then.
func TestEveryConsumerStateAndEvent(t *testing.T) {
	var b strings.Builder
	for _, from := range scenes {
		fmt.Fprintf(&b, "%s\n", from.name)
		for _, e := range append(beats(), otherSteps...) {
			inBubble(t, func(set *Settings) { set.Consumer.AssignmentInterval = 0 }, func(w *world) {
				w.topics.add("ta", 4, 0xA)
				w.topics.add("tb", 2, 0xB)
				s := &scene{world: w, script: script{topics: map[string][16]byte{"ta": {0xA}, "tb": {0xB}}}, epoch: 1}
				from.enter(s)
				answer := e.send(s)
				synctest.Wait()
				fmt.Fprintf(&b, "  %-27s %-27s %s\n", e.name, outcome(answer), s.is())
			})
		}
	}
	const file = "testdata/consumer-states.txt"
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	wantLines := strings.Split(string(want), "\n")
	for i, line := range strings.Split(b.String(), "\n") {
		if i >= len(wantLines) || line != wantLines[i] {
			t.Errorf("line %d\n got %s\nwant %s", i+1, line, wantLines[min(i, len(wantLines)-1)])
		}
	}
}

// is tells what the group is: its kind, state, epochs and members with theirs and the number of their partitions.
func (s *scene) is() string {
	r := kmsg.NewPtrConsumerGroupDescribeRequest()
	r.Groups = []string{"g"}
	g := s.world.do(1, r).(*kmsg.ConsumerGroupDescribeResponse).Groups[0]
	if g.ErrorCode == kerr.GroupIDNotFound.Code {
		return "classic " + s.world.summary("g")
	}
	if g.ErrorCode != 0 {
		return kerr.TypedErrorForCode(g.ErrorCode).Message
	}
	text := fmt.Sprintf("consumer %s, epochs %d %d", g.State, g.Epoch, g.AssignmentEpoch)
	var members []string
	for _, m := range g.Members {
		n := 0
		for _, topic := range m.Assignment.TopicPartitions {
			n += len(topic.Partitions)
		}
		id := m.MemberID
		if m.MemberType == 0 {
			id = "classic"
		}
		members = append(members, fmt.Sprintf("%s@%d: %d", id, m.MemberEpoch, n))
	}
	slices.Sort(members)
	return strings.Join(append([]string{text}, members...), ", ")
}
