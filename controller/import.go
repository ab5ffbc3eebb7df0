package controller

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/znode"
)

// ImportTopic is a topic found in an adopted data directory, partitions in order.
type ImportTopic struct {
	Name       string
	ID         [16]byte // zero: a new one is made
	Partitions []ImportPartition
	Configs    map[string]string
}

// ImportPartition is one of its partitions.
type ImportPartition struct {
	Replicas    []int32
	LeaderEpoch int32 // the last one in the data, -1 none; the partition goes on with the next
}

// Import writes the nodes of topics whose data is there already. No broker may run on the store. A topic that exists with the same
// id is left alone, so that an import can be repeated; if one exists with another id nothing is written, and the error says so.
func Import(ctx context.Context, s store.Store, topics []ImportTopic) error {
	if err := importPaths(ctx, s); err != nil {
		return err
	}
	paths := make([]string, len(topics))
	for i, t := range topics {
		if err := t.validate(); err != nil {
			return err
		}
		paths[i] = znode.TopicPath(t.Name)
	}
	nodes, err := s.Read(ctx, datas(paths...)...)
	if err != nil {
		return err
	}
	var txns []store.Txn
	for i, t := range topics {
		if !nodes[i].Exists {
			txns = append(txns, t.txn())
			continue
		}
		z, err := znode.DecodeTopic(nodes[i].Data)
		if err != nil {
			return fmt.Errorf("%s in the metadata store: %w", paths[i], err)
		}
		if t.ID != [16]byte{} && z.ID != t.ID {
			return fmt.Errorf("topic %s is in the metadata store with id %s, but its data has id %s (partition.metadata): "+
				"it is another topic of the same name; nothing was imported", t.Name, znode.FormatID(z.ID), znode.FormatID(t.ID))
		}
	}
	for _, o := range s.CommitEach(ctx, txns) {
		err = errors.Join(err, o.Err)
	}
	return err
}

// importPaths creates the directories.
func importPaths(ctx context.Context, s store.Store) error {
	nodes, err := s.Read(ctx, datas(znode.Persistent()...)...)
	if err != nil {
		return err
	}
	var ops []store.Op
	for _, n := range nodes {
		if !n.Exists {
			ops = append(ops, store.Create(n.Path, nil, store.Persistent))
		}
	}
	if len(ops) > 0 {
		_, err = s.Commit(ctx, ops...)
	}
	return err
}

func (t *ImportTopic) validate() error {
	if err := ValidTopicName(t.Name); err != nil {
		return err
	}
	if len(t.Partitions) == 0 {
		return fmt.Errorf("topic %s has no partitions", t.Name)
	}
	for p, part := range t.Partitions {
		if len(part.Replicas) == 0 {
			return fmt.Errorf("partition %s-%d has no replicas", t.Name, p)
		}
	}
	return nil
}

// txn creates the topic's nodes, all or none.
func (t *ImportTopic) txn() store.Txn {
	z := znode.Topic{ID: t.ID}
	if z.ID == ([16]byte{}) {
		crand.Read(z.ID[:])
		z.ID[6], z.ID[8] = z.ID[6]&0x0f|0x40, z.ID[8]&0x3f|0x80
	}
	txn := store.Txn{store.Create(znode.TopicConfigPath(t.Name), znode.EncodeConfig(t.Configs), store.Persistent)}
	for _, p := range t.Partitions {
		z.Replicas = append(z.Replicas, p.Replicas)
	}
	txn = append(txn, store.Create(znode.TopicPath(t.Name), z.Encode(), store.Persistent),
		store.Create(znode.PartitionsPath(t.Name), nil, store.Persistent))
	for i, p := range t.Partitions {
		state := znode.State{Leader: p.Replicas[0], LeaderEpoch: p.LeaderEpoch + 1, ISR: p.Replicas}
		txn = append(txn, store.Create(znode.PartitionPath(t.Name, int32(i)), nil, store.Persistent),
			store.Create(znode.StatePath(t.Name, int32(i)), state.Encode(), store.Persistent))
	}
	return txn
}
