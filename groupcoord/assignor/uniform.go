package assignor

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/gregor-broker/gregor/groupcoord/schema"
)

// Uniform gives all members the same number of partitions, one more or less, as far as their subscriptions allow, and leaves
// with each member what it has wherever that is possible. After Kafka's UniformAssignor.
func Uniform(g *Group) [][]schema.TopicPartitions {
	if len(g.Members) == 0 {
		return nil
	}
	t := newTable(g)
	if g.Homogeneous {
		t.level()
	} else {
		t.assignFree()
		t.balance()
	}
	return t.result()
}

// spot is one partition.
type spot struct {
	topic     Topic
	partition int
}

// level balances members that all consume the same topics: each keeps what it has up to its quota, and the rest is handed
// out. After UniformHomogeneousAssignmentBuilder.
func (t *table) level() {
	var left []spot
	total := 0
	for _, topic := range t.topics {
		total += len(t.owners[topic])
		for p, owner := range t.owners[topic] {
			if owner == free {
				left = append(left, spot{topic, p})
			}
		}
	}
	members := len(t.group.Members)
	quotas := t.quotas(total/members, total%members)
	kept := make([]int, members)
	for _, topic := range t.topics {
		for p, owner := range t.owners[topic] {
			switch {
			case owner == free:
			case kept[owner] < quotas[owner]:
				kept[owner]++
			default:
				t.give(topic, p, free)
				left = append(left, spot{topic, p})
			}
		}
	}
	next := 0
	for member, quota := range quotas {
		for ; kept[member] < quota; kept[member]++ {
			t.give(left[next].topic, left[next].partition, int32(member))
			next++
		}
	}
}

// quotas tells how many partitions each member gets: least each, and one more for extra of them; rather for those who have
// that many.
func (t *table) quotas(least, extra int) []int {
	quotas := make([]int, len(t.sizes))
	for i, size := range t.sizes {
		quotas[i] = least
		if extra > 0 && (size > least || len(t.sizes)-i <= extra) {
			quotas[i]++
			extra--
		}
	}
	return quotas
}

// assignFree gives what nobody has to the subscribers that have least, topics with much for each subscriber first.
func (t *table) assignFree() {
	for _, topic := range t.byWeight() {
		next := t.leastLoaded(t.subscribers[topic])
		for p, owner := range t.owners[topic] {
			if owner == free {
				t.give(topic, p, next())
			}
		}
	}
}

// byWeight returns the topics in the order in which they are distributed.
func (t *table) byWeight() []Topic {
	topics := slices.Clone(t.topics)
	slices.SortStableFunc(topics, func(a, b Topic) int {
		sa, sb := len(t.subscribers[a]), len(t.subscribers[b])
		return cmp.Or(
			cmp.Compare(float64(len(t.owners[b]))/float64(sb), float64(len(t.owners[a]))/float64(sa)),
			cmp.Compare(sa, sb), bytes.Compare(a[:], b[:]))
	})
	return topics
}

// leastLoaded returns a function that names the subscriber with least each time it is called, assuming that it gets one
// more. They are kept in order of their load, and taken in rounds of those that have equally many.
func (t *table) leastLoaded(subscribers []int32) func() int32 {
	order := slices.Clone(subscribers)
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(t.sizes[a], t.sizes[b]) })
	end, next, load := 0, 0, -1
	return func() int32 {
		if next >= end {
			if end == 0 {
				load = t.sizes[order[0]]
			} else {
				load++
			}
			for end < len(order) && t.sizes[order[end]] <= load {
				end++
			}
			next = 0
		}
		next++
		return order[next-1]
	}
}

// maxRounds is how often balance goes through the topics at most.
const maxRounds = 16

// balance moves partitions from those who have more to those who have less, topic by topic, until that changes nothing.
// After UniformHeterogeneousAssignmentBuilder.balance.
func (t *table) balance() {
	topics := slices.DeleteFunc(t.byWeight(), func(topic Topic) bool { return len(t.subscribers[topic]) < 2 })
	for range maxRounds {
		moved := 0
		for _, topic := range topics {
			moved += t.balanceTopic(topic)
		}
		if moved == 0 {
			return
		}
	}
}

// balanceTopic returns how many partitions it has moved.
func (t *table) balanceTopic(topic Topic) (moved int) {
	has := map[int32][]int{} // partitions of the topic by member
	for p, owner := range t.owners[topic] {
		has[owner] = append(has[owner], p)
	}
	for {
		most, least := int32(free), int32(free)
		for _, member := range t.subscribers[topic] {
			if len(has[member]) > 0 && (most == free || t.sizes[member] >= t.sizes[most]) {
				most = member
			}
			if least == free || t.sizes[member] < t.sizes[least] {
				least = member
			}
		}
		if most == free || t.sizes[most]-t.sizes[least] <= 1 {
			return moved
		}
		list := has[most]
		p := list[len(list)-1]
		has[most] = list[:len(list)-1]
		has[least] = append(has[least], p)
		t.give(topic, p, least)
		moved++
	}
}
