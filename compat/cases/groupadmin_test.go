package cases

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/compat/raw"
)

// stableGroup makes a group with a member for each group.instance.id, a dynamic one for each empty one, and returns how their JoinGroup was
// answered.
func stableGroup(t testing.TB, b *server, group string, instances ...string) []*kmsg.JoinGroupResponse {
	t.Helper()
	conns, joined := make([]*raw.Conn, len(instances)), make([]*kmsg.JoinGroupResponse, len(instances))
	for i, instance := range instances {
		conns[i] = raw.Dial(t, b.Addr)
		r := joinRequest(3, group, "", 30_000, "range")
		if instance != "" {
			r = joinRequest(5, group, "", 30_000, "range")
			r.InstanceID = &instance
		}
		conns[i].Send(r)
		if i == 0 {
			joined[0] = raw.Receive[*kmsg.JoinGroupResponse](conns[0])
		}
	}
	if len(instances) > 1 { // the first one's generation is over
		again := joinRequest(5, group, joined[0].MemberID, 30_000, "range")
		if instances[0] != "" {
			again.InstanceID = &instances[0]
		}
		harness.Eventually(t, time.Minute, func() error { // once all have come
			if n := len(describe(t, raw.Dial(t, b.Addr), group).Members); n != len(instances) {
				return fmt.Errorf("%d members", n)
			}
			return nil
		})
		conns[0].Send(again)
		for i, c := range conns {
			joined[i] = raw.Receive[*kmsg.JoinGroupResponse](c)
		}
	}
	leader := slices.IndexFunc(joined, func(j *kmsg.JoinGroupResponse) bool { return j.ErrorCode == 0 && j.LeaderID == j.MemberID })
	if leader < 0 {
		t.Fatalf("nobody leads: %+v", joined)
	}
	for i := range joined {
		sync := raw.With(kmsg.NewPtrSyncGroupRequest(), 3)
		sync.Group, sync.MemberID, sync.Generation = group, joined[i].MemberID, joined[i].Generation
		if instances[i] != "" {
			sync.InstanceID = &instances[i]
		}
		if i == leader {
			for _, m := range joined[leader].Members {
				sync.GroupAssignment = append(sync.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: m.MemberID, MemberAssignment: []byte("a")})
			}
		}
		conns[i].Send(sync)
	}
	for _, c := range conns {
		wantCode(t, "sync", raw.Receive[*kmsg.SyncGroupResponse](c).ErrorCode, nil)
	}
	return joined
}

// newest is the newest version of an API that a broker has: one of 3.9, or one of 4.4.
func newest(b *server, of39, of44 int16) int16 {
	if b.Kind == harness.Kafka39 {
		return of39
	}
	return of44
}

// TestDescribeGroupsInEveryVersion: members from v0 on, what one may do from v3 on and if it is asked for, instances from v4 on; who is
// not there is Dead before v6.
func TestDescribeGroupsInEveryVersion(t *testing.T) { everywhere(t, describeGroupsInEveryVersion) }

