package cases

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/raw"
)

var groupNeighbours = []neighbour{
	{"first-joins", "", joinNeighbours},         // G1
	{"pending-members", "", pendingNeighbours},  // G1
	{"static-members", "", staticNeighbours},    // G1
	{"coordinators", "", coordinatorNeighbours}, // G1
}

// group returns the name of a group that is noted under another, and whose coordinator is there.
func (k *talk) group(noted string) string {
	k.t.Helper()
	group := k.name(noted)
	ready(k.t, k.c, group)
	return group
}

// join notes the answer to a join, and returns the member id of it.
func (k *talk) join(what, noted string, version int16, r *kmsg.JoinGroupRequest) *kmsg.JoinGroupResponse {
	k.t.Helper()
	r.SetVersion(version)
	answer := raw.Do[*kmsg.JoinGroupResponse](k.c, r)
	if noted != "" && answer.MemberID != "" {
		prefix := "compat-"
		if r.InstanceID != nil {
			prefix = *r.InstanceID + "-"
		}
		if !strings.HasPrefix(answer.MemberID, prefix) {
			k.t.Errorf("the member id %q does not begin with %q", answer.MemberID, prefix)
		}
		k.call(answer.MemberID, noted)
	}
	k.note(what, answer)
	return answer
}

var joinVersions = both(0, 9, 2, 9)

func joinNeighbours(k *talk) {
	for _, version := range k.versions(joinVersions) {
		k.join("new", "", version, joinRequest(version, k.group("group"), "made-up", 6000, "range"))
		for _, session := range []int32{-1, 0, 1, 5999, 1_800_001} {
			k.join(fmt.Sprint("session of ", session), "", version, joinRequest(version, k.group("group"), "", session, "range"))
		}
		k.join("no protocols", "", version, joinRequest(version, k.group("group"), "", 6000))
		untyped := joinRequest(version, k.group("group"), "", 6000, "range")
		untyped.ProtocolType = ""
		k.join("no protocol type", "", version, untyped)
		k.join("no group", "", version, joinRequest(version, "", "", 6000, "range"))
		group := k.group("group")
		first := k.join("new", "first", version, joinRequest(version, group, "", 6000, "range", "roundrobin"))
		if first.ErrorCode != 0 {
			k.join("with the id", "first", version, joinRequest(version, group, first.MemberID, 6000, "range", "roundrobin"))
		}
		k.join("made up", "", version, joinRequest(version, group, "made-up", 6000, "range"))
		k.join("no common protocol", "", version, joinRequest(version, group, "", 6000, "sticky"))
		other := joinRequest(version, group, "", 6000, "range")
		other.ProtocolType = "connect"
		k.join("another type", "", version, other)
		k.join("another type of its own", "", version, joinRequest(version, group, first.MemberID, 6000, "range", "roundrobin"))
		k.describe(group)
	}
}

// describe notes what a group is.
func (k *talk) describe(group string) {
	k.t.Helper()
	d := describe(k.t, k.c, group)
	var members []string
	for _, m := range d.Members {
		members = append(members, m.MemberID)
	}
	k.say("%s is %s %s, type %q, protocol %q, members %v", d.Group, codeWord(d.ErrorCode), d.State, d.ProtocolType, d.Protocol, members)
}

func syncRequest(group, member string, generation int32) *kmsg.SyncGroupRequest {
	r := kmsg.NewPtrSyncGroupRequest()
	r.Group, r.MemberID, r.Generation = group, member, generation
	r.ProtocolType, r.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
	r.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: member, MemberAssignment: []byte("assigned")}}
	return r
}

func leaveRequest(group, member string, instance *string) *kmsg.LeaveGroupRequest {
	r := kmsg.NewPtrLeaveGroupRequest()
	r.Group, r.MemberID = group, member
	r.Members = []kmsg.LeaveGroupRequestMember{{MemberID: member, InstanceID: instance}}
	return r
}

