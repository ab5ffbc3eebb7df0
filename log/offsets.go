package log

import (
	"errors"
	"io/fs"
	"sort"

	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/log/segment"
)

// foundRecord is where a record is, and its batch's leader epoch.
type foundRecord struct {
	offset, stamp int64
	epoch         int32
}

var noRecord = foundRecord{-1, -1, -1}

// OffsetForTimestamp returns the first record at or after the log start whose timestamp is at least ts, in ms, with the
// leader epoch of its batch; -1, -1, -1 if there is none.
func (l *Log) OffsetForTimestamp(ts int64) (offset, timestamp int64, epoch int32, err error) {
	return l.search(func(v *view, segs []*segment.Segment) (foundRecord, error) {
		for i, s := range segs {
			if i+1 < len(segs) && segs[i+1].Base() <= v.Start {
				continue
			}
			newest, err := s.RetentionTimestamp()
			if err != nil {
				return noRecord, err
			}
			if newest < ts {
				continue
			}
			end, _ := l.endIn(v, segs, i, v.End)
			pos, err := s.TimePos(ts, v.Start, end)
			if err != nil {
				return noRecord, err
			}
			if found, err := firstRecord(s, pos, end, v.Start, ts); err != nil || found != noRecord {
				return found, err
			}
		}
		return noRecord, nil
	})
}

// search looks for a record, again where a segment was deleted or replaced after their list was loaded.
func (l *Log) search(look func(v *view, segs []*segment.Segment) (foundRecord, error)) (offset, timestamp int64, epoch int32, err error) {
	found := noRecord
	for range readAttempts {
		v := l.pub.view()
		if found, err = look(&v, *l.segs.Load()); err == nil {
			return found.offset, found.stamp, found.epoch, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return -1, -1, -1, l.storage("timestamps", err)
}

// firstRecord returns the first record of s from pos on with an offset of at least from and a timestamp of at least ts.
func firstRecord(s *segment.Segment, pos, end, from, ts int64) (foundRecord, error) {
	found := noRecord
	err := s.Scan(pos, end, func(sc *segment.Scanner) (bool, error) {
		if sc.Head().MaxTimestamp() < ts || sc.Head().LastOffset() < from {
			return true, nil
		}
		e, err := sc.Whole()
		if err != nil {
			return false, err
		}
		for r, err := range e.Records(record.Limits{}) {
			if err != nil {
				return false, err
			}
			if r.Timestamp >= ts && r.Offset >= from {
				found = foundRecord{r.Offset, r.Timestamp, e.LeaderEpoch()}
				return false, nil
			}
		}
		return true, nil
	})
	return found, err
}

// OffsetOfMaxTimestamp returns the first record with the greatest timestamp of what is stored, in ms; -1, -1, -1 if there is none. As in
// Kafka that may be a record below the log start, for as long as its segment is there.
func (l *Log) OffsetOfMaxTimestamp() (offset, timestamp int64, epoch int32, err error) {
	return l.search(func(_ *view, segs []*segment.Segment) (foundRecord, error) {
		best, bestStamp, bestOffset := -1, int64(-1), int64(-1)
		for i, s := range segs {
			stamp, last, err := s.MaxTimestamp()
			if err != nil {
				return noRecord, err
			}
			if stamp > bestStamp {
				best, bestStamp, bestOffset = i, stamp, last
			}
		}
		if best < 0 {
			return noRecord, nil
		}
		end := segs[best].Size()
		at, found, err := segs[best].Find(bestOffset, end)
		if err != nil || !found {
			return noRecord, err
		}
		return firstRecord(segs[best], at.Pos, end, 0, bestStamp)
	})
}

// The special timestamps of ListOffsets v0.
const (
	latestTimestamp   = -1
	earliestTimestamp = -2
)

// LegacyOffsets is ListOffsets v0: of the segments' first offsets and the log end, at most max from the last one on
// whose segment was modified at or before ts (ms; -1 the end, -2 the start), descending. Source:
// UnifiedLog.legacyFetchOffsetsBefore.
func (l *Log) LegacyOffsets(ts int64, max int) []int64 {
	type point struct{ offset, modified int64 }
	v := l.pub.view()
	segs := *l.segs.Load()
	points := make([]point, 0, len(segs)+1)
	for _, s := range segs {
		modified, err := s.ModTime()
		if err != nil {
			continue // just deleted
		}
		offset := s.Base()
		if offset < v.Start {
			offset = v.Start
		}
		points = append(points, point{offset, modified})
	}
	if segs[len(segs)-1].Size() > 0 {
		points = append(points, point{v.End, l.dir.nowMs()})
	}
	last := len(points) - 1
	switch ts {
	case latestTimestamp:
	case earliestTimestamp:
		last = min(last, 0)
	default:
		for last >= 0 && points[last].modified > ts {
			last--
		}
	}
	var out []int64
	for ; last >= 0 && len(out) < max; last-- {
		out = append(out, points[last].offset)
	}
	sort.Slice(out, func(i, j int) bool { return out[i] > out[j] })
	return out
}

// LatestEpoch is the last leader epoch that was assigned or is in the log.
func (l *Log) LatestEpoch() (int32, bool) { return l.epochs.Load().Latest() }

// EpochForOffset is the leader epoch of the record at offset.
func (l *Log) EpochForOffset(offset int64) (int32, bool) { return l.epochs.Load().At(offset) }

// EndOffsetForEpoch returns the largest epoch known that is at most epoch, and where it ends; -1, -1 where that is not
// known.
func (l *Log) EndOffsetForEpoch(epoch int32) (found int32, end int64) {
	return l.epochs.Load().EndOffset(epoch, l.pub.end.Load())
}

// AssignEpoch says that a leader begins at the log end. The file is written before anything of that epoch counts as
// flushed: until then, recovery finds the epoch in the batches, and an epoch without batches may be forgotten.
func (l *Log) AssignEpoch(epoch int32) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	l.assignEpoch(epoch, l.pub.end.Load())
	return nil
}

// assignEpoch notes that epoch begins at start. The caller holds mu.
func (l *Log) assignEpoch(epoch int32, start int64) {
	h := *l.epochs.Load()
	if latest, ok := h.Latest(); ok && latest >= epoch {
		return // a leader's epoch never falls; that of old entries is known
	}
	if h, changed := h.Assign(epoch, start); changed {
		l.setEpochs(h)
	}
}
