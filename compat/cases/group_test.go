package cases

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/compat/raw"
)

// joinRequest asks to join a consumer group with one protocol.
func joinRequest(version int16, group, member string, sessionMs int32, protocols ...string) *kmsg.JoinGroupRequest {
	r := raw.With(kmsg.NewPtrJoinGroupRequest(), version)
	r.Group, r.MemberID, r.ProtocolType = group, member, "consumer"
	r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = sessionMs, 10_000
	for _, protocol := range protocols {
		r.Protocols = append(r.Protocols, kmsg.JoinGroupRequestProtocol{Name: protocol, Metadata: []byte{0, 1, 0, 0, 0, 0, 255, 255, 255, 255}})
	}
	return r
}

// ready finds the coordinator of a group, which creates the internal topic, and waits until it answers for the group.
func ready(t testing.TB, c *raw.Conn, group string) {
	t.Helper()
	harness.Eventually(t, time.Minute, func() error {
		find := raw.With(kmsg.NewPtrFindCoordinatorRequest(), 3)
		find.CoordinatorKey = group
		if err := kerr.ErrorForCode(raw.Do[*kmsg.FindCoordinatorResponse](c, find).ErrorCode); err != nil {
			return err
		}
		return kerr.ErrorForCode(describe(t, c, group).ErrorCode)
	})
}

func describe(t testing.TB, c *raw.Conn, group string) kmsg.DescribeGroupsResponseGroup {
	t.Helper()
	r := raw.With(kmsg.NewPtrDescribeGroupsRequest(), 4)
	r.Groups = []string{group}
	answer := raw.Do[*kmsg.DescribeGroupsResponse](c, r)
	if len(answer.Groups) != 1 {
		t.Fatalf("%d groups described", len(answer.Groups))
	}
	return answer.Groups[0]
}

// joinWithID joins as a new member in the two steps of v4 and later, and returns the second answer.
func joinWithID(t testing.TB, c *raw.Conn, group string, protocols ...string) *kmsg.JoinGroupResponse {
	t.Helper()
	first := raw.Do[*kmsg.JoinGroupResponse](c, joinRequest(5, group, "", 10_000, protocols...))
	wantCode(t, "the first join", first.ErrorCode, kerr.MemberIDRequired)
	second := raw.Do[*kmsg.JoinGroupResponse](c, joinRequest(5, group, first.MemberID, 10_000, protocols...))
	wantCode(t, "the second join", second.ErrorCode, nil)
	return second
}

// TestG1MemberIDRequired: the first join of v4 and later only hands out an id, which expires unless it is used.
func TestG1MemberIDRequired(t *testing.T) { everywhere(t, g1MemberIDRequired) }

func g1MemberIDRequired(t *testing.T, b *server) {
	c := raw.Dial(t, b.Addr)
	group := name(t)
	ready(t, c, group)

	answer := raw.Do[*kmsg.JoinGroupResponse](c, joinRequest(4, group, "", 6000, "range"))
	wantCode(t, "join v4 without an id", answer.ErrorCode, kerr.MemberIDRequired)
	if answer.MemberID == "" || !strings.HasPrefix(answer.MemberID, "compat-") {
		t.Errorf("member id %q, want one that begins with the client id", answer.MemberID)
	}
	if d := describe(t, c, group); len(d.Members) != 0 {
		t.Errorf("a member that only has an id is described: %+v", d)
	}
	wantCode(t, "a heartbeat with an id only", raw.Do[*kmsg.HeartbeatResponse](c, heartbeat(group, answer.MemberID, 0)).ErrorCode, kerr.UnknownMemberID)
	harness.Elapse(t, 7*time.Second) // the id lives for the session timeout
	late := raw.Do[*kmsg.JoinGroupResponse](c, joinRequest(4, group, answer.MemberID, 6000, "range"))
	wantCode(t, "a join with an expired id", late.ErrorCode, kerr.UnknownMemberID)
}

func heartbeat(group, member string, generation int32) *kmsg.HeartbeatRequest {
	r := raw.With(kmsg.NewPtrHeartbeatRequest(), 3)
	r.Group, r.MemberID, r.Generation = group, member, generation
	return r
}

// TestG1Joins: who joins at once and who is refused.
func TestG1Joins(t *testing.T) { everywhere(t, g1Joins) }

