package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"golang.org/x/sys/unix"
)

func fdatasync(fd int) error { return unix.Fdatasync(fd) }

// SyncAll is syncfs(2), which reports errors of the writes that it waited for since Linux 5.8.
func (osFS) SyncAll(name string) error {
	f, err := open(name, unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Syncfs(f.FD()); err != nil {
		return &fs.PathError{Op: "syncfs", Path: name, Err: err}
	}
	return nil
}

// Lock uses an open file description lock: it conflicts with the record locks of other processes, which is what Java
// takes, but is not lost when something else in this process opens and closes the file.
func (osFS) Lock(name string) (io.Closer, error) {
	f, err := open(name, unix.O_RDWR|unix.O_CREAT)
	if err != nil {
		return nil, err
	}
	whole := unix.Flock_t{Type: unix.F_WRLCK}
	err = unix.FcntlFlock(uintptr(f.FD()), unix.F_OFD_SETLK, &whole)
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return nil, fmt.Errorf("%s: %w", name, ErrLocked)
	}
	return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
}
