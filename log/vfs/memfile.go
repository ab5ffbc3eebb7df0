package vfs

import (
	"io"
	"syscall"
)

const pageSize = 16 << 10

// pages is the content of a file in memory. Copies share pages until one of them is written.
type pages struct {
	size   int64
	list   [][]byte // each of at most pageSize bytes; what is missing is zero
	shared []bool   // pages that a copy refers to, too
}

// share returns a copy in time proportional to the number of pages.
func (p *pages) share() pages {
	for i := range p.shared {
		p.shared[i] = true
	}
	return pages{p.size, append([][]byte(nil), p.list...), append([]bool(nil), p.shared...)}
}

// page returns page i to be written, with at least size bytes.
func (p *pages) page(i, size int) []byte {
	for len(p.list) <= i {
		p.list, p.shared = append(p.list, nil), append(p.shared, false)
	}
	if len(p.list[i]) < size || p.shared[i] {
		for size < pageSize && size&(size-1) != 0 {
			size += size & -size // to a power of two, so that small appends do not copy each time
		}
		own := make([]byte, max(size, len(p.list[i])))
		copy(own, p.list[i])
		p.list[i], p.shared[i] = own, false
	}
	return p.list[i]
}

func (p *pages) writeAt(b []byte, pos int64) {
	p.size = max(p.size, pos+int64(len(b)))
	for len(b) > 0 {
		from := int(pos % pageSize)
		n := copy(p.page(int(pos/pageSize), min(from+len(b), pageSize))[from:], b)
		b, pos = b[n:], pos+int64(n)
	}
}

func (p *pages) readAt(b []byte, pos int64) (n int, err error) {
	for n < len(b) {
		if pos >= p.size {
			return n, io.EOF
		}
		part := b[n:min(int64(len(b)), int64(n)+p.size-pos)]
		i, from := int(pos/pageSize), int(pos%pageSize)
		k := min(len(part), pageSize-from)
		there := 0
		if i < len(p.list) && from < len(p.list[i]) {
			there = copy(part[:k], p.list[i][from:])
		}
		clear(part[there:k])
		n, pos = n+k, pos+int64(k)
	}
	return n, nil
}

func (p *pages) truncate(size int64) {
	if size < p.size {
		keep := int((size + pageSize - 1) / pageSize)
		if keep < len(p.list) {
			p.list, p.shared = p.list[:keep], p.shared[:keep]
		}
		if from := int(size % pageSize); from != 0 && keep <= len(p.list) && from < len(p.list[keep-1]) {
			clear(p.page(keep-1, from)[from:])
		}
	}
	p.size = size
}

// memFile is an open file of a Mem. It stays usable after its name is gone.
type memFile struct {
	fs   *Mem
	node *memNode
}

func (f *memFile) FD() int      { return -1 }
func (f *memFile) Close() error { return nil }

func (f *memFile) ReadAt(p []byte, pos int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return f.node.data.readAt(p, pos)
}

func (f *memFile) WriteAt(p []byte, pos int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	grow := max(pos+int64(len(p))-f.node.data.size, 0)
	var err error
	if c := f.fs.capacity; c > 0 && f.fs.mu.used+grow > c {
		// As a disk does it: what fits is written.
		cut := min(f.fs.mu.used+grow-c, int64(len(p)))
		p, grow, err = p[:int64(len(p))-cut], max(grow-cut, 0), syscall.ENOSPC
	}
	if len(p) > 0 {
		f.node.data.writeAt(p, pos)
		f.node.modified = f.fs.now()
		f.fs.mu.used += grow
	}
	return len(p), err
}

func (f *memFile) Size() (int64, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return f.node.data.size, nil
}

func (f *memFile) Truncate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.fs.mu.used += size - f.node.data.size
	f.node.data.truncate(size)
	f.node.modified = f.fs.now()
	return nil
}

func (f *memFile) Sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.node.synced = f.node.data.share()
	return nil
}
