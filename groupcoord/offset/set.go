// Package offset keeps the offsets that one group has committed, and those that open transactions would commit.
package offset

import (
	"cmp"
	"iter"
	"slices"
)

// Format decides in which versions offsets are stored.
type Format int8

const (
	FormatKafka3 Format = iota // OffsetCommitValue v3, as Kafka 3.9
	FormatKafka4               // v4, which keeps the topic's id, as Kafka 4.4
)

// Version returns the version of OffsetCommitValue to write. An explicit time of expiry exists in version 1 only.
// Source: GroupCoordinatorRecordHelpers.newOffsetCommitRecord.
func (f Format) Version(expires bool) int16 {
	switch {
	case expires:
		return 1
	case f == FormatKafka4:
		return 4
	}
	return 3
}

// Committed is an offset that a group has committed for one partition.
type Committed struct {
	Partition   int32
	LeaderEpoch int32 // -1 unknown
	Offset      int64
	CommitMs    int64
	ExpireMs    int64     // -1: by offsets.retention.minutes
	Order       int64     // of the record, see runtime.Record
	Metadata    string    // what the client wants to find beside it
	TopicID     *[16]byte // nil unknown; shared by all offsets of the topic
}

// Set are the offsets of one group. The zero value is empty. It is sorted and not hashed because most groups have few topics
// and there may be 100,000 groups.
type Set struct {
	topics []topic // by name
}

type topic struct {
	name       string
	partitions []Committed // by partition
}

func (s *Set) find(name string) (int, bool) {
	return slices.BinarySearchFunc(s.topics, name, func(t topic, name string) int { return cmp.Compare(t.name, name) })
}

func (t *topic) find(partition int32) (int, bool) {
	return slices.BinarySearchFunc(t.partitions, partition, func(c Committed, p int32) int { return cmp.Compare(c.Partition, p) })
}

// Empty reports whether nothing is committed.
func (s *Set) Empty() bool { return len(s.topics) == 0 }

// Len returns for how many partitions something is committed.
func (s *Set) Len() int {
	n := 0
	for i := range s.topics {
		n += len(s.topics[i].partitions)
	}
	return n
}

// Get returns what is committed for a partition, nil if nothing. The result is valid until the next change.
func (s *Set) Get(name string, partition int32) *Committed {
	i, ok := s.find(name)
	if !ok {
		return nil
	}
	t := &s.topics[i]
	if j, ok := t.find(partition); ok {
		return &t.partitions[j]
	}
	return nil
}

// Put stores c as what is committed for its partition of the topic. It keeps name.
func (s *Set) Put(name string, c Committed) {
	i, ok := s.find(name)
	if !ok {
		s.topics = slices.Insert(s.topics, i, topic{name: name})
	}
	t := &s.topics[i]
	j, ok := t.find(c.Partition)
	if ok {
		t.partitions[j] = c
		return
	}
	t.partitions = slices.Insert(t.partitions, j, c)
}

// Delete forgets what is committed for a partition.
func (s *Set) Delete(name string, partition int32) {
	i, ok := s.find(name)
	if !ok {
		return
	}
	t := &s.topics[i]
	if j, ok := t.find(partition); ok {
		t.partitions = slices.Delete(t.partitions, j, j+1)
	}
	if len(t.partitions) == 0 {
		s.topics = slices.Delete(s.topics, i, i+1)
		if len(s.topics) == 0 {
			s.topics = nil
		}
	}
}

// Topics iterates over the topics and what is committed for each, in order. The set must not change meanwhile.
func (s *Set) Topics() iter.Seq2[string, []Committed] {
	return func(yield func(string, []Committed) bool) {
		for i := range s.topics {
			if !yield(s.topics[i].name, s.topics[i].partitions) {
				return
			}
		}
	}
}

// Topic returns what is committed for a topic, ordered by partition.
func (s *Set) Topic(name string) []Committed {
	if i, ok := s.find(name); ok {
		return s.topics[i].partitions
	}
	return nil
}
