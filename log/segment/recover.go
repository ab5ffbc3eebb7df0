package segment

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"

	"github.com/gregor-broker/gregor/log/record"
)

// rebuildInterval is the distance in bytes of the entries of an index that is rebuilt: index.interval.bytes' default.
const rebuildInterval = 4096

// freshIndexes empties the files of the offset and time index, and makes them if they are missing.
func (s *Segment) freshIndexes() (*indexes, error) {
	for _, kind := range [...]string{IndexSuffix, TimeIndexSuffix} {
		f, err := s.files.FS.Create(s.path(kind))
		if err != nil {
			return nil, err
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
	s.unsyncedIndex.Store(true)
	s.writer.sinceEntry = 0
	return newIndexes(), nil
}

// rebuild makes the offset and time index anew from the headers of a log file that is known to be good. The caller
// holds loading.
func (s *Segment) rebuild() (*indexes, error) {
	x, err := s.freshIndexes()
	if err != nil {
		return nil, err
	}
	err = s.Scan(0, s.Size(), func(sc *Scanner) (bool, error) {
		s.index(x, sc.Pos(), sc.Size(), sc.Head().LastOffset(), sc.Head().MaxTimestamp(), rebuildInterval)
		return true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("rebuilding the indexes of %s: %w", s.Path(), err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	s.indexTime(x)
	return x, s.flushIndexes(x)
}

// Recover reads the whole log file, cuts it after the last good entry, and builds its indexes anew; the transaction
// index becomes empty. visit is called for every good entry, in order, after it is in the indexes. cut is the number of
// bytes that were dropped, why the reason. Only the writer calls it.
func (s *Segment) Recover(visit func(*Scanner) error) (cut int64, why error, err error) {
	s.loading.Lock()
	defer s.loading.Unlock()
	x, err := s.freshIndexes()
	if err != nil {
		return 0, nil, err
	}
	if err := s.files.FS.Remove(s.path(TxnIndexSuffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, nil, err
	}
	s.loaded.Store(x)
	s.firstStamp.Store(unknownStamp)
	f, err := s.Acquire()
	if err != nil {
		return 0, nil, err
	}
	defer f.Release()
	size, err := f.Size()
	if err != nil {
		return 0, nil, err
	}
	good, why, err := s.recoverEntries(f, x, size, visit)
	if err != nil {
		return 0, nil, err
	}
	if good < size {
		if err := f.Truncate(good); err != nil {
			return 0, nil, err
		}
	}
	s.size.Store(good)
	s.unsynced.Store(true)
	return size - good, why, nil
}

func (s *Segment) recoverEntries(f *Handle, x *indexes, size int64, visit func(*Scanner) error) (good int64, why, err error) {
	sc := newScanner(&readScanners, f, 0, size)
	defer sc.recycle(&readScanners)
	for {
		why := s.checkNext(sc)
		switch {
		case errors.Is(why, io.EOF):
			return good, nil, nil
		case errors.Is(why, ErrCorrupt), errors.Is(why, record.ErrTruncated):
			return good, why, nil
		case why != nil:
			return good, nil, why
		}
		head := sc.Head()
		s.index(x, sc.Pos(), sc.Size(), head.LastOffset(), head.MaxTimestamp(), rebuildInterval)
		good = sc.Pos() + int64(sc.Size())
		s.size.Store(good)
		if err := visit(sc); err != nil {
			return good, nil, err
		}
	}
}

// checkNext moves sc to the next entry and checks all of it.
func (s *Segment) checkNext(sc *Scanner) error {
	if err := sc.Next(); err != nil {
		return err
	}
	if err := sc.CheckCRC(); err != nil {
		return err
	}
	if last := sc.Head().LastOffset(); last < s.base || last-s.base > math.MaxInt32 {
		return fmt.Errorf("%w: offset %d in the segment of %d", ErrCorrupt, last, s.base)
	}
	return nil
}

// EndOffset is the offset after the last entry, found from the end of the offset index on. It returns
// record.ErrTruncated or an error that wraps ErrCorrupt if the file does not end with a whole entry.
func (s *Segment) EndOffset() (int64, error) {
	end := s.base
	size := s.Size()
	if size == 0 {
		return end, nil
	}
	pos, err := s.lastIndexed(size)
	if err != nil {
		return 0, err
	}
	f, err := s.Acquire()
	if err != nil {
		return 0, err
	}
	defer f.Release()
	sc := newScanner(&findScanners, f, pos, size)
	defer sc.recycle(&findScanners)
	for {
		if err := sc.Next(); err != nil {
			return end, ignoreEOF(err)
		}
		end = sc.Head().NextOffset()
	}
}

// lastIndexed is the position of the last entry that the offset index has. It does not load the index: a start asks
// every log.
func (s *Segment) lastIndexed(size int64) (int64, error) {
	if size <= scanAll {
		return 0, nil
	}
	if s.loaded.Load() == nil {
		x := index{keyBytes: 4}
		if e, ok := s.lastOnDisk(&x, IndexSuffix); ok && e.key > 0 && int64(e.value) < size {
			return int64(e.value), nil
		}
	}
	return s.startPos(math.MaxInt64/2, size) // builds what is missing
}

// lastOnDisk reads the last entry of an index file; ok is false if there is none.
func (s *Segment) lastOnDisk(x *index, kind string) (e entry, ok bool) {
	f, err := s.files.FS.Open(s.path(kind))
	if err != nil {
		return entry{}, false
	}
	defer f.Close()
	width := int64(x.entryBytes())
	size, err := f.Size()
	if err != nil || size < width || size%width != 0 {
		return entry{}, false
	}
	e, _, err = readEntry(x, f, int(size/width)-1)
	return e, err == nil
}

// Truncate drops the entry that contains offset and everything after it. Only the writer calls it.
func (s *Segment) Truncate(offset int64) error {
	at, found, err := s.Find(offset, s.Size())
	if err != nil || !found {
		return err
	}
	x, err := s.indexes()
	if err != nil {
		return err
	}
	f, err := s.Acquire()
	if err != nil {
		return err
	}
	defer f.Release()
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := f.Truncate(at.Pos); err != nil {
		return err
	}
	s.size.Store(at.Pos)
	s.writer.torn = false
	s.unsynced.Store(true)
	if at.Pos == 0 {
		s.firstStamp.Store(unknownStamp)
	}
	if err := s.truncateIndexes(x, offset); err != nil {
		s.loaded.Store(nil) // what the files hold beyond the log is rebuilt
		return err
	}
	return s.reloadMax(x, f)
}

func (s *Segment) truncateIndexes(x *indexes, offset int64) error {
	s.unsyncedIndex.Store(true)
	rel := offset - s.base
	if err := x.offsets.truncate(s.openIndex, func(e entry) bool { return e.key < rel }); err != nil {
		return err
	}
	if err := x.times.truncate(s.openTimes, func(e entry) bool { return int64(e.value) < rel }); err != nil {
		return err
	}
	keep := len(x.aborted)
	for keep > 0 && x.aborted[keep-1].LastOffset >= offset {
		keep--
	}
	if keep == len(x.aborted) {
		return nil
	}
	f, err := s.openTxnIndex()
	if err != nil {
		return err
	}
	defer f.Close()
	x.aborted, x.abortedWritten = x.aborted[:keep:keep], min(x.abortedWritten, keep)
	s.unsyncedTxn.Store(true)
	return f.Truncate(int64(keep * abortedBytes))
}

// reloadMax finds the greatest timestamp after a truncation: that of the last time index entry or of an entry after it.
// The caller holds x.mu.
func (s *Segment) reloadMax(x *indexes, f *Handle) error {
	x.maxStamp, x.maxOffset, x.lastIndexed = -1, -1, -1
	last, found, err := x.times.last(s.openTimes)
	if err != nil {
		return err
	}
	pos := int64(0)
	if found {
		x.maxStamp, x.maxOffset, x.lastIndexed = last.key, s.base+int64(last.value), last.key
		if e, ok, block := x.offsets.floorInMemory(int64(last.value)); ok {
			pos = int64(e.value)
		} else if block >= 0 {
			h, err := s.openIndex()
			if err != nil {
				return err
			}
			e, err := floorInBlock(4, h, block, int64(last.value))
			h.Release()
			if err != nil {
				return err
			}
			pos = int64(e.value)
		}
	}
	sc := newScanner(&readScanners, f, pos, s.Size())
	defer sc.recycle(&readScanners)
	for {
		if err := sc.Next(); err != nil {
			return ignoreEOF(err)
		}
		if ts := sc.Head().MaxTimestamp(); ts > x.maxStamp {
			x.maxStamp, x.maxOffset = ts, sc.Head().LastOffset()
		}
	}
}
