package segment

import (
	"errors"
	"io"
)

// Found is an entry in a segment.
type Found struct {
	Pos        int64
	Size       int
	LastOffset int64
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// scanAll is a size up to which a log file is not worth an index look-up.
const scanAll = findBuffer

// startPos is a position at or before the first entry with a last offset of at least offset.
func (s *Segment) startPos(offset, end int64) (int64, error) {
	if offset <= s.base || end <= scanAll {
		return 0, nil
	}
	x, err := s.indexes()
	if err != nil {
		return 0, err
	}
	x.mu.Lock()
	e, found, block := x.offsets.floorInMemory(offset - s.base)
	x.mu.Unlock()
	if !found && block < 0 {
		return 0, nil
	}
	if !found {
		f, err := s.openIndex()
		if err != nil {
			return 0, err
		}
		e, err = floorInBlock(4, f, block, offset-s.base)
		f.Release()
		if err != nil {
			return 0, err
		}
	}
	return min(int64(e.value), end), nil
}

// FindableNow says that finding offset, and reading what is there, takes neither an index from disk nor data that was not
// written a short while ago by this process.
func (s *Segment) FindableNow(offset int64) bool {
	x := s.loaded.Load()
	if x == nil {
		return false
	}
	if offset <= s.base || s.Size() <= scanAll {
		return s.Recent(0)
	}
	x.mu.Lock()
	e, found, block := x.offsets.floorInMemory(offset - s.base)
	x.mu.Unlock()
	if !found && block < 0 {
		return s.Recent(0)
	}
	return found && s.Recent(int64(e.value))
}

// Find returns the first entry before position end whose last offset is at least offset; found is false if there is none.
func (s *Segment) Find(offset, end int64) (at Found, found bool, err error) {
	f, err := s.Acquire()
	if err != nil {
		return Found{}, false, err
	}
	defer f.Release()
	return s.FindIn(f, offset, end)
}

// FindIn is Find with the log file that the caller holds.
func (s *Segment) FindIn(f *Handle, offset, end int64) (at Found, found bool, err error) {
	pos, err := s.startPos(offset, end)
	if err != nil {
		return Found{}, false, err
	}
	sc := newScanner(&findScanners, f, pos, end)
	defer sc.recycle(&findScanners)
	for {
		if err := sc.Next(); err != nil {
			return Found{}, false, ignoreEOF(err)
		}
		if last := sc.Head().LastOffset(); last >= offset {
			return Found{sc.Pos(), sc.Size(), last}, true, nil
		}
	}
}

// OffsetAfter is the last offset of an entry that begins at or after position pos, the first such that the index has; found is
// false if it has none.
func (s *Segment) OffsetAfter(pos int64) (offset int64, found bool, err error) {
	x, err := s.indexes()
	if err != nil {
		return -1, false, err
	}
	x.mu.Lock()
	e, found, full := x.offsets.reachInMemory(pos)
	x.mu.Unlock()
	if full > 0 {
		f, err := s.openIndex()
		if err != nil {
			return -1, false, err
		}
		before, ok, err := reachInBlocks(&index{keyBytes: 4}, f, full, pos)
		f.Release()
		if err != nil {
			return -1, false, err
		}
		if ok {
			e, found = before, true
		}
	}
	return s.base + e.key, found, nil
}

// TimePos returns a position at or before the first entry that has a timestamp of at least stamp, and at or before the
// entry with offset from.
func (s *Segment) TimePos(stamp, from, end int64) (int64, error) {
	x, err := s.indexes()
	if err != nil {
		return 0, err
	}
	x.mu.Lock()
	e, found, block := x.times.floorInMemory(stamp)
	x.mu.Unlock()
	if !found && block >= 0 {
		f, err := s.openTimes()
		if err != nil {
			return 0, err
		}
		e, err = floorInBlock(8, f, block, stamp)
		f.Release()
		if err != nil {
			return 0, err
		}
		found = true
	}
	offset := s.base
	// An entry at exactly stamp says where its offset is; everything before it is older. One below says that nothing
	// before it reaches stamp.
	if found {
		offset += int64(e.value)
	}
	return s.startPos(max(offset, from), end)
}