func g1Joins(t *testing.T, b *server) {
	c := raw.Dial(t, b.Addr)
	ready(t, c, name(t))

	t.Run("v3 without an id", func(t *testing.T) {
		answer := raw.Do[*kmsg.JoinGroupResponse](c, joinRequest(3, name(t), "", 6000, "range"))
		wantCode(t, "join", answer.ErrorCode, nil)
		if answer.Generation != 1 || answer.LeaderID != answer.MemberID || answer.MemberID == "" || len(answer.Members) != 1 {
			t.Errorf("%+v: want generation 1 and the member as leader", answer)
		}
	})
	t.Run("static", func(t *testing.T) {
		r := joinRequest(5, name(t), "", 6000, "range")
		r.InstanceID = kmsg.StringPtr("i1")
		r.Protocols[0].Name = "range"
		answer := raw.Do[*kmsg.JoinGroupResponse](c, r)
		wantCode(t, "join", answer.ErrorCode, nil)
		if answer.Generation != 1 || !strings.HasPrefix(answer.MemberID, "i1-") {
			t.Errorf("%+v: want generation 1 and a member id that begins with the instance's", answer)
		}
	})
	t.Run("made-up id", func(t *testing.T) {
		group := name(t)
		answer := raw.Do[*kmsg.JoinGroupResponse](c, joinRequest(5, group, "made-up", 6000, "range"))
		wantCode(t, "join", answer.ErrorCode, kerr.UnknownMemberID)
		if d := describe(t, c, group); d.State != "Dead" {
			t.Errorf("the group is %s, want Dead: not created", d.State)
		}
	})
	t.Run("session timeout", func(t *testing.T) {
		answer := raw.Do[*kmsg.JoinGroupResponse](c, joinRequest(5, name(t), "", 1, "range"))
		wantCode(t, "a session timeout of 1 ms", answer.ErrorCode, kerr.InvalidSessionTimeout)
		answer = raw.Do[*kmsg.JoinGroupResponse](c, joinRequest(5, name(t), "", 1_800_001, "range"))
		wantCode(t, "a session timeout above 30 minutes", answer.ErrorCode, kerr.InvalidSessionTimeout)
	})
	t.Run("protocols", func(t *testing.T) {
		group := name(t)
		member := joinWithID(t, c, group, "range")
		if d := describe(t, c, group); d.State != "CompletingRebalance" || len(d.Members) != 1 {
			t.Errorf("the group is %s with %d members", d.State, len(d.Members))
		}
		answer := raw.Do[*kmsg.JoinGroupResponse](c, joinRequest(5, group, "", 6000, "sticky"))
		wantCode(t, "no common protocol", answer.ErrorCode, kerr.InconsistentGroupProtocol)
		r := joinRequest(5, group, "", 6000, "range")
		r.ProtocolType = "connect"
		wantCode(t, "another protocol type", raw.Do[*kmsg.JoinGroupResponse](c, r).ErrorCode, kerr.InconsistentGroupProtocol)
		newcomer := raw.Do[*kmsg.JoinGroupResponse](c, joinRequest(5, group, "", 6000, "range"))
		wantCode(t, "a newcomer's first join", newcomer.ErrorCode, kerr.MemberIDRequired)
		if d := describe(t, c, group); d.State != "CompletingRebalance" || len(d.Members) != 1 {
			t.Errorf("after a newcomer's first join the group is %s with %d members", d.State, len(d.Members))
		}
		wantCode(t, "the member's heartbeat then", raw.Do[*kmsg.HeartbeatResponse](c, heartbeat(group, member.MemberID, member.Generation)).ErrorCode, nil)
		wantCode(t, "no protocol", raw.Do[*kmsg.JoinGroupResponse](c, joinRequest(5, name(t), "", 6000)).ErrorCode, kerr.InconsistentGroupProtocol)
	})
	t.Run("empty group id", func(t *testing.T) {
		answer := raw.Do[*kmsg.JoinGroupResponse](c, joinRequest(5, "", "", 6000, "range"))
		wantCode(t, "join", answer.ErrorCode, kerr.InvalidGroupID)
	})
}

// commitRequest commits offset 1 of partitions of a topic.
func commitRequest(group, member string, generation int32, topic, metadata string, partitions ...int32) *kmsg.OffsetCommitRequest {
	r := raw.With(kmsg.NewPtrOffsetCommitRequest(), 7)
	r.Group, r.MemberID, r.Generation = group, member, generation
	asked := kmsg.NewOffsetCommitRequestTopic()
	asked.Topic = topic
	for _, partition := range partitions {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.Metadata = partition, 1, kmsg.StringPtr(metadata)
		asked.Partitions = append(asked.Partitions, p)
	}
	r.Topics = []kmsg.OffsetCommitRequestTopic{asked}
	return r
}

