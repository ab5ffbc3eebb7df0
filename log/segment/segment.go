package segment

import (
	"errors"
	"io/fs"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/log/vfs"
)

// Segment is the files of one segment. See the package for who may call what.
type Segment struct {
	files   *Files
	dir     string
	base    int64
	opened  int64                  // size when the segment was opened
	suffix  atomic.Pointer[string] // behind the files' names; nil for none
	planned atomic.Bool            // the files are not made yet
	size    atomic.Int64           // bytes of the log file that are whole entries

	logFile, indexFile, timeFile slot

	making   sync.Mutex // held while the files are made
	loading  sync.Mutex // held while the indexes are loaded or rebuilt
	loaded   atomic.Pointer[indexes]
	unsynced atomic.Bool // the log file was written since the last Sync
	// Likewise the offset and time index, and the transaction index.
	unsyncedIndex, unsyncedTxn atomic.Bool

	writer struct { // owned by the writer
		sinceEntry int  // bytes appended since the last index entry
		torn       bool // the file may be longer than size
	}
	firstStamp atomic.Int64 // timestamp of the first entry in ms; unknownStamp until it was read
	restStamp  atomic.Int64 // greatest timestamp in ms while no index is loaded; likewise
}

const unknownStamp = math.MinInt64

// indexes is what memory holds of the indexes.
type indexes struct {
	mu      sync.Mutex
	offsets index
	times   index
	aborted []AbortedTxn
	// how many of aborted the file has
	abortedWritten int
	maxStamp       int64 // the greatest timestamp in ms, -1 for none
	maxOffset      int64 // the last offset of the first entry that has it
	lastIndexed    int64 // timestamp of the last time index entry, -1 without
}

func newIndexes() *indexes {
	return &indexes{offsets: index{keyBytes: 4}, times: index{keyBytes: 8}, maxStamp: -1, maxOffset: -1, lastIndexed: -1}
}

// Plan is an empty segment whose files are made when something is first done with them: thousands of partitions that
// nobody has written to are created in a fraction of the time. A directory without segments is an empty log to Kafka too.
func Plan(files *Files, dir string, base int64) *Segment {
	s := newSegment(files, dir, base)
	s.planned.Store(true)
	return s
}

// Planned says whether the segment's files are still to be made.
func (s *Segment) Planned() bool { return s.planned.Load() }

// make makes the files of a planned segment.
func (s *Segment) make() error {
	if !s.planned.Load() {
		return nil
	}
	s.making.Lock()
	defer s.making.Unlock()
	if !s.planned.Load() {
		return nil
	}
	if err := s.createFiles(); err != nil {
		return err
	}
	s.planned.Store(false)
	return nil
}

