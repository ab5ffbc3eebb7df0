package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sort"
	"sync"

	"github.com/gregor-broker/gregor/log/vfs"
)

// blockEntries is how many entries of an index share one key in memory, and are written at a time.
const blockEntries = 512

// errBadIndex says that an index file is no sorted index. It is rebuilt from the log.
var errBadIndex = errors.New("the index is damaged")

// entry is one of an offset index (relative offset, position) or of a time index (timestamp, relative offset). The last
// offset of a batch stands for the batch. Keys rise strictly within an index.
type entry struct {
	key   int64
	value uint32
}

// index is a sorted file of entries. Of full blocks it keeps the first key in memory, of the last, not yet full block
// everything. The file may lag behind: blocks are written when they are full, the rest by flush. Not safe for concurrent
// use: indexes has the lock.
type index struct {
	keyBytes int // 4: offset index, 8: time index
	fences   []int64
	tail     []entry
	written  int // entries that the file has, which may reach into tail
}

func (x *index) entryBytes() int { return x.keyBytes + 4 }

func (x *index) encode(dst []byte, e entry) []byte {
	if x.keyBytes == 4 {
		dst = binary.BigEndian.AppendUint32(dst, uint32(e.key))
	} else {
		dst = binary.BigEndian.AppendUint64(dst, uint64(e.key))
	}
	return binary.BigEndian.AppendUint32(dst, e.value)
}

func (x *index) decode(b []byte) entry {
	if x.keyBytes == 4 {
		return entry{int64(int32(binary.BigEndian.Uint32(b))), binary.BigEndian.Uint32(b[4:])}
	}
	return entry{int64(binary.BigEndian.Uint64(b)), binary.BigEndian.Uint32(b[8:])}
}

// load reads what memory needs from f. It returns errBadIndex, and stays empty, if the file cannot be an index.
func (x *index) load(f vfs.File) error {
	size, err := f.Size()
	if err != nil {
		return err
	}
	width := int64(x.entryBytes())
	if size%width != 0 {
		return fmt.Errorf("%w: %d bytes are no multiple of %d", errBadIndex, size, width)
	}
	count := int(size / width)
	full := count / blockEntries
	fences := make([]int64, 0, full)
	buf := make([]byte, max(width, int64(count%blockEntries)*width))
	for i := range full {
		if _, err := f.ReadAt(buf[:width], int64(i)*blockEntries*width); err != nil {
			return err
		}
		fences = append(fences, x.decode(buf).key)
	}
	rest := buf[:int64(count%blockEntries)*width]
	if _, err := f.ReadAt(rest, int64(full)*blockEntries*width); err != nil && len(rest) > 0 {
		return err
	}
	tail := make([]entry, 0, count%blockEntries)
	for ; len(rest) > 0; rest = rest[width:] {
		tail = append(tail, x.decode(rest))
	}
	if !rising(fences, tail) {
		return fmt.Errorf("%w: its keys do not rise", errBadIndex)
	}
	x.fences, x.tail, x.written = fences, tail, count
	return nil
}

func rising(fences []int64, tail []entry) bool {
	last, first := int64(0), true
	check := func(key int64) bool {
		ok := first && key >= -1 || !first && key > last
		last, first = key, false
		return ok
	}
	for _, k := range fences {
		if !check(k) {
			return false
		}
	}
	for _, e := range tail {
		if !check(e.key) {
			return false
		}
	}
	return true
}

// reset makes the index empty, in memory only.
func (x *index) reset() {
	x.fences, x.tail, x.written = nil, nil, 0
}

func (x *index) len() int { return len(x.fences)*blockEntries + len(x.tail) }

// append adds an entry whose key is greater than all before. Full blocks go to the file that open yields; when that
// fails they stay in memory, and the next append tries again.
func (x *index) append(e entry, open func() (*Handle, error)) {
	x.tail = append(x.tail, e)
	if len(x.tail) < blockEntries {
		return
	}
	f, err := open()
	if err != nil {
		return
	}
	defer f.Release()
	if x.write(f) != nil {
		return
	}
	for len(x.tail) >= blockEntries {
		x.fences = append(x.fences, x.tail[0].key)
		x.tail = append(x.tail[:0], x.tail[blockEntries:]...)
	}
}

// write writes the entries that the file lacks.
func (x *index) write(f vfs.File) error {
	first := len(x.fences) * blockEntries // of tail
	from := max(x.written, first)
	if from == x.len() {
		return nil
	}
	buf := make([]byte, 0, (x.len()-from)*x.entryBytes())
	for _, e := range x.tail[from-first:] {
		buf = x.encode(buf, e)
	}
	if _, err := f.WriteAt(buf, int64(from*x.entryBytes())); err != nil {
		return err
	}
	x.written = x.len()
	return nil
}

