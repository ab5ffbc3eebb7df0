package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Mem is a file system in memory. It knows what was synced, so that Crash can lose the rest. Safe for concurrent use.
type Mem struct {
	now      func() time.Time // for modification times
	capacity int64            // bytes; 0 is unlimited
	mu       struct {
		sync.Mutex
		root   *memNode
		used   int64 // bytes of all files that have a name
		locked map[string]bool
	}
}

// NewMem returns an empty file system of the given capacity in bytes, 0 for no limit, whose files are modified at now.
func NewMem(capacity int64, now func() time.Time) *Mem {
	m := &Mem{now: now, capacity: capacity}
	m.mu.root = newMemDir()
	m.mu.locked = map[string]bool{}
	return m
}

// memNode is a file or a directory. Its owner is the Mem, under its lock.
type memNode struct {
	dir      bool
	modified time.Time
	entries  map[string]*memNode // of a directory
	durable  map[string]*memNode // its entries when it was last synced
	data     pages               // of a file
	synced   pages               // its content when it was last synced
}

func newMemDir() *memNode {
	return &memNode{dir: true, entries: map[string]*memNode{}, durable: map[string]*memNode{}}
}

func clean(name string) string { return strings.Trim(path.Clean("/"+name), "/") }

// find returns the node at name, nil if there is none. The caller holds mu.
func (m *Mem) find(name string) *memNode {
	n := m.mu.root
	if name = clean(name); name == "" {
		return n
	}
	for part := range strings.SplitSeq(name, "/") {
		if n == nil || !n.dir {
			return nil
		}
		n = n.entries[part]
	}
	return n
}

// parent returns the directory that holds name, and the last element. The caller holds mu.
func (m *Mem) parent(name string) (*memNode, string, error) {
	name = clean(name)
	dir := m.find(path.Dir(name))
	if dir == nil || !dir.dir {
		return nil, "", syscall.ENOENT
	}
	return dir, path.Base(name), nil
}

func pathErr(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// Open implements FS.
func (m *Mem) Open(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.find(name)
	if n == nil || n.dir {
		return nil, pathErr("open", name, syscall.ENOENT)
	}
	return &memFile{fs: m, node: n}, nil
}

// Create implements FS.
func (m *Mem) Create(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent(name)
	if err != nil {
		return nil, pathErr("open", name, err)
	}
	n := dir.entries[base]
	switch {
	case n == nil:
		n = &memNode{modified: m.now()}
		dir.entries[base] = n
	case n.dir:
		return nil, pathErr("open", name, syscall.EISDIR)
	default:
		m.mu.used -= n.data.size
		n.data = pages{}
	}
	return &memFile{fs: m, node: n}, nil
}

// Mkdir implements FS.
func (m *Mem) Mkdir(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent(name)
	if err == nil && dir.entries[base] != nil {
		err = syscall.EEXIST
	}
	if err != nil {
		return pathErr("mkdir", name, err)
	}
	dir.entries[base] = newMemDir()
	return nil
}

// MkdirAll implements FS. What it makes is durable at once.
func (m *Mem) MkdirAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.mu.root
	for part := range strings.SplitSeq(clean(name), "/") {
		child := n.entries[part]
		if child == nil {
			child = newMemDir()
			n.entries[part], n.durable[part] = child, child
		}
		if !child.dir {
			return pathErr("mkdir", name, syscall.ENOTDIR)
		}
		n = child
	}
	return nil
}

// ReadDir implements FS.
func (m *Mem) ReadDir(name string) ([]fs.DirEntry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.find(name)
	if n == nil || !n.dir {
		return nil, pathErr("open", name, syscall.ENOENT)
	}
	list := make([]fs.DirEntry, 0, len(n.entries))
	for base, child := range n.entries {
		list = append(list, memEntry{base, Info{child.data.size, child.modified, child.dir}})
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name() < list[j].Name() })
	return list, nil
}

