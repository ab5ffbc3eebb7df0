package kmsgfix

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// stringy are requests whose strings are s: whole fields, in pointers, in arrays, in structures within structures.
func stringy(s string) map[string]kmsg.Request {
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Version, commit.Group = 8, s
	instance := kmsg.NewPtrHeartbeatRequest()
	instance.Version, instance.InstanceID = 4, &s
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Version, describe.Groups = 5, []string{"a", s}
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Version = 7
	topic := kmsg.NewCreateTopicsRequestTopic()
	config := kmsg.NewCreateTopicsRequestTopicConfig()
	config.Value = &s
	topic.Configs = append(topic.Configs, config)
	create.Topics = append(create.Topics, kmsg.NewCreateTopicsRequestTopic(), topic)
	return map[string]kmsg.Request{"field": commit, "pointer": instance, "array": describe, "deep": create}
}

func TestStringsAreAsLongAsKafkas(t *testing.T) {
	for _, n := range []int{0, longestString, longestString + 1, 40_000, 65_536, 200_000} {
		for name, r := range stringy(strings.Repeat("s", n)) {
			read := kmsg.RequestForKey(r.Key())
			read.SetVersion(r.GetVersion())
			if err := Read(read, r.AppendTo(nil)); (err != nil) != (n > longestString) {
				t.Errorf("%s of %d bytes: %v", name, n, err)
			}
		}
	}
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Version = 5
	a := kmsg.NewSyncGroupRequestGroupAssignment()
	a.MemberAssignment = make([]byte, 1<<20)
	sync.GroupAssignment = append(sync.GroupAssignment, a)
	if err := Read(kmsg.RequestForKey(sync.Key()), nil); err == nil {
		t.Error("an empty body is a request")
	}
	read := kmsg.NewPtrSyncGroupRequest()
	read.Version = 5
	if err := Read(read, sync.AppendTo(nil)); err != nil || len(read.GroupAssignment[0].MemberAssignment) != 1<<20 {
		t.Errorf("bytes are not strings: %v", err)
	}
}
