package assignor

import (
	"cmp"
	"slices"

	"github.com/gregor-broker/gregor/groupcoord/schema"
)

// Range gives each member of a topic a range of its partitions, the first members one more where it does not come out even.
// Members with a group.instance.id come first, in that order, so that it does not change when they come again.
// After Kafka's RangeAssignor.
func Range(g *Group) [][]schema.TopicPartitions {
	t := newTable(&Group{Members: withoutPast(g.Members), Partitions: g.Partitions})
	rank := ranks(g.Members)
	for _, topic := range t.topics {
		members := t.subscribers[topic]
		slices.SortFunc(members, func(a, b int32) int { return cmp.Compare(rank[a], rank[b]) })
		partitions, n := len(t.owners[topic]), len(members)
		next := 0
		for i, member := range members {
			quota := partitions / n
			if i < partitions%n {
				quota++
			}
			for range quota {
				t.give(topic, next, member)
				next++
			}
		}
	}
	return t.result()
}

func withoutPast(members []Member) []Member {
	list := slices.Clone(members)
	for i := range list {
		list[i].Before = nil
	}
	return list
}

// ranks tells for each member which it is in the order of Range.
func ranks(members []Member) []int {
	order := make([]int, len(members))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := members[i].InstanceID, members[j].InstanceID
		switch {
		case a != nil && b != nil:
			return cmp.Compare(*a, *b)
		case a != nil:
			return -1
		case b != nil:
			return 1
		}
		return cmp.Compare(members[i].ID, members[j].ID)
	})
	rank := make([]int, len(members))
	for place, i := range order {
		rank[i] = place
	}
	return rank
}
