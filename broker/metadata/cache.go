package metadata

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gregor-broker/gregor/log"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// leaderDuringDelete is the leader that UpdateMetadata names for a topic that is being deleted
// (LeaderAndIsr.LeaderDuringDelete).
const leaderDuringDelete = -2

// Cache holds the current image. Reading is safe for concurrent use; Apply is serialised by a lock of its own, which
// readers never take.
type Cache struct {
	image atomic.Pointer[Image]
	mu    struct { // taken by Apply, and by Await while it looks
		sync.Mutex
		changed      chan struct{}        // closed by the next Apply
		registration int64                // for which the last update was meant
		unnamed      map[log.TopicID]bool // topics that no update has named since; nil when that is not looked for
	}
}

// Deleted is a topic that an update removed.
type Deleted struct {
	Name string
	ID   log.TopicID
}

// NewCache returns a cache with an empty image.
func NewCache() *Cache {
	c := &Cache{}
	c.mu.changed = make(chan struct{})
	c.image.Store(&Image{Controller: -1})
	return c
}

// Image returns the current image.
func (c *Cache) Image() *Image { return c.image.Load() }

// Apply makes the next image from an UpdateMetadata order: the live brokers are replaced whole, the named partitions
// change, topics whose leader is «being deleted» go. It returns the topics that went. Source: ZkMetadataCache.
func (c *Cache) Apply(r *kmsg.UpdateMetadataRequest) []Deleted {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.image.Load()
	next := &Image{Controller: r.ControllerID, brokers: liveBrokers(r), topics: old.topics, byID: old.byID, Changes: old.Changes}
	var deleted []Deleted
	if len(r.TopicStates) > 0 {
		next.topics, next.byID = maps.Clone(old.topics), maps.Clone(old.byID)
		if next.topics == nil {
			next.topics, next.byID = map[string]*Topic{}, map[log.TopicID]*Topic{}
		}
		for i := range r.TopicStates {
			delete(c.mu.unnamed, r.TopicStates[i].TopicID)
			if next.differs(&r.TopicStates[i]) {
				next.Changes = old.Changes + 1
			}
			if t := next.applyTopic(&r.TopicStates[i]); t != nil {
				deleted = append(deleted, Deleted{t.Name, t.ID})
			}
		}
	}
	c.publish(next)
	return deleted
}

// Await returns when the image satisfies ok, or with the context's error.
func (c *Cache) Await(ctx context.Context, ok func(*Image) bool) error {
	for {
		c.mu.Lock()
		satisfied, changed := ok(c.image.Load()), c.mu.changed
		c.mu.Unlock()
		if satisfied {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func liveBrokers(r *kmsg.UpdateMetadataRequest) map[int32]*Broker {
	brokers := make(map[int32]*Broker, len(r.LiveBrokers))
	for _, b := range r.LiveBrokers {
		endpoints := make(map[string]Endpoint, len(b.Endpoints))
		for _, e := range b.Endpoints {
			endpoints[e.ListenerName] = Endpoint{Host: e.Host, Port: e.Port}
		}
		brokers[b.ID] = &Broker{ID: b.ID, Rack: b.Rack, Endpoints: endpoints}
	}
	return brokers
}

// differs reports whether an order is about a topic, partition or replica that the image does not have, or about a deletion.
func (i *Image) differs(state *kmsg.UpdateMetadataRequestTopicState) bool {
	old := i.topics[state.Topic]
	if old == nil || old.ID != log.TopicID(state.TopicID) {
		return true
	}
	for _, p := range state.PartitionStates {
		known := old.Partition(p.Partition)
		if known == nil || p.Leader == leaderDuringDelete || !slices.Equal(known.Replicas, p.Replicas) {
			return true
		}
	}
	return false
}

// applyTopic changes one topic of an image that nobody else sees yet. It returns the topic that vanished, if one did:
// deleted, or replaced by another of the same name.
func (i *Image) applyTopic(state *kmsg.UpdateMetadataRequestTopicState) *Topic {
	old := i.topics[state.Topic]
	id := log.TopicID(state.TopicID)
	if len(state.PartitionStates) > 0 && state.PartitionStates[0].Leader == leaderDuringDelete {
		if old == nil || old.ID != id {
			return nil
		}
		delete(i.topics, old.Name)
		delete(i.byID, old.ID)
		return old
	}
	next := &Topic{Name: state.Topic, ID: id}
	var replaced *Topic
	if old != nil && old.ID == id {
		next.Partitions = append(next.Partitions, old.Partitions...)
	} else if old != nil {
		replaced = old
		delete(i.byID, old.ID)
	}
	for _, p := range state.PartitionStates {
		if p.Partition < 0 || p.Partition >= MaxPartitions {
			continue
		}
		for int(p.Partition) >= len(next.Partitions) {
			next.Partitions = append(next.Partitions, Partition{Leader: NoLeader})
		}
		next.Partitions[p.Partition] = Partition{
			Leader: p.Leader, LeaderEpoch: p.LeaderEpoch, Replicas: p.Replicas, ISR: p.ISR, Offline: p.OfflineReplicas,
		}
	}
	i.topics[next.Name] = next
	i.byID[next.ID] = next
	return replaced
}
