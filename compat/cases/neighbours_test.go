package cases

import (
	"slices"
	"testing"
)

// neighbour is a conversation about what lies beside a case: other versions of its request, other requests of its shape.
type neighbour struct {
	name string
	only string // the version of Kafka that knows it; "" = both
	talk func(k *talk)
}

var neighbours = slices.Concat(produceNeighbours, fetchNeighbours, listNeighbours, groupNeighbours, adminNeighbours)

// TestNeighbours: beside the cases too the answers are those of Kafka 4.4.0 and 3.9.2 (testdata), field by field.
func TestNeighbours(t *testing.T) {
	everywhere(t, func(t *testing.T, s *server) {
		for _, n := range neighbours {
			if n.only != "" && n.only != standard(s) {
				continue
			}
			t.Run(n.name, func(t *testing.T) {
				k := newTalk(t, s)
				n.talk(k)
				compare(t, s, n.name, k.lines())
			})
		}
	})
}

// versions returns the versions from first to last, save those that a server's standard does not have.
func (k *talk) versions(of map[string][2]int16) []int16 {
	var list []int16
	for v := of[standard(k.s)][0]; v <= of[standard(k.s)][1]; v++ {
		list = append(list, v)
	}
	return list
}

// both are ranges of versions in 3.9 and in 4.4.
func both(first39, last39, first44, last44 int16) map[string][2]int16 {
	return map[string][2]int16{"3.9": {first39, last39}, "4.4": {first44, last44}}
}
