package groupcoord

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/wire/clock"
)

// modern is a member-to-be of a simulated group of the consumer protocol.
type modern struct {
	id, group string
	instance  *string
	regex     bool // it subscribes to what matches "t|u", else to topics by name
	topics    []string
	lazy      int // beats that it takes to give partitions up
	away      int // steps that it sends nothing

	next      int // number in its id
	epoch     int32
	joined    bool
	sent      time.Duration   // when its last heartbeat began
	heard     time.Duration   // when the last that was answered began
	owned     map[place]int32 // since which epoch
	revoking  int             // beats left until revoked ones are given up
	wanted    map[place]bool  // its assignment; nil: as owned
	changed   bool            // it must say its subscription
	full      bool            // an answer was lost: it says everything, and is told everything
	heartbeat <-chan kmsg.Response
	commit    <-chan kmsg.Response
	commitTo  place
	stale     bool // the commit under way is of an epoch before another got the partition
}

// place is a partition of a topic.
type place struct {
	topic     [16]byte
	partition int32
}

// modernWorld leads members of the consumer protocol through random steps and checks what they are told.
type modernWorld struct {
	*world
	rnd      *rand.Rand
	members  []*modern
	owners   map[string]*modern // by group and place
	handed   map[string]int32   // epoch of the last owner, by group and place
	counts   map[string]int
	restless bool // the log misbehaves
	made     byte // id of the topic that was made last
}

// TestConsumerSimulation lets members of the consumer protocol join, leave, crash, pause, dawdle, change their minds and
// commit, while topics grow, go and come again, the log refuses, stalls and fails, and the partition moves. Whatever happens: no partition is
// used by two members at once; who was assigned a partition before another is not allowed to commit for it; once there is
// peace the group gets stable, with each partition in use once and evenly; and the log, replayed, tells the same.
func TestConsumerSimulation(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { simulateModern(t, seed) })
		})
	}
}

func simulateModern(t *testing.T, seed uint64) {
	s := &modernWorld{rnd: rand.New(rand.NewPCG(seed, 2)), owners: map[string]*modern{}, handed: map[string]int32{}, counts: map[string]int{}}
	s.restless = seed%3 != 0
	s.world = newWorld(t, func(c *Settings) {
		c.Consumer.AssignmentInterval = time.Duration(seed%3) * time.Second
		c.Consumer.RegexRefreshInterval = time.Minute
		if seed%4 == 0 {
			c.Consumer.MaxSize = 4
		}
		if seed%5 == 0 {
			c.Consumer.Assignors = []string{"range", "uniform"}
		}
	})
	defer s.close()
	s.topics.add("t", 5, 1)
	s.topics.add("u", 3, 2)
	s.made = 2
	for i := range 10 {
		m := &modern{group: fmt.Sprint("g", i%2), lazy: i % 3, topics: []string{"t"}, regex: i%5 == 4}
		if i%5 == 3 {
			m.instance = ptr(fmt.Sprint("i", i))
		}
		m.id = fmt.Sprintf("m%d-0", i)
		s.members = append(s.members, m)
	}
	for range 1200 {
		s.step()
	}
	s.calmDown()
	s.checkPeace("g0")
	s.checkPeace("g1")
	told := s.tell()
	s.restart()
	if again := s.tell(); again != told {
		t.Errorf("the log replayed tells\n%s\nthe coordinator told\n%s", again, told)
	}
	t.Log(s.counts)
}

// tell is what the coordinator tells of its groups.
func (s *modernWorld) tell() string {
	r := kmsg.NewPtrConsumerGroupDescribeRequest()
	r.Groups = []string{"g0", "g1"}
	text, _ := json.Marshal(s.do(1, r).(*kmsg.ConsumerGroupDescribeResponse).Groups)
	return string(text)
}

func (s *modernWorld) step() {
	synctest.Wait()
	for _, m := range s.members {
		s.receive(m)
		if m.joined && clock.System.Monotonic()-m.heard > 40*time.Second {
			s.gone(m) // for the coordinator its session may be over: it must not go on
		}
	}
	switch n := s.rnd.IntN(100); {
	case n < 30:
		pass(time.Duration(s.rnd.IntN(2000)) * time.Millisecond)
	case n < 33 && s.restless:
		s.misbehave()
	case n == 33:
		s.changeTopics()
	default:
		s.act(s.members[s.rnd.IntN(len(s.members))])
	}
}

// changeTopics has a topic grow, go, or come again as another one of the same name.
func (s *modernWorld) changeTopics() {
	name := []string{"t", "u"}[s.rnd.IntN(2)]
	if now, ok := s.topics.get(name); !ok {
		s.made++
		s.topics.add(name, 1+s.rnd.Int32N(5), s.made)
	} else if s.rnd.IntN(2) == 0 {
		s.topics.add(name, min(now.partitions+1, 9), now.id[0])
	} else {
		s.topics.remove(name)
	}
}

