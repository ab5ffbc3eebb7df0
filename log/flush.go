package log

import (
	"errors"
	"io/fs"
	"slices"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/log/checkpoint"
	"github.com/gregor-broker/gregor/log/epoch"
	"github.com/gregor-broker/gregor/log/segment"
)

// Flush returns when everything appended before is durable, and moves the recovery point.
func (l *Log) Flush() error {
	if l.recovered.Load() >= l.pub.end.Load() {
		return nil
	}
	return l.dir.syncer.flush(l)
}

// flushIfDue flushes if flush.messages were appended since the last time.
func (l *Log) flushIfDue() error {
	if l.unflushed.Load() < l.config.Load().FlushMessages {
		return nil
	}
	return l.dir.syncer.flush(l)
}

// fail stops all writing to the log: what is on disk is not what it should be, until a recovery looks at it. The error
// is returned for the caller.
func (l *Log) fail(doing string, err error) error {
	l.dir.failed.Store(true)
	if l.state.CompareAndSwap(int32(live), int32(failed)) {
		l.dir.logger.Error("a log takes no more records until the broker was restarted", zap.String("topic", l.tp.Topic),
			zap.Int32("partition", l.tp.Partition), zap.String("dir", l.path), zap.String("doing", doing), zap.Error(err))
	}
	return l.storage(doing, err)
}

// flushPlan is what must be synced so that everything below end is durable.
type flushPlan struct {
	end         int64
	truncations int64
	segs        []*segment.Segment // the last one grows
	snapshots   []int64
	epochs      epoch.History
	writeEpochs bool
	syncNames   bool
}

// planFlush takes down what a flush has to do. The caller holds mu.
func (l *Log) planFlush() flushPlan {
	segs := *l.segs.Load()
	p := flushPlan{
		end: l.pub.end.Load(), truncations: l.mu.truncations, segs: segs[floorSegment(segs, l.recovered.Load()):],
		snapshots: l.mu.unsynced, epochs: *l.epochs.Load(), writeEpochs: l.mu.epochsDirty, syncNames: l.mu.namesDirty,
	}
	l.mu.unsynced, l.mu.epochsDirty, l.mu.namesDirty = nil, false, false
	l.unflushed.Store(0)
	return p
}

// flushNow syncs. Only the directory's syncer calls it, or who has stopped that.
func (l *Log) flushNow() error {
	if err := l.usable(); err != nil && !errors.Is(err, errClosed) {
		return err
	}
	l.mu.Lock()
	p := l.planFlush()
	l.mu.Unlock()
	if err := l.sync(p); err != nil {
		l.mu.Lock()
		l.mu.unsynced = append(l.mu.unsynced, p.snapshots...)
		l.mu.epochsDirty = l.mu.epochsDirty || p.writeEpochs
		l.mu.namesDirty = l.mu.namesDirty || p.syncNames
		l.mu.Unlock()
		if lifeState(l.state.Load()) == deleted {
			return l.errorf("%w", ErrUnknownPartition)
		}
		return l.fail("fsync", err)
	}
	l.flushed(p)
	return nil
}

func (l *Log) sync(p flushPlan) error {
	closing := lifeState(l.state.Load()) == closed
	for i, s := range p.segs {
		err := l.dir.syncSegment(s, closing || i < len(p.segs)-1)
		if err != nil && !(errors.Is(err, fs.ErrNotExist) && l.dropped(s)) {
			return err
		}
	}
	for _, at := range p.snapshots {
		if err := l.syncSnapshot(at); err != nil {
			return err
		}
	}
	if p.writeEpochs {
		// A log start that rose has cut the epochs: it must not be forgotten when they are.
		if err := l.dir.checkpoint(startCheckpoint, false); err != nil {
			return err
		}
		if err := checkpoint.Write(l.dir.fs, l.path+"/"+epoch.FileName, p.epochs.Format()); err != nil {
			return err
		}
	}
	if p.syncNames {
		return l.dir.fs.SyncDir(l.path)
	}
	return nil
}

// syncSegment makes a segment durable, and tells how long that took. After LogFlushStats of Apache Kafka.
func (d *dir) syncSegment(s *segment.Segment, withIndexes bool) error {
	began := d.clock.Monotonic()
	err := s.Sync(withIndexes)
	d.flushed(d.clock.Monotonic() - began)
	return err
}

// dropped says whether a segment has left the log since a flush was planned.
func (l *Log) dropped(s *segment.Segment) bool { return !slices.Contains(*l.segs.Load(), s) }

// syncSnapshot makes a snapshot durable; it may have been removed meanwhile.
func (l *Log) syncSnapshot(at int64) error {
	f, err := l.dir.fs.Open(l.snapshotPath(at))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// flushed moves the recovery point after a successful plan, unless the log was truncated meanwhile.
func (l *Log) flushed(p flushPlan) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.syncNames && !l.mu.namesDirty && l.dropping.CompareAndSwap(true, false) {
		l.dir.startChanged.set()
	}
	if p.truncations == l.mu.truncations && p.end > l.recovered.Load() {
		l.recovered.Store(p.end)
		l.dir.recoveryChanged.set()
	}
}