// Create makes the empty files of a segment; suffix is "" or CleanedSuffix. What was there is overwritten.
func Create(files *Files, dir string, base int64, suffix string) (*Segment, error) {
	s := newSegment(files, dir, base)
	if suffix != "" {
		s.suffix.Store(&suffix)
	}
	if err := s.createFiles(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Segment) createFiles() error {
	for _, kind := range [...]string{LogSuffix, IndexSuffix, TimeIndexSuffix} {
		f, err := s.files.FS.Create(s.path(kind))
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

// Open is a segment whose log file exists and has size bytes. Nothing is read yet.
func Open(files *Files, dir string, base, size int64) *Segment {
	s := newSegment(files, dir, base)
	s.size.Store(size)
	s.opened = size
	return s
}

// OpenAs is Open for files with a suffix behind their names.
func OpenAs(files *Files, dir string, base int64, suffix string) (*Segment, error) {
	s := newSegment(files, dir, base)
	s.suffix.Store(&suffix)
	info, err := files.FS.Stat(s.Path())
	if err != nil {
		return nil, err
	}
	s.size.Store(info.Size)
	s.opened = info.Size
	return s, nil
}

func newSegment(files *Files, dir string, base int64) *Segment {
	s := &Segment{files: files, dir: dir, base: base}
	s.firstStamp.Store(unknownStamp)
	s.restStamp.Store(unknownStamp)
	return s
}

// Base is the offset in the files' names.
func (s *Segment) Base() int64 { return s.base }

// Size is the number of bytes of the log file.
func (s *Segment) Size() int64 { return s.size.Load() }

// recentBytes is how far from its end a growing log file is taken to be in the page cache.
const recentBytes = 64 << 20

// Recent says whether what is at pos was written a short while ago, by this process.
func (s *Segment) Recent(pos int64) bool { return pos >= s.opened && s.Size()-pos <= recentBytes }

// Path is the path of the log file.
func (s *Segment) Path() string { return s.path(LogSuffix) }

func (s *Segment) path(kind string) string {
	name := s.dir + "/" + Name(s.base, kind)
	if suffix := s.suffix.Load(); suffix != nil {
		name += *suffix
	}
	return name
}

// Acquire opens the log file for reading; the caller releases it.
func (s *Segment) Acquire() (*Handle, error) {
	if err := s.make(); err != nil {
		return nil, err
	}
	return s.files.acquire(&s.logFile, s.Path)
}

func (s *Segment) openIndex() (*Handle, error) {
	if err := s.make(); err != nil {
		return nil, err
	}
	return s.files.acquire(&s.indexFile, func() string { return s.path(IndexSuffix) })
}

func (s *Segment) openTimes() (*Handle, error) {
	if err := s.make(); err != nil {
		return nil, err
	}
	return s.files.acquire(&s.timeFile, func() string { return s.path(TimeIndexSuffix) })
}

func (s *Segment) openTxnIndex() (vfs.File, error) {
	f, err := s.files.FS.Open(s.path(TxnIndexSuffix))
	if errors.Is(err, fs.ErrNotExist) {
		return s.files.FS.Create(s.path(TxnIndexSuffix))
	}
	return f, err
}

// indexes returns the indexes, which it loads, or builds from the log if a file is missing or damaged.
func (s *Segment) indexes() (*indexes, error) {
	if x := s.loaded.Load(); x != nil {
		return x, nil
	}
	s.loading.Lock()
	defer s.loading.Unlock()
	if x := s.loaded.Load(); x != nil {
		return x, nil
	}
	x, err := s.loadIndexes()
	if errors.Is(err, errBadIndex) || errors.Is(err, fs.ErrNotExist) {
		x, err = s.rebuild()
	}
	if err != nil {
		return nil, err
	}
	if x.aborted, err = s.readAborted(); err != nil {
		return nil, err
	}
	x.abortedWritten = len(x.aborted)
	s.restStamp.Store(unknownStamp)
	s.loaded.Store(x)
	return x, nil
}

func (s *Segment) loadIndexes() (*indexes, error) {
	x := newIndexes()
	for _, part := range [...]struct {
		x    *index
		open func() (*Handle, error)
	}{{&x.offsets, s.openIndex}, {&x.times, s.openTimes}} {
		f, err := part.open()
		if err != nil {
			return nil, err
		}
		err = part.x.load(f)
		f.Release()
		if err != nil {
			return nil, err
		}
	}
	last, found, err := x.times.last(s.openTimes)
	if found {
		x.maxStamp, x.maxOffset, x.lastIndexed = last.key, s.base+int64(last.value), last.key
	}
	return x, err
}

// IndexFull says whether an index of at most indexBytes takes no further entry. The time index keeps one slot free for
// Seal.
func (s *Segment) IndexFull(indexBytes int32) bool {
	x := s.loaded.Load()
	if x == nil {
		return false // it was not written to since it was opened; the next append loads it
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.offsets.len() >= int(indexBytes)/8 || x.times.len() >= int(indexBytes)/12-1
}

// Placed is an entry among those that are written together.
type Placed struct {
	Size       int
	LastOffset int64 // less than 2^31 above the segment's base
	MaxStamp   int64
}

// Append writes one entry, as AppendAll does.
func (s *Segment) Append(e []byte, lastOffset, maxStamp int64, intervalBytes int) error {
	return s.AppendAll(e, []Placed{{len(e), lastOffset, maxStamp}}, intervalBytes)
}

// AppendAll writes entries with one call: raw is made of them. After an error the file is cut back, now or before the next append, and
// none of them is there. Only the writer calls it.
func (s *Segment) AppendAll(raw []byte, entries []Placed, intervalBytes int) error {
	x, err := s.indexes()
	if err != nil {
		return err
	}
	f, err := s.Acquire()
	if err != nil {
		return err
	}
	defer f.Release()
	pos := s.size.Load()
	if s.writer.torn {
		if err := f.Truncate(pos); err != nil {
			return err
		}
		s.writer.torn = false
	}
	_, err = f.WriteAt(raw, pos)
	if !s.unsynced.Load() {
		s.unsynced.Store(true) // after the write: a concurrent Sync may have missed it
	}
	if err != nil {
		s.writer.torn = f.Truncate(pos) != nil
		return err
	}
	s.size.Store(pos + int64(len(raw)))
	if pos == 0 {
		s.firstStamp.Store(entries[0].MaxStamp)
	}
	for _, e := range entries {
		s.index(x, pos, e.Size, e.LastOffset, e.MaxStamp, intervalBytes)
		pos += int64(e.Size)
	}
	return nil
}

// IndexRoom is how many entries can be appended before an index of at most indexBytes is full, at least one.
func (s *Segment) IndexRoom(indexBytes int32) int {
	x := s.loaded.Load()
	if x == nil {
		return 1 // the next append loads it
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return max(1, min(int(indexBytes)/8-x.offsets.len(), int(indexBytes)/12-1-x.times.len()))
}

// index accounts for an entry of size bytes at pos. An index entry is due when more than intervalBytes were
// written since the last one.
func (s *Segment) index(x *indexes, pos int64, size int, lastOffset, maxStamp int64, intervalBytes int) {
	x.mu.Lock()
	if maxStamp > x.maxStamp {
		x.maxStamp, x.maxOffset = maxStamp, lastOffset
	}
	if s.writer.sinceEntry > intervalBytes {
		x.offsets.append(entry{lastOffset - s.base, uint32(pos)}, s.openIndex)
		s.indexTime(x)
		s.writer.sinceEntry = 0
		s.unsyncedIndex.Store(true)
	}
	x.mu.Unlock()
	s.writer.sinceEntry += size
}

// indexTime adds the greatest timestamp to the time index if it rose. The caller holds x.mu.
func (s *Segment) indexTime(x *indexes) {
	if x.maxStamp <= x.lastIndexed {
		return
	}
	x.times.append(entry{x.maxStamp, uint32(x.maxOffset - s.base)}, s.openTimes)
	x.lastIndexed = x.maxStamp
}

// FirstTimestamp is the timestamp of the first entry in ms, -1 if there is no entry or it has none.
func (s *Segment) FirstTimestamp() (int64, error) {
	if ts := s.firstStamp.Load(); ts != unknownStamp || s.Size() == 0 {
		return max(ts, -1), nil
	}
	f, err := s.Acquire()
	if err != nil {
		return -1, err
	}
	defer f.Release()
	sc := newScanner(&findScanners, f, 0, s.Size())
	defer sc.recycle(&findScanners)
	if err := sc.Next(); err != nil {
		return -1, err
	}
	s.firstStamp.Store(sc.Head().MaxTimestamp())
	return max(s.firstStamp.Load(), -1), nil
}

// MaxTimestamp is the greatest timestamp in ms and the last offset of the entry that has it; -1, -1 for none.
func (s *Segment) MaxTimestamp() (stamp, offset int64, err error) {
	if s.Size() == 0 {
		return -1, -1, nil
	}
	x, err := s.indexes()
	if err != nil {
		return -1, -1, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.maxStamp, x.maxOffset, nil
}

// LoadedMaxTimestamp is MaxTimestamp if the indexes are in memory.
func (s *Segment) LoadedMaxTimestamp() (stamp int64, loaded bool) {
	x := s.loaded.Load()
	if x == nil {
		return -1, s.Size() == 0
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.maxStamp, true
}

// RetentionTimestamp is MaxTimestamp, or where there is none the time in ms at which the log file was last modified.
// The indexes of a segment at rest are not loaded for it.
func (s *Segment) RetentionTimestamp() (int64, error) {
	stamp := s.restStamp.Load()
	if s.loaded.Load() != nil || stamp == unknownStamp {
		var err error
		if stamp, err = s.newestStamp(); err != nil {
			return 0, err
		}
	}
	if stamp >= 0 {
		return stamp, nil
	}
	return s.ModTime()
}

// newestStamp is MaxTimestamp's first result, of a segment at rest from the last entry of its time index.
func (s *Segment) newestStamp() (int64, error) {
	if s.loaded.Load() != nil {
		stamp, _, err := s.MaxTimestamp()
		return stamp, err
	}
	x := index{keyBytes: 8}
	if e, ok := s.lastOnDisk(&x, TimeIndexSuffix); ok && e.key > 0 {
		s.restStamp.Store(e.key)
		return e.key, nil
	}
	stamp, _, err := s.MaxTimestamp() // builds what is missing
	return stamp, err
}

// ModTime is the time in ms at which the log file was last modified; of a planned one, its directory.
func (s *Segment) ModTime() (int64, error) {
	path := s.Path()
	if s.Planned() {
		path = s.dir
	}
	info, err := s.files.FS.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.ModTime.UnixMilli(), nil
}

// SetModTime makes the log file look as if it was last modified at ms. For segments that replace others.
func (s *Segment) SetModTime(ms int64) error {
	return s.files.FS.SetModTime(s.Path(), time.UnixMilli(ms))
}

// FitsRelative says whether an entry that ends at lastOffset can be in this segment.
func (s *Segment) FitsRelative(lastOffset int64) bool {
	return lastOffset-s.base <= math.MaxInt32
}

// Scan calls visit for every entry from position pos on, in order, until it returns false. The scanner shows the
// header; the checksum is not checked.
func (s *Segment) Scan(pos, end int64, visit func(*Scanner) (bool, error)) error {
	f, err := s.Acquire()
	if err != nil {
		return err
	}
	defer f.Release()
	sc := newScanner(&readScanners, f, pos, end)
	defer sc.recycle(&readScanners)
	for {
		if err := sc.Next(); err != nil {
			return ignoreEOF(err)
		}
		if more, err := visit(sc); err != nil || !more {
			return err
		}
	}
}

// Entry reads the entry at pos whose size in bytes is known.
func (s *Segment) Entry(pos int64, size int) (record.Entry, error) {
	f, err := s.Acquire()
	if err != nil {
		return nil, err
	}
	defer f.Release()
	e := make(record.Entry, size)
	_, err = f.ReadAt(e, pos)
	return e, err
}