// pendingNeighbours: who only has an id may do nothing but join or leave.
func pendingNeighbours(k *talk) {
	topic := k.topic("topic", 1)
	for _, version := range k.versions(both(0, 5, 0, 5)) {
		group := k.group("group")
		member := k.join("new", "member", 4, joinRequest(4, group, "", 6000, "range")).MemberID
		for _, generation := range []int32{-1, 0, 1} {
			k.ask(fmt.Sprint("generation ", generation), min(version, 4), heartbeat(group, member, generation))
			k.ask(fmt.Sprint("generation ", generation), version, syncRequest(group, member, generation))
			k.ask(fmt.Sprint("generation ", generation), min(version+2, 8), commitRequest(group, member, generation, topic, "", 0))
		}
		k.listed(group)
		k.ask("with an id only", version, leaveRequest(group, member, nil))
		k.ask("again", version, leaveRequest(group, member, nil))
		k.join("with the id that has left", "", 4, joinRequest(4, group, member, 6000, "range"))
		k.describe(group)
		k.listed(group)
	}
}

// listed notes whether a group is listed, in each version.
func (k *talk) listed(group string) {
	k.t.Helper()
	for _, version := range k.versions(both(0, 5, 0, 5)) {
		r := raw.With(kmsg.NewPtrListGroupsRequest(), version)
		listed := "is not listed"
		for _, g := range raw.Do[*kmsg.ListGroupsResponse](k.c, r).Groups {
			if g.Group == group {
				listed = fmt.Sprintf("is listed as %q, %q, %q", g.ProtocolType, g.GroupState, g.GroupType)
			}
		}
		k.sayOf("ListGroups", fmt.Sprint("v", version), "%s %s", group, listed)
	}
}

// staticNeighbours: a member of a name needs no id, and whoever comes under its name takes its place.
func staticNeighbours(k *talk) {
	topic := k.topic("topic", 1)
	instance := kmsg.StringPtr("i1")
	for _, version := range k.versions(both(5, 9, 5, 9)) {
		group := k.group("group")
		named := func(member string, instance *string) *kmsg.JoinGroupRequest {
			r := joinRequest(version, group, member, 6000, "range")
			r.InstanceID = instance
			return r
		}
		k.join("a made-up id and a name", "", version, named("made-up", instance))
		first := k.join("a name", "first", version, named("", instance))
		k.ask("the first", 3, syncRequest(group, first.MemberID, first.Generation))
		k.join("another id under the name", "", version, named("made-up", instance))
		k.join("the id under another name", "", version, named(first.MemberID, kmsg.StringPtr("i2")))
		second := k.join("the name again", "second", version, named("", instance))
		for _, member := range []string{first.MemberID, second.MemberID, "", "made-up"} {
			beat, sync, commit := heartbeat(group, member, second.Generation), syncRequest(group, member, second.Generation), commitRequest(group, member, second.Generation, topic, "", 0)
			beat.InstanceID, sync.InstanceID, commit.InstanceID = instance, instance, instance
			k.ask("as "+member, 4, beat)
			k.ask("as "+member, 5, sync)
			k.ask("as "+member, 8, commit)
			if member != second.MemberID {
				k.ask("as "+member, 4, leaveRequest(group, member+"x", instance))
			}
		}
		k.describe(group)
		k.ask("under the name", 5, leaveRequest(group, "", instance))
		k.ask("under the name, again", 5, leaveRequest(group, "", instance))
		k.describe(group)
	}
}

// coordinatorNeighbours: whose coordinator may be asked for.
func coordinatorNeighbours(k *talk) {
	group := k.group("group")
	for _, version := range k.versions(both(0, 6, 0, 6)) {
		for _, kind := range []int8{0, 2, 9, -1} {
			for _, keys := range [][]string{{group}, {""}, {group, "", group}, {}} {
				if version < 4 && len(keys) != 1 || version >= 6 && kind == 2 { // share groups are not served yet
					continue
				}
				r := kmsg.NewPtrFindCoordinatorRequest()
				r.CoordinatorType, r.CoordinatorKeys = kind, keys
				if version < 4 {
					r.CoordinatorKey = keys[0]
				}
				k.ask(fmt.Sprintf("type %d, keys %q", kind, keys), version, r)
			}
		}
	}
}
