package groupcoord

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/groupcoord/runtime"
	"github.com/gregor-broker/gregor/groupcoord/schema"
	"github.com/gregor-broker/gregor/wire/clock"
)

const simPartitions = 6

// client is a member-to-be of one of the simulated groups. It has at most one request under way.
type client struct {
	name, group  string
	instance     *string
	version      int16 // of JoinGroup
	answer       <-chan kmsg.Response
	join         *kmsg.JoinGroupResponse // of its generation, nil outside
	members      []string                // what it must assign, if it leads
	owned        []int32
	pendingJoin  string // member id to join with
	commitOffset int64  // of the commit under way
	commitTo     int32
	stray        bool // what is left of a process that paused, or was replaced: it only commits, as what it was
}

// accepted is the last commit of a partition that was answered with success.
type accepted struct {
	generation int32
	offset     int64
}

// simulation leads clients through random steps and checks what they are told.
type simulation struct {
	*world
	rnd      *rand.Rand
	clients  []*client
	owners   map[string]string   // group, generation, partition: member
	commits  map[string]accepted // group, partition
	gone     map[string]bool     // member ids of those who have left, were removed or replaced, and know it
	refused  int                 // commits of strays
	maybe    map[string]bool     // a commit failed after it may have been written
	next     int64
	machines []*machine
	restless bool // the log misbehaves
}

// TestSimulation lets members join, leave, crash, commit, while the log refuses, stalls and fails. Whatever happens: no
// partition has two owners in one generation; commits of earlier generations are not taken after those of later ones, nor those of
// who is no member any more; what was acknowledged stays; and the log, replayed, yields the state that the coordinator had.
func TestSimulation(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { simulate(t, seed) })
		})
	}
}

func simulate(t *testing.T, seed uint64) {
	s := &simulation{
		rnd:    rand.New(rand.NewPCG(seed, 1)),
		owners: map[string]string{}, commits: map[string]accepted{}, maybe: map[string]bool{}, gone: map[string]bool{}, restless: seed%3 != 0,
	}
	s.world = newWorld(t, func(c *Settings) {
		c.Group.InitialRebalanceDelay = time.Duration(seed%4) * time.Second
		c.Group.MaxSize = 4 + int(seed%3)
	})
	s.topics.add("t", simPartitions, 1)
	s.close()
	s.startCapturing()
	for i := range 10 {
		c := &client{name: fmt.Sprint("c", i), group: fmt.Sprint("g", i%2), version: int16(s.rnd.IntN(10))}
		if i%5 == 4 && c.version >= 5 {
			c.instance = ptr(fmt.Sprint("i", i))
		}
		s.clients = append(s.clients, c)
	}
	for range 1500 {
		s.step()
	}
	s.log.Refuse(nil)
	s.log.Release()
	pass(30 * time.Second)
	synctest.Wait()
	for _, c := range s.clients {
		s.receive(c)
	}
	s.checkCommits()
	if len(s.owners) == 0 || len(s.commits) == 0 || s.refused == 0 {
		t.Errorf("nothing happened: %d ownerships, %d partitions with commits, %d refused", len(s.owners), len(s.commits), s.refused)
	}
	t.Logf("%d ownerships, %d commits, %d loads", len(s.owners), s.next, len(s.machines))
	s.close()
	life := s.machines[len(s.machines)-1].durable()
	s.startCapturing()
	s.close()
	if replayed := s.machines[len(s.machines)-1].durable(); replayed != life {
		t.Errorf("the log replayed:\n%s\nthe coordinator had:\n%s", replayed, life)
	}
}

// startCapturing starts a coordinator whose machines are kept.
func (s *simulation) startCapturing() {
	s.c = &Coordinator{o: Options{Metadata: s.topics, Clock: clock.System, Logger: nopLogger, Config: s.config, Partitions: func() int32 { return 1 }}}
	s.c.runtime = runtime.New(runtime.Options{
		Log: s.log, Clock: clock.System, Logger: nopLogger, Patience: s.config.OffsetsCommitTimeout,
		Machine: func(int32) runtime.Machine {
			m := s.c.machine(0)
			s.machines = append(s.machines, m)
			return m
		},
	})
	s.c.Elected(0, 1)
	synctest.Wait()
}

