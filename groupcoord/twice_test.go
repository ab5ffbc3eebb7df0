package groupcoord

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func fetchTopic(name string, partitions ...int32) kmsg.OffsetFetchRequestGroupTopic {
	return kmsg.OffsetFetchRequestGroupTopic{Topic: name, Partitions: partitions}
}

// TestTwice: topics are put together, and each partition is left once, in their order, few or many.
func TestTwice(t *testing.T) {
	var many, all []int32
	for p := range int32(40) {
		many, all = append(many, p, p), append(all, p)
	}
	type topics = []kmsg.OffsetFetchRequestGroupTopic
	for _, c := range []struct {
		asked          topics
		together, once string
	}{
		{nil, "[]", "[]"},
		{topics{fetchTopic("a", 1, 2), fetchTopic("b", 1)}, "[a [1 2] b [1]]", "[a [1 2] b [1]]"},
		{topics{fetchTopic("a", 2, 1, 2), fetchTopic("b"), fetchTopic("a", 1, 3)}, "[a [2 1 2 1 3] b []]", "[a [2 1 3] b []]"},
		{topics{fetchTopic("a", many...)}, fmt.Sprintf("[a %d]", many), fmt.Sprintf("[a %d]", all)},
	} {
		show := func(list topics) string {
			words := []any{}
			for _, topic := range list {
				words = append(words, topic.Topic, topic.Partitions)
			}
			return fmt.Sprint(words)
		}
		if got := show(fetched.together(slices.Clone(c.asked))); got != c.together {
			t.Errorf("together: %s, want %s", got, c.together)
		}
		if got := show(fetched.once(slices.Clone(c.asked))); got != c.once {
			t.Errorf("once: %s, want %s", got, c.once)
		}
	}
}

// TestLastCommitCounts: of a partition that is committed twice the last offset is left.
func TestLastCommitCounts(t *testing.T) {
	of := kmsg.OffsetCommitRequestTopic{Topic: "a", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Partition: 1, Offset: 5}, {Partition: 1, Offset: 7}}}
	got := committed.once([]kmsg.OffsetCommitRequestTopic{of})
	if len(got) != 1 || len(got[0].Partitions) != 1 || got[0].Partitions[0].Offset != 7 {
		t.Errorf("%+v", got)
	}
}
