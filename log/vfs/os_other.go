//go:build unix && !linux

package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// fdatasync asks for what macOS calls a full sync where there is one: its fsync does not empty the disk's cache.
func fdatasync(fd int) error { return unix.Fsync(fd) }

func (osFS) SyncAll(name string) error {
	return &fs.PathError{Op: "sync", Path: name, Err: ErrUnsupported}
}

// held are the locks of this process: record locks do not exclude their own process.
var held struct {
	sync.Mutex
	names map[string]bool
}

type recordLock struct {
	File
	name string
}

func (l recordLock) Close() error {
	held.Lock()
	defer held.Unlock()
	delete(held.names, l.name)
	return l.File.Close()
}

// Lock takes a record lock. Nothing else in this process may open and close the file meanwhile: that would drop it.
func (osFS) Lock(name string) (io.Closer, error) {
	name, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	held.Lock()
	defer held.Unlock()
	if held.names[name] {
		return nil, fmt.Errorf("%s: %w", name, ErrLocked)
	}
	f, err := open(name, unix.O_RDWR|unix.O_CREAT)
	if err != nil {
		return nil, err
	}
	whole := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(uintptr(f.FD()), unix.F_SETLK, &whole); err != nil {
		f.Close()
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
			return nil, fmt.Errorf("%s: %w", name, ErrLocked)
		}
		return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
	}
	if held.names == nil {
		held.names = map[string]bool{}
	}
	held.names[name] = true
	return recordLock{f, name}, nil
}
