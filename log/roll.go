package log

import (
	"math/rand/v2"

	"github.com/gregor-broker/gregor/log/segment"
)

// segmentFor returns the segment for an entry of size bytes, after a roll if one is due. The caller holds mu.
func (l *Log) segmentFor(size int, base, last, maxStamp int64) (*segment.Segment, error) {
	c := l.config.Load()
	if size > int(c.SegmentBytes) {
		return nil, l.errorf("%d bytes, segment.bytes is %d: %w", size, c.SegmentBytes, ErrBatchTooLarge)
	}
	s := l.active()
	if !l.rollDue(s, size, last, maxStamp, c) {
		return s, nil
	}
	return l.roll(base)
}

// rollDue says whether an entry must go to a new segment. Source:
// org.apache.kafka.storage.internals.log.LogSegment.shouldRoll.
func (l *Log) rollDue(s *segment.Segment, size int, last, maxStamp int64, c *Config) bool {
	if s.Size() == 0 {
		return !s.FitsRelative(last)
	}
	return s.Size()+int64(size) > int64(c.SegmentBytes) ||
		s.IndexFull(c.SegmentIndexBytes) || !s.FitsRelative(last) || l.oldEnough(s, maxStamp, c)
}

// oldEnough says whether an entry with timestamp maxStamp comes segment.ms after the first one of s; if that has no
// timestamp, whether s was made that long ago. The caller holds mu.
func (l *Log) oldEnough(s *segment.Segment, maxStamp int64, c *Config) bool {
	if s.Size() == 0 {
		return false
	}
	limit := c.maxSegmentMs() - l.mu.jitter
	first, err := s.FirstTimestamp()
	if err != nil || first < 0 {
		return l.dir.nowMs()-l.mu.segCreated > limit
	}
	return maxStamp-first > limit
}

// roll closes the active segment and begins one at base. Syncing the old one is left to the syncer. The caller holds mu.
func (l *Log) roll(base int64) (*segment.Segment, error) {
	old := l.active()
	if err := old.Finish(); err != nil {
		return nil, l.storage("roll", err)
	}
	if err := l.writeSnapshot(base); err != nil {
		return nil, l.storage("producer snapshot", err)
	}
	s, err := segment.Create(l.dir.files, l.path, base, "")
	if err != nil {
		return nil, l.storage("new segment", err)
	}
	segs := *l.segs.Load()
	if old.Size() == 0 && old.Base() == base {
		segs = segs[:len(segs)-1] // its files were made anew
	}
	l.setSegments(append(segs[:len(segs):len(segs)], s))
	old.Unload()
	l.startSegment()
	l.mu.namesDirty, l.mu.touched = true, true
	l.dir.syncer.later(l)
	return s, nil
}

// startSegment notes that the active segment is new. The caller holds mu.
func (l *Log) startSegment() {
	l.mu.segCreated = l.dir.nowMs()
	l.mu.jitter = 0
	if c := l.config.Load(); c.SegmentJitterMs > 0 {
		l.mu.jitter = rand.Int64N(min(c.SegmentJitterMs, max(c.SegmentMs, 1)))
	}
}

// writeSnapshot writes the producer state as of offset, the log end, not synced. The caller holds mu.
func (l *Log) writeSnapshot(offset int64) error {
	if n := len(l.mu.snapshots); n > 0 && l.mu.snapshots[n-1] >= offset || offset == 0 {
		return nil
	}
	f, err := l.dir.fs.Create(l.snapshotPath(offset))
	if err != nil {
		return err
	}
	_, err = f.WriteAt(l.mu.producers.Snapshot(), 0)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	l.mu.snapshots = append(l.mu.snapshots, offset)
	l.mu.unsynced = append(l.mu.unsynced, offset)
	l.mu.namesDirty = true
	return nil
}

func (l *Log) snapshotPath(offset int64) string {
	return l.path + "/" + segment.Name(offset, segment.SnapshotSuffix)
}
