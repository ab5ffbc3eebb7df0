//go:build unix

package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// OS is the operating system's file system.
var OS FS = osFS{}

type osFS struct{}

// Files are plain descriptors rather than os.Files: a broker has many, and needs neither poller nor finalizer.
func open(name string, flags int) (File, error) {
	for {
		fd, err := unix.Open(name, flags|unix.O_CLOEXEC, 0o644)
		if err == nil {
			return osFile(fd), nil
		}
		if err != unix.EINTR {
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
	}
}

func (osFS) Open(name string) (File, error) { return open(name, unix.O_RDWR) }

func (osFS) Create(name string) (File, error) {
	return open(name, unix.O_RDWR|unix.O_CREAT|unix.O_TRUNC)
}

func (osFS) Mkdir(name string) error                    { return os.Mkdir(name, 0o755) }
func (osFS) MkdirAll(name string) error                 { return os.MkdirAll(name, 0o755) }
func (osFS) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }
func (osFS) Rename(old, new string) error               { return os.Rename(old, new) }
func (osFS) RemoveAll(name string) error                { return os.RemoveAll(name) }

func (osFS) Remove(name string) error { return os.Remove(name) }

func (osFS) Stat(name string) (Info, error) {
	i, err := os.Stat(name)
	if err != nil {
		return Info{}, err
	}
	return Info{Size: i.Size(), ModTime: i.ModTime(), Dir: i.IsDir()}, nil
}

func (osFS) SetModTime(name string, t time.Time) error { return os.Chtimes(name, t, t) }

func (osFS) ReadFile(name string, max int) ([]byte, error) {
	f, err := open(name, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	if size > int64(max) {
		return nil, tooLarge(name, size, max)
	}
	buf := make([]byte, size)
	n, err := f.ReadAt(buf, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return buf[:n], nil
}

func tooLarge(name string, size int64, max int) error {
	return &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("%d bytes, at most %d expected", size, max)}
}

func (osFS) SyncDir(name string) error {
	f, err := open(name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Fsync(f.FD()); err != nil {
		return &fs.PathError{Op: "fsync", Path: name, Err: err}
	}
	return nil
}

func (osFS) Usage(name string) (total, usable int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(filepath.Clean(name), &st); err != nil {
		return -1, -1, &fs.PathError{Op: "statfs", Path: name, Err: err}
	}
	return int64(st.Blocks) * int64(st.Bsize), int64(st.Bavail) * int64(st.Bsize), nil
}

type osFile int

func (f osFile) FD() int { return int(f) }

func (f osFile) ReadAt(p []byte, pos int64) (n int, err error) {
	for n < len(p) {
		k, err := unix.Pread(int(f), p[n:], pos+int64(n))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return n, os.NewSyscallError("pread", err)
		}
		if k == 0 {
			return n, io.EOF
		}
		n += k
	}
	return n, nil
}

func (f osFile) WriteAt(p []byte, pos int64) (n int, err error) {
	for n < len(p) {
		k, err := unix.Pwrite(int(f), p[n:], pos+int64(n))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return n, os.NewSyscallError("pwrite", err)
		}
		if k == 0 {
			return n, io.ErrShortWrite
		}
		n += k
	}
	return n, nil
}

func (f osFile) Size() (int64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f), &st); err != nil {
		return 0, os.NewSyscallError("fstat", err)
	}
	return st.Size, nil
}

func (f osFile) Truncate(size int64) error {
	for {
		err := unix.Ftruncate(int(f), size)
		if err != unix.EINTR {
			return os.NewSyscallError("ftruncate", err)
		}
	}
}

func (f osFile) Sync() error {
	for {
		err := fdatasync(int(f))
		if err != unix.EINTR {
			return os.NewSyscallError("fsync", err)
		}
	}
}

func (f osFile) Close() error { return os.NewSyscallError("close", unix.Close(int(f))) }

// MaxFiles is how many descriptors the process may have.
func MaxFiles() int {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return 1024
	}
	return int(min(uint64(r.Cur), 1<<20))
}