// durable is everything that is stored, as text.
func (m *machine) durable() string {
	var lines []string
	for id, e := range m.groups {
		if v := e.Stored(); v != nil {
			lines = append(lines, fmt.Sprintf("%s %q", id, v.Append(nil, schema.GroupVersion)))
		}
		for topic, list := range e.offsets.Topics() {
			for _, c := range list {
				c.TopicID = nil
				lines = append(lines, fmt.Sprintf("%s %s %+v", id, topic, c))
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (s *simulation) step() {
	synctest.Wait()
	for _, c := range s.clients {
		s.receive(c)
	}
	switch n := s.rnd.IntN(100); {
	case n < 15:
		pass(time.Duration(s.rnd.IntN(4000)) * time.Millisecond)
	case n < 20 && s.restless:
		s.misbehave()
	default:
		s.act(s.clients[s.rnd.IntN(len(s.clients))])
	}
	s.clients = slices.DeleteFunc(s.clients, func(c *client) bool { return c.stray && c.join == nil && c.answer == nil })
}

// strayOf leaves behind what goes on committing as the client was.
func (s *simulation) strayOf(c *client) {
	if c.join != nil && len(c.owned) > 0 && !c.stray && len(s.clients) < 20 {
		s.clients = append(s.clients, &client{name: c.name, group: c.group, instance: c.instance, join: c.join, owned: c.owned, stray: true})
	}
}

// misbehave makes the log, or the cluster, do something unpleasant.
func (s *simulation) misbehave() {
	switch s.rnd.IntN(12) {
	case 0:
		s.log.Hold()
	case 1:
		s.log.Refuse(errNotEnough)
	case 2:
		s.log.FailNext(errDisk)
	default:
		s.log.Release()
		s.log.Refuse(nil)
	case 3:
		s.c.Resigned(0, 9)
		s.c.Elected(0, 1)
	}
}

// act lets a client do what a client may do now.
func (s *simulation) act(c *client) {
	if c.answer != nil {
		if s.rnd.IntN(100) == 0 {
			s.crash(c)
		}
		return
	}
	switch n := s.rnd.IntN(100); {
	case c.stray:
		if n < 20 && c.join != nil {
			s.commitOne(c)
		}
	case n == 0:
		s.strayOf(c)
		s.crash(c)
	case c.join == nil || n == 1:
		s.strayOf(c)
		r := joinReq(c.group, c.pendingJoin, "range")
		r.InstanceID, r.RebalanceTimeoutMillis = c.instance, 15000
		if c.join != nil {
			r.MemberID = c.join.MemberID
		}
		c.answer = s.send(c.version, r)
	case n == 2:
		r := leaveReq(c.group, c.join.MemberID)
		s.gone[c.join.MemberID] = codeOf(s.do(2, r)) == 0
		s.strayOf(c)
		s.crash(c)
	case n < 50:
		if code := codeOf(s.do(4, heartbeatReq(c.group, c.join))); code != 0 {
			s.gone[c.join.MemberID] = code == kerr.UnknownMemberID.Code || code == kerr.FencedInstanceID.Code
			s.strayOf(c)
			c.joinAgain(code)
		}
	case len(c.owned) > 0:
		s.commitOne(c)
	default:
		s.syncGroup(c)
	}
}

// commitOne commits for one of the client's partitions, further on than anybody before.
func (s *simulation) commitOne(c *client) {
	c.commitTo = c.owned[s.rnd.IntN(len(c.owned))]
	s.next++
	c.commitOffset = s.next
	r := commitReq(c.group, c.join.Generation, c.join.MemberID, "t", c.commitOffset, c.commitTo)
	r.InstanceID = c.instance
	c.answer = s.send(7, r)
}

// syncGroup asks for the client's assignment; a leader brings it: all partitions, each to one member.
func (s *simulation) syncGroup(c *client) {
	r := syncReq(c.group, c.join)
	for i, id := range c.members {
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID = id
		for p := int32(i); p < simPartitions; p += int32(len(c.members)) {
			a.MemberAssignment = append(a.MemberAssignment, byte(p))
		}
		r.GroupAssignment = append(r.GroupAssignment, a)
	}
	c.answer = s.send(5, r)
}

// crash makes a client forget everything without a word, except its instance id.
func (s *simulation) crash(c *client) {
	if c.answer != nil && c.commitOffset != 0 {
		s.maybe[fmt.Sprint(c.group, c.commitTo)] = true
	}
	c.answer, c.pendingJoin, c.commitOffset = nil, "", 0
	c.forget()
}

// joinAgain makes a client that was told so join next, as the member that it is unless it is none any more.
func (c *client) joinAgain(code int16) {
	c.pendingJoin = ""
	if code == 27 || code == 15 || code == 16 || code == 14 {
		c.pendingJoin = c.join.MemberID
	}
	c.forget()
}

func (c *client) forget() { c.join, c.members, c.owned = nil, nil, nil }

// receive takes the answer that a client waits for.
func (s *simulation) receive(c *client) {
	if c.answer == nil {
		return
	}
	var resp kmsg.Response
	select {
	case resp = <-c.answer:
	default:
		return
	}
	c.answer = nil
	switch r := resp.(type) {
	case *kmsg.JoinGroupResponse:
		c.forget()
		switch r.ErrorCode {
		case 0:
			c.join = r
			for _, m := range r.Members {
				c.members = append(c.members, m.MemberID)
			}
			if r.LeaderID != r.MemberID || r.SkipAssignment {
				c.members = nil
			}
		case 79:
			c.pendingJoin = r.MemberID
		default:
			c.pendingJoin = ""
		}
	case *kmsg.SyncGroupResponse:
		s.assigned(c, r)
	case *kmsg.OffsetCommitResponse:
		s.committed(c, codeOf(r))
	}
}

func (s *simulation) assigned(c *client, r *kmsg.SyncGroupResponse) {
	if r.ErrorCode != 0 {
		c.joinAgain(r.ErrorCode)
		return
	}
	c.owned = nil
	for _, p := range r.MemberAssignment {
		key := fmt.Sprint(c.group, " generation ", c.join.Generation, " partition ", p)
		who := c.join.MemberID
		if c.instance != nil {
			who = *c.instance // its place passes from process to process
		}
		if other := s.owners[key]; other != "" && other != who {
			s.t.Errorf("%s belongs to %s and to %s", key, other, who)
		}
		s.owners[key] = who
		c.owned = append(c.owned, int32(p))
	}
}

func (s *simulation) committed(c *client, code int16) {
	key := fmt.Sprint(c.group, c.commitTo)
	switch code {
	case 0:
		if s.gone[c.join.MemberID] && !s.restless { // a log that fails may bring it back
			s.t.Errorf("%s: a commit of %s was taken, who is no member any more", key, c.join.MemberID)
		}
		last := s.commits[key]
		if c.join.Generation < last.generation {
			s.t.Errorf("%s: a commit of generation %d was taken after one of %d", key, c.join.Generation, last.generation)
		}
		if c.commitOffset > last.offset {
			s.commits[key] = accepted{c.join.Generation, c.commitOffset}
		}
	case 15, 16: // it may be written all the same
		s.maybe[key] = true
	}
	c.commitOffset = 0
	if c.stray && code != 0 {
		s.refused++
	}
	if code != 0 && code != 15 {
		c.joinAgain(code)
	}
}

// checkCommits compares what the coordinator tells with what it has acknowledged.
func (s *simulation) checkCommits() {
	for key, want := range s.commits {
		group, partition := key[:2], int32(key[2]-'0')
		p := s.do(8, fetchReq(group, "t", partition)).(*kmsg.OffsetFetchResponse).Groups[0].Topics[0].Partitions[0]
		if p.ErrorCode != 0 || p.Offset != want.offset && !(s.maybe[key] && p.Offset > want.offset) {
			s.t.Errorf("%s: offset %d (code %d), acknowledged %d in generation %d", key, p.Offset, p.ErrorCode, want.offset, want.generation)
		}
	}
}
