// Package placement decides which brokers get a new partition's replicas, as Apache Kafka 3.9 does in ZooKeeper mode
// (org.apache.kafka.admin.AdminUtils).
package placement

import (
	"fmt"
	"slices"

	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Broker is a candidate.
type Broker struct {
	ID   int32
	Rack string // empty: none
}

// ErrRacks says that some brokers have a rack and others none. The code is Kafka's, which says no more than that.
var ErrRacks = errcode.New(kerr.UnknownServerError, "Not all brokers have rack information for replica rack aware assignment. "+
	"Set broker.rack on all brokers, or on none.")

// Start is where the round-robin begins: First is the index of the first partition's first replica in the broker list, Shift the
// distance of its followers. Kafka draws both at random for a new topic; for added partitions both are the index of the broker of
// partition 0's first replica.
type Start struct{ First, Shift int }

// Replicas returns the replicas of partitions from first on, preferred leader first. The brokers may come in any order.
// Without racks partition p's leader is at (p + start) mod n, and its followers follow at a distance that grows by one each time
// the brokers have been gone through. With racks the brokers are first arranged so that racks alternate, and followers prefer racks
// that have none of the partition's replicas yet.
func Replicas(brokers []Broker, partitions int32, factor int16, start Start, first int32) ([][]int32, error) {
	switch {
	case partitions <= 0:
		return nil, errcode.New(kerr.InvalidPartitions, "Number of partitions must be larger than 0.")
	case factor <= 0:
		return nil, errcode.New(kerr.InvalidReplicationFactor, "Replication factor must be larger than 0.")
	case int(factor) > len(brokers):
		return nil, errcode.Newf(kerr.InvalidReplicationFactor,
			"Replication factor: %d larger than available brokers: %d.", factor, len(brokers))
	}
	list := slices.Clone(brokers)
	slices.SortFunc(list, func(a, b Broker) int { return int(a.ID) - int(b.ID) })
	racks, err := countRacks(list)
	if err != nil {
		return nil, err
	}
	if racks > 0 {
		list = alternate(list)
	}
	p := placer{list: list, racks: racks, factor: int(factor)}
	all := make([][]int32, partitions)
	shift := start.Shift
	for i := range all {
		at := int(first) + i
		if at > 0 && at%len(list) == 0 {
			shift++
		}
		all[i] = p.place((at+start.First)%len(list), shift)
	}
	return all, nil
}

func countRacks(list []Broker) (int, error) {
	racks := map[string]bool{}
	for _, b := range list {
		racks[b.Rack] = true
	}
	if racks[""] && len(racks) > 1 {
		return 0, fmt.Errorf("%w", ErrRacks)
	}
	delete(racks, "")
	return len(racks), nil
}

// alternate takes one broker of each rack in turn, racks by name and brokers by id.
func alternate(list []Broker) []Broker {
	byRack := map[string][]Broker{}
	var names []string
	for _, b := range list {
		if byRack[b.Rack] == nil {
			names = append(names, b.Rack)
		}
		byRack[b.Rack] = append(byRack[b.Rack], b)
	}
	slices.Sort(names)
	var out []Broker
	for len(out) < len(list) {
		for _, name := range names {
			if q := byRack[name]; len(q) > 0 {
				out, byRack[name] = append(out, q[0]), q[1:]
			}
		}
	}
	return out
}

type placer struct {
	list   []Broker
	racks  int // 0: not rack aware
	factor int
}

// follower is where the j-th follower of a leader at index first goes.
func (p *placer) follower(first, shift, j int) int {
	n := len(p.list)
	return (first + 1 + (shift+j)%(n-1)) % n
}

func (p *placer) place(first, shift int) []int32 {
	replicas := make([]int32, 1, p.factor)
	replicas[0] = p.list[first].ID
	if p.racks == 0 {
		for j := range p.factor - 1 {
			replicas = append(replicas, p.list[p.follower(first, shift, j)].ID)
		}
		return replicas
	}
	used := map[string]bool{p.list[first].Rack: true}
	for k := 0; len(replicas) < p.factor; k++ {
		b := p.list[p.follower(first, shift*p.racks, k)]
		if (used[b.Rack] && len(used) < p.racks) || slices.Contains(replicas, b.ID) {
			continue
		}
		replicas = append(replicas, b.ID)
		used[b.Rack] = true
	}
	return replicas
}
