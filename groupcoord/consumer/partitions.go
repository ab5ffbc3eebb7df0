package consumer

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/gregor-broker/gregor/groupcoord/schema"
)

// Topic is a topic's id.
type Topic = [16]byte

// Partitions are partitions of topics: topics in order of their ids, each once and not empty, partitions ascending. What a
// member has also tells since which epoch; a target assignment does not. Never changed once made.
type Partitions []schema.TopicPartitions

// entry is one partition.
type entry struct {
	topic     Topic
	partition int32
	epoch     int32
}

// partitionsOf makes Partitions of entries in any order; of equal ones the last counts.
func partitionsOf(list []entry, epochs bool) Partitions {
	slices.SortStableFunc(list, func(a, b entry) int {
		return cmp.Or(bytes.Compare(a.topic[:], b.topic[:]), cmp.Compare(a.partition, b.partition))
	})
	var p Partitions
	for _, e := range list {
		if n := len(p); n == 0 || p[n-1].Topic != e.topic {
			p = append(p, schema.TopicPartitions{Topic: e.topic})
		}
		t := &p[len(p)-1]
		if n := len(t.Partitions); n > 0 && t.Partitions[n-1] == e.partition {
			if epochs {
				t.Epochs[n-1] = e.epoch
			}
			continue
		}
		t.Partitions = append(t.Partitions, e.partition)
		if epochs {
			t.Epochs = append(t.Epochs, e.epoch)
		}
	}
	return p
}

// fromStored makes Partitions of what a record says; epoch counts where it does not say since when.
func fromStored(list []schema.TopicPartitions, epoch int32) Partitions {
	var all []entry
	for _, t := range list {
		for i, partition := range t.Partitions {
			e := entry{t.Topic, partition, max(epoch, 0)}
			if len(t.Epochs) == len(t.Partitions) {
				e.epoch = t.Epochs[i]
			}
			all = append(all, e)
		}
	}
	return partitionsOf(all, true)
}

// targetFromStored makes a target assignment of what a record says.
func targetFromStored(list []schema.TopicPartitions) Partitions {
	var all []entry
	for _, t := range list {
		for _, partition := range t.Partitions {
			all = append(all, entry{topic: t.Topic, partition: partition})
		}
	}
	return partitionsOf(all, false)
}

// entries returns all partitions.
func (p Partitions) entries() []entry {
	var list []entry
	for i := range p {
		for j, partition := range p[i].Partitions {
			e := entry{topic: p[i].Topic, partition: partition}
			if p[i].Epochs != nil {
				e.epoch = p[i].Epochs[j]
			}
			list = append(list, e)
		}
	}
	return list
}

// epoch returns since when a partition is there; ok is false if it is not.
func (p Partitions) epoch(topic Topic, partition int32) (epoch int32, ok bool) {
	i, ok := slices.BinarySearchFunc(p, topic, func(t schema.TopicPartitions, topic Topic) int { return bytes.Compare(t.Topic[:], topic[:]) })
	if !ok {
		return 0, false
	}
	j, ok := slices.BinarySearch(p[i].Partitions, partition)
	if ok && p[i].Epochs != nil {
		epoch = p[i].Epochs[j]
	}
	return epoch, ok
}

// has reports whether a partition is there.
func (p Partitions) has(topic Topic, partition int32) bool {
	_, ok := p.epoch(topic, partition)
	return ok
}

// equal reports whether both are the same, epochs included.
func (p Partitions) equal(q Partitions) bool {
	return slices.EqualFunc(p, q, func(a, b schema.TopicPartitions) bool {
		return a.Topic == b.Topic && slices.Equal(a.Partitions, b.Partitions) && slices.Equal(a.Epochs, b.Epochs)
	})
}

// since returns the same partitions, all with one epoch.
func (p Partitions) since(epoch int32) Partitions {
	list := p.entries()
	for i := range list {
		list[i].epoch = epoch
	}
	return partitionsOf(list, true)
}

// bare returns the same partitions without epochs.
func (p Partitions) bare() Partitions { return partitionsOf(p.entries(), false) }