func describeGroupsInEveryVersion(t *testing.T, b *server) {
	c := raw.Dial(t, b.Addr)
	group := name(t)
	ready(t, c, group)
	stableGroup(t, b, group, "i1", "")
	const notAsked = -1 << 31
	all := int32(3400) // READ, DELETE, DESCRIBE, and of configurations DESCRIBE and ALTER
	if b.Kind == harness.Kafka39 {
		all = 328
	}
	for version := int16(0); version <= newest(b, 5, 6); version++ {
		for _, include := range []bool{false, true} {
			r := raw.With(kmsg.NewPtrDescribeGroupsRequest(), version)
			r.Groups, r.IncludeAuthorizedOperations = []string{group, "nobody's"}, include
			answer := raw.Do[*kmsg.DescribeGroupsResponse](c, r)
			g, gone := answer.Groups[0], answer.Groups[1]
			if g.ErrorCode != 0 || g.State != "Stable" || g.ProtocolType != "consumer" || g.Protocol != "range" || len(g.Members) != 2 {
				t.Fatalf("v%d: %+v", version, g)
			}
			instances := 0
			for _, m := range g.Members {
				if m.ClientID != "compat" || m.ClientHost != "/127.0.0.1" || string(m.MemberAssignment) != "a" || len(m.ProtocolMetadata) == 0 {
					t.Errorf("v%d: %+v", version, m)
				}
				if m.InstanceID != nil && *m.InstanceID == "i1" {
					instances++
				}
			}
			if (instances == 1) != (version >= 4) {
				t.Errorf("v%d: %d instances of %+v", version, instances, g.Members)
			}
			want, wantGone := int32(notAsked), int32(notAsked)
			if include && version >= 3 {
				want, wantGone = all, all
			}
			if version >= 6 {
				wantCode(t, "who is not there", gone.ErrorCode, kerr.GroupIDNotFound)
				wantGone = notAsked
			} else {
				wantCode(t, "who is not there", gone.ErrorCode, nil)
			}
			if gone.State != "Dead" || gone.AuthorizedOperations != wantGone || g.AuthorizedOperations != want {
				t.Errorf("v%d, asked %v: operations %d, want %d; of a %s group %d, want %d", version, include,
					g.AuthorizedOperations, want, gone.State, gone.AuthorizedOperations, wantGone)
			}
		}
	}
}

// TestListGroupsInEveryVersion: states from v4 on, which may be filtered by, as types may from v5 on.
func TestListGroupsInEveryVersion(t *testing.T) { everywhere(t, listGroupsInEveryVersion) }

func listGroupsInEveryVersion(t *testing.T, b *server) {
	c := raw.Dial(t, b.Addr)
	stable, simple := name(t), name(t)
	ready(t, c, stable)
	stableGroup(t, b, stable, "")
	topic := topic(t, b, 1)
	wantCode(t, "commit", commit(t, c, commitRequest(simple, "", -1, topic, "", 0))[0].ErrorCode, nil)
	for _, ask := range []struct {
		from          int16
		states, types []string
		stable        bool
		simple        bool
	}{
		{0, nil, nil, true, true},
		{4, []string{"Stable"}, nil, true, false},
		{4, []string{"stable"}, nil, true, false},
		{4, []string{"Empty", "Dead"}, nil, false, true},
		{4, []string{"Stable", "Empty"}, nil, true, true},
		{4, []string{"PreparingRebalance", "CompletingRebalance"}, nil, false, false},
		{4, []string{"nonsense"}, nil, false, false},
		{5, nil, []string{"classic"}, true, true},
		{5, nil, []string{"Classic"}, true, true},
		{5, nil, []string{"consumer"}, false, false},
		{5, nil, []string{"consumer", "classic"}, true, true},
		{5, []string{"Empty"}, []string{"classic"}, false, true},
	} {
		for version := ask.from; version <= 5; version++ {
			r := raw.With(kmsg.NewPtrListGroupsRequest(), version)
			r.StatesFilter, r.TypesFilter = ask.states, ask.types
			answer := raw.Do[*kmsg.ListGroupsResponse](c, r)
			wantCode(t, "list", answer.ErrorCode, nil)
			for group, listed := range map[string]bool{stable: ask.stable, simple: ask.simple} {
				i := slices.IndexFunc(answer.Groups, func(g kmsg.ListGroupsResponseGroup) bool { return g.Group == group })
				if (i >= 0) != listed {
					t.Errorf("v%d, states %v, types %v: %s is listed: %v", version, ask.states, ask.types, group, i >= 0)
				}
				if i < 0 {
					continue
				}
				want := kmsg.NewListGroupsResponseGroup()
				want.Group, want.GroupState = group, "Empty"
				if group == stable {
					want.ProtocolType, want.GroupState = "consumer", "Stable"
				}
				if version < 4 {
					want.GroupState = ""
				}
				if version >= 5 {
					want.GroupType = "classic"
				}
				if g := answer.Groups[i]; g.ProtocolType != want.ProtocolType || g.GroupState != want.GroupState || g.GroupType != want.GroupType {
					t.Errorf("v%d: listed is %+v, want %+v", version, g, want)
				}
			}
		}
	}
}