// ReadFile implements FS.
func (m *Mem) ReadFile(name string, max int) ([]byte, error) {
	f, err := m.Open(name)
	if err != nil {
		return nil, err
	}
	size, _ := f.Size()
	if size > int64(max) {
		return nil, pathErr("read", name, fmt.Errorf("%d bytes, at most %d expected", size, max))
	}
	buf := make([]byte, size)
	n, err := f.ReadAt(buf, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return buf[:n], nil
}

// Stat implements FS.
func (m *Mem) Stat(name string) (Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.find(name)
	if n == nil {
		return Info{}, pathErr("stat", name, syscall.ENOENT)
	}
	return Info{n.data.size, n.modified, n.dir}, nil
}

// SetModTime implements FS.
func (m *Mem) SetModTime(name string, t time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.find(name)
	if n == nil {
		return pathErr("utimes", name, syscall.ENOENT)
	}
	n.modified = t
	return nil
}

// Rename implements FS.
func (m *Mem) Rename(old, new string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	from, oldBase, err := m.parent(old)
	if err != nil || from.entries[oldBase] == nil {
		return pathErr("rename", old, syscall.ENOENT)
	}
	to, newBase, err := m.parent(new)
	if err != nil {
		return pathErr("rename", new, err)
	}
	n := from.entries[oldBase]
	if there := to.entries[newBase]; there != nil && there != n {
		if there.dir && len(there.entries) > 0 {
			return pathErr("rename", new, syscall.ENOTEMPTY)
		}
		m.mu.used -= there.data.size
	}
	delete(from.entries, oldBase)
	to.entries[newBase] = n
	return nil
}

// Remove implements FS.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent(name)
	if err != nil || dir.entries[base] == nil {
		return pathErr("remove", name, syscall.ENOENT)
	}
	n := dir.entries[base]
	if n.dir && len(n.entries) > 0 {
		return pathErr("remove", name, syscall.ENOTEMPTY)
	}
	m.mu.used -= n.data.size
	delete(dir.entries, base)
	return nil
}

// RemoveAll implements FS.
func (m *Mem) RemoveAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent(name)
	if err != nil || dir.entries[base] == nil {
		return nil
	}
	m.mu.used -= dir.entries[base].bytes()
	delete(dir.entries, base)
	return nil
}

func (n *memNode) bytes() int64 {
	sum := n.data.size
	for _, child := range n.entries {
		sum += child.bytes()
	}
	return sum
}

// SyncDir implements FS.
func (m *Mem) SyncDir(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.find(name)
	if n == nil || !n.dir {
		return pathErr("fsync", name, syscall.ENOENT)
	}
	n.syncEntries()
	return nil
}

func (n *memNode) syncEntries() {
	n.durable = make(map[string]*memNode, len(n.entries))
	for base, child := range n.entries {
		n.durable[base] = child
	}
}

// SyncAll implements FS.
func (m *Mem) SyncAll(string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.root.syncAll()
	return nil
}

func (n *memNode) syncAll() {
	if !n.dir {
		n.synced = n.data.share()
		return
	}
	n.syncEntries()
	for _, child := range n.entries {
		child.syncAll()
	}
}

// Lock implements FS. Its lock is gone in a crashed or cloned file system.
func (m *Mem) Lock(name string) (io.Closer, error) {
	if _, err := m.Stat(name); err != nil {
		if _, err := m.Create(name); err != nil {
			return nil, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	name = clean(name)
	if m.mu.locked[name] {
		return nil, fmt.Errorf("%s: %w", name, ErrLocked)
	}
	m.mu.locked[name] = true
	return memLock{m, name}, nil
}

type memLock struct {
	fs   *Mem
	name string
}

func (l memLock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	delete(l.fs.mu.locked, l.name)
	return nil
}

// Usage implements FS.
func (m *Mem) Usage(string) (total, usable int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.capacity == 0 {
		return -1, -1, nil
	}
	return m.capacity, m.capacity - m.mu.used, nil
}

type memEntry struct {
	name string
	info Info
}

func (e memEntry) Name() string               { return e.name }
func (e memEntry) IsDir() bool                { return e.info.Dir }
func (e memEntry) Info() (fs.FileInfo, error) { return e, nil }
func (e memEntry) Size() int64                { return e.info.Size }
func (e memEntry) ModTime() time.Time         { return e.info.ModTime }
func (e memEntry) Sys() any                   { return nil }
func (e memEntry) Type() fs.FileMode          { return e.Mode().Type() }
func (e memEntry) Mode() fs.FileMode {
	if e.info.Dir {
		return fs.ModeDir | 0o755
	}
	return 0o644
}
