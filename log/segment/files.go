package segment

import (
	"sync"
	"sync/atomic"

	"github.com/gregor-broker/gregor/log/vfs"
	"github.com/gregor-broker/gregor/wire/payload"
)

// Files opens the files of segments and keeps a bounded number of them open. What is in use stays open beyond the
// bound. Safe for concurrent use.
type Files struct {
	FS  vfs.FS
	max int
	mu  struct {
		sync.Mutex
		open []*Handle // in no order; a clock hand goes round
		hand int
	}
}

// NewFiles returns a Files that keeps at most max files open beside those in use.
func NewFiles(fs vfs.FS, max int) *Files { return &Files{FS: fs, max: max} }

// Handle is an open file, closed when it was released as often as it was retained. It is a payload.File. Safe for
// concurrent use.
type Handle struct {
	vfs.File
	files  *Files
	refs   atomic.Int32 // one of them is the slot's
	recent atomic.Bool  // used since the hand passed
	slot   *slot
	place  int // in files.mu.open; -1 when not there
}

var _ payload.File = (*Handle)(nil)

// slot is where a segment keeps an open file. Its zero value is closed.
type slot struct{ open atomic.Pointer[Handle] }

// Retain keeps the file open until one more Release.
func (h *Handle) Retain() { h.refs.Add(1) }

// Release ends one use.
func (h *Handle) Release() {
	if h.refs.Add(-1) == 0 {
		h.File.Close() // nothing was buffered in the process; errors of writing come from Sync
	}
}

func (h *Handle) tryRetain() bool {
	for {
		n := h.refs.Load()
		if n == 0 {
			return false
		}
		if h.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// acquire returns the file of s, retained; name tells where it is if it has to be opened.
func (f *Files) acquire(s *slot, name func() string) (*Handle, error) {
	for {
		if h := s.open.Load(); h != nil {
			if !h.tryRetain() {
				continue // closed this moment: the slot changes at once
			}
			if !h.recent.Load() {
				h.recent.Store(true)
			}
			return h, nil
		}
		path := name()
		file, err := f.FS.Open(path)
		if err != nil {
			if path != name() {
				continue // renamed meanwhile
			}
			return nil, err
		}
		if h := f.install(s, file); h != nil {
			return h, nil
		}
	}
}

// install puts file into s and returns it retained, or closes it and returns nil if another was faster.
func (f *Files) install(s *slot, file vfs.File) *Handle {
	h := &Handle{File: file, files: f, slot: s, place: -1}
	h.refs.Store(2)
	h.recent.Store(true)
	if !s.open.CompareAndSwap(nil, h) {
		file.Close()
		return nil
	}
	f.mu.Lock()
	victim := (*Handle)(nil)
	if s.open.Load() == h {
		if len(f.mu.open) >= f.max {
			victim = f.evict()
		}
		h.place = len(f.mu.open)
		f.mu.open = append(f.mu.open, h)
	}
	f.mu.Unlock()
	if victim != nil {
		victim.Release()
	}
	return h
}

// evict takes a file that was not used lately out of its slot; the caller drops the slot's reference. The caller holds mu.
func (f *Files) evict() *Handle {
	for range 2 * len(f.mu.open) {
		f.mu.hand = (f.mu.hand + 1) % len(f.mu.open)
		h := f.mu.open[f.mu.hand]
		if h.recent.Swap(false) {
			continue
		}
		if f.forget(h); h.slot.open.CompareAndSwap(h, nil) {
			return h
		}
		return nil
	}
	return nil
}

// forget takes h off the list. The caller holds mu.
func (f *Files) forget(h *Handle) {
	if h.place < 0 {
		return
	}
	last := len(f.mu.open) - 1
	moved := f.mu.open[last]
	f.mu.open[h.place] = moved
	moved.place = h.place
	f.mu.open[last] = nil
	f.mu.open = f.mu.open[:last]
	h.place = -1
}

// close closes the file of s once nobody uses it any more.
func (f *Files) close(s *slot) {
	f.mu.Lock()
	h := s.open.Swap(nil)
	if h != nil {
		f.forget(h)
	}
	f.mu.Unlock()
	if h != nil {
		h.Release()
	}
}

// Open is the number of files that slots hold open.
func (f *Files) Open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.mu.open)
}
