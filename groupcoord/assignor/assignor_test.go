package assignor

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/gregor-broker/gregor/groupcoord/schema"
)

// random makes a group. Topics have up to 12 partitions; members consume all or some of them.
func random(rnd *rand.Rand) *Group {
	counts := map[Topic]int32{}
	var topics []Topic
	for i := range 1 + rnd.IntN(6) {
		id := Topic{byte(rnd.IntN(250)), byte(i)}
		counts[id] = int32(rnd.IntN(13))
		topics = append(topics, id)
	}
	g := &Group{Homogeneous: rnd.IntN(2) == 0, Partitions: func(t Topic) int32 { return counts[t] }}
	for i := range 1 + rnd.IntN(9) {
		m := Member{ID: fmt.Sprintf("m%02d", i)}
		if rnd.IntN(4) == 0 {
			instance := fmt.Sprint("i", rnd.IntN(100), "-", i)
			m.InstanceID = &instance
		}
		for _, topic := range topics {
			if g.Homogeneous || rnd.IntN(2) == 0 {
				m.Topics = append(m.Topics, topic)
			}
		}
		g.Members = append(g.Members, m)
	}
	return g
}

// check fails unless every partition that someone consumes has one owner, who consumes its topic, and nothing else is given out.
func check(t *testing.T, g *Group, assigned [][]schema.TopicPartitions) {
	t.Helper()
	owners := map[spot]int{}
	for i, list := range assigned {
		for j, p := range list {
			if !slices.Contains(g.Members[i].Topics, p.Topic) {
				t.Errorf("member %d gets a topic that it does not consume", i)
			}
			if j > 0 && slices.Compare(list[j-1].Topic[:], p.Topic[:]) >= 0 || !slices.IsSorted(p.Partitions) || len(p.Partitions) == 0 {
				t.Errorf("member %d: topics or partitions are out of order, or empty: %v", i, list)
			}
			for _, partition := range p.Partitions {
				s := spot{p.Topic, int(partition)}
				if other, taken := owners[s]; taken || partition < 0 || partition >= g.Partitions(p.Topic) {
					t.Errorf("%v of member %d belongs to member %d too, or does not exist", s, i, other)
				}
				owners[s] = i
			}
		}
	}
	for i := range g.Members {
		for _, topic := range g.Members[i].Topics {
			for p := range g.Partitions(topic) {
				if _, ok := owners[spot{topic, int(p)}]; !ok {
					t.Errorf("nobody has partition %d of %x", p, topic)
				}
			}
		}
	}
}

func sizes(assigned [][]schema.TopicPartitions) []int {
	list := make([]int, len(assigned))
	for i := range assigned {
		for _, p := range assigned[i] {
			list[i] += len(p.Partitions)
		}
	}
	return list
}

// balanced fails if a member could give a partition to one that has two less.
func balanced(t *testing.T, g *Group, assigned [][]schema.TopicPartitions) {
	t.Helper()
	n := sizes(assigned)
	for i := range assigned {
		for _, p := range assigned[i] {
			for j := range g.Members {
				if n[i]-n[j] > 1 && slices.Contains(g.Members[j].Topics, p.Topic) {
					t.Errorf("member %d has %d partitions, among them of a topic of member %d, who has %d", i, n[i], j, n[j])
				}
			}
		}
	}
}

// moved counts partitions that had an owner who still consumes them, and have another now.
func moved(g *Group, assigned [][]schema.TopicPartitions) int {
	now := map[spot]int{}
	for i := range assigned {
		for _, p := range assigned[i] {
			for _, partition := range p.Partitions {
				now[spot{p.Topic, int(partition)}] = i
			}
		}
	}
	n := 0
	for i := range g.Members {
		for _, p := range g.Members[i].Before {
			for _, partition := range p.Partitions {
				if slices.Contains(g.Members[i].Topics, p.Topic) && now[spot{p.Topic, int(partition)}] != i {
					n++
				}
			}
		}
	}
	return n
}

// TestProperties: whatever the group, all is assigned once; uniform evens out, keeps what it gave when nothing has changed,
// and moves no more than it must when a member comes or goes.
func TestProperties(t *testing.T) {
	for seed := range uint64(2000) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		g := random(rnd)
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			check(t, g, Range(g))
			first := Uniform(g)
			check(t, g, first)
			balanced(t, g, first)
			for i := range g.Members {
				g.Members[i].Before = first[i]
			}
			if again := Uniform(g); !reflect.DeepEqual(again, first) {
				t.Errorf("another assignment though nothing has changed:\n%v\n%v", first, again)
			}
			change(rnd, g)
			next := Uniform(g)
			check(t, g, next)
			balanced(t, g, next)
			if g.Homogeneous {
				checkMoves(t, g, next)
			}
		})
	}
}

// change lets a member come or go.
func change(rnd *rand.Rand, g *Group) {
	if len(g.Members) > 1 && rnd.IntN(2) == 0 {
		i := rnd.IntN(len(g.Members))
		g.Members = slices.Delete(slices.Clone(g.Members), i, i+1)
		return
	}
	newcomer := Member{ID: "m00a", Topics: g.Members[0].Topics}
	g.Members = append(slices.Clone(g.Members), newcomer)
	slices.SortFunc(g.Members, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
}

// checkMoves: members that all consume the same give up only what is above their share.
func checkMoves(t *testing.T, g *Group, assigned [][]schema.TopicPartitions) {
	t.Helper()
	total := 0
	for _, n := range sizes(assigned) {
		total += n
	}
	least, extra := total/len(g.Members), total%len(g.Members)
	before := make([][]schema.TopicPartitions, len(g.Members))
	for i := range g.Members {
		before[i] = g.Members[i].Before
	}
	must, had := 0, sizes(before)
	slices.SortFunc(had, func(a, b int) int { return b - a })
	for i, n := range had {
		share := least
		if i < extra {
			share++
		}
		must += max(n-share, 0)
	}
	if n := moved(g, assigned); n != must {
		t.Errorf("%d partitions moved, %d must", n, must)
	}
}

// TestRange: the same member gets the same partitions of all topics, static members first.
func TestRange(t *testing.T) {
	a, b := Topic{1}, Topic{2}
	i1 := "i1"
	g := &Group{
		Members:    []Member{{ID: "m1", Topics: []Topic{a, b}}, {ID: "m2", Topics: []Topic{a, b}}, {ID: "m3", InstanceID: &i1, Topics: []Topic{a, b}}},
		Partitions: func(Topic) int32 { return 5 },
	}
	of := func(partitions ...int32) []schema.TopicPartitions {
		return []schema.TopicPartitions{{Topic: a, Partitions: partitions}, {Topic: b, Partitions: partitions}}
	}
	if got, want := Range(g), [][]schema.TopicPartitions{of(2, 3), of(4), of(0, 1)}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}
