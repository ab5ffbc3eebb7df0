package log

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/log/checkpoint"
	"github.com/gregor-broker/gregor/log/segment"
	"github.com/gregor-broker/gregor/log/vfs"
)

// New is a log to create.
type New struct {
	TopicPartition
	TopicID TopicID // zero: none is written
	Config  *Config // nil: Options.Defaults
}

// creation is a New on its way.
type creation struct {
	New
	index int // in the caller's list
	d     *dir
	log   *Log
	files []string // made, and to be synced
	err   error
	tried []*dir // where it failed
}

// Create makes logs; when it returns, those without an error are durable. One that exists with the same topic id, or
// had none until now, is no error. A new log goes where fewest are. Many are synced together.
func (m *Manager) Create(news []New) []error {
	m.creating.Lock()
	defer m.creating.Unlock()
	errs := make([]error, len(news))
	var list []*creation
	count := make([]int, len(m.dirs))
	for i, d := range m.dirs {
		count[i] = d.len()
	}
	seen := make(map[TopicPartition]bool, len(news))
	for i, n := range news {
		if l := m.Get(n.TopicPartition); l != nil {
			errs[i] = l.adopt(n.TopicID)
			continue
		}
		if seen[n.TopicPartition] {
			continue
		}
		if !fit(n.TopicPartition) {
			errs[i] = fmt.Errorf("%q: %w", n.Topic, ErrName)
			continue
		}
		seen[n.TopicPartition] = true
		if c := (&creation{New: n, index: i}); m.choose(c, count) {
			list = append(list, c)
		} else {
			errs[i] = fmt.Errorf("%s: every log directory has failed: %w", n.TopicPartition, ErrStorage)
		}
	}
	m.createAll(list)
	for again := m.elsewhere(list, count); len(again) > 0; again = m.elsewhere(again, count) {
		m.createAll(again)
	}
	for _, c := range list {
		errs[c.index] = c.err
	}
	return errs
}

// choose gives a creation the directory with the fewest logs, of those that have not failed and where it has not been tried; false if
// there is none.
func (m *Manager) choose(c *creation, count []int) bool {
	least := -1
	for i, d := range m.dirs {
		if !d.retired.Load() && !slices.Contains(c.tried, d) && (least < 0 || count[i] < count[least]) {
			least = i
		}
	}
	if least < 0 {
		return false
	}
	count[least]++
	c.d = m.dirs[least]
	return true
}

// elsewhere returns the creations that failed in one directory and may succeed in another (LogManager.getOrCreateLog).
func (m *Manager) elsewhere(list []*creation, count []int) []*creation {
	var again []*creation
	for _, c := range list {
		failed := c.d
		// What is left of it would stand in two directories.
		if !errors.Is(c.err, ErrStorage) || failed.fs.RemoveAll(failed.path+"/"+c.TopicPartition.String()) != nil {
			continue
		}
		if c.tried = append(c.tried, failed); m.choose(c, count) {
			m.o.Logger.Error("a partition could not be created in a log directory; another one is tried", zap.String("topic", c.Topic),
				zap.Int32("partition", c.Partition), zap.String("dir", failed.path), zap.Error(c.err))
			c.err, c.files = nil, nil
			again = append(again, c)
		}
	}
	return again
}

// Retire has nothing created in a directory any more: it has failed.
func (m *Manager) Retire(path string) {
	for _, d := range m.dirs {
		if d.path == path {
			d.retired.Store(true)
		}
	}
}

// createAll makes the files of list, syncs them, and shows the logs.
func (m *Manager) createAll(list []*creation) {
	if len(list) == 0 {
		return
	}
	var next atomic.Int64
	var wait sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(list)) {
		wait.Go(func() {
			for {
				n := int(next.Add(1)) - 1
				if n >= len(list) {
					return
				}
				m.createFiles(list[n])
			}
		})
	}
	wait.Wait()
	for _, d := range m.dirs {
		syncCreated(d, list)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range list {
		switch {
		case c.err != nil:
		case m.mu.closed:
			c.err = fmt.Errorf("%s: %w", c.TopicPartition, errClosed)
		default:
			m.mu.logs[c.TopicPartition] = c.log
			c.d.add(c.log)
			c.d.recoveryChanged.set()
			c.d.hwChanged.set()
		}
	}
}

// createFiles makes the directory and files of one log.
func (m *Manager) createFiles(c *creation) {
	config := c.Config
	if config == nil {
		config = m.o.Defaults
	}
	l := newLog(c.d, c.TopicPartition, c.d.path+"/"+c.TopicPartition.String(), config)
	l.mu.id = c.TopicID
	err := c.d.fs.Mkdir(l.path)
	if errors.Is(err, fs.ErrExist) {
		// No log of this manager: it is left of a creation or deletion that failed.
		name := deleteName(l.tp)
		if err = c.d.fs.Rename(l.path, c.d.path+"/"+name); err == nil {
			m.removeLater(c.d, name, 0)
			err = c.d.fs.Mkdir(l.path)
		}
	}
	if err != nil {
		c.err = l.storage("creating the directory", err)
		return
	}
	if err = c.writeID(l); err == nil {
		l.setSegments([]*segment.Segment{segment.Plan(c.d.files, l.path, 0)})
	}
	if err != nil {
		_ = c.d.fs.RemoveAll(l.path) // what cannot be removed is found empty at the next start
		c.err = l.storage("creating the log", err)
		return
	}
	l.mu.Lock()
	l.startSegment()
	l.mu.Unlock()
	c.log = l
}