func (s *modernWorld) misbehave() {
	switch s.rnd.IntN(12) {
	case 0:
		s.log.Hold()
	case 1:
		s.log.Refuse(errNotEnough)
	case 2:
		s.log.FailNext(errDisk)
	case 3:
		s.c.Resigned(0, 9)
		s.c.Elected(0, 1)
	default:
		s.log.Release()
		s.log.Refuse(nil)
	}
}

func (s *modernWorld) act(m *modern) {
	if m.away > 0 {
		m.away--
		return
	}
	switch n := s.rnd.IntN(100); {
	case n < 2 && m.joined:
		s.crash(m)
	case n < 3 && m.joined && m.heartbeat == nil:
		s.leave(m)
	case n < 6 && m.joined:
		m.topics = [][]string{{"t"}, {"t", "u"}, {"u"}}[s.rnd.IntN(3)]
		m.changed = true
	case n < 25 && len(m.owned) > 0 && m.commit == nil:
		s.commitOne(m)
	default:
		s.beat(m)
	}
}

// crash makes a member fall silent for longer than its session lasts, and come back as another one. What it had it drops only
// when it is gone for the coordinator too, so until then nobody else may have it.
func (s *modernWorld) crash(m *modern) {
	s.counts["crashes"]++
	if m.instance == nil {
		m.away = 60 + s.rnd.IntN(40)
	}
	s.gone(m)
}

// gone makes a process end.
func (s *modernWorld) gone(m *modern) {
	for p := range m.owned {
		s.release(m, p)
	}
	m.next++
	m.id = fmt.Sprintf("%s-%d", m.id[:2], m.next)
	m.joined, m.epoch, m.owned, m.wanted, m.heartbeat, m.commit, m.stale, m.full = false, 0, nil, nil, nil, nil, false, false
}

func key(m *modern, p place) string { return fmt.Sprint(m.group, p) }

func (s *modernWorld) release(m *modern, p place) {
	if s.owners[key(m, p)] == m {
		delete(s.owners, key(m, p))
	}
	delete(m.owned, p)
}

// leave says goodbye; a static member pauses half of the time.
func (s *modernWorld) leave(m *modern) {
	s.counts["leaves"]++
	r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	r.Group, r.MemberID, r.MemberEpoch, r.InstanceID = m.group, m.id, -1, m.instance
	if m.instance != nil && s.rnd.IntN(2) == 0 {
		r.MemberEpoch = -2
	}
	for p := range m.owned { // a client stops using what it has before it says goodbye
		s.release(m, p)
	}
	s.send(1, r)
	s.gone(m)
}

// beat sends a heartbeat.
func (s *modernWorld) beat(m *modern) {
	if m.heartbeat != nil {
		return
	}
	r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	r.Group, r.MemberID, r.MemberEpoch, r.InstanceID = m.group, m.id, m.epoch, m.instance
	if m.revoking > 0 {
		m.revoking--
	} else if m.wanted != nil {
		for p := range m.owned {
			if !m.wanted[p] {
				s.release(m, p)
			}
		}
	}
	r.Topics = m.request()
	if !m.joined || m.changed || m.full {
		m.subscribe(r)
		if m.full {
			r.RebalanceTimeoutMillis = 300_000
		}
		m.changed, m.full = false, false
	}
	m.heartbeat, m.sent = s.send(1, r), clock.System.Monotonic()
}

func (m *modern) subscribe(r *kmsg.ConsumerGroupHeartbeatRequest) {
	if m.regex {
		r.SubscribedTopicRegex = ptr([]string{"t|u", "u"}[len(m.topics)%2])
	} else {
		r.SubscribedTopicNames = m.topics
	}
	if !m.joined {
		r.RebalanceTimeoutMillis = 300_000
		r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
}

// request says what the member has.
func (m *modern) request() []kmsg.ConsumerGroupHeartbeatRequestTopic {
	byTopic := map[[16]byte][]int32{}
	for p := range m.owned {
		byTopic[p.topic] = append(byTopic[p.topic], p.partition)
	}
	list := []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	for topic, partitions := range byTopic {
		list = append(list, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: topic, Partitions: partitions})
	}
	return list
}

func (s *modernWorld) receive(m *modern) {
	if m.heartbeat != nil {
		select {
		case r := <-m.heartbeat:
			m.heartbeat = nil
			s.told(m, r.(*kmsg.ConsumerGroupHeartbeatResponse))
		default:
		}
	}
	if m.commit != nil {
		select {
		case r := <-m.commit:
			m.commit = nil
			s.committed(m, codeOf(r))
		default:
		}
	}
}

