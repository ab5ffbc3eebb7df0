package log

import (
	"errors"
	"io/fs"
	"slices"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/log/epoch"
	"github.com/gregor-broker/gregor/log/producer"
	"github.com/gregor-broker/gregor/log/segment"
)

// setEpochs publishes another history. The caller holds mu.
func (l *Log) setEpochs(h epoch.History) {
	l.epochs.Store(&h)
	l.mu.epochsDirty, l.mu.touched = true, true
	l.dir.recoveryChanged.set()
}

// TruncateTo drops everything from offset o on, as a follower does that has what its leader has not.
func (l *Log) TruncateTo(o int64) error {
	return l.lowering(o, func() error { return l.truncate(o) })
}

// truncate is TruncateTo. The caller holds mu.
func (l *Log) truncate(o int64) error {
	v := l.pub.view()
	if o >= v.End {
		// An epoch that begins at the end, without records, may be one of which the leader knows nothing.
		if h, changed := l.epochs.Load().TruncateEnd(v.End); changed {
			l.setEpochs(h)
		}
		return nil
	}
	segs := *l.segs.Load()
	if o < segs[0].Base() {
		return l.truncateFully(o)
	}
	keep := floorSegment(segs, o) + 1
	l.mu.truncations++
	l.setSegments(segs[:keep:keep])
	l.dropSegments(segs[keep:], true)
	active := segs[keep-1]
	if err := active.Truncate(o); err != nil {
		return l.fail("truncation", err)
	}
	l.recovered.Store(min(l.recovered.Load(), o))
	if h, changed := l.epochs.Load().TruncateEnd(o); changed {
		l.setEpochs(h)
	}
	l.dropSnapshots(func(at int64) bool { return at > o })
	if err := l.rebuildProducers(o); err != nil {
		return l.fail("producer state", err)
	}
	l.startSegment()
	l.mu.touched = true
	l.pub.reset(min(v.Start, o), o, v.HighWatermark, position{active.Base(), active.Size()}, l.mu.producers.FirstUnstable())
	l.dir.recoveryChanged.set()
	return nil
}

// TruncateFullyTo drops everything and begins anew at start.
func (l *Log) TruncateFullyTo(start int64) error {
	return l.lowering(min(start, (*l.segs.Load())[0].Base()), func() error { return l.truncateFully(start) })
}

// lowering runs a truncation to offset o with mu held. Before, the recovery point on disk is brought to at most o, as
// what is cut off and written again must not be taken for what was flushed; after, the log start on disk, if it fell.
func (l *Log) lowering(o int64, truncate func() error) error {
	if o < l.pub.end.Load() {
		if err := l.lowerRecovery(o); err != nil {
			return err
		}
	}
	l.mu.Lock()
	err := l.usable()
	start := l.pub.start.Load()
	if err == nil {
		err = truncate()
	}
	fell := l.pub.start.Load() < start
	l.mu.Unlock()
	if err == nil && fell {
		err = l.storageIf("log start offsets", l.dir.checkpoint(startCheckpoint, true))
	}
	return err
}

// lowerRecovery makes the recovery point at most o, on disk, too.
func (l *Log) lowerRecovery(o int64) error {
	l.mu.Lock()
	lower := o < l.recovered.Load()
	if lower {
		l.mu.truncations++
		l.recovered.Store(o)
	}
	l.mu.Unlock()
	if !lower {
		return nil
	}
	return l.storageIf("recovery points", l.dir.checkpoint(recoveryCheckpoint, true))
}

// truncateFully is TruncateFullyTo. The caller holds mu.
func (l *Log) truncateFully(start int64) error {
	l.mu.truncations++
	old := *l.segs.Load()
	// The old files leave their names first: one of them may be the new one's.
	l.dropSegments(old, true)
	s, err := segment.Create(l.dir.files, l.path, start, "")
	if err != nil {
		return l.fail("new segment", err)
	}
	l.setSegments([]*segment.Segment{s})
	l.dropSnapshots(func(int64) bool { return true })
	l.setEpochs(nil)
	l.mu.producers = producer.State{}
	l.mu.namesDirty = true
	l.recovered.Store(min(l.recovered.Load(), start))
	l.unflushed.Store(0)
	l.startSegment()
	l.pub.reset(start, start, start, position{start, 0}, -1)
	l.dir.recoveryChanged.set()
	return nil
}

// dropSegments takes segments that are no longer listed out of use: their files are renamed now, the newest first if
// newestFirst, and removed after file.delete.delay.ms. The caller holds mu.
func (l *Log) dropSegments(segs []*segment.Segment, newestFirst bool) {
	if len(segs) == 0 {
		return
	}
	segs = slices.Clone(segs)
	if newestFirst {
		slices.Reverse(segs)
	}
	for _, s := range segs {
		if err := s.Rename(segment.DeletedSuffix); err != nil {
			l.dir.logger.Warn("a segment could not be renamed for deletion", zap.String("dir", l.path), zap.Int64("offset", s.Base()), zap.Error(err))
		}
	}
	l.mu.namesDirty, l.mu.touched = true, true
	l.dir.recoveryChanged.set()
	l.dir.sched.after(l.dir.delay(l.config.Load().FileDeleteDelayMs), func() {
		for _, s := range segs {
			if err := s.Remove(); err != nil {
				l.dir.logger.Warn("a deleted segment could not be removed", zap.String("dir", l.path), zap.Int64("offset", s.Base()), zap.Error(err))
			}
		}
	})
}