func (c *creation) writeID(l *Log) error {
	if c.TopicID == (TopicID{}) {
		return nil
	}
	c.files = append(c.files, l.path+"/"+checkpoint.PartitionMetadataName)
	f, err := c.d.fs.Create(c.files[0])
	if err != nil {
		return err
	}
	_, err = f.WriteAt(checkpoint.FormatPartitionMetadata(c.TopicID), 0)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// fewCreations is up to how many logs are synced one by one: syncing a whole file system writes what others have dirty,
// too.
const fewCreations = 16

// syncCreated makes the creations in d durable.
func syncCreated(d *dir, list []*creation) {
	var mine []*creation
	for _, c := range list {
		if c.d == d && c.err == nil {
			mine = append(mine, c)
		}
	}
	if len(mine) == 0 {
		return
	}
	err := vfs.ErrUnsupported
	if len(mine) > fewCreations {
		err = d.fs.SyncAll(d.path)
	}
	if errors.Is(err, vfs.ErrUnsupported) {
		err = syncEach(d, mine)
	}
	if err == nil {
		return
	}
	for _, c := range mine {
		c.err = c.log.storage("syncing the new log", err)
	}
}

func syncEach(d *dir, list []*creation) error {
	for _, c := range list {
		for _, name := range c.files {
			if err := syncFile(d.fs, name); err != nil {
				return err
			}
		}
		if err := d.fs.SyncDir(c.log.path); err != nil {
			return err
		}
	}
	return d.fs.SyncDir(d.path)
}

func syncFile(fsys vfs.FS, name string) error {
	f, err := fsys.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// adopt checks the topic id of a log that exists, or gives it the one that it lacks.
func (l *Log) adopt(id TopicID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id == (TopicID{}) || l.mu.id == id {
		return nil
	}
	if l.mu.id != (TopicID{}) {
		return l.errorf("the topic id is %s, the log's is %s: %w", id, l.mu.id, ErrInconsistentTopicID)
	}
	if err := checkpoint.Write(l.dir.fs, l.path+"/"+checkpoint.PartitionMetadataName, checkpoint.FormatPartitionMetadata(id)); err != nil {
		return l.storage("topic id", err)
	}
	l.mu.id = id
	return nil
}

// Delete takes logs out of use. Their directories are renamed now, durably, and removed after file.delete.delay.ms.
// Reads that began go on.
func (m *Manager) Delete(tps []TopicPartition) {
	m.creating.Lock()
	defer m.creating.Unlock()
	changed := map[*dir]bool{}
	for _, tp := range tps {
		m.mu.Lock()
		l := m.mu.logs[tp]
		delete(m.mu.logs, tp)
		m.mu.Unlock()
		if l != nil {
			m.deleteLog(l)
			changed[l.dir] = true
		}
	}
	for d := range changed {
		// The checkpoints' lines must not outlive the log: another one may come under its name.
		if err := errors.Join(d.fs.SyncDir(d.path), d.checkpointAll()); err != nil {
			d.logger.Error("a deletion may come back after a crash", zap.String("dir", d.path), zap.Error(err))
		}
	}
}

func (m *Manager) deleteLog(l *Log) {
	l.dir.remove(l)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.Store(int32(deleted))
	name := deleteName(l.tp)
	if err := l.dir.fs.Rename(l.path, l.dir.path+"/"+name); err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			l.dir.logger.Error("a partition could not be renamed for deletion", zap.String("dir", l.path), zap.Error(err))
		}
		return
	}
	m.removeLater(l.dir, name, l.dir.delay(l.config.Load().FileDeleteDelayMs))
	l.dir.sched.after(0, l.closeFiles)
}

// SetAside takes a log out of use and keeps what it holds, under a name that no start looks at: topic-partition.HEX32-stray, as
// Kafka calls what belongs to no topic any more.
func (m *Manager) SetAside(tp TopicPartition) error {
	m.creating.Lock()
	defer m.creating.Unlock()
	l := m.Get(tp)
	if l == nil {
		return nil
	}
	if err := l.dir.fs.Rename(l.path, l.dir.path+"/"+strayName(tp)); err != nil {
		return l.storage("setting the log aside", err)
	}
	m.mu.Lock()
	delete(m.mu.logs, tp)
	m.mu.Unlock()
	l.dir.remove(l)
	l.mu.Lock()
	l.state.Store(int32(deleted))
	l.mu.Unlock()
	l.dir.sched.after(0, l.closeFiles)
	if err := errors.Join(l.dir.fs.SyncDir(l.dir.path), l.dir.checkpointAll()); err != nil {
		return l.storage("setting the log aside", err)
	}
	return nil
}

// closeFiles closes the descriptors that the log holds.
func (l *Log) closeFiles() {
	for _, s := range *l.segs.Load() {
		s.Close()
	}
}
