package groupcoord

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/groupcoord/schema"
)

// elder is a member of the classic protocol in a group whose members change their protocol one by one. It gives everything up
// whenever it joins.
type elder struct {
	group, id  string
	generation int32
	joined     bool // it has the generation's answer, and asks for its assignment next
	members    []string
	owned      []int32 // of "t"; nil until it is told
	answer     <-chan kmsg.Response
	away       int
}

// migrationWorld has members of both protocols.
type migrationWorld struct {
	*modernWorld
	elders []*elder
	kinds  map[string]int
}

// TestMigrationSimulation lets members of both protocols come and go in one group, which becomes one of the consumer protocol
// and a classic one again and again, while the log refuses, stalls and fails. Once there is peace each partition is used by
// one member, whatever the group is then; and the log, replayed, tells the same.
func TestMigrationSimulation(t *testing.T) {
	kinds := map[string]int{}
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { simulateMigration(t, seed, kinds) })
		})
	}
	if kinds["classic"] == 0 || kinds["consumer"] == 0 {
		t.Errorf("groups were only %v", kinds)
	}
}

func simulateMigration(t *testing.T, seed uint64, kinds map[string]int) {
	s := &migrationWorld{
		modernWorld: &modernWorld{rnd: rand.New(rand.NewPCG(seed, 3)), owners: map[string]*modern{}, handed: map[string]int32{}, counts: map[string]int{}},
		kinds:       kinds,
	}
	s.world = newWorld(t, func(c *Settings) { c.Consumer.AssignmentInterval = time.Duration(seed%2) * time.Second })
	defer s.close()
	s.topics.add("t", 7, 1)
	for i := range 3 {
		s.members = append(s.members, &modern{group: "g0", lazy: i % 2, topics: []string{"t"}, id: fmt.Sprintf("m%d-0", i)})
		s.elders = append(s.elders, &elder{group: "g0"})
	}
	for range 1500 {
		s.turn(seed%2 == 0)
	}
	s.settle()
	s.checkUse()
	told := s.tell()
	s.restart()
	if again := s.tell(); again != told {
		t.Errorf("the log replayed tells\n%s\nthe coordinator told\n%s", again, told)
	}
	t.Log(s.counts)
}

// turn lets something happen. At times members of one protocol are away, so that the group becomes one of the other.
func (s *migrationWorld) turn(restless bool) {
	synctest.Wait()
	for _, m := range s.members {
		s.receive(m)
	}
	for _, e := range s.elders {
		s.hear(e)
	}
	switch n := s.rnd.IntN(100); {
	case n < 25:
		pass(time.Duration(s.rnd.IntN(1500)) * time.Millisecond)
		s.note()
	case n < 27 && restless:
		s.misbehave()
	case n == 27 && s.rnd.IntN(2) == 0:
		for _, m := range s.members {
			if m.joined && m.heartbeat == nil {
				s.leave(m)
			}
			m.away = 12
		}
	case n == 28 && s.rnd.IntN(2) == 0:
		for _, e := range s.elders {
			s.quit(e)
			e.away = 12
		}
	case n < 60:
		m := s.members[s.rnd.IntN(len(s.members))]
		if m.away > 0 {
			m.away--
			return
		}
		s.beat(m)
	default:
		s.goOn(s.elders[s.rnd.IntN(len(s.elders))])
	}
}

// note counts what the group is.
func (s *migrationWorld) note() {
	answer := s.send(5, kmsg.NewPtrListGroupsRequest())
	synctest.Wait()
	select {
	case r := <-answer:
		for _, g := range r.(*kmsg.ListGroupsResponse).Groups {
			s.kinds[g.GroupType]++
		}
	default:
	}
}

func (s *migrationWorld) quit(e *elder) {
	if e.id != "" {
		s.send(4, leaveReq(e.group, e.id))
	}
	*e = elder{group: e.group}
}

// goOn lets a classic member do what it may do now.
func (s *migrationWorld) goOn(e *elder) {
	switch {
	case e.away > 0:
		e.away--
	case e.answer != nil:
	case e.joined && e.owned == nil:
		e.answer = s.send(5, s.syncOf(e))
	case e.joined:
		e.answer = s.send(4, heartbeatReq(e.group, &kmsg.JoinGroupResponse{MemberID: e.id, Generation: e.generation}))
	default:
		r := joinReq(e.group, e.id, "range")
		r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = 30_000, 20_000
		r.Protocols[0].Metadata = embedded("t")
		e.answer = s.send(9, r)
	}
}

// syncOf asks for the assignment; a leader brings it.
func (s *migrationWorld) syncOf(e *elder) *kmsg.SyncGroupRequest {
	var pairs []string
	for i, id := range e.members {
		var partitions []int32
		for p := int32(i); p < s.topics.PartitionCount("t"); p += int32(len(e.members)) {
			partitions = append(partitions, p)
		}
		pairs = append(pairs, id, string(assigned("t", partitions...)))
	}
	return syncReq(e.group, &kmsg.JoinGroupResponse{MemberID: e.id, Generation: e.generation}, pairs...)
}

// hear takes the answer that a classic member waits for.
func (s *migrationWorld) hear(e *elder) {
	if e.answer == nil {
		return
	}
	var resp kmsg.Response
	select {
	case resp = <-e.answer:
	default:
		return
	}
	e.answer = nil
	code := codeOf(resp)
	s.counts[fmt.Sprintf("%T code %d", resp, code)]++
	switch code {
	case 0:
	case 79:
		e.id = resp.(*kmsg.JoinGroupResponse).MemberID
		return
	case 27:
		e.joined, e.owned, e.members = false, nil, nil
		return
	case 14, 15, 16:
		e.joined, e.owned, e.members = false, nil, nil
		return
	default:
		*e = elder{group: e.group}
		return
	}
	switch r := resp.(type) {
	case *kmsg.JoinGroupResponse:
		e.joined, e.owned, e.generation, e.members = true, nil, r.Generation, nil
		if r.LeaderID == r.MemberID {
			for _, m := range r.Members {
				e.members = append(e.members, m.MemberID)
			}
		}
	case *kmsg.SyncGroupResponse:
		e.owned = []int32{}
		list, _, err := schema.DecodeAssignment(r.MemberAssignment)
		if err != nil {
			s.t.Errorf("an assignment that cannot be read: %v", err)
		}
		for _, topic := range list {
			e.owned = append(e.owned, topic.Partitions...)
		}
	}
}

// settle ends all trouble and lets everyone go on for a while.
func (s *migrationWorld) settle() {
	s.log.Refuse(nil)
	s.log.Release()
	for range 150 {
		pass(time.Second)
		synctest.Wait()
		for _, m := range s.members {
			s.receive(m)
			m.away = 0
			s.beat(m)
		}
		for _, e := range s.elders {
			s.hear(e)
			e.away = 0
			s.goOn(e)
		}
	}
	synctest.Wait()
	for _, m := range s.members {
		s.receive(m)
	}
	for _, e := range s.elders {
		s.hear(e)
	}
}

// checkUse: each partition is used by one member.
func (s *migrationWorld) checkUse() {
	var used []string
	for _, m := range s.members {
		for p := range m.owned {
			used = append(used, fmt.Sprint(p.partition))
		}
	}
	for _, e := range s.elders {
		for _, p := range e.owned {
			used = append(used, fmt.Sprint(p))
		}
	}
	slices.Sort(used)
	if got := strings.Join(used, " "); got != "0 1 2 3 4 5 6" {
		s.t.Errorf("partitions in use: %s\n%s", got, s.tell())
	}
}
