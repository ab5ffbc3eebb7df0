package segment

import (
	"errors"
	"io/fs"
)

// Finish writes the indexes with their exact size, the time index with the true maximum at its end, as closed segments have
// them. Nothing is synced. Only the writer calls it.
func (s *Segment) Finish() error {
	x := s.loaded.Load()
	if x == nil {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	s.indexTime(x)
	err := errors.Join(s.flushIndexes(x), s.writeAborted(x))
	s.unsyncedIndex.Store(true)
	return err
}

func (s *Segment) flushIndexes(x *indexes) error {
	for _, part := range [...]struct {
		x    *index
		open func() (*Handle, error)
	}{{&x.offsets, s.openIndex}, {&x.times, s.openTimes}} {
		f, err := part.open()
		if err != nil {
			return err
		}
		err = part.x.flush(f)
		f.Release()
		if err != nil {
			return err
		}
	}
	return s.writeAborted(x)
}

// Unload drops the indexes from memory; they are loaded again when they are needed. They must have been finished. Only
// the writer calls it.
func (s *Segment) Unload() { s.loaded.Store(nil) }

// Unsynced says whether something was written since the last Sync.
func (s *Segment) Unsynced() bool {
	return s.unsynced.Load() || s.unsyncedIndex.Load() || s.unsyncedTxn.Load()
}

// MarkSynced is for a caller that has synced the whole file system, after it was called with what was written before.
func (s *Segment) MarkSynced() {
	s.unsynced.Store(false)
	s.unsyncedIndex.Store(false)
	s.unsyncedTxn.Store(false)
}

// Sync makes what was written before the call durable; the indexes of a growing segment, which recovery rebuilds, only with
// withIndexes. Any goroutine may call it.
func (s *Segment) Sync(withIndexes bool) error {
	if s.unsynced.Swap(false) {
		if err := syncHandle(s.Acquire()); err != nil {
			s.unsynced.Store(true)
			return err
		}
	}
	if !withIndexes {
		return nil
	}
	if s.unsyncedIndex.Swap(false) {
		if err := errors.Join(syncHandle(s.openIndex()), syncHandle(s.openTimes())); err != nil {
			s.unsyncedIndex.Store(true)
			return err
		}
	}
	if s.unsyncedTxn.Swap(false) {
		if err := s.syncTxnIndex(); err != nil {
			s.unsyncedTxn.Store(true)
			return err
		}
	}
	return nil
}

func (s *Segment) syncTxnIndex() error {
	if x := s.loaded.Load(); x != nil {
		x.mu.Lock()
		err := s.writeAborted(x)
		x.mu.Unlock()
		if err != nil {
			return err
		}
	}
	f, err := s.openTxnIndex()
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

func syncHandle(h *Handle, err error) error {
	if err != nil {
		return err
	}
	defer h.Release()
	return h.Sync()
}

// Rename changes what stands behind the names of the segment's files, the log file's first. Only the writer calls it. Nobody loads
// indexes meanwhile: a transaction index without its name looks as if nothing had been aborted.
func (s *Segment) Rename(suffix string) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	if err := s.make(); err != nil {
		return err
	}
	kinds := [...]string{LogSuffix, IndexSuffix, TimeIndexSuffix, TxnIndexSuffix}
	var from [len(kinds)]string
	for i, kind := range kinds {
		from[i] = s.path(kind)
	}
	next := &suffix
	if suffix == "" {
		next = nil
	}
	before := s.suffix.Swap(next)
	for i, kind := range kinds {
		err := s.files.FS.Rename(from[i], s.path(kind))
		switch {
		case err == nil, i > 0 && errors.Is(err, fs.ErrNotExist):
		case i == 0:
			s.suffix.Store(before)
			return err
		default:
			return err
		}
	}
	return nil
}

// Remove deletes the segment's files. Who holds one can go on reading it.
func (s *Segment) Remove() error {
	s.Close()
	var errs []error
	for _, kind := range [...]string{LogSuffix, IndexSuffix, TimeIndexSuffix, TxnIndexSuffix} {
		if err := s.files.FS.Remove(s.path(kind)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Close closes the descriptors that the segment holds; they are opened again when they are needed.
func (s *Segment) Close() {
	s.files.close(&s.logFile)
	s.files.close(&s.indexFile)
	s.files.close(&s.timeFile)
}
