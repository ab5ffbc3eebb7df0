package groupcoord

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/wire/clock"
)

// To make the expected answers again: start the Apache Kafka, create the topic "t" with one partition, and run
//
//	go test ./groupcoord -run TestAnswersAsKafka/4.4.0 -kafka 127.0.0.1:9092
var kafka = flag.String("kafka", "", "address of an Apache Kafka whose answers become the expected ones")

// TestAnswersAsKafka sends the same requests to the coordinator as were sent to Apache Kafka, and compares the answers.
func TestAnswersAsKafka(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) { answersAs(t, version) })
	}
}

func answersAs(t *testing.T, version string) {
	file := "testdata/answers-" + version + ".txt"
	if *kafka != "" {
		c := dialKafka(t, *kafka)
		defer c.conn.Close()
		text := transcript(version, fmt.Sprintf("g%d-", clock.System.Now().Unix()), c.topicID(t), c.do)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	inBubble(t, func(s *Settings) { s.Kafka4 = version == "4.4.0" }, func(w *world) {
		wantLines := strings.Split(string(want), "\n")
		for i, line := range strings.Split(transcript(version, "g-", [16]byte{1}, w.do), "\n") {
			if i >= len(wantLines) || line != wantLines[i] {
				t.Errorf("line %d\n got %s\nwant %s", i+1, line, wantLines[min(i, len(wantLines)-1)])
			}
		}
	})
}

// newer are the versions that Kafka 3.9 does not know.
var newer = map[int16]int16{8: 10, 9: 10, 15: 6}

// transcript sends requests about groups whose names begin with g and returns what was answered, without what is different
// each time.
func transcript(kafka, g string, topicID [16]byte, do func(v int16, r kmsg.Request) kmsg.Response) string {
	var b strings.Builder
	ids := regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`)
	seen := map[string]string{}
	ask := func(what string, v int16, r kmsg.Request) kmsg.Response {
		if first, ok := newer[r.Key()]; ok && v >= first && kafka == "3.9.2" {
			return nil
		}
		resp := do(v, r)
		normalise(resp)
		text, _ := json.Marshal(resp)
		line := ids.ReplaceAllStringFunc(string(text), func(id string) string {
			if seen[id] == "" {
				seen[id] = fmt.Sprintf("uuid%d", len(seen)+1)
			}
			return seen[id]
		})
		idText, _ := json.Marshal(topicID)
		line = strings.ReplaceAll(strings.ReplaceAll(line, g, "G-"), string(idText), `"T"`)
		line = regexp.MustCompile(`,?"UnknownTags":\{\}`).ReplaceAllString(line, "")
		fmt.Fprintf(&b, "%s: v%d %s\n", what, v, line)
		return resp
	}
	askOutside(g, topicID, ask)
	askDynamic(g, ask)
	askStatic(g, ask)
	return b.String()
}

type asker func(what string, v int16, r kmsg.Request) kmsg.Response

func byID(r *kmsg.OffsetCommitRequest, id [16]byte) *kmsg.OffsetCommitRequest {
	r.Topics[0].TopicID = id
	return r
}

func fetchByID(r *kmsg.OffsetFetchRequest, id [16]byte) *kmsg.OffsetFetchRequest {
	r.Groups[0].Topics[0].TopicID = id
	return r
}

// askOutside asks what needs no members.
func askOutside(g string, id [16]byte, ask asker) {
	bad := [16]byte{3: 9}
	for _, v := range []int16{0, 5, 6} {
		ask("describe unknown", v, describeReq(g+"x"))
	}
	none := &kmsg.JoinGroupResponse{MemberID: "x", Generation: 1}
	ask("heartbeat unknown", 4, heartbeatReq(g+"x", none))
	ask("sync unknown", 5, syncReq(g+"x", none))
	incomplete := syncReq(g+"x", none)
	incomplete.Protocol = nil
	ask("sync without protocol", 5, incomplete)
	for _, v := range []int16{2, 5} {
		ask("leave unknown", v, leaveReq(g+"x", "x"))
		ask("leave without group id", v, leaveReq("", "x"))
	}
	ask("commit to unknown group", 7, commitReq(g+"d", 3, "", "t", 42, 0))
	ask("commit to unknown group", 9, commitReq(g+"d", 3, "m", "t", 42, 0))
	ask("commit outside", 7, commitReq(g+"a", -1, "", "t", 42, 0))
	ask("commit outside with member", 7, commitReq(g+"aa", -1, "mm", "t", 42, 0))
	ask("commit of unknown partition", 7, commitReq(g+"f", -1, "", "t", 42, 0, 9))
	ask("commit of unknown topic", 7, commitReq(g+"f", 5, "", "nope", 42, 0, 9))
	ask("commit by id", 10, byID(commitReq(g+"v10", -1, "", "", 42, 0, 9), id))
	ask("commit by unknown id", 10, byID(commitReq(g+"v10", -1, "", "", 42, 0), bad))
	big := commitReq(g+"f", -1, "", "t", 42, 0)
	big.Topics[0].Partitions[0].Metadata = ptr(strings.Repeat("x", 4097))
	ask("commit of long metadata", 7, big)
	kept := commitReq(g+"ret", -1, "", "t", 42, 0)
	kept.RetentionTimeMillis = 100000
	ask("commit with retention", 2, kept)
	for _, v := range []int16{8, 9, 10} {
		ask("fetch", v, fetchByID(fetchReq(g+"a", "t", 0, 9), id))
		ask("fetch all", v, fetchReq(g+"a", "t"))
		ask("fetch of unknown group", v, fetchByID(fetchReq(g+"none", "t", 0), id))
		ask("fetch all of unknown group", v, fetchReq(g+"none", "t"))
	}
	ask("fetch of unknown topic", 9, fetchReq(g+"a", "nope", 0))
	ask("fetch by unknown id", 10, fetchByID(fetchReq(g+"a", "t", 0, 1), bad))
	ask("fetch all", 5, fetchReq(g+"a", "t"))
	ask("fetch", 1, fetchReq(g+"a", "t", 0))
	ask("join with unknown member id", 5, joinReq(g+"new", "made-up", "range"))
	short := joinReq(g+"new", "", "range")
	short.SessionTimeoutMillis = 1
	ask("join with short session", 9, short)
	ask("join without group id", 9, joinReq("", "", "range"))
	ask("join without protocols", 9, joinReq(g+"np", ""))
}

// askDynamic leads a group with one dynamic member through its life.
func askDynamic(g string, ask asker) {
	first := ask("join", 9, joinReq(g, "", "range", "sticky")).(*kmsg.JoinGroupResponse)
	j := ask("join with id", 9, joinReq(g, first.MemberID, "range", "sticky")).(*kmsg.JoinGroupResponse)
	ask("join of other protocol", 9, joinReq(g, "", "zzz"))
	ask("join again while completing", 9, joinReq(g, first.MemberID, "range", "sticky"))
	ask("commit while completing", 7, commitReq(g, j.Generation, j.MemberID, "t", 42, 0))
	ask("describe completing", 5, describeReq(g))
	ask("sync", 5, syncReq(g, j, j.MemberID, "abc"))
	other := syncReq(g, j)
	other.Protocol = ptr("zz")
	ask("sync of other protocol", 5, other)
	ask("describe stable", 5, describeReq(g))
	ask("commit outside, stable", 7, commitReq(g, -1, "", "t", 42, 0))
	ask("commit without generation, stable", 7, commitReq(g, -1, j.MemberID, "t", 42, 0))
	ask("commit of other generation", 9, commitReq(g, 7, j.MemberID, "t", 42, 0))
	ask("commit", 9, commitReq(g, j.Generation, j.MemberID, "t", 42, 0))
	list := kmsg.NewPtrListGroupsRequest()
	list.TypesFilter, list.StatesFilter = []string{"CLASSIC"}, []string{" sTABLE "}
	ask("list stable", 5, list)
	list.TypesFilter = []string{"nonsense"}
	ask("list nonsense", 5, list)
	del := kmsg.NewPtrOffsetDeleteRequest()
	part := func(p int32) kmsg.OffsetDeleteRequestTopicPartition {
		return kmsg.OffsetDeleteRequestTopicPartition{Partition: p}
	}
	del.Topics = []kmsg.OffsetDeleteRequestTopic{
		{Topic: "t", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{part(0), part(5)}},
		{Topic: "nope", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{part(0)}},
	}
	for _, id := range []string{g, g + "a", g + "a", g + "none", ""} {
		del.Group = id
		ask("delete offsets", 0, del)
	}
	ask("describe without offsets", 5, describeReq(g+"a"))
	groups := kmsg.NewPtrDeleteGroupsRequest()
	groups.Groups = []string{g, g + "none", g + "v10", g + "v10"}
	ask("delete groups", 2, groups)
	leave := leaveReq(g, j.MemberID, "other")
	leave.Members = append(leave.Members, kmsg.LeaveGroupRequestMember{InstanceID: ptr("i")})
	ask("leave", 5, leave)
	ask("describe empty", 5, describeReq(g))
	ask("commit with generation, empty", 9, commitReq(g, 1, j.MemberID, "t", 42, 0))
	ask("commit outside, empty", 9, commitReq(g, -1, "", "t", 42, 0))
	ask("heartbeat, empty", 4, heartbeatReq(g, j))
	ask("sync, empty", 5, syncReq(g, j))
}

// askStatic leads a group with one static member through its life.
func askStatic(g string, ask asker) {
	g += "s"
	a := ask("static join", 5, staticReq(g, "", "i1")).(*kmsg.JoinGroupResponse)
	sync := syncReq(g, a, a.MemberID, "abc")
	sync.InstanceID = ptr("i1")
	ask("static sync", 5, sync)
	ask("static join again", 9, staticReq(g, "", "i1"))
	ask("static join again", 8, staticReq(g, "", "i1"))
	beat := heartbeatReq(g, a)
	beat.InstanceID = ptr("i1")
	ask("fenced heartbeat", 4, beat)
	commit := commitReq(g, 1, a.MemberID, "t", 42, 0)
	commit.InstanceID = ptr("i1")
	ask("fenced commit", 7, commit)
	ask("fenced sync", 5, sync)
	ask("fenced join", 9, staticReq(g, a.MemberID, "i1"))
	leave := leaveReq(g, a.MemberID)
	leave.Members[0].InstanceID = ptr("i1")
	leave.Members = append(leave.Members, kmsg.LeaveGroupRequestMember{InstanceID: ptr("i1")})
	ask("fenced leave, then by an administrator", 5, leave)
	ask("describe empty", 5, describeReq(g))
}

// normalise takes away what may be in any order.
func normalise(resp kmsg.Response) {
	switch r := resp.(type) {
	case *kmsg.OffsetCommitResponse:
		for i := range r.Topics {
			slices.SortFunc(r.Topics[i].Partitions, func(a, b kmsg.OffsetCommitResponseTopicPartition) int { return cmp.Compare(a.Partition, b.Partition) })
		}
	case *kmsg.OffsetDeleteResponse:
		for i := range r.Topics {
			slices.SortFunc(r.Topics[i].Partitions, func(a, b kmsg.OffsetDeleteResponseTopicPartition) int { return cmp.Compare(a.Partition, b.Partition) })
		}
	case *kmsg.DeleteGroupsResponse:
		slices.SortFunc(r.Groups, func(a, b kmsg.DeleteGroupsResponseGroup) int { return cmp.Compare(a.Group, b.Group) })
	}
}

// kafkaConn is a connection to a real broker.
type kafkaConn struct {
	t           *testing.T
	conn        net.Conn
	correlation int32
}

func dialKafka(t *testing.T, addr string) *kafkaConn {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return &kafkaConn{t: t, conn: conn}
}

func (c *kafkaConn) do(v int16, r kmsg.Request) kmsg.Response {
	resp, err := c.ask(v, r)
	if err != nil {
		c.t.Fatalf("%T: %v", r, err)
	}
	return resp
}

func (c *kafkaConn) ask(v int16, r kmsg.Request) (kmsg.Response, error) {
	r.SetVersion(v)
	c.correlation++
	f := kmsg.NewRequestFormatter(kmsg.FormatterClientID("probe"))
	var size [4]byte
	if _, err := c.conn.Write(f.AppendRequest(nil, r, c.correlation)); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(c.conn, size[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c.conn, body); err != nil {
		return nil, err
	}
	body = body[4:]
	if r.IsFlexible() {
		body = body[1:]
	}
	resp := r.ResponseKind()
	return resp, resp.ReadFrom(body)
}

func (c *kafkaConn) topicID(t *testing.T) [16]byte {
	r := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = ptr("t")
	r.Topics = append(r.Topics, topic)
	return c.do(12, r).(*kmsg.MetadataResponse).Topics[0].TopicID
}
