package replica

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/gregor-broker/gregor/log"
)

// Producers lists the producers that a partition remembers.
func (m *Manager) Producers(topic string, partition int32) ([]log.ProducerState, error) {
	p, err := m.lookup(topic, log.TopicID{}, partition)
	if err != nil {
		return nil, err
	}
	if p.role.Load().deleted {
		return nil, ErrUnknownPartition
	}
	return p.log.Producers(), nil
}

// LogDir is a log directory and what lies in it, in the order of topics and partitions.
type LogDir struct {
	Path          string
	Total, Usable int64 // bytes of its file system, -1 when unknown
	Replicas      []LogReplica
	Failed        bool // it cannot be written, or could not be read: its replicas are offline, and none are listed
}

// LogReplica is a partition in a log directory.
type LogReplica struct {
	log.TopicPartition
	Size int64 // bytes of its records
	Lag  int64 // offsets that it is behind the high watermark; -1 when no order has come for it yet
}

// LogDirs describes the log directories, as far as want says yes to a partition.
func (m *Manager) LogDirs(want func(log.TopicPartition) bool) []LogDir {
	infos := m.logs.Dirs()
	dirs := make([]LogDir, len(infos))
	at := make(map[string]*LogDir, len(infos))
	for i, info := range infos {
		dirs[i] = LogDir{Path: info.Path, Total: info.Total, Usable: info.Usable, Failed: m.failed.is(info.Path)}
		at[info.Path] = &dirs[i]
	}
	for _, l := range m.logs.All() {
		tp := l.TopicPartition()
		d := at[filepath.Dir(l.Dir())]
		if d == nil || d.Failed || !want(tp) {
			continue
		}
		r := LogReplica{TopicPartition: tp, Size: l.Size(), Lag: -1}
		if p := m.find(tp.Topic, tp.Partition); p != nil && p.log == l {
			b := l.Bounds()
			r.Lag = max(0, b.HighWatermark-b.End)
		}
		d.Replicas = append(d.Replicas, r)
	}
	for i := range dirs {
		slices.SortFunc(dirs[i].Replicas, func(a, b LogReplica) int {
			if c := strings.Compare(a.Topic, b.Topic); c != 0 {
				return c
			}
			return int(a.Partition) - int(b.Partition)
		})
	}
	return dirs
}