// flush writes everything and gives the file its exact size.
func (x *index) flush(f vfs.File) error {
	if err := x.write(f); err != nil {
		return err
	}
	size, err := f.Size()
	if err != nil {
		return err
	}
	if want := int64(x.len() * x.entryBytes()); size != want {
		return f.Truncate(want)
	}
	return nil
}

// floorInMemory returns the last entry with a key of at most key if memory has it, or else the full block that does; -1 if
// there is none.
func (x *index) floorInMemory(key int64) (e entry, found bool, block int) {
	if len(x.tail) > 0 && x.tail[0].key <= key {
		return x.tail[searchEntries(x.tail, key)-1], true, 0
	}
	return entry{}, false, searchKeys(x.fences, key) - 1
}

// reachInMemory returns the first entry of those in memory whose value is at least value. If that is the first of them an earlier
// one may be in the file's full entries; else full is 0.
func (x *index) reachInMemory(value int64) (e entry, found bool, full int) {
	i := sort.Search(len(x.tail), func(i int) bool { return int64(x.tail[i].value) >= value })
	if i == 0 {
		full = len(x.fences) * blockEntries
	}
	if i == len(x.tail) {
		return entry{}, false, full
	}
	return x.tail[i], true, full
}

// reachInBlocks is reachInMemory for the first full entries of the file.
func reachInBlocks(x *index, f vfs.File, full int, value int64) (e entry, found bool, err error) {
	i := sort.Search(full, func(i int) bool {
		at, _, rerr := readEntry(x, f, i)
		if rerr != nil {
			err = rerr
		}
		return rerr != nil || int64(at.value) >= value
	})
	if err != nil || i == full {
		return entry{}, false, err
	}
	return readEntry(x, f, i)
}

var blockBuffers = sync.Pool{New: func() any { return new([blockEntries * 12]byte) }}

// floorInBlock is floorInMemory for a full block, from the file.
func floorInBlock(keyBytes int, f vfs.File, block int, key int64) (entry, error) {
	buf := blockBuffers.Get().(*[blockEntries * 12]byte)
	defer blockBuffers.Put(buf)
	x := index{keyBytes: keyBytes}
	width := x.entryBytes()
	raw := buf[:blockEntries*width]
	if n, err := f.ReadAt(raw, int64(block*len(raw))); err != nil {
		if !errors.Is(err, io.EOF) {
			return entry{}, err
		}
		raw = raw[:n-n%width]
	}
	lo, hi := 0, len(raw)/width
	for lo < hi {
		mid := (lo + hi) / 2
		if x.decode(raw[mid*width:]).key <= key {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 {
		return entry{}, errBadIndex // its key in memory said otherwise
	}
	return x.decode(raw[(lo-1)*width:]), nil
}

// last returns the last entry.
func (x *index) last(open func() (*Handle, error)) (entry, bool, error) {
	if n := len(x.tail); n > 0 {
		return x.tail[n-1], true, nil
	}
	if len(x.fences) == 0 {
		return entry{}, false, nil
	}
	f, err := open()
	if err != nil {
		return entry{}, false, err
	}
	defer f.Release()
	return readEntry(x, f, x.len()-1)
}

// truncate drops the entries for which keep is false; they are at the end.
func (x *index) truncate(open func() (*Handle, error), keep func(entry) bool) error {
	f, err := open()
	if err != nil {
		return err
	}
	defer f.Release()
	// Everything below is about few entries, rarely: read one at a time from the end.
	if err := x.write(f); err != nil {
		return err
	}
	count := x.len()
	for count > 0 {
		e, _, err := readEntry(x, f, count-1)
		if err != nil {
			return err
		}
		if keep(e) {
			break
		}
		count--
	}
	if err := f.Truncate(int64(count * x.entryBytes())); err != nil {
		return err
	}
	x.reset()
	return x.load(f)
}

func readEntry(x *index, f vfs.File, i int) (entry, bool, error) {
	var buf [12]byte
	width := x.entryBytes()
	if _, err := f.ReadAt(buf[:width], int64(i*width)); err != nil {
		return entry{}, false, err
	}
	return x.decode(buf[:]), true, nil
}

// searchEntries returns how many entries have a key of at most key.
func searchEntries(list []entry, key int64) int {
	lo, hi := 0, len(list)
	for lo < hi {
		mid := (lo + hi) / 2
		if list[mid].key <= key {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

func searchKeys(list []int64, key int64) int {
	lo, hi := 0, len(list)
	for lo < hi {
		mid := (lo + hi) / 2
		if list[mid] <= key {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}
