package log

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gregor-broker/gregor/log/checkpoint"
	"github.com/gregor-broker/gregor/log/vfs"
)

// Inspection is what a log directory holds, as far as its names and small files tell.
type Inspection struct {
	ClusterID  string // "" if there is no meta.properties
	BrokerID   int32  // -1 likewise
	KRaft      bool   // the directory is one of a KRaft broker
	Partitions []InspectedPartition
}

// InspectedPartition is a partition directory. TopicID is zero without partition.metadata.
type InspectedPartition struct {
	TopicPartition
	TopicID TopicID
}

// Inspect lists a log directory by topic and partition, without locking or changing anything.
func Inspect(dir string) (Inspection, error) { return InspectFS(vfs.OS, dir) }

// InspectFS is Inspect on another file system.
func InspectFS(fsys vfs.FS, dir string) (Inspection, error) {
	out := Inspection{BrokerID: -1}
	meta, found, err := checkpoint.ReadMeta(fsys, dir)
	if err != nil {
		return out, err
	}
	if found {
		out.ClusterID, out.BrokerID, out.KRaft = meta.ClusterID, meta.ID, meta.Version == 1
	}
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return out, fmt.Errorf("log directory %s: %w", dir, err)
	}
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), "__cluster_metadata-") {
			out.KRaft = true
		}
		if !e.IsDir() || !isPartitionDir(e.Name()) {
			continue
		}
		tp, err := checkpoint.ParseTopicPartition(e.Name())
		if err != nil {
			return out, err
		}
		id, err := checkpoint.ReadPartitionMetadata(fsys, dir+"/"+e.Name())
		if err != nil {
			return out, err
		}
		out.Partitions = append(out.Partitions, InspectedPartition{tp, id})
	}
	slices.SortFunc(out.Partitions, func(a, b InspectedPartition) int {
		if c := strings.Compare(a.Topic, b.Topic); c != 0 {
			return c
		}
		return int(a.Partition) - int(b.Partition)
	})
	return out, nil
}
