package reactor

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls below are made by hand because those of x/sys allocate the vectors anew each time.

// readInto reads into first and, if that is full, second.
func (p *processor) readInto(fd int, first, second []byte) (int, error) {
	if len(second) == 0 {
		n, err := unix.Read(fd, first)
		return max(n, 0), err
	}
	p.setVector(0, first)
	p.setVector(1, second)
	n, _, errno := unix.Syscall(unix.SYS_READV, uintptr(fd), uintptr(unsafe.Pointer(&p.iovecs[0])), 2)
	clear(p.iovecs[:2])
	return result(n, errno)
}

// send writes vec; more says that more follows at once, so that the last packet need not go out yet. size is the sum of
// vec's lengths.
func (p *processor) send(fd int, vec [][]byte, more bool) (n, size int, err error) {
	flags := uintptr(unix.MSG_NOSIGNAL | unix.MSG_DONTWAIT)
	if more {
		flags |= unix.MSG_MORE
	}
	for i, b := range vec {
		p.setVector(i, b)
		size += len(b)
		vec[i] = nil
	}
	p.message.Iov = &p.iovecs[0]
	p.message.SetIovlen(len(vec))
	r, _, errno := unix.Syscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&p.message)), flags)
	clear(p.iovecs[:len(vec)])
	n, err = result(r, errno)
	return n, size, err
}

func (p *processor) setVector(i int, b []byte) {
	p.iovecs[i].Base = &b[0]
	p.iovecs[i].SetLen(len(b))
}

func result(n uintptr, errno unix.Errno) (int, error) {
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
