package cleaner

import (
	"math"

	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/segment"
)

// candidate is a log that might be cleaned, with the sections that doc.go shows.
type candidate struct {
	log    *log.Log
	config *log.Config
	segs   []*segment.Segment // as they were; the last one grows
	// firstDirty is where the dirty section begins, end where what may not be cleaned does: the base of a segment.
	firstDirty, end int64
	dirtyBytes      int64
	ratio           float64 // of the bytes up to end that are dirty
	delayMs         int64   // that has passed since dirty data should have been cleaned by max.compaction.lag.ms
}

// assess finds out what of a log could be cleaned at wall time nowMs. checkpoint is where the last round ended, -1 for
// never. ok is false if there is nothing. After LogCleanerManager.cleanableOffsets and LogToClean of Kafka.
func assess(l *log.Log, checkpoint, nowMs int64) (c candidate, ok bool, err error) {
	c = candidate{log: l, config: l.Config(), segs: l.Segments()}
	if len(c.segs) < 2 {
		return c, false, nil
	}
	bounds := l.Bounds()
	c.firstDirty = checkpoint
	if checkpoint < bounds.Start || checkpoint > bounds.End {
		c.firstDirty = bounds.Start
	}
	limit, err := c.limit(bounds.Stable, nowMs)
	if err != nil {
		return c, false, err
	}
	c.end = c.active().Base()
	if from := c.from(max(limit, c.firstDirty)); len(from) > 0 {
		c.end = from[0].Base()
	}
	var clean int64
	for _, s := range c.segs {
		if s.Base() < c.firstDirty {
			clean += s.Size()
		}
	}
	for _, s := range c.between(min(c.firstDirty, c.end), c.end) {
		c.dirtyBytes += s.Size()
	}
	if clean+c.dirtyBytes == 0 {
		return c, false, nil
	}
	c.ratio = float64(c.dirtyBytes) / float64(clean+c.dirtyBytes)
	c.delayMs, err = c.delay(nowMs)
	wanted := c.delayMs > 0 && c.dirtyBytes > 0 || c.ratio > c.config.MinCleanableDirtyRatio
	return c, wanted && c.firstDirty < c.end, err
}

func (c *candidate) active() *segment.Segment { return c.segs[len(c.segs)-1] }

// limit is the first offset that may not be cleaned.
func (c *candidate) limit(stable, nowMs int64) (int64, error) {
	limit := min(stable, c.active().Base())
	if c.config.MinCompactionLagMs <= 0 {
		return limit, nil
	}
	for _, s := range c.from(c.firstDirty) {
		youngest, err := s.RetentionTimestamp()
		if err != nil {
			return 0, err
		}
		if youngest > nowMs-c.config.MinCompactionLagMs {
			return min(limit, s.Base()), nil
		}
	}
	return limit, nil
}

// delay is how much more than max.compaction.lag.ms ago the first dirty segment of which that is true has begun; 0 if there is none.
func (c *candidate) delay(nowMs int64) (int64, error) {
	until := nowMs - max(c.config.MaxCompactionLagMs, 0)
	for _, s := range c.from(c.firstDirty) {
		first, err := s.FirstTimestamp()
		if err != nil {
			return 0, err
		}
		if first > 0 && first < until {
			return until - first, nil
		}
	}
	return 0, nil
}

// from is the segments from the one on that contains offset, without the one that grows.
func (c *candidate) from(offset int64) []*segment.Segment {
	if offset > c.active().Base() {
		return nil
	}
	return c.between(offset, c.active().Base())
}

// between is the segments from the one on that contains offset from, with a base before to.
func (c *candidate) between(from, to int64) []*segment.Segment {
	first, last := 0, 0
	for i, s := range c.segs {
		if s.Base() <= from {
			first = i
		}
		if s.Base() < to {
			last = i + 1
		}
	}
	if from >= to || first >= last {
		return nil
	}
	return c.segs[first:last]
}

// groups divides segments into runs that fit one segment each. end is the first offset behind them. An index has at
// most an entry per index.interval.bytes, and one.
func groups(segs []*segment.Segment, c *log.Config, end int64) (all [][]*segment.Segment) {
	perEntry := int64(max(c.IndexIntervalBytes, 1))
	// The entries of the time index are larger, 12 bytes; one is kept free.
	maxEntries := max(int64(c.SegmentIndexBytes)/12-1, 1)
	for len(segs) > 0 {
		size, entries, n := int64(0), int64(0), 0
		for n < len(segs) {
			s, last := segs[n], end-1
			if n+1 < len(segs) {
				last = segs[n+1].Base() - 1
			}
			size += s.Size()
			entries += s.Size()/perEntry + 1
			fits := size <= int64(c.SegmentBytes) && entries <= maxEntries && (s.Size() == 0 || last-segs[0].Base() <= math.MaxInt32)
			if n > 0 && !fits {
				break
			}
			n++
		}
		all = append(all, segs[:n])
		segs = segs[n:]
	}
	return all
}
