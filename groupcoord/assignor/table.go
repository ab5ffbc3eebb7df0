package assignor

import (
	"bytes"
	"slices"

	"github.com/gregor-broker/gregor/groupcoord/schema"
)

// free is the owner of a partition that nobody has.
const free = -1

// table says who has each partition of the topics that are consumed.
type table struct {
	group       *Group
	topics      []Topic           // in order
	owners      map[Topic][]int32 // by partition: index of a member, or free
	subscribers map[Topic][]int32 // indexes of members, in order
	sizes       []int             // partitions by member
}

// newTable gives every member what it had before of what it still consumes.
func newTable(g *Group) *table {
	t := &table{group: g, owners: map[Topic][]int32{}, subscribers: map[Topic][]int32{}, sizes: make([]int, len(g.Members))}
	for i := range g.Members {
		for _, topic := range g.Members[i].Topics {
			if t.owners[topic] == nil {
				t.topics = append(t.topics, topic)
				t.owners[topic] = allFree(g.Partitions(topic))
			}
			t.subscribers[topic] = append(t.subscribers[topic], int32(i))
		}
	}
	slices.SortFunc(t.topics, func(a, b Topic) int { return bytes.Compare(a[:], b[:]) })
	for i := range g.Members {
		t.keep(int32(i))
	}
	return t
}

func allFree(n int32) []int32 {
	list := make([]int32, n)
	for i := range list {
		list[i] = free
	}
	return list
}

func (t *table) keep(member int32) {
	m := &t.group.Members[member]
	for _, before := range m.Before {
		if !slices.Contains(m.Topics, before.Topic) {
			continue
		}
		owners := t.owners[before.Topic]
		for _, p := range before.Partitions {
			if p >= 0 && int(p) < len(owners) && owners[p] == free {
				owners[p] = member
				t.sizes[member]++
			}
		}
	}
}

// give makes member the owner of a partition.
func (t *table) give(topic Topic, p int, member int32) {
	if old := t.owners[topic][p]; old != free {
		t.sizes[old]--
	}
	t.owners[topic][p] = member
	if member != free {
		t.sizes[member]++
	}
}

// result turns the table around.
func (t *table) result() [][]schema.TopicPartitions {
	list := make([][]schema.TopicPartitions, len(t.group.Members))
	for _, topic := range t.topics {
		for p, owner := range t.owners[topic] {
			if owner == free {
				continue
			}
			mine := list[owner]
			if n := len(mine); n == 0 || mine[n-1].Topic != topic {
				mine = append(mine, schema.TopicPartitions{Topic: topic})
			}
			last := &mine[len(mine)-1]
			last.Partitions = append(last.Partitions, int32(p))
			list[owner] = mine
		}
	}
	return list
}
