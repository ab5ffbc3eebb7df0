// Package assignor distributes partitions among the members of a group of the consumer protocol, as Kafka's server-side
// assignors do: uniform (even, and moving as little as it can) and range (the same partitions of all topics together).
//
// Functions without state: what was assigned before comes in with the members.
package assignor

import "github.com/gregor-broker/gregor/groupcoord/schema"

// Topic is a topic's id.
type Topic = [16]byte

// Member is a member and what it wants.
type Member struct {
	ID         string
	InstanceID *string
	Topics     []Topic                  // existing ones that it consumes, each once
	Before     []schema.TopicPartitions // what it was assigned last
}

// Group is what is to be distributed, to whom.
type Group struct {
	Members     []Member // in order of their ids
	Homogeneous bool     // all consume the same topics
	Partitions  func(Topic) int32
}

// Func returns the new assignment: for each member, by its index, its partitions by topic. Topics are in order of their
// ids, partitions ascending.
type Func func(*Group) [][]schema.TopicPartitions

// byName are the assignors.
var byName = map[string]Func{"uniform": Uniform, "range": Range}

// ByName returns an assignor, nil if there is none of that name.
func ByName(name string) Func { return byName[name] }