func (s *modernWorld) told(m *modern, r *kmsg.ConsumerGroupHeartbeatResponse) {
	s.counts[fmt.Sprint("heartbeat code ", r.ErrorCode)]++
	switch r.ErrorCode {
	case 0:
	case 25, 110, 82, 69: // not a member any more, or of another epoch: all is dropped at once, and it joins again
		s.gone(m)
		return
	case 14, 15, 16, 111, 81:
		if !m.joined {
			s.gone(m)
		}
		m.full = m.joined
		return
	default:
		s.t.Errorf("%s: code %d (%v)", m.id, r.ErrorCode, *r.ErrorMessage)
		return
	}
	m.joined, m.epoch, m.heard = true, r.MemberEpoch, m.sent
	if r.Assignment == nil {
		return
	}
	m.wanted = map[place]bool{}
	for _, topic := range r.Assignment.Topics {
		for _, partition := range topic.Partitions {
			m.wanted[place{topic.TopicID, partition}] = true
		}
	}
	s.take(m)
}

// take makes a member use what it was assigned; what it has to give up it keeps for a while.
func (s *modernWorld) take(m *modern) {
	if m.owned == nil {
		m.owned = map[place]int32{}
	}
	for p := range m.owned {
		if !m.wanted[p] {
			m.revoking = m.lazy
		}
	}
	for p := range m.wanted {
		if _, has := m.owned[p]; has {
			continue
		}
		if other := s.owners[key(m, p)]; other != nil && other != m {
			s.t.Errorf("%s: partition %v is given to %s while %s uses it", m.group, p, m.id, other.id)
		}
		s.counts["handed over"]++
		s.owners[key(m, p)], s.handed[key(m, p)] = m, m.epoch
		m.owned[p] = m.epoch
	}
}

// commitOne commits for a partition, in the member's epoch or in the one that it got the partition in.
func (s *modernWorld) commitOne(m *modern) {
	for p, since := range m.owned {
		epoch := m.epoch
		if s.rnd.IntN(3) == 0 {
			epoch = since - int32(s.rnd.IntN(2))
		}
		r := commitReq(m.group, epoch, m.id, "", 1, p.partition)
		r.Topics[0].TopicID, r.InstanceID = p.topic, m.instance
		m.commit, m.commitTo, m.stale = s.send(10, r), p, epoch < since
		return
	}
}

func (s *modernWorld) committed(m *modern, code int16) {
	s.counts[fmt.Sprint("commit code ", code)]++
	if code == 0 && m.stale && m.instance == nil && !s.restless {
		s.t.Errorf("%s: a commit for %v of an epoch before it was assigned is taken", m.id, m.commitTo)
	}
}

// calmDown ends all trouble and lets everyone go on for a while.
func (s *modernWorld) calmDown() {
	s.log.Refuse(nil)
	s.log.Release()
	for range 80 {
		pass(2 * time.Second)
		synctest.Wait()
		for _, m := range s.members {
			s.receive(m)
			m.away = 0
			s.beat(m)
		}
	}
	synctest.Wait()
	for _, m := range s.members {
		s.receive(m)
	}
}

// checkPeace compares what the coordinator tells of a group with what its members do.
func (s *modernWorld) checkPeace(group string) {
	r := kmsg.NewPtrConsumerGroupDescribeRequest()
	r.Groups = []string{group}
	g := s.do(1, r).(*kmsg.ConsumerGroupDescribeResponse).Groups[0]
	if g.State != "Stable" {
		s.t.Errorf("%s is %s, in peace", group, g.State)
	}
	consumed := map[string]bool{}
	used := 0
	for _, told := range g.Members {
		i := slices.IndexFunc(s.members, func(m *modern) bool { return m.id == told.MemberID })
		if i < 0 {
			s.t.Errorf("%s: a member %s that does not live", group, told.MemberID)
			continue
		}
		m := s.members[i]
		for _, topic := range m.topicsWanted() {
			consumed[topic] = true
		}
		n := 0
		for _, topic := range told.Assignment.TopicPartitions {
			for _, p := range topic.Partitions {
				n++
				if _, has := m.owned[place{topic.TopicID, p}]; !has {
					s.t.Errorf("%s: %s does not use %s-%d, which it is said to", group, m.id, topic.Topic, p)
				}
			}
		}
		if n != len(m.owned) {
			s.t.Errorf("%s: %s uses %d partitions, told %d", group, m.id, len(m.owned), n)
		}
		used += n
	}
	all := 0
	for topic := range consumed {
		all += int(s.topics.PartitionCount(topic))
	}
	if used != all {
		s.t.Errorf("%s: %d of %d partitions are in use", group, used, all)
	}
}

func (m *modern) topicsWanted() []string {
	if !m.regex {
		return m.topics
	}
	return [][]string{{"t", "u"}, {"u"}}[len(m.topics)%2]
}
