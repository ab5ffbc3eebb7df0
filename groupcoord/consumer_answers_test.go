package groupcoord

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/wire/clock"
)

// TestConsumerAnswersAsKafka sends the same requests about groups of the consumer protocol to the coordinator as were sent to
// Apache Kafka 4.4.0, and compares the answers. To make the expected ones again, start it afresh with
//
//	group.initial.rebalance.delay.ms=0
//	group.consumer.assignment.interval.ms=0
//
// create the topics "ta" with four partitions and "tb" with two, and run
//
//	go test ./groupcoord -run TestConsumerAnswersAsKafka -kafka 127.0.0.1:9092
func TestConsumerAnswersAsKafka(t *testing.T) {
	const file = "testdata/consumer-answers-4.4.0.txt"
	if *kafka != "" {
		c := dialKafka(t, *kafka)
		defer c.conn.Close()
		s := &script{group: fmt.Sprintf("g%d-", clock.System.Now().Unix()), topics: c.topicIDs("ta", "tb"), do: c.do, wait: pass, find: c.find}
		if err := os.WriteFile(file, []byte(s.run()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	inBubble(t, func(s *Settings) { s.Consumer.AssignmentInterval = 0 }, func(w *world) {
		w.topics.add("ta", 4, 0xA)
		w.topics.add("tb", 2, 0xB)
		s := &script{group: "g-", topics: map[string][16]byte{"ta": {0xA}, "tb": {0xB}}, do: w.do, wait: pass}
		wantLines := strings.Split(string(want), "\n")
		for i, line := range strings.Split(s.run(), "\n") {
			if i >= len(wantLines) || line != wantLines[i] {
				t.Errorf("line %d\n got %s\nwant %s", i+1, line, wantLines[min(i, len(wantLines)-1)])
			}
		}
	})
}

// topicIDs asks for the ids of topics.
func (c *kafkaConn) topicIDs(names ...string) map[string][16]byte {
	ids := map[string][16]byte{}
	r := kmsg.NewPtrMetadataRequest()
	for _, name := range names {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &name
		r.Topics = append(r.Topics, topic)
	}
	for _, topic := range c.do(12, r).(*kmsg.MetadataResponse).Topics {
		ids[*topic.Topic] = topic.TopicID
	}
	return ids
}

// find asks for a coordinator, which makes the internal topic.
func (c *kafkaConn) find() {
	r := kmsg.NewPtrFindCoordinatorRequest()
	r.CoordinatorKey = "none"
	c.do(3, r)
}

// script is a conversation with a coordinator, and what was said.
type script struct {
	group  string // what all group ids begin with
	topics map[string][16]byte
	do     func(v int16, r kmsg.Request) kmsg.Response
	wait   func(time.Duration)
	find   func() // the coordinator, which creates the internal topic
	said   strings.Builder
	seen   map[string]string // ids that are different each time
}

func (s *script) run() string {
	s.seen = map[string]string{}
	s.awaitCoordinator()
	s.mistakes()
	s.lifeOfDynamicMembers()
	s.lifeOfStaticMembers()
	s.assignors()
	s.expressions()
	s.upgrade()
	s.classicMembers()
	s.downgradeByReplacement()
	s.emptyGroups()
	s.orderOfChecks()
	return s.said.String()
}

// awaitCoordinator waits until the internal topic is there.
func (s *script) awaitCoordinator() {
	if s.find != nil {
		s.find()
	}
	for codeOf(s.do(5, describeReq("none"))) != 0 {
		s.wait(100 * time.Millisecond)
	}
}

var randomID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}|"[A-Za-z0-9_-]{22}"`)

// ask sends a request and notes the answer.
func (s *script) ask(what string, v int16, r kmsg.Request) kmsg.Response {
	resp := s.do(v, r)
	s.normalise(resp)
	text, _ := json.Marshal(resp)
	line := randomID.ReplaceAllStringFunc(string(text), func(id string) string {
		if s.seen[id] == "" {
			s.seen[id] = fmt.Sprintf("id%d", len(s.seen)+1)
		}
		return s.seen[id]
	})
	line = strings.ReplaceAll(line, s.group, "G-")
	for name, id := range s.topics {
		idText, _ := json.Marshal(id)
		line = strings.ReplaceAll(line, string(idText), `"`+strings.ToUpper(name)+`"`)
	}
	line = regexp.MustCompile(`,?"UnknownTags":\{\}|"Version":\d+,"ThrottleMillis":0,`).ReplaceAllString(line, "")
	fmt.Fprintf(&s.said, "%s: v%d %s\n", what, v, line)
	return resp
}

// beat is a heartbeat; owned are partitions of "ta", nil says nothing of them.
func (s *script) beat(group, member string, epoch int32, owned []int32, change ...func(*kmsg.ConsumerGroupHeartbeatRequest)) *kmsg.ConsumerGroupHeartbeatRequest {
	r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	r.Group, r.MemberID, r.MemberEpoch = s.group+group, member, epoch
	if owned != nil {
		r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{{TopicID: s.topics["ta"], Partitions: owned}}
		if len(owned) == 0 {
			r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		}
	}
	if epoch == 0 {
		r.RebalanceTimeoutMillis, r.SubscribedTopicNames, r.Topics = 60000, []string{"ta"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	for _, f := range change {
		f(r)
	}
	return r
}

func as(instance string) func(*kmsg.ConsumerGroupHeartbeatRequest) {
	return func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = &instance }
}

func with(assignor string) func(*kmsg.ConsumerGroupHeartbeatRequest) {
	return func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.ServerAssignor = &assignor }
}

func to(topics ...string) func(*kmsg.ConsumerGroupHeartbeatRequest) {
	return func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = topics }
}

func matching(re string) func(*kmsg.ConsumerGroupHeartbeatRequest) {
	return func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames, r.SubscribedTopicRegex = nil, &re }
}

func (s *script) describe(group string) {
	r := kmsg.NewPtrConsumerGroupDescribeRequest()
	r.Groups = []string{s.group + group}
	s.ask("describe", 1, r)
}

func (s *script) mistakes() {
	for _, mistake := range []struct {
		what   string
		change func(r *kmsg.ConsumerGroupHeartbeatRequest)
	}{
		{"no group", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Group = "" }},
		{"blank group", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Group = " " }},
		{"no member", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID = "" }},
		{"no instance", as("")},
		{"no rack", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RackID = ptr("") }},
		{"no rebalance timeout", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RebalanceTimeoutMillis = -1 }},
		{"no partitions", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = nil }},
		{"owns partitions", func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{{Partitions: []int32{0}}}
		}},
		{"no subscription", to()},
		{"unknown assignor", with("best")},
		{"bad expression", matching("t[ab")},
		{"epoch -3", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -3 }},
		{"leave unknown", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -1 }},
		{"pause without name", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -2 }},
		{"unknown group", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = 5 }},
	} {
		s.ask(mistake.what, 1, s.beat("x", "m", 0, nil, mistake.change))
	}
	s.describe("none")
	r := kmsg.NewPtrConsumerGroupDescribeRequest()
	r.Groups = []string{""}
	s.ask("describe without id", 0, r)
}

func (s *script) join(group, member string, change ...func(*kmsg.ConsumerGroupHeartbeatRequest)) int32 {
	return s.epoch(s.ask(member+" joins", 1, s.beat(group, member, 0, nil, change...)))
}

func (s *script) epoch(r kmsg.Response) int32 {
	return r.(*kmsg.ConsumerGroupHeartbeatResponse).MemberEpoch
}

func (s *script) lifeOfDynamicMembers() {
	one := s.join("d", "m1")
	s.describe("d")
	s.ask("m1 says what it has", 1, s.beat("d", "m1", one, []int32{0, 1, 2, 3}))
	s.ask("m1 says nothing", 1, s.beat("d", "m1", one, nil))
	s.ask("m1 with an epoch to come", 1, s.beat("d", "m1", one+1, nil))
	s.ask("m1 with an epoch long gone", 1, s.beat("d", "m1", one-1, nil))
	s.ask("m3, who is nobody", 1, s.beat("d", "m3", one, nil))
	two := s.join("d", "m2")
	s.ask("m2 again", 1, s.beat("d", "m2", two, nil))
	s.describe("d")
	s.commits("d", "m1", one)
	s.ask("m1 must revoke", 1, s.beat("d", "m1", one, []int32{0, 1, 2, 3}))
	s.describe("d")
	s.ask("m1 has not revoked", 1, s.beat("d", "m1", one, []int32{0, 1, 2}))
	s.commits("d", "m1", one)
	next := s.epoch(s.ask("m1 has revoked", 1, s.beat("d", "m1", one, []int32{0, 1})))
	s.describe("d")
	s.ask("m1 has not seen the answer", 1, s.beat("d", "m1", one, []int32{0, 1}))
	s.ask("m1 has not seen the answer and claims too much", 1, s.beat("d", "m1", one, []int32{0, 1, 2}))
	s.ask("m2 gets the rest", 1, s.beat("d", "m2", two, []int32{}))
	s.describe("d")
	s.commits("d", "m1", next)
	s.ask("m2 owns the rest", 1, s.beat("d", "m2", two, []int32{2, 3}))
	s.ask("m2 wants another topic", 1, s.beat("d", "m2", two, nil, to("ta", "tb", "none")))
	s.describe("d")
	s.ask("m2 wants that topic only", 1, s.beat("d", "m2", two, nil, to("tb")))
	s.describe("d")
	s.lists("d")
	s.ask("m1 leaves", 1, s.beat("d", "m1", -1, nil))
	s.describe("d")
	s.ask("m1 leaves again", 1, s.beat("d", "m1", -1, nil))
	s.ask("m2 hears of it", 1, s.beat("d", "m2", two, []int32{}, to("ta")))
	s.describe("d")
	groups := kmsg.NewPtrDeleteGroupsRequest()
	groups.Groups = []string{s.group + "d"}
	s.ask("delete with a member", 2, groups)
	s.ask("m2 leaves", 1, s.beat("d", "m2", -1, nil))
	s.describe("d")
	s.lists("d")
	s.ask("commit outside, empty", 9, commitReq(s.group+"d", -1, "", "ta", 42, 0))
	s.ask("delete without members", 2, groups)
	s.describe("d")
}

// commits commits and fetches as a member may, and as it may not.
func (s *script) commits(group, member string, epoch int32) {
	g := s.group + group
	s.ask("commit", 9, commitReq(g, epoch, member, "ta", 42, 0))
	s.ask("commit of a partition to revoke", 9, commitReq(g, epoch, member, "ta", 42, 3))
	s.ask("commit of an earlier epoch", 9, commitReq(g, epoch-1, member, "ta", 43, 0))
	s.ask("commit of a later epoch", 9, commitReq(g, epoch+1, member, "ta", 43, 0))
	s.ask("commit of another's partition", 9, commitReq(g, epoch, member, "tb", 43, 0))
	s.ask("commit of nobody", 9, commitReq(g, epoch, "nobody", "ta", 43, 0))
	s.ask("commit outside", 9, commitReq(g, -1, "", "ta", 43, 0))
	s.ask("commit as of old", 8, commitReq(g, epoch, member, "ta", 43, 0))
	s.ask("commit by id", 10, byID(commitReq(g, epoch, member, "", 42, 0), s.topics["ta"]))
	for _, claim := range []struct {
		member *string
		epoch  int32
	}{{&member, epoch}, {&member, epoch + 1}, {ptr("nobody"), epoch}, {nil, -1}} {
		r := fetchReq(g, "ta", 0)
		r.Groups[0].MemberID, r.Groups[0].MemberEpoch = claim.member, claim.epoch
		s.ask("fetch", 9, r)
	}
}

func (s *script) lists(group string) {
	s.ask("describe as classic", 5, describeReq(s.group+group))
	s.ask("describe as classic", 6, describeReq(s.group+group))
	del := kmsg.NewPtrOffsetDeleteRequest()
	del.Group = s.group + group
	for _, name := range []string{"ta", "tb"} {
		del.Topics = append(del.Topics, kmsg.OffsetDeleteRequestTopic{Topic: name, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}})
	}
	s.ask("delete offsets", 0, del)
	for _, filter := range []string{"consumer", "Classic"} {
		r := kmsg.NewPtrListGroupsRequest()
		r.TypesFilter = []string{filter}
		s.ask("list "+filter, 5, r)
	}
	r := kmsg.NewPtrListGroupsRequest()
	r.StatesFilter = []string{"stable", "Reconciling", "assigning", "EMPTY"}
	s.ask("list by state", 4, r)
}

func (s *script) lifeOfStaticMembers() {
	one := s.join("s", "a1", as("i1"))
	s.join("s", "a2", as("i1"))
	s.join("s", "b1", as("i2"))
	s.ask("a1 revokes", 1, s.beat("s", "a1", one, []int32{0, 1}, as("i1")))
	s.describe("s")
	s.ask("another as i1", 1, s.beat("s", "x", one, nil, as("i1")))
	s.ask("an unknown instance", 1, s.beat("s", "a1", one, nil, as("i9")))
	s.ask("another pauses i1", 1, s.beat("s", "x", -2, nil, as("i1")))
	s.ask("i1 pauses", 1, s.beat("s", "a1", -2, nil, as("i1")))
	s.describe("s")
	s.ask("a1 goes on", 1, s.beat("s", "a1", one+1, nil, as("i1")))
	s.join("s", "a3", as("i1"))
	s.describe("s")
	s.ask("a1 is gone", 1, s.beat("s", "a1", one+1, nil, as("i1")))
	s.ask("i1 leaves", 1, s.beat("s", "a3", -1, nil, as("i1")))
	s.describe("s")
	s.ask("i2 leaves", 1, s.beat("s", "b1", -1, nil, as("i2")))
	s.describe("s")
}

func (s *script) assignors() {
	s.join("r", "m1", with("range"), to("ta", "tb"))
	s.join("r", "m2", with("range"), to("ta", "tb"))
	s.describe("r")
	s.join("r", "m3", with("uniform"), to("tb"))
	s.describe("r")
	s.ask("m1 changes its mind", 1, s.beat("r", "m1", 2, nil, with("uniform")))
	s.describe("r")
}

func (s *script) expressions() {
	one := s.join("e", "m1", matching("(ta|zz)"))
	s.wait(time.Second)
	s.describe("e")
	s.ask("m1 gets what matches", 1, s.beat("e", "m1", one, nil))
	s.describe("e")
	s.join("e", "m2", matching("(ta|zz)"))
	s.join("e", "m3", to("ta"))
	s.describe("e")
	s.ask("m1 takes another bad one", 1, s.beat("e", "m1", one+1, nil, matching("(")))
	s.ask("m1 takes names", 1, s.beat("e", "m1", one+1, nil, to("tb"), func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicRegex = ptr("") }))
	s.describe("e")
	s.ask("m2 leaves", 1, s.beat("e", "m2", -1, nil))
	s.describe("e")
}

// embedded is a subscription of the consumer protocol inside of the classic one.
func embedded(topic string) []byte {
	m := kmsg.ConsumerMemberMetadata{Version: 1, Topics: []string{topic}}
	return m.AppendTo(nil)
}

func assigned(topic string, partitions ...int32) []byte {
	m := kmsg.ConsumerMemberAssignment{Version: 1, Topics: []kmsg.ConsumerMemberAssignmentTopic{{Topic: topic, Partitions: partitions}}}
	return m.AppendTo(nil)
}

// classicJoin joins as a member of the classic protocol.
func (s *script) classicJoin(group, member string, instance *string) *kmsg.JoinGroupResponse {
	r := joinReq(s.group+group, member, "range")
	r.Protocols[0].Metadata, r.InstanceID = embedded("ta"), instance
	return s.ask("classic join", 9, r).(*kmsg.JoinGroupResponse)
}

func (s *script) classicSync(group string, j *kmsg.JoinGroupResponse, pairs ...string) {
	s.ask("classic sync", 5, syncReq(s.group+group, j, pairs...))
}

// upgrade turns a stable classic group into one of the consumer protocol, and back.
func (s *script) upgrade() {
	first := s.classicJoin("u", "", nil)
	j := s.classicJoin("u", first.MemberID, nil)
	s.classicSync("u", j, j.MemberID, string(assigned("ta", 0, 1, 2, 3)))
	s.describe("u")
	one := s.join("u", "m1")
	s.describe("u")
	s.lists("u")
	s.ask("classic heartbeat", 4, heartbeatReq(s.group+"u", j))
	s.ask("classic commit", 7, commitReq(s.group+"u", j.Generation, j.MemberID, "ta", 7, 0))
	s.ask("m1 waits", 1, s.beat("u", "m1", one, []int32{}))
	s.classicSync("u", j)
	again := s.classicJoin("u", j.MemberID, nil)
	s.describe("u")
	s.ask("classic heartbeat", 4, heartbeatReq(s.group+"u", again))
	s.classicSync("u", again)
	s.ask("m1 gets", 1, s.beat("u", "m1", one, []int32{}))
	s.describe("u")
	s.ask("classic heartbeat, old generation", 4, heartbeatReq(s.group+"u", j))
	s.ask("consumer heartbeat as the classic member", 4, heartbeatReq(s.group+"u", &kmsg.JoinGroupResponse{MemberID: "m1", Generation: one}))
	s.ask("m1 leaves", 1, s.beat("u", "m1", -1, nil))
	s.describe("u")
	s.ask("describe as classic", 6, describeReq(s.group+"u"))
	s.ask("classic heartbeat", 4, heartbeatReq(s.group+"u", again))
	last := s.classicJoin("u", j.MemberID, nil)
	s.classicSync("u", last, last.MemberID, string(assigned("ta", 0, 1, 2, 3)))
	s.ask("describe as classic", 6, describeReq(s.group+"u"))
	s.ask("classic leave", 4, leaveReq(s.group+"u", last.MemberID))
}

// classicMembers lets members of the classic protocol into a group of the consumer protocol.
func (s *script) classicMembers() {
	one := s.join("c", "m1")
	other := joinReq(s.group+"c", "", "range")
	other.ProtocolType = "connect"
	s.ask("classic join of another type", 9, other)
	broken := joinReq(s.group+"c", "made-up", "range")
	broken.Protocols[0].Metadata = []byte{0}
	s.ask("classic join with a broken subscription", 9, broken)
	first := s.classicJoin("c", "", nil)
	j := s.classicJoin("c", first.MemberID, nil)
	s.describe("c")
	s.classicSync("c", j)
	s.ask("m1 revokes", 1, s.beat("c", "m1", one, []int32{0, 1, 2, 3}))
	s.ask("m1 has revoked", 1, s.beat("c", "m1", one, []int32{0, 1}))
	s.ask("classic heartbeat", 4, heartbeatReq(s.group+"c", j))
	again := s.classicJoin("c", j.MemberID, nil)
	s.classicSync("c", again)
	wrong := syncReq(s.group+"c", again)
	wrong.Protocol = ptr("other")
	s.ask("classic sync of another protocol", 5, wrong)
	s.ask("classic heartbeat", 4, heartbeatReq(s.group+"c", again))
	leave := leaveReq(s.group+"c", again.MemberID, "nobody")
	leave.Members = append(leave.Members, kmsg.LeaveGroupRequestMember{InstanceID: ptr("i1")})
	s.ask("classic leave", 5, leave)
	s.describe("c")
	s.ask("m1 leaves", 1, s.beat("c", "m1", -1, nil))
}

// downgradeByReplacement replaces the last member of the consumer protocol by one of the classic protocol.
func (s *script) downgradeByReplacement() {
	s.join("p", "m1", as("i1"))
	j := s.classicJoin("p", "", ptr("i1"))
	s.describe("p")
	s.ask("describe as classic", 6, describeReq(s.group+"p"))
	sync := syncReq(s.group+"p", j)
	sync.InstanceID = ptr("i1")
	s.ask("classic sync", 5, sync)
	s.join("p", "m2", as("i1"))
	s.describe("p")
	s.ask("m2 leaves", 1, s.beat("p", "m2", -1, nil, as("i1")))
}

// emptyGroups turn into the other kind at once.
func (s *script) emptyGroups() {
	s.ask("commit outside", 9, commitReq(s.group+"o", -1, "", "ta", 42, 0))
	s.join("o", "m1")
	s.describe("o")
	s.ask("fetch", 8, fetchReq(s.group+"o", "ta", 0))
	s.ask("m1 leaves", 1, s.beat("o", "m1", -1, nil))
	first := s.classicJoin("o", "", nil)
	s.ask("describe as classic", 6, describeReq(s.group+"o"))
	s.ask("fetch", 8, fetchReq(s.group+"o", "ta", 0))
	s.classicJoin("o", first.MemberID, nil)
	connect := joinReq(s.group+"k", "", "x")
	connect.ProtocolType = "connect"
	s.ask("a connect group", 3, connect)
	s.join("k", "m1")
}

// normalise takes away what may be in any order.
// orderOfChecks asks what is wrong in two ways, and for what two members want differently.
func (s *script) orderOfChecks() {
	epoch := s.join("q", "m1", as("i1"), with("range"))
	s.join("q", "m2", with("uniform"))
	s.describe("q")
	join := joinReq(s.group+"q", "m2", "range")
	join.InstanceID, join.Protocols[0].Metadata = ptr("i1"), []byte{0, 3, 9}
	s.ask("another as i1, unreadable", 9, join)
	large := commitReq(s.group+"q", epoch-1, "m1", "ta", 5, 0)
	large.Topics[0].Partitions[0].Metadata = ptr(strings.Repeat("x", 5000))
	s.ask("large metadata of an earlier epoch", 9, large)
	s.ask("m1 leaves", 1, s.beat("q", "m1", -1, nil, as("i1")))
	s.ask("m2 leaves", 1, s.beat("q", "m2", -1, nil))
	s.ask("commit outside, new group", 9, commitReq(s.group+"qc", -1, "", "ta", 5, 0))
	join = joinReq(s.group+"qc", "nobody")
	s.ask("nobody joins without a protocol", 9, join)
	join = joinReq(s.group+"qc", "nobody", "range")
	s.ask("nobody joins", 9, join)
	join.ProtocolType = ""
	s.ask("nobody joins without a type", 9, join)
}

func (s *script) normalise(resp kmsg.Response) {
	normalise(resp)
	switch r := resp.(type) {
	case *kmsg.ConsumerGroupHeartbeatResponse:
		if r.Assignment != nil {
			slices.SortFunc(r.Assignment.Topics, func(a, b kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic) int {
				return cmp.Compare(s.nameOf(a.TopicID), s.nameOf(b.TopicID))
			})
			for i := range r.Assignment.Topics {
				slices.Sort(r.Assignment.Topics[i].Partitions)
			}
		}
	case *kmsg.ConsumerGroupDescribeResponse:
		for i := range r.Groups {
			members := r.Groups[i].Members
			slices.SortFunc(members, func(a, b kmsg.ConsumerGroupDescribeResponseGroupMember) int {
				return cmp.Or(cmp.Compare(a.MemberType, b.MemberType), cmp.Compare(a.MemberID, b.MemberID))
			})
			for j := range members {
				normaliseAssignment(&members[j].Assignment)
				normaliseAssignment(&members[j].TargetAssignment)
				slices.Sort(members[j].SubscribedTopics)
			}
		}
	case *kmsg.ListGroupsResponse:
		r.Groups = slices.DeleteFunc(r.Groups, func(g kmsg.ListGroupsResponseGroup) bool { return !strings.HasPrefix(g.Group, s.group) })
		if len(r.Groups) == 0 {
			r.Groups = nil
		}
		slices.SortFunc(r.Groups, func(a, b kmsg.ListGroupsResponseGroup) int { return cmp.Compare(a.Group, b.Group) })
	case *kmsg.LeaveGroupResponse:
		slices.SortFunc(r.Members, func(a, b kmsg.LeaveGroupResponseMember) int {
			return cmp.Or(cmp.Compare(b.ErrorCode, a.ErrorCode), cmp.Compare(a.MemberID, b.MemberID))
		})
	}
}

func normaliseAssignment(a *kmsg.Assignment) {
	slices.SortFunc(a.TopicPartitions, func(a, b kmsg.AssignmentTopicPartition) int { return cmp.Compare(a.Topic, b.Topic) })
	for i := range a.TopicPartitions {
		slices.Sort(a.TopicPartitions[i].Partitions)
	}
}

func (s *script) nameOf(id [16]byte) string {
	for name, known := range s.topics {
		if known == id {
			return name
		}
	}
	return ""
}
