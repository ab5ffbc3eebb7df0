package cluster

import (
	"fmt"
	"slices"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
)

// target is a broker that may get replicas.
type target struct {
	id   int32
	rack string
}

// spreader plans where replicas go so that little is copied. It decides on counts of replicas, not on their sizes.
type spreader struct {
	targets  []target
	racks    map[int32]string
	replicas map[int32]int // of each target, as planned so far
	leads    map[int32]int // of each target: partitions whose first replica it is
}

func newSpreader(targets []target) *spreader {
	s := &spreader{targets: slices.Clone(targets), racks: map[int32]string{}, replicas: map[int32]int{}, leads: map[int32]int{}}
	slices.SortFunc(s.targets, func(a, b target) int { return int(a.id) - int(b.id) })
	for _, b := range s.targets {
		s.racks[b.id], s.replicas[b.id], s.leads[b.id] = b.rack, 0, 0
	}
	return s
}

func (s *spreader) count(replicas []int32, n int) {
	for i, broker := range replicas {
		if _, ok := s.replicas[broker]; !ok {
			continue
		}
		s.replicas[broker] += n
		if i == 0 {
			s.leads[broker] += n
		}
	}
}

// drain moves the replicas that are on none of the targets to the targets with the fewest, and leaves all else as it is.
func (s *spreader) drain(partitions []move) ([]move, error) {
	for _, p := range partitions {
		s.count(p.from, 1)
	}
	for i := range partitions {
		if err := s.fill(&partitions[i], len(partitions[i].from)); err != nil {
			return nil, err
		}
	}
	return changed(partitions), nil
}

// balance gives every target as many replicas, and as many first ones, as any other, give or take one. factor is the number of
// replicas of each partition; 0 = as many as it has.
func (s *spreader) balance(partitions []move, factor int) ([]move, error) {
	for _, p := range partitions {
		s.count(p.from, 1)
	}
	for i := range partitions {
		p := &partitions[i]
		n := factor
		if n == 0 {
			n = len(p.from)
		}
		if len(p.from) > n {
			s.count(p.from, -1)
			p.to = s.targetsFirst(p.from)[:n]
			s.count(p.to, 1)
		}
		if err := s.fill(p, n); err != nil {
			return nil, err
		}
	}
	for s.evenReplicas(partitions) || s.evenLeaders(partitions) {
	}
	return changed(partitions), nil
}

// targetsFirst puts the replicas that may stay before the others.
func (s *spreader) targetsFirst(replicas []int32) []int32 {
	sorted := slices.Clone(replicas)
	slices.SortStableFunc(sorted, func(a, b int32) int {
		_, aStays := s.racks[a]
		_, bStays := s.racks[b]
		switch {
		case aStays == bStays:
			return 0
		case aStays:
			return -1
		}
		return 1
	})
	return sorted
}

// fill completes a partition's replicas to n, in place of those that are on none of the targets.
func (s *spreader) fill(p *move, n int) error {
	if n > len(s.targets) {
		return fmt.Errorf("%s: %s cannot be on %s", p.partition, cli.Count(n, "replica"), cli.Count(len(s.targets), "broker"))
	}
	if p.to == nil {
		p.to = slices.Clone(p.from)
	}
	for i, broker := range p.to {
		if _, ok := s.racks[broker]; !ok {
			p.to[i] = s.best(p.to, i)
			s.count(p.to[i:i+1], 1)
			if i > 0 {
				s.leads[p.to[i]]--
			}
		}
	}
	for len(p.to) < n {
		broker := s.best(p.to, len(p.to))
		p.to = append(p.to, broker)
		s.replicas[broker]++
	}
	return nil
}

// best is the target with the fewest replicas for place i: one of a rack that has none of the others, if there is such.
func (s *spreader) best(replicas []int32, i int) int32 {
	best, bestScore := int32(-1), [3]int{}
	for _, b := range s.targets {
		if slices.Contains(replicas, b.id) {
			continue
		}
		score := [3]int{s.sharing(replicas, i, b.id), s.replicas[b.id], s.leads[b.id]}
		if i == 0 {
			score[1], score[2] = score[2], score[1]
		}
		if best < 0 || slices.Compare(score[:], bestScore[:]) < 0 {
			best, bestScore = b.id, score
		}
	}
	return best
}

// sharing is how many of the other replicas would be in the rack of a broker at place i.
func (s *spreader) sharing(replicas []int32, i int, broker int32) int {
	n := 0
	for j, other := range replicas {
		if rack, ok := s.racks[other]; ok && j != i && rack != "" && rack == s.racks[broker] {
			n++
		}
	}
	return n
}

// evenReplicas moves one replica from a fuller target to an emptier one, if that helps.
func (s *spreader) evenReplicas(partitions []move) bool {
	for _, from := range s.by(s.replicas, -1) {
		for _, to := range s.by(s.replicas, 1) {
			if s.replicas[from]-s.replicas[to] < 2 {
				break
			}
			for k := range partitions {
				p := &partitions[k]
				i := slices.Index(p.to, from)
				if i < 0 || slices.Contains(p.to, to) || s.sharing(p.to, i, to) > s.sharing(p.to, i, from) {
					continue
				}
				s.count(p.to, -1)
				p.to[i] = to
				s.count(p.to, 1)
				return true
			}
		}
	}
	return false
}

// evenLeaders lets another replica of a partition come first, if that helps. Nothing is copied for it.
func (s *spreader) evenLeaders(partitions []move) bool {
	for _, from := range s.by(s.leads, -1) {
		for _, to := range s.by(s.leads, 1) {
			if s.leads[from]-s.leads[to] < 2 {
				break
			}
			for k := range partitions {
				p := &partitions[k]
				if i := slices.Index(p.to, to); p.to[0] == from && i > 0 {
					s.count(p.to, -1)
					p.to[0], p.to[i] = p.to[i], p.to[0]
					s.count(p.to, 1)
					return true
				}
			}
		}
	}
	return false
}

// by lists the targets by a count, the least first or (sign -1) the most.
func (s *spreader) by(count map[int32]int, sign int) []int32 {
	var ids []int32
	for _, b := range s.targets {
		ids = append(ids, b.id)
	}
	slices.SortStableFunc(ids, func(a, b int32) int { return sign * (count[a] - count[b]) })
	return ids
}

func changed(partitions []move) []move {
	return slices.DeleteFunc(partitions, func(p move) bool { return slices.Equal(p.from, p.to) })
}