func commit(t testing.TB, c *raw.Conn, r *kmsg.OffsetCommitRequest) []kmsg.OffsetCommitResponseTopicPartition {
	t.Helper()
	answer := raw.Do[*kmsg.OffsetCommitResponse](c, r)
	if len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != len(r.Topics[0].Partitions) {
		t.Fatalf("commit answer %+v", answer)
	}
	return answer.Topics[0].Partitions
}

// TestG3Commits: who may commit what, when.
func TestG3Commits(t *testing.T) { everywhere(t, g3Commits) }

func g3Commits(t *testing.T, b *server) {
	c := raw.Dial(t, b.Addr)
	topic := topic(t, b, 1)
	group := name(t)
	ready(t, c, group)
	code := func(r *kmsg.OffsetCommitRequest) int16 { return commit(t, c, r)[0].ErrorCode }

	wantCode(t, "unknown group", code(commitRequest(group, "", -1, topic, "", 0)), nil)
	if d := describe(t, c, group); d.State != "Empty" || d.ProtocolType != "" {
		t.Errorf("the simple group is %s with protocol type %q, want Empty with none", d.State, d.ProtocolType)
	}
	wantCode(t, "empty group", code(commitRequest(group, "", -1, topic, "", 0)), nil)
	wantCode(t, "unknown group with a generation", code(commitRequest(name(t), "", 3, topic, "", 0)), kerr.IllegalGeneration)

	for _, p := range commit(t, c, commitRequest(group, "", -1, topic, "", 0, 9)) { // Kafka answers the refused one first
		want := map[int32]*kerr.Error{0: nil, 9: kerr.UnknownTopicOrPartition}[p.Partition]
		wantCode(t, fmt.Sprintf("partition %d", p.Partition), p.ErrorCode, want)
	}
	wantCode(t, "5000 bytes of metadata", code(commitRequest(group, "", -1, topic, strings.Repeat("m", 5000), 0)), kerr.OffsetMetadataTooLarge)
	wantCode(t, "4096 bytes of metadata", code(commitRequest(group, "", -1, topic, strings.Repeat("m", 4096), 0)), nil)

	group = name(t)
	joined := joinWithID(t, c, group, "range")
	wantCode(t, "while the group waits for its assignment",
		code(commitRequest(group, joined.MemberID, joined.Generation, topic, "", 0)), kerr.RebalanceInProgress)
	sync := raw.With(kmsg.NewPtrSyncGroupRequest(), 3)
	sync.Group, sync.MemberID, sync.Generation = group, joined.MemberID, joined.Generation
	sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: joined.MemberID, MemberAssignment: []byte("assigned")}}
	synced := raw.Do[*kmsg.SyncGroupResponse](c, sync)
	wantCode(t, "sync", synced.ErrorCode, nil)
	if string(synced.MemberAssignment) != "assigned" {
		t.Errorf("assignment %q", synced.MemberAssignment)
	}

	wantCode(t, "a member of a stable group", code(commitRequest(group, joined.MemberID, joined.Generation, topic, "", 0)), nil)
	wantCode(t, "nobody, to a stable group", code(commitRequest(group, "", -1, topic, "", 0)), kerr.UnknownMemberID)
	wantCode(t, "an older generation", code(commitRequest(group, joined.MemberID, joined.Generation-1, topic, "", 0)), kerr.IllegalGeneration)

	// Another member's join begins a rebalance, during which the first may still commit.
	other := raw.Dial(t, b.Addr)
	first := raw.Do[*kmsg.JoinGroupResponse](other, joinRequest(5, group, "", 10_000, "range"))
	other.Send(joinRequest(5, group, first.MemberID, 10_000, "range"))
	harness.Eventually(t, 30*time.Second, func() error {
		answer := raw.Do[*kmsg.HeartbeatResponse](c, heartbeat(group, joined.MemberID, joined.Generation))
		if answer.ErrorCode != kerr.RebalanceInProgress.Code {
			return fmt.Errorf("heartbeat answers %v", kerr.ErrorForCode(answer.ErrorCode))
		}
		return nil
	})
	wantCode(t, "while members are joining", code(commitRequest(group, joined.MemberID, joined.Generation, topic, "", 0)), nil)
}
