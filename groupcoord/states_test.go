package groupcoord

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var update = flag.Bool("update", false, "write testdata/states-*.txt anew")

// situation brings the group "g" into a state; the returned answer is of its member, whom the events are about.
type situation struct {
	name  string
	enter func(w *world) *kmsg.JoinGroupResponse
}

var nobody = &kmsg.JoinGroupResponse{MemberID: "nobody", Generation: 1}

var situations = []situation{
	{"absent", func(w *world) *kmsg.JoinGroupResponse { return nobody }},
	{"simple", func(w *world) *kmsg.JoinGroupResponse {
		w.do(8, commitReq("g", -1, "", "t", 1, 0))
		return nobody
	}},
	{"promised", func(w *world) *kmsg.JoinGroupResponse {
		return w.do(9, joinReq("g", "", "range")).(*kmsg.JoinGroupResponse)
	}},
	{"empty", func(w *world) *kmsg.JoinGroupResponse {
		j := w.stable("g")
		w.do(4, leaveReq("g", j.MemberID))
		return j
	}},
	{"first rebalance", func(w *world) *kmsg.JoinGroupResponse {
		j := w.do(9, joinReq("g", "", "range")).(*kmsg.JoinGroupResponse)
		w.background(w.send(9, joinReq("g", j.MemberID, "range")))
		return j
	}},
	{"preparing, member expected", func(w *world) *kmsg.JoinGroupResponse {
		j := w.stable("g")
		other := w.do(9, joinReq("g", "", "range")).(*kmsg.JoinGroupResponse)
		w.background(w.send(9, joinReq("g", other.MemberID, "range")))
		return j
	}},
	{"preparing, member waits", func(w *world) *kmsg.JoinGroupResponse {
		j := w.stable("g")
		w.do(9, joinReq("g", "", "range"))
		w.background(w.send(9, joinReq("g", j.MemberID, "range")))
		return j
	}},
	{"preparing, static member expected", func(w *world) *kmsg.JoinGroupResponse {
		j := w.stableStatic("g")
		w.background(w.send(3, joinReq("g", "", "range")))
		return j
	}},
	{"completing", func(w *world) *kmsg.JoinGroupResponse { return w.join("g") }},
	{"completing, static", func(w *world) *kmsg.JoinGroupResponse {
		return w.do(9, staticReq("g", "", "i1")).(*kmsg.JoinGroupResponse)
	}},
	{"stable", func(w *world) *kmsg.JoinGroupResponse { return w.stable("g") }},
	{"stable, another promised", func(w *world) *kmsg.JoinGroupResponse {
		w.stable("g")
		return w.do(9, joinReq("g", "", "range")).(*kmsg.JoinGroupResponse)
	}},
	{"stable, static", func(w *world) *kmsg.JoinGroupResponse { return w.stableStatic("g") }},
	{"stable, loaded again", func(w *world) *kmsg.JoinGroupResponse {
		j := w.stable("g")
		w.restart()
		return j
	}},
}

// stableStatic makes a stable group with one static member.
func (w *world) stableStatic(group string) *kmsg.JoinGroupResponse {
	w.t.Helper()
	j := w.do(9, staticReq(group, "", "i1")).(*kmsg.JoinGroupResponse)
	w.codeIs("sync", w.do(5, syncReq(group, j, j.MemberID, "all")), 0)
	return j
}

// background lets a request wait for as long as it wants.
func (w *world) background(<-chan kmsg.Response) { w.settle() }