// dropSnapshots removes the producer snapshots for whose offset drop is true. The caller holds mu.
func (l *Log) dropSnapshots(drop func(int64) bool) {
	if !slices.ContainsFunc(l.mu.snapshots, drop) {
		return
	}
	l.mu.snapshots = slices.DeleteFunc(l.mu.snapshots, func(at int64) bool {
		if !drop(at) {
			return false
		}
		if err := l.dir.fs.Remove(l.snapshotPath(at)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			l.dir.logger.Warn("a producer snapshot could not be removed", zap.String("dir", l.path), zap.Int64("offset", at), zap.Error(err))
		}
		l.mu.namesDirty = true
		return true
	})
	l.mu.unsynced = slices.DeleteFunc(l.mu.unsynced, drop)
}

// DeleteRecords raises the log start to offset to, -1 for the high watermark, and returns it. Segments that lie before
// it go with the next retention check.
func (l *Log) DeleteRecords(to int64) (start int64, err error) {
	if !l.config.Load().Delete {
		return -1, l.errorf("%w", ErrPolicy)
	}
	hw := l.pub.hw.Load()
	if to == -1 {
		to = hw
	}
	if to < 0 || to > hw {
		return -1, l.errorf("deleting up to offset %d, the high watermark is %d: %w", to, hw, ErrOffsetOutOfRange)
	}
	if err := l.RaiseStart(to); err != nil {
		return -1, err
	}
	return l.pub.start.Load(), nil
}

// RaiseStart raises the log start to offset to, which must not be above the high watermark: a follower does it as the
// leader says.
func (l *Log) RaiseStart(to int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	if hw := l.pub.hw.Load(); to > hw {
		return l.errorf("log start %d above the high watermark %d: %w", to, hw, ErrOffsetOutOfRange)
	}
	l.raiseStart(to)
	return nil
}

// raiseStart raises the log start. The caller holds mu.
func (l *Log) raiseStart(to int64) {
	if !l.pub.raiseStart(to) {
		return
	}
	l.mu.touched = true
	l.dir.startChanged.set()
	if h, changed := l.epochs.Load().TruncateStart(to); changed {
		l.setEpochs(h)
	}
}

// DeleteOldSegments applies retention.ms, retention.bytes and the log start, and returns how many segments went.
// Source: UnifiedLog.deleteOldSegments.
func (l *Log) DeleteOldSegments() (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.usable() != nil {
		return 0, nil
	}
	segs := *l.segs.Load()
	n, err := l.expired(segs)
	if n == 0 || err != nil {
		return 0, err
	}
	if n == len(segs) {
		if _, err := l.roll(l.pub.end.Load()); err != nil {
			return 0, err
		}
		segs = *l.segs.Load()
	}
	l.dropping.Store(true)
	l.raiseStart(segs[n].Base()) // first: readers who miss a segment look at the log start again
	l.setSegments(segs[n:len(segs):len(segs)])
	gone := segs[:n]
	l.dropSegments(gone, false)
	l.dropSnapshots(func(at int64) bool {
		return slices.ContainsFunc(gone, func(s *segment.Segment) bool { return s.Base() == at })
	})
	l.dir.logger.Info("old segments are deleted", zap.String("topic", l.tp.Topic), zap.Int32("partition", l.tp.Partition),
		zap.Int("segments", n), zap.Int64("start", segs[n].Base()))
	return n, nil
}

// expired counts the segments from the oldest on that may go. The caller holds mu.
func (l *Log) expired(segs []*segment.Segment) (int, error) {
	c, v, now := l.config.Load(), l.pub.view(), l.dir.nowMs()
	excess := int64(-1) // bytes above retention.bytes
	if c.Delete && c.RetentionBytes >= 0 {
		excess = l.Size() - c.RetentionBytes
	}
	n := 0
	for i, s := range segs {
		end := v.End
		if i+1 < len(segs) {
			end = segs[i+1].Base()
		}
		if end > v.HighWatermark || i+1 == len(segs) && s.Size() == 0 {
			break
		}
		tooBig := excess >= s.Size()
		if tooBig {
			excess -= s.Size()
		}
		below := i+1 < len(segs) && end <= v.Start
		old := false
		if !tooBig && !below && c.Delete && c.RetentionMs >= 0 {
			newest, err := s.RetentionTimestamp()
			if err != nil {
				return n, l.storage("retention", err)
			}
			old = now-newest > c.RetentionMs
		}
		if !tooBig && !below && !old {
			break
		}
		n++
	}
	return n, nil
}
