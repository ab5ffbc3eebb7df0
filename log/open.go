package log

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/log/checkpoint"
)

// identify compares every directory's meta.properties with the options, then writes the missing ones. Nothing is
// changed before all were compared.
func (m *Manager) identify() error {
	m.clusterID = m.o.ClusterID
	source := "the broker's metadata"
	var missing []*dir
	errs := make([]error, len(m.dirs))
	for i, d := range m.dirs {
		meta, found, err := checkpoint.ReadMeta(d.fs, d.path)
		if errs[i] = err; err != nil {
			continue
		}
		if !found {
			missing = append(missing, d)
			continue
		}
		file := d.path + "/" + checkpoint.MetaName
		if err := checkMeta(file, meta, m.o.BrokerID); err != nil {
			return err
		}
		if meta.ClusterID != "" && m.clusterID != "" && meta.ClusterID != m.clusterID {
			return fmt.Errorf("%s belongs to cluster %s, but %s says %s: use the log directory and the metadata of one cluster together; "+
				"to start over with an empty broker, choose an empty log directory", file, meta.ClusterID, source, m.clusterID)
		}
		if m.clusterID == "" {
			m.clusterID, source = meta.ClusterID, file
		}
	}
	if err := m.leaveOutAll(errs); err != nil {
		return err
	}
	if m.clusterID == "" {
		m.clusterID = NewClusterID()
	}
	errs = make([]error, len(m.dirs))
	for i, d := range m.dirs {
		if !slices.Contains(missing, d) {
			continue
		}
		meta := checkpoint.Meta{ID: m.o.BrokerID, ClusterID: m.clusterID}
		if err := checkpoint.WriteMeta(d.fs, d.path, meta, d.clock.Now()); err != nil {
			errs[i] = fmt.Errorf("log directory %s: %w", d.path, err)
		}
	}
	return m.leaveOutAll(errs)
}

func checkMeta(file string, meta checkpoint.Meta, brokerID int32) error {
	if meta.Version == 1 {
		return fmt.Errorf("%s is that of a KRaft broker (version=1, node.id=%d): its directory cannot be used in ZooKeeper's format; "+
			"choose another log directory (log.dirs)", file, meta.ID)
	}
	if meta.ID >= 0 && meta.ID != brokerID {
		return fmt.Errorf("%s belongs to broker %d, but broker.id is %d: set broker.id=%d to use this directory, or choose another one (log.dirs)",
			file, meta.ID, brokerID, meta.ID)
	}
	return nil
}

// NewClusterID is a random UUID in the form that Kafka uses: base64url without padding, not beginning with a dash.
func NewClusterID() string {
	for {
		var id [16]byte
		_, _ = rand.Read(id[:]) // never fails
		id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
		if s := base64.RawURLEncoding.EncodeToString(id[:]); s[0] != '-' {
			return s
		}
	}
}

// loading is the work of a directory at start.
type loading struct {
	d                   *dir
	clean               bool
	recovery, start, hw checkpoint.Offsets
	names               []string // of partitions
}

// loadAll loads the directories side by side, each with its own number of threads.
func (m *Manager) loadAll(ctx context.Context) error {
	errs := make([]error, len(m.dirs))
	var wait sync.WaitGroup
	for i, d := range m.dirs {
		wait.Go(func() { errs[i] = m.loadDir(ctx, d) })
	}
	wait.Wait()
	if ctx.Err() != nil {
		return errors.Join(errs...)
	}
	return m.leaveOutAll(errs)
}

func (m *Manager) loadDir(ctx context.Context, d *dir) error {
	began := d.clock.Monotonic()
	w, err := m.survey(d)
	if err != nil {
		return err
	}
	if err := m.loadPartitions(ctx, w); err != nil {
		return err
	}
	d.logger.Info("log directory loaded", zap.String("dir", d.path), zap.Int("partitions", len(w.names)), zap.Bool("clean", w.clean),
		zap.Duration("dur", d.clock.Monotonic()-began))
	return nil
}