var happenings = []struct {
	name string
	send func(w *world, j *kmsg.JoinGroupResponse) <-chan kmsg.Response
}{
	{"join v4 as new", func(w *world, _ *kmsg.JoinGroupResponse) <-chan kmsg.Response {
		return w.send(4, joinReq("g", "", "range"))
	}},
	{"join v3 as new", func(w *world, _ *kmsg.JoinGroupResponse) <-chan kmsg.Response {
		return w.send(3, joinReq("g", "", "range"))
	}},
	{"join as static", func(w *world, _ *kmsg.JoinGroupResponse) <-chan kmsg.Response {
		return w.send(9, staticReq("g", "", "i1"))
	}},
	{"join as member", func(w *world, j *kmsg.JoinGroupResponse) <-chan kmsg.Response {
		return w.send(9, joinReq("g", j.MemberID, "range"))
	}},
	{"join as member, more protocols", func(w *world, j *kmsg.JoinGroupResponse) <-chan kmsg.Response {
		return w.send(9, joinReq("g", j.MemberID, "sticky", "range"))
	}},
	{"join as member, other protocol", func(w *world, j *kmsg.JoinGroupResponse) <-chan kmsg.Response {
		return w.send(9, joinReq("g", j.MemberID, "sticky"))
	}},
	{"join as static member", func(w *world, j *kmsg.JoinGroupResponse) <-chan kmsg.Response {
		return w.send(9, staticReq("g", j.MemberID, "i1"))
	}},
	{"join as stranger", func(w *world, _ *kmsg.JoinGroupResponse) <-chan kmsg.Response {
		return w.send(9, joinReq("g", "stranger", "range"))
	}},
	{"sync", func(w *world, j *kmsg.JoinGroupResponse) <-chan kmsg.Response {
		return w.send(5, syncReq("g", j, j.MemberID, "all"))
	}},
	{"sync as static member", func(w *world, j *kmsg.JoinGroupResponse) <-chan kmsg.Response {
		r := syncReq("g", j, j.MemberID, "all")
		r.InstanceID = ptr("i1")
		return w.send(5, r)
	}},
	{"sync, other generation", func(w *world, j *kmsg.JoinGroupResponse) <-chan kmsg.Response {
		other := *j
		other.Generation += 5
		return w.send(5, syncReq("g", &other))
	}},
	{"heartbeat", func(w *world, j *kmsg.JoinGroupResponse) <-chan kmsg.Response { return w.send(4, heartbeatReq("g", j)) }},
	{"heartbeat as static member", func(w *world, j *kmsg.JoinGroupResponse) <-chan kmsg.Response {
		r := heartbeatReq("g", j)
		r.InstanceID = ptr("i1")
		return w.send(4, r)
	}},
	{"heartbeat as its predecessor", func(w *world, j *kmsg.JoinGroupResponse) <-chan kmsg.Response {
		r := heartbeatReq("g", j)
		r.InstanceID, r.MemberID = ptr("i1"), "predecessor"
		return w.send(4, r)
	}},
	{"heartbeat, other generation", func(w *world, j *kmsg.JoinGroupResponse) <-chan kmsg.Response {
		other := *j
		other.Generation += 5
		return w.send(4, heartbeatReq("g", &other))
	}},
	{"leave", func(w *world, j *kmsg.JoinGroupResponse) <-chan kmsg.Response {
		return w.send(4, leaveReq("g", j.MemberID))
	}},
	{"leave by instance", func(w *world, _ *kmsg.JoinGroupResponse) <-chan kmsg.Response {
		r := leaveReq("g")
		r.Members = []kmsg.LeaveGroupRequestMember{{InstanceID: ptr("i1")}}
		return w.send(4, r)
	}},
	{"leave as stranger", func(w *world, _ *kmsg.JoinGroupResponse) <-chan kmsg.Response {
		return w.send(4, leaveReq("g", "stranger"))
	}},
	{"commit", func(w *world, j *kmsg.JoinGroupResponse) <-chan kmsg.Response {
		return w.send(9, commitReq("g", j.Generation, j.MemberID, "t", 5, 0))
	}},
	{"commit, other generation", func(w *world, j *kmsg.JoinGroupResponse) <-chan kmsg.Response {
		return w.send(9, commitReq("g", j.Generation+5, j.MemberID, "t", 5, 0))
	}},
	{"commit as static member", func(w *world, j *kmsg.JoinGroupResponse) <-chan kmsg.Response {
		r := commitReq("g", j.Generation, j.MemberID, "t", 5, 0)
		r.InstanceID = ptr("i1")
		return w.send(9, r)
	}},
	{"commit in a transaction", func(w *world, j *kmsg.JoinGroupResponse) <-chan kmsg.Response {
		r := txnCommitReq("g", 7, 5)
		r.Generation, r.MemberID = j.Generation, j.MemberID
		return w.send(3, r)
	}},
	{"commit in a transaction, old client", func(w *world, _ *kmsg.JoinGroupResponse) <-chan kmsg.Response {
		return w.send(2, txnCommitReq("g", 7, 5))
	}},
	{"commit from outside", func(w *world, _ *kmsg.JoinGroupResponse) <-chan kmsg.Response {
		return w.send(9, commitReq("g", -1, "", "t", 5, 0))
	}},
	{"delete offsets", func(w *world, _ *kmsg.JoinGroupResponse) <-chan kmsg.Response {
		r := kmsg.NewPtrOffsetDeleteRequest()
		r.Group = "g"
		return w.send(0, r)
	}},
	{"delete offsets of a partition", func(w *world, _ *kmsg.JoinGroupResponse) <-chan kmsg.Response {
		return w.send(0, offsetDeleteReq())
	}},
	{"delete group", func(w *world, _ *kmsg.JoinGroupResponse) <-chan kmsg.Response {
		return w.send(2, deleteGroupReq())
	}},
	{"10 s pass", func(w *world, _ *kmsg.JoinGroupResponse) <-chan kmsg.Response {
		pass(10 * time.Second)
		return nil
	}},
	{"60 s pass", func(w *world, _ *kmsg.JoinGroupResponse) <-chan kmsg.Response {
		pass(time.Minute)
		return nil
	}},
	{"topic deleted", func(w *world, _ *kmsg.JoinGroupResponse) <-chan kmsg.Response {
		w.deleteTopic("t")
		return nil
	}},
	{"partition lost", func(w *world, _ *kmsg.JoinGroupResponse) <-chan kmsg.Response {
		w.c.Resigned(0, 9)
		return nil
	}},
}

