package log

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/log/segment"
)

// Manager owns the log directories and every log in them. Safe for concurrent use.
type Manager struct {
	o         Options
	clusterID string
	dirs      []*dir
	leftOut   []string   // of the options' directories
	creating  sync.Mutex // held while logs are created or deleted: one name, one directory

	mu struct {
		sync.RWMutex
		logs   map[TopicPartition]*Log
		closed bool
	}
}

// OpenManager locks and loads the directories. A directory that another process uses, that belongs to a KRaft broker,
// or whose ids differ from the options' is refused in words, before anything is changed.
func OpenManager(ctx context.Context, o Options) (*Manager, error) {
	m := &Manager{o: o.withDefaults()}
	m.mu.logs = map[TopicPartition]*Log{}
	if len(m.o.Dirs) == 0 {
		return nil, errors.New("no log directory is configured (log.dirs)")
	}
	files := segment.NewFiles(m.o.FS, m.o.MaxOpenFiles)
	err := m.lockDirs(files)
	if err == nil {
		err = m.identify()
	}
	if err == nil {
		for _, d := range m.dirs {
			d.sched, d.syncer = newScheduler(d.clock), newSyncer()
		}
		err = m.loadAll(ctx)
	}
	if err != nil {
		m.abandon()
		return nil, err
	}
	for _, d := range m.dirs {
		d.start(&m.o)
	}
	return m, nil
}

func (m *Manager) lockDirs(files *segment.Files) error {
	for _, path := range m.o.Dirs {
		lock, err := m.lockDir(path)
		if err != nil {
			if err = m.leaveOut(path, err); err != nil {
				return err
			}
			continue
		}
		d := &dir{
			path: path, fs: m.o.FS, files: files, clock: m.o.Clock, logger: m.o.Logger, lock: lock,
			verifyTxns: m.o.VerifyTransactions, flushed: m.o.Flushed,
		}
		d.producerMaxAgeMs.Store(m.o.ProducerIDExpiration.Milliseconds())
		d.mu.logs = map[TopicPartition]*Log{}
		m.dirs = append(m.dirs, d)
	}
	return nil
}

func (m *Manager) lockDir(path string) (io.Closer, error) {
	if err := m.o.FS.MkdirAll(path); err != nil {
		return nil, fmt.Errorf("log directory %s: %w", path, err)
	}
	lock, err := m.o.FS.Lock(path + "/.lock")
	if err != nil {
		return nil, fmt.Errorf("log directory %s cannot be locked: another broker uses it? %w", path, err)
	}
	return lock, nil
}

// leaveOut notes a directory as left out and returns nil, if its disk is at fault and another directory is left; else err.
func (m *Manager) leaveOut(path string, err error) error {
	var disk *fs.PathError
	if !m.o.LeaveOut || !errors.As(err, &disk) || len(m.leftOut)+1 == len(m.o.Dirs) {
		return err
	}
	m.o.Logger.Error("a log directory cannot be used and is left out: its replicas are offline until the broker starts again",
		zap.String("dir", path), zap.Error(err))
	m.leftOut = append(m.leftOut, path)
	return nil
}

// leaveOutAll is leaveOut for directories that were locked already, one error or none for each.
func (m *Manager) leaveOutAll(errs []error) error {
	var left []*dir
	for i, d := range m.dirs {
		if errs[i] == nil {
			left = append(left, d)
			continue
		}
		if err := m.leaveOut(d.path, errs[i]); err != nil {
			return errors.Join(errs...)
		}
		for _, l := range d.all() {
			delete(m.mu.logs, l.tp)
			l.closeFiles()
		}
		if d.sched != nil {
			d.sched.close()
			d.syncer.close()
		}
		_ = d.lock.Close()
	}
	m.dirs = left
	return nil
}

// abandon gives up directories that were not opened.
func (m *Manager) abandon() {
	for _, d := range m.dirs {
		if d.sched != nil {
			d.sched.close()
			d.syncer.close()
		}
		for _, l := range d.all() {
			l.closeFiles()
		}
		d.lock.Close()
	}
}

// SetProducerIDExpiration changes how long silent idempotent producers are remembered.
func (m *Manager) SetProducerIDExpiration(age time.Duration) {
	for _, d := range m.dirs {
		d.producerMaxAgeMs.Store(age.Milliseconds())
	}
}

// ClusterID is the cluster that the directories belong to.
func (m *Manager) ClusterID() string { return m.clusterID }

// BrokerID is the broker that they belong to.
func (m *Manager) BrokerID() int32 { return m.o.BrokerID }

// Get returns a log, nil if there is none.
func (m *Manager) Get(tp TopicPartition) *Log {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.mu.logs[tp]
}

// All lists the logs in no order.
func (m *Manager) All() []*Log {
	m.mu.RLock()
	defer m.mu.RUnlock()
	logs := make([]*Log, 0, len(m.mu.logs))
	for _, l := range m.mu.logs {
		logs = append(logs, l)
	}
	return logs
}

// DirInfo describes a log directory.
type DirInfo struct {
	Path          string
	Total, Usable int64 // bytes of the file system, -1 when unknown
	Partitions    int
	LeftOut       bool // it could not be used at the start
}

// Dirs describes the directories in the order of the options, those that were left out at the end.
func (m *Manager) Dirs() []DirInfo {
	out := make([]DirInfo, len(m.dirs))
	for i, d := range m.dirs {
		total, usable, err := d.fs.Usage(d.path)
		if err != nil {
			total, usable = -1, -1
		}
		out[i] = DirInfo{Path: d.path, Total: total, Usable: usable, Partitions: d.len()}
	}
	for _, path := range m.leftOut {
		out = append(out, DirInfo{Path: path, Total: -1, Usable: -1, LeftOut: true})
	}
	return out
}

// CheckpointAll writes the checkpoints of all directories.
func (m *Manager) CheckpointAll() error {
	var errs []error
	for _, d := range m.dirs {
		errs = append(errs, d.checkpointAll())
	}
	return errors.Join(errs...)
}

// Close stops the background work, makes everything durable, writes snapshots and checkpoints, and marks the
// directories as left in order; a directory where that fails, or that ctx leaves no time for, is not marked, and
// recovers at its next start. No log may be used any more.
func (m *Manager) Close(ctx context.Context) error {
	m.mu.Lock()
	again := m.mu.closed
	m.mu.closed = true
	m.mu.Unlock()
	if again {
		return nil
	}
	errs := make([]error, len(m.dirs))
	var wait sync.WaitGroup
	for i, d := range m.dirs {
		wait.Go(func() {
			if errs[i] = d.close(ctx); errs[i] != nil {
				d.logger.Error("a log directory was not left in order", zap.String("dir", d.path), zap.Error(errs[i]))
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}
