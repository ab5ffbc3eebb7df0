// Package metadata holds what this broker knows of the cluster: an immutable image that handlers read, built from the
// controller's UpdateMetadata orders, on a single node as in a cluster.
package metadata

import (
	"slices"

	"github.com/gregor-broker/gregor/log"
)

// Names of the topics that belong to the brokers.
const (
	ConsumerOffsets  = "__consumer_offsets"
	TransactionState = "__transaction_state"
	ShareGroupState  = "__share_group_state"
)

// IsInternal says whether a topic belongs to the brokers (org.apache.kafka.common.internals.Topic).
func IsInternal(topic string) bool {
	return topic == ConsumerOffsets || topic == TransactionState || topic == ShareGroupState
}

// MaxPartitions bounds the numbers of partitions: what is kept by number takes room up to the highest, whoever named it. The node of a
// topic with more would be larger than ZooKeeper takes.
const MaxPartitions = 1 << 17

// NoLeader is the leader of a partition that has none.
const NoLeader = -1

// Image is the cluster at one moment. Immutable, so that it may be read by anyone without a lock; a handler takes one
// image and uses it throughout.
type Image struct {
	Controller int32 // id of the active controller, -1 when unknown
	// Changes rises with each image in which topics, their partitions or the brokers of their replicas are others than before.
	Changes int64
	brokers map[int32]*Broker
	topics  map[string]*Topic
	byID    map[log.TopicID]*Topic
}

// Broker is a live broker.
type Broker struct {
	ID        int32
	Rack      *string
	Endpoints map[string]Endpoint // by listener name
}

// Endpoint is where a broker's listener is reached.
type Endpoint struct {
	Host string
	Port int32
}

// Topic is a topic; Partitions[i] is partition i.
type Topic struct {
	Name       string
	ID         log.TopicID
	Partitions []Partition
}

// Partition is the state of a partition as the controller last said it.
type Partition struct {
	Leader      int32 // NoLeader while it has none
	LeaderEpoch int32
	Replicas    []int32
	ISR         []int32
	Offline     []int32 // replicas on dead brokers or failed directories
}

// Exists says whether the controller has told about this partition: numbers below the highest may arrive later.
func (p *Partition) Exists() bool { return p.Replicas != nil }

// Brokers returns the live brokers in order of their ids.
func (i *Image) Brokers() []*Broker {
	all := make([]*Broker, 0, len(i.brokers))
	for _, b := range i.brokers {
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b *Broker) int { return int(a.ID) - int(b.ID) })
	return all
}

// Broker returns a live broker, or nil.
func (i *Image) Broker(id int32) *Broker { return i.brokers[id] }

// Topic returns a topic by name, or nil.
func (i *Image) Topic(name string) *Topic { return i.topics[name] }

// TopicByID returns a topic by id, or nil.
func (i *Image) TopicByID(id log.TopicID) *Topic { return i.byID[id] }

// TopicNames returns the names of all topics in order.
func (i *Image) TopicNames() []string {
	names := make([]string, 0, len(i.topics))
	for name := range i.topics {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Partition returns a partition, or nil.
func (i *Image) Partition(topic string, partition int32) *Partition {
	return i.topics[topic].Partition(partition)
}

// Online says whether a broker lives and can serve its replica of a partition, as far as the controller has said.
func (i *Image) Online(broker int32, topic string, partition int32) bool {
	if i.brokers[broker] == nil {
		return false
	}
	p := i.Partition(topic, partition)
	return p == nil || !slices.Contains(p.Offline, broker)
}

// Partition returns a partition of t, or nil; t may be nil.
func (t *Topic) Partition(partition int32) *Partition {
	if t == nil || partition < 0 || int(partition) >= len(t.Partitions) || !t.Partitions[partition].Exists() {
		return nil
	}
	return &t.Partitions[partition]
}
