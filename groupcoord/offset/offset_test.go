package offset

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

type place struct {
	topic     string
	partition int32
}

// all returns what a set holds, and fails if it is not in order.
func all(t *testing.T, s *Set) map[place]int64 {
	t.Helper()
	found := map[place]int64{}
	last := ""
	for topic, list := range s.Topics() {
		if topic <= last && last != "" || len(list) == 0 {
			t.Fatalf("topic %q after %q, %d partitions", topic, last, len(list))
		}
		last = topic
		if !slices.IsSortedFunc(list, func(a, b Committed) int { return int(a.Partition - b.Partition) }) {
			t.Fatalf("partitions of %s: %+v", topic, list)
		}
		for _, c := range list {
			found[place{topic, c.Partition}] = c.Offset
		}
	}
	return found
}

func TestSetAgainstAMap(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		var s Set
		model := map[place]int64{}
		for i := range 500 {
			p := place{fmt.Sprint("t", rnd.IntN(6)), int32(rnd.IntN(8))}
			if rnd.IntN(3) == 0 {
				s.Delete(p.topic, p.partition)
				delete(model, p)
			} else {
				s.Put(p.topic, Committed{Partition: p.partition, Offset: int64(i)})
				model[p] = int64(i)
			}
			c := s.Get(p.topic, p.partition)
			if want, ok := model[p]; (c != nil) != ok || ok && c.Offset != want {
				t.Fatalf("seed %d: %v is %+v, want %v %v", seed, p, c, want, ok)
			}
			if s.Empty() != (len(model) == 0) || s.Len() != len(model) {
				t.Fatalf("seed %d: empty is %v with %d", seed, s.Empty(), len(model))
			}
		}
		if got := all(t, &s); !maps.Equal(got, model) {
			t.Fatalf("seed %d: %v, want %v", seed, got, model)
		}
		for topic := range s.Topics() {
			if len(s.Topic(topic)) == 0 {
				t.Fatalf("seed %d: topic %s", seed, topic)
			}
			break
		}
	}
}

func TestPending(t *testing.T) {
	var p Pending
	if p.Open("g") || p.Has("g", "t", 0) || len(p.End(1)) != 0 {
		t.Error("not empty at first")
	}
	p.Put(1, "g", "t", Committed{Partition: 0, Offset: 10})
	p.Put(2, "g", "t", Committed{Partition: 0, Offset: 20})
	p.Put(2, "h", "t", Committed{Partition: 1, Offset: 21})
	seen := 0
	p.Each("g", func(topic string, partition int32) { seen++ })
	if !p.Has("g", "t", 0) || p.Has("g", "t", 1) || !p.Has("h", "t", 1) || seen != 2 {
		t.Errorf("after three commits: %+v, %d seen", p, seen)
	}
	sets := p.End(2)
	if len(sets) != 2 || sets["g"].Get("t", 0).Offset != 20 || p.Open("h") || !p.Open("g") {
		t.Errorf("ended: %+v", sets)
	}
	p.Delete("g", "t", 0)
	if p.Open("g") || len(p.End(1)) != 0 {
		t.Errorf("after deletion: %+v", p)
	}
}

func TestFormatVersions(t *testing.T) {
	for _, c := range []struct {
		format  Format
		expires bool
		want    int16
	}{{FormatKafka3, false, 3}, {FormatKafka4, false, 4}, {FormatKafka3, true, 1}, {FormatKafka4, true, 1}} {
		if got := c.format.Version(c.expires); got != c.want {
			t.Errorf("%v %v: %d", c.format, c.expires, got)
		}
	}
}