// versions are those of the Apache Kafka whose answers ours are held to.
var versions = []string{"3.9.2", "4.4.0"}

func statesFile(version string) string { return "testdata/states-" + version + ".txt" }

// TestEveryStateAndEvent lets everything happen in every state. A file for each version of Kafka says what the answer is ("waits" if there
// is none yet) and the group's state and size afterwards.
func TestEveryStateAndEvent(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) { everyStateAndEvent(t, version) })
	}
}

func everyStateAndEvent(t *testing.T, version string) {
	var b strings.Builder
	for _, s := range situations {
		fmt.Fprintf(&b, "%s\n", s.name)
		for _, h := range happenings {
			settings := func(set *Settings) {
				set.Kafka4, set.Group.InitialRebalanceDelay = version == "4.4.0", initialDelay(s.name)
			}
			inBubble(t, settings, func(w *world) {
				j := s.enter(w)
				answer := h.send(w, j)
				synctest.Wait()
				fmt.Fprintf(&b, "  %-36s %-27s %s\n", h.name, outcome(answer), w.summary("g"))
			})
		}
	}
	file := statesFile(version)
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

func initialDelay(situation string) time.Duration {
	if situation == "first rebalance" {
		return 3 * time.Second
	}
	return 0
}

// deleteTopic deletes a topic with one partition; at an Apache Kafka it is there again afterwards, for the next one.
func (w *world) deleteTopic(name string) {
	if w.kafka != nil {
		w.kafka.recreate(name)
		return
	}
	w.topics.remove(name)
	w.c.TopicsDeleted([]string{name})
}

// outcome is the name of an answer's error.
func outcome(answer <-chan kmsg.Response) string {
	if answer == nil {
		return ""
	}
	select {
	case resp := <-answer:
		return codeName(codeOf(resp))
	default:
		return "waits"
	}
}

func codeName(code int16) string {
	if err := kerr.TypedErrorForCode(code); err != nil {
		return err.Message
	}
	return "NONE"
}

// offsetDeleteReq deletes what the group "g" has committed for a partition.
func offsetDeleteReq() *kmsg.OffsetDeleteRequest {
	r := kmsg.NewPtrOffsetDeleteRequest()
	r.Group = "g"
	r.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}}}
	return r
}

// deleteGroupReq deletes the group "g".
func deleteGroupReq() *kmsg.DeleteGroupsRequest {
	r := kmsg.NewPtrDeleteGroupsRequest()
	r.Groups = []string{"g"}
	return r
}

// summary is the state of a group, its generation and its members.
func (w *world) summary(group string) string {
	m := w.do(5, describeReq(group)).(*kmsg.DescribeGroupsResponse).Groups[0]
	if m.ErrorCode != 0 && m.State == "" {
		return kerr.TypedErrorForCode(m.ErrorCode).Message
	}
	return fmt.Sprintf("%s, members: %d", m.State, len(m.Members))
}
