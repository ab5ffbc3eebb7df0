package groupcoord

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A request may name a topic or a partition more than once. Kafka 3.9 puts what is committed or fetched into a map, so that each is
// answered once and the last value counts; 4.4 answers for each. Both put the topics of an OffsetDelete together, and 3.9 answers once
// for what it deletes.

// named is a topic of a request with its partitions.
type named[T, P any] struct {
	name       func(*T) string
	partitions func(*T) *[]P
	number     func(*P) int32
}

var (
	committed = named[kmsg.OffsetCommitRequestTopic, kmsg.OffsetCommitRequestTopicPartition]{
		func(t *kmsg.OffsetCommitRequestTopic) string { return t.Topic },
		func(t *kmsg.OffsetCommitRequestTopic) *[]kmsg.OffsetCommitRequestTopicPartition { return &t.Partitions },
		func(p *kmsg.OffsetCommitRequestTopicPartition) int32 { return p.Partition },
	}
	fetched = named[kmsg.OffsetFetchRequestGroupTopic, int32]{
		func(t *kmsg.OffsetFetchRequestGroupTopic) string { return t.Topic },
		func(t *kmsg.OffsetFetchRequestGroupTopic) *[]int32 { return &t.Partitions },
		func(p *int32) int32 { return *p },
	}
	forgotten = named[kmsg.OffsetDeleteRequestTopic, kmsg.OffsetDeleteRequestTopicPartition]{
		func(t *kmsg.OffsetDeleteRequestTopic) string { return t.Topic },
		func(t *kmsg.OffsetDeleteRequestTopic) *[]kmsg.OffsetDeleteRequestTopicPartition { return &t.Partitions },
		func(p *kmsg.OffsetDeleteRequestTopicPartition) int32 { return p.Partition },
	}
)

// together puts topics of one name together. The topics that it is given are not used any more.
func (n *named[T, P]) together(topics []T) []T {
	if !repeats(len(topics), func(i int) string { return n.name(&topics[i]) }) {
		return topics
	}
	var once []T
	place := map[string]int{}
	for i := range topics {
		at, known := place[n.name(&topics[i])]
		if !known {
			place[n.name(&topics[i])] = len(once)
			once = append(once, topics[i])
			continue
		}
		all := n.partitions(&once[at])
		*all = append(slices.Clip(*all), *n.partitions(&topics[i])...)
	}
	return once
}

// once puts topics of one name together and leaves of each partition the last, at the place of the first.
func (n *named[T, P]) once(topics []T) []T {
	topics = n.together(topics)
	for i := range topics {
		all := n.partitions(&topics[i])
		if !repeats(len(*all), func(j int) int32 { return n.number(&(*all)[j]) }) {
			continue
		}
		var kept []P
		place := map[int32]int{}
		for _, p := range *all {
			if at, known := place[n.number(&p)]; known {
				kept[at] = p
				continue
			}
			place[n.number(&p)] = len(kept)
			kept = append(kept, p)
		}
		*all = kept
	}
	return topics
}

// few keys are compared each with each; more go into a map.
const few = 24

// repeats says whether a key is there twice among n.
func repeats[K comparable](n int, key func(int) K) bool {
	if n > few {
		seen := make(map[K]struct{}, n)
		for i := range n {
			seen[key(i)] = struct{}{}
		}
		return len(seen) < n
	}
	for i := range n {
		for j := range i {
			if key(i) == key(j) {
				return true
			}
		}
	}
	return false
}