// TestLeaveGroupInEveryVersion: one member before v3, and from then on a batch, each with its own error, in which an administrator names
// static members by instance alone.
func TestLeaveGroupInEveryVersion(t *testing.T) { everywhere(t, leaveGroupInEveryVersion) }

func leaveGroupInEveryVersion(t *testing.T, b *server) {
	c := raw.Dial(t, b.Addr)
	ready(t, c, name(t))
	for version := int16(0); version <= 2; version++ {
		group := name(t)
		joined := stableGroup(t, b, group, "")
		r := raw.With(kmsg.NewPtrLeaveGroupRequest(), version)
		r.Group, r.MemberID = group, "somebody"
		wantCode(t, fmt.Sprintf("v%d: somebody leaves", version), raw.Do[*kmsg.LeaveGroupResponse](c, r).ErrorCode, kerr.UnknownMemberID)
		r.MemberID = joined[0].MemberID
		wantCode(t, fmt.Sprintf("v%d: the member leaves", version), raw.Do[*kmsg.LeaveGroupResponse](c, r).ErrorCode, nil)
		wantCode(t, fmt.Sprintf("v%d: the member leaves again", version), raw.Do[*kmsg.LeaveGroupResponse](c, r).ErrorCode, kerr.UnknownMemberID)
	}
	for version := int16(3); version <= 5; version++ {
		group := name(t)
		joined := stableGroup(t, b, group, "i1", "i2", "", "i4")
		r := raw.With(kmsg.NewPtrLeaveGroupRequest(), version)
		r.Group = group
		leaving := []struct {
			member, instance string
			want             *kerr.Error
		}{
			{"somebody", "", kerr.UnknownMemberID},
			{"", "i1", nil},
			{"", "i1", kerr.UnknownMemberID},
			{joined[0].MemberID, "", kerr.UnknownMemberID},
			{joined[2].MemberID, "i2", kerr.FencedInstanceID},
			{joined[1].MemberID, "i2", nil},
			{"", "i9", kerr.UnknownMemberID},
			{joined[2].MemberID, "", nil},
			{joined[2].MemberID, "", kerr.UnknownMemberID},
		}
		for _, l := range leaving {
			m := kmsg.NewLeaveGroupRequestMember()
			m.MemberID = l.member
			if l.instance != "" {
				m.InstanceID = &l.instance
			}
			if version >= 5 {
				m.Reason = kmsg.StringPtr("the test is over")
			}
			r.Members = append(r.Members, m)
		}
		answer := raw.Do[*kmsg.LeaveGroupResponse](c, r)
		wantCode(t, "the batch", answer.ErrorCode, nil)
		if len(answer.Members) != len(leaving) {
			t.Fatalf("v%d: %d answers", version, len(answer.Members))
		}
		for i, l := range leaving {
			m := answer.Members[i]
			wantCode(t, fmt.Sprintf("v%d: %q with instance %q", version, l.member, l.instance), m.ErrorCode, l.want)
			if m.MemberID != l.member || (m.InstanceID == nil) != (l.instance == "") || m.InstanceID != nil && *m.InstanceID != l.instance {
				t.Errorf("v%d: answer %d is about %+v, asked was %+v", version, i, m, l)
			}
		}
		if d := describe(t, c, group); d.State != "PreparingRebalance" || len(d.Members) != 1 || d.Members[0].MemberID != joined[3].MemberID {
			t.Errorf("v%d: the group is %s with %+v", version, d.State, d.Members)
		}
		r.Members = nil
		if answer := raw.Do[*kmsg.LeaveGroupResponse](c, r); answer.ErrorCode != 0 || len(answer.Members) != 0 {
			t.Errorf("v%d: nobody leaves: %+v", version, answer)
		}
	}
}