// survey reads the directory's names and small files.
func (m *Manager) survey(d *dir) (*loading, error) {
	w := &loading{d: d}
	var err error
	if w.clean, err = checkpoint.TakeCleanShutdown(d.fs, d.path); err != nil {
		return nil, fmt.Errorf("log directory %s: %w", d.path, err)
	}
	for _, c := range [...]struct {
		name  string
		into  *checkpoint.Offsets
		fatal bool
	}{
		{checkpoint.RecoveryPoints, &w.recovery, false}, {checkpoint.LogStartOffsets, &w.start, false}, {checkpoint.HighWatermarks, &w.hw, true},
	} {
		offsets, err := checkpoint.ReadOffsets(d.fs, d.path, c.name)
		if err != nil && c.fatal {
			return nil, err
		}
		if err != nil {
			d.logger.Warn("a checkpoint is not used", zap.String("dir", d.path), zap.Error(err))
			offsets = checkpoint.Offsets{}
		}
		*c.into = offsets
	}
	entries, err := d.fs.ReadDir(d.path)
	if err != nil {
		return nil, fmt.Errorf("log directory %s: %w", d.path, err)
	}
	for _, e := range entries {
		m.classify(w, e)
	}
	return w, nil
}

// Suffixes of directories that are no partition, or not any more.
const (
	deleteDirSuffix = "-delete"
	futureDirSuffix = "-future"
	strayDirSuffix  = "-stray"
)

func (m *Manager) classify(w *loading, e fs.DirEntry) {
	name := e.Name()
	switch {
	case !e.IsDir():
	case strings.HasSuffix(name, deleteDirSuffix):
		m.removeLater(w.d, name, 0)
	case strings.HasSuffix(name, futureDirSuffix), strings.HasSuffix(name, strayDirSuffix):
		w.d.logger.Warn("a directory is set aside", zap.String("dir", w.d.path+"/"+name))
	case isPartitionDir(name):
		w.names = append(w.names, name)
	}
}

// isPartitionDir says whether a directory in a log directory is that of a partition which is served.
func isPartitionDir(name string) bool {
	tp, err := checkpoint.ParseTopicPartition(name)
	return err == nil && tp.Topic != "__cluster_metadata" && tp.String() == name && !strings.ContainsRune(name, '/')
}

func (m *Manager) loadPartitions(ctx context.Context, w *loading) error {
	var next atomic.Int64
	errs := make([]error, min(m.o.RecoveryThreadsPerDir, max(len(w.names), 1)))
	var wait sync.WaitGroup
	for i := range errs {
		wait.Go(func() {
			for errs[i] == nil {
				n := int(next.Add(1)) - 1
				if n >= len(w.names) {
					return
				}
				if errs[i] = ctx.Err(); errs[i] == nil {
					errs[i] = m.loadPartition(w, w.names[n])
				}
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

func (m *Manager) loadPartition(w *loading, name string) error {
	tp, err := checkpoint.ParseTopicPartition(name)
	if err != nil {
		return err
	}
	l, err := w.d.load(name, tp, m.o.ConfigFor(tp.Topic), saved{clean: w.clean, recovery: w.recovery[tp], start: w.start[tp], hw: w.hw[tp]})
	if err != nil {
		return err
	}
	m.mu.Lock()
	other := m.mu.logs[tp]
	if other == nil {
		m.mu.logs[tp] = l
	}
	m.mu.Unlock()
	if other != nil {
		return fmt.Errorf("partition %s is in two log directories, %s and %s: move one of them away", tp, other.path, l.path)
	}
	w.d.add(l)
	return nil
}

// removeLater removes a directory in d that was renamed for deletion.
func (m *Manager) removeLater(d *dir, name string, delay time.Duration) {
	d.sched.after(delay, func() {
		if err := d.fs.RemoveAll(d.path + "/" + name); err != nil {
			d.logger.Warn("a deleted partition could not be removed", zap.String("dir", d.path+"/"+name), zap.Error(err))
		}
	})
}
