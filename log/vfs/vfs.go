// Package vfs is the file system as the log sees it: the operating system's, one in memory that can lose what was not
// synced, and a wrapper that injects errors.
package vfs

import (
	"errors"
	"io"
	"io/fs"
	"syscall"
	"time"
)

// FS is a file system. Names are paths with forward slashes. Errors are as package os makes them, so that errors.Is
// finds fs.ErrNotExist, fs.ErrExist and syscall.ENOSPC. Safe for concurrent use.
type FS interface {
	// Open opens an existing file for reading and writing.
	Open(name string) (File, error)
	// Create makes a new, empty file, or empties the one that is there.
	Create(name string) (File, error)
	// Mkdir makes a directory; fs.ErrExist if there is one.
	Mkdir(name string) error
	// MkdirAll makes a directory and its parents unless they exist.
	MkdirAll(name string) error
	// ReadDir lists a directory in the order of names.
	ReadDir(name string) ([]fs.DirEntry, error)
	// ReadFile returns the content of a small file; an error if it is larger than max.
	ReadFile(name string, max int) ([]byte, error)
	Stat(name string) (Info, error)
	// SetModTime makes a file look as if last written at t, until it is written again.
	SetModTime(name string, t time.Time) error
	// Rename replaces what is at new. It is durable only after SyncDir of the parent.
	Rename(old, new string) error
	Remove(name string) error
	RemoveAll(name string) error
	// SyncDir makes what was created, renamed and removed directly in a directory durable.
	SyncDir(name string) error
	// SyncAll makes everything durable that was done before on the file system that holds name. ErrUnsupported where
	// that cannot be done or would not report errors.
	SyncAll(name string) error
	// Lock takes an exclusive lock on a file, which it creates, without waiting, or returns ErrLocked. It excludes other
	// processes, Java's FileChannel.lock among them, and other holders in this process.
	Lock(name string) (io.Closer, error)
	// Usage returns the size of the file system that holds name and what is free for us, in bytes.
	Usage(name string) (total, usable int64, err error)
}

// File is an open file. Safe for concurrent use as far as the calls do not overlap in the file.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Size() (int64, error)
	Truncate(size int64) error
	// Sync makes the content and size durable, not the name.
	Sync() error
	// FD is the descriptor, -1 if there is none.
	FD() int
}

// Info describes a file or directory.
type Info struct {
	Size    int64
	ModTime time.Time
	Dir     bool
}

// ErrLocked says that another process or manager holds the lock.
var ErrLocked = errors.New("locked by another process")

// ErrUnsupported says that this file system cannot do that.
var ErrUnsupported = errors.ErrUnsupported

// IsNoSpace says whether err comes from a full disk or an exhausted quota.
func IsNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
