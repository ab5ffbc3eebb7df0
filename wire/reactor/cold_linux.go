package reactor

import (
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gregor-broker/gregor/wire/payload"
)

// touchStep is the distance in bytes of the reads that wait for a range to arrive; read-ahead brings what lies between.
const touchStep = 16 << 10

// noProbe is set when the kernel or file system does not know RWF_NOWAIT; then every cold range goes through a loader.
var noProbe atomic.Bool

// warmth says which beginning of a cold part is known to be in the page cache.
type warmth struct {
	part *payload.Part
	end  int64 // position in the file
}

// prefix returns how many of the part's next size bytes can be sent without waiting for the disk.
func (w *warmth) prefix(part *payload.Part, size int) int {
	if w.part == part && part.Pos < w.end {
		return int(min(int64(size), w.end-part.Pos))
	}
	if resident(part.File.FD(), part.Pos+int64(size)-1) {
		return size
	}
	return 0
}

// resident reports whether the byte at pos can be read at once.
func resident(fd int, pos int64) bool {
	if noProbe.Load() {
		return false
	}
	var b [1]byte
	for {
		_, err := unix.Preadv2(fd, [][]byte{b[:]}, pos, unix.RWF_NOWAIT)
		switch err {
		case unix.EINTR:
		case unix.EOPNOTSUPP, unix.ENOSYS, unix.EINVAL:
			noProbe.Store(true)
			return false
		case unix.EAGAIN:
			return false
		default:
			return true // an error, or the end of the file, shows when it is sent
		}
	}
}

// load has a loader bring a range into the page cache; the connection's output waits for it.
func (p *processor) load(c *conn, part *payload.Part, size int) {
	c.loading = true
	c.warm = warmth{part, part.Pos + int64(size)}
	part.File.Retain()
	p.engine.loaders.Submit(&load{c: c, file: part.File, pos: part.Pos, size: size})
}

// load is a range to be read ahead.
type load struct {
	c    *conn
	file payload.File
	pos  int64
	size int
}

// Run waits for the disk.
func (l *load) Run() {
	fd := l.file.FD()
	// It only hastens what the reads below wait for.
	_ = unix.Fadvise(fd, l.pos, int64(l.size), unix.FADV_WILLNEED)
	var b [1]byte
	for at := int64(0); at < int64(l.size); at += touchStep {
		if _, err := l.file.ReadAt(b[:], l.pos+at); err != nil {
			break // shows when it is sent
		}
	}
	_, _ = l.file.ReadAt(b[:], l.pos+int64(l.size)-1)
	l.file.Release()
	l.c.proc.post(letter{kind: loaded, c: l.c})
}
