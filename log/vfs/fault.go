package vfs

import (
	"io"
	"io/fs"
	"sync/atomic"
	"time"
)

// Op is a kind of call that changes a file system or makes it durable, or that reads file content.
type Op string

// The calls that a Faulty file system asks about.
const (
	OpOpen      Op = "open"
	OpCreate    Op = "create"
	OpMkdir     Op = "mkdir"
	OpReadDir   Op = "readdir"
	OpReadFile  Op = "readfile"
	OpModTime   Op = "modtime"
	OpRename    Op = "rename"
	OpRemove    Op = "remove"
	OpRemoveAll Op = "removeall"
	OpSyncDir   Op = "syncdir"
	OpSyncAll   Op = "syncall"
	OpRead      Op = "read"
	OpWrite     Op = "write"
	OpTruncate  Op = "truncate"
	OpSync      Op = "sync"
)

// Call is a call about to be made.
type Call struct {
	Op   Op
	Name string // of the file; the old one of a rename
	N    int64  // how many calls came before
	Size int    // bytes of a read or write
}

// Changes says whether the call changes what a crash leaves.
func (c Call) Changes() bool {
	switch c.Op {
	case OpOpen, OpReadDir, OpReadFile, OpRead:
		return false
	}
	return true
}

// Faulty asks a function before each call of a file system. Safe for concurrent use if the function is.
type Faulty struct {
	FS
	calls  atomic.Int64
	before atomic.Pointer[func(Call) (allowed int, err error)]
}

// NewFaulty wraps under. Nothing fails until Before is given.
func NewFaulty(under FS) *Faulty { return &Faulty{FS: under} }

// Before sets the function that is asked before each call; nil lets all pass. An error fails the call; of a write,
// allowed bytes are written first.
func (f *Faulty) Before(ask func(Call) (allowed int, err error)) {
	if ask == nil {
		f.before.Store(nil)
		return
	}
	f.before.Store(&ask)
}

func (f *Faulty) ask(op Op, name string, size int) (int, error) {
	n := f.calls.Add(1) - 1
	if ask := f.before.Load(); ask != nil {
		allowed, err := (*ask)(Call{op, name, n, size})
		if err != nil {
			return min(allowed, size), &fs.PathError{Op: string(op), Path: name, Err: err}
		}
	}
	return size, nil
}

// Open implements FS.
func (f *Faulty) Open(name string) (File, error) {
	if _, err := f.ask(OpOpen, name, 0); err != nil {
		return nil, err
	}
	return f.wrap(name)(f.FS.Open(name))
}

// Create implements FS.
func (f *Faulty) Create(name string) (File, error) {
	if _, err := f.ask(OpCreate, name, 0); err != nil {
		return nil, err
	}
	return f.wrap(name)(f.FS.Create(name))
}

func (f *Faulty) wrap(name string) func(File, error) (File, error) {
	return func(file File, err error) (File, error) {
		if err != nil {
			return nil, err
		}
		return &faultyFile{file, f, name}, nil
	}
}

// Mkdir implements FS.
func (f *Faulty) Mkdir(name string) error {
	if _, err := f.ask(OpMkdir, name, 0); err != nil {
		return err
	}
	return f.FS.Mkdir(name)
}

// ReadDir implements FS.
func (f *Faulty) ReadDir(name string) ([]fs.DirEntry, error) {
	if _, err := f.ask(OpReadDir, name, 0); err != nil {
		return nil, err
	}
	return f.FS.ReadDir(name)
}

// ReadFile implements FS.
func (f *Faulty) ReadFile(name string, max int) ([]byte, error) {
	if _, err := f.ask(OpReadFile, name, 0); err != nil {
		return nil, err
	}
	return f.FS.ReadFile(name, max)
}

// SetModTime implements FS.
func (f *Faulty) SetModTime(name string, t time.Time) error {
	if _, err := f.ask(OpModTime, name, 0); err != nil {
		return err
	}
	return f.FS.SetModTime(name, t)
}

// Rename implements FS.
func (f *Faulty) Rename(old, new string) error {
	if _, err := f.ask(OpRename, old, 0); err != nil {
		return err
	}
	return f.FS.Rename(old, new)
}

// Remove implements FS.
func (f *Faulty) Remove(name string) error {
	if _, err := f.ask(OpRemove, name, 0); err != nil {
		return err
	}
	return f.FS.Remove(name)
}

// RemoveAll implements FS.
func (f *Faulty) RemoveAll(name string) error {
	if _, err := f.ask(OpRemoveAll, name, 0); err != nil {
		return err
	}
	return f.FS.RemoveAll(name)
}

// SyncDir implements FS.
func (f *Faulty) SyncDir(name string) error {
	if _, err := f.ask(OpSyncDir, name, 0); err != nil {
		return err
	}
	return f.FS.SyncDir(name)
}

// SyncAll implements FS.
func (f *Faulty) SyncAll(name string) error {
	if _, err := f.ask(OpSyncAll, name, 0); err != nil {
		return err
	}
	return f.FS.SyncAll(name)
}

// Lock implements FS.
func (f *Faulty) Lock(name string) (io.Closer, error) { return f.FS.Lock(name) }

type faultyFile struct {
	File
	fs   *Faulty
	name string
}

func (f *faultyFile) ReadAt(p []byte, pos int64) (int, error) {
	if _, err := f.fs.ask(OpRead, f.name, len(p)); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, pos)
}

func (f *faultyFile) WriteAt(p []byte, pos int64) (int, error) {
	allowed, err := f.fs.ask(OpWrite, f.name, len(p))
	if err == nil {
		return f.File.WriteAt(p, pos)
	}
	n, werr := f.File.WriteAt(p[:allowed], pos)
	if werr != nil {
		err = werr
	}
	return n, err
}

func (f *faultyFile) Truncate(size int64) error {
	if _, err := f.fs.ask(OpTruncate, f.name, 0); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *faultyFile) Sync() error {
	if _, err := f.fs.ask(OpSync, f.name, 0); err != nil {
		return err
	}
	return f.File.Sync()
}
