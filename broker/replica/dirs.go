package replica

import (
	"errors"
	"maps"
	"path/filepath"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/log"
)

// failedDirs are the log directories to which writing failed. In a cluster their replicas are offline until the broker
// starts again, so that others lead: DirFailed has the controller ask, and LeaderAndISR answers KAFKA_STORAGE_ERROR for
// them. A single node, where nobody else could serve, tries each write anew.
type failedDirs struct {
	count  atomic.Int32
	closed atomic.Bool // the logs are being closed, which is no failure
	mu     struct {
		sync.Mutex
		paths map[string]bool
	}
}

// begin takes over those that could not be used at the start.
func (f *failedDirs) begin(dirs []log.DirInfo) {
	for _, d := range dirs {
		if d.LeftOut {
			f.add(d.Path)
		}
	}
}

// is says whether a directory is in.
func (f *failedDirs) is(path string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.paths[path]
}

// has says whether a log lies in a failed directory.
func (f *failedDirs) has(l *log.Log) bool {
	if f.count.Load() == 0 {
		return false
	}
	return f.is(filepath.Dir(l.Dir()))
}

// add reports whether the directory is newly in.
func (f *failedDirs) add(path string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.paths == nil {
		f.mu.paths = map[string]bool{}
	}
	if f.mu.paths[path] {
		return false
	}
	f.mu.paths[path] = true
	f.count.Add(1)
	return true
}

// all returns the directories that are in.
func (f *failedDirs) all() map[string]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.mu.paths)
}

// wrote looks at the error of a write, and returns it.
func (p *Partition) wrote(err error) error {
	m := p.manager
	if err == nil || m.options.DirFailed == nil || !errors.Is(err, log.ErrStorage) || m.failed.closed.Load() {
		return err
	}
	if dir := filepath.Dir(p.log.Dir()); m.failed.add(dir) {
		m.options.Pool(func() { m.takeOffline(dir) })
	}
	return err
}

// takeOffline ends what this broker does with the partitions in a directory, and tells about it.
func (m *Manager) takeOffline(dir string) {
	m.logs.Retire(dir)
	count := m.endIn(dir)
	left := len(m.logs.Dirs()) - int(m.failed.count.Load())
	m.logger.Error("a log directory cannot be written: its replicas are offline until the broker starts again", zap.String("dir", dir),
		zap.Int("count", count), zap.Int("left", left))
	m.options.DirFailed(dir, left)
}

// endIn ends the roles of the partitions in a directory, and returns how many there are.
func (m *Manager) endIn(dir string) int {
	m.orders.Lock()
	defer m.orders.Unlock()
	var gone []log.TopicPartition
	for _, ps := range *m.topics.Load() {
		for _, p := range ps {
			if p == nil || filepath.Dir(p.log.Dir()) != dir {
				continue
			}
			gone = append(gone, p.tp)
			old := p.role.Load()
			p.follow(&role{failed: true, leader: old.leader, leaderEpoch: old.leaderEpoch, partitionEpoch: old.partitionEpoch})
			p.roleChanged()
			if old.leads {
				m.options.OnLeader(p.tp, old.leaderEpoch, false)
			}
		}
	}
	if m.fetchers != nil {
		m.fetchers.Forget(gone)
	}
	return len(gone)
}

// offline says whether a partition named in an order is on a failed directory, or may be: one that is not held and not
// new was there before.
func (m *Manager) offline(c *change) bool {
	if m.failed.count.Load() == 0 {
		return false
	}
	if l := m.logs.Get(c.tp); l != nil {
		return m.failed.has(l)
	}
	return !c.state.IsNew
}
