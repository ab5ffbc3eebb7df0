package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/pierrec/lz4/v4"
)

// The part of lz4's frame format that Kafka uses: independent blocks, no dictionary. Frames of magic 0 have the header
// checksum computed over the magic number too, the mistake of the first clients, which readers of magic 0 ignore.
// https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md; org.apache.kafka.common.compress.Lz4Block*Stream.
const (
	lz4Magic         = 0x184d2204
	lz4Version       = 1 << 6
	lz4Independent   = 1 << 5
	lz4BlockChecksum = 1 << 4
	lz4ContentSize   = 1 << 3
	lz4Checksum      = 1 << 2
	lz4BlockMax64K   = 4
	lz4Stored        = 1 << 31 // bit of a block's size: not compressed
	lz4WriteBlock    = 64 << 10
)

var errLZ4 = errors.New("invalid lz4 frame")

// lz4Reader reads one frame. Owned by one goroutine.
type lz4Reader struct {
	in       []byte
	flags    byte
	maxBlock int
	block    []byte
	unread   []byte
	done     bool
}

var lz4Readers = sync.Pool{New: func() any { return new(lz4Reader) }}

func newLZ4Reader(payload []byte, checkHeader bool) (*lz4Reader, error) {
	l := lz4Readers.Get().(*lz4Reader)
	l.in, l.done = payload, false
	if err := l.header(checkHeader); err != nil {
		l.release()
		return nil, &decompressError{err}
	}
	return l, nil
}

func (l *lz4Reader) release() {
	if cap(l.block) > 1<<20 {
		l.block = nil
	}
	l.in, l.unread = nil, nil
	lz4Readers.Put(l)
}

func (l *lz4Reader) header(check bool) error {
	if len(l.in) < 7 || binary.LittleEndian.Uint32(l.in) != lz4Magic {
		return errLZ4
	}
	l.flags = l.in[4]
	bd := l.in[5]
	if l.flags>>6 != 1 || l.flags&lz4Independent == 0 || l.flags&3 != 0 || bd&0x8f != 0 || bd>>4 < lz4BlockMax64K {
		return fmt.Errorf("%w: unsupported flags %#x %#x", errLZ4, l.flags, bd)
	}
	l.maxBlock = 1 << (8 + 2*(bd>>4))
	end := 6
	if l.flags&lz4ContentSize != 0 {
		end += 8
	}
	if len(l.in) <= end {
		return errLZ4
	}
	if check && l.in[end] != byte(xxh32(l.in[4:end])>>8) {
		return fmt.Errorf("%w: header checksum", errLZ4)
	}
	l.in = l.in[end+1:]
	return nil
}

func (l *lz4Reader) Read(p []byte) (int, error) {
	for len(l.unread) == 0 {
		if l.done {
			return 0, io.EOF
		}
		if err := l.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, l.unread)
	l.unread = l.unread[n:]
	return n, nil
}

// next decodes the next block. The content checksum at the end is not verified, as in Kafka; nothing may follow it.
func (l *lz4Reader) next() error {
	if len(l.in) < 4 {
		return io.ErrUnexpectedEOF
	}
	field := binary.LittleEndian.Uint32(l.in)
	size, stored := int(field&^lz4Stored), field&lz4Stored != 0
	l.in = l.in[4:]
	if size == 0 {
		l.done = true
		if tail := len(l.in); tail != int(l.flags&lz4Checksum) {
			return fmt.Errorf("%w: %d bytes after the end", errLZ4, tail)
		}
		return nil
	}
	if size > l.maxBlock || size > len(l.in) {
		return fmt.Errorf("%w: a block of %d bytes", errLZ4, size)
	}
	block := l.in[:size]
	l.in = l.in[size:]
	if l.flags&lz4BlockChecksum != 0 {
		if len(l.in) < 4 || binary.LittleEndian.Uint32(l.in) != xxh32(block) {
			return fmt.Errorf("%w: block checksum", errLZ4)
		}
		l.in = l.in[4:]
	}
	if stored {
		l.unread = block
		return nil
	}
	return l.decode(block)
}

// decode decompresses a block into a buffer no larger than the block can fill: a byte of it makes at most 255.
func (l *lz4Reader) decode(block []byte) error {
	room := min(l.maxBlock, 255*len(block))
	if cap(l.block) < room {
		l.block = make([]byte, room)
	}
	n, err := lz4.UncompressBlock(block, l.block[:room])
	if err != nil {
		return err
	}
	l.unread = l.block[:n]
	return nil
}

// lz4Writer writes one frame of blocks of 64 KiB, as Kafka's clients do. Owned by one goroutine.
type lz4Writer struct {
	out   io.Writer
	level lz4.CompressionLevel
	fast  lz4.Compressor
	block []byte
	enc   []byte
}

var lz4Writers = sync.Pool{New: func() any {
	return &lz4Writer{block: make([]byte, 0, lz4WriteBlock), enc: make([]byte, 4+lz4WriteBlock)}
}}

// newLZ4Writer starts a frame; broken writes magic 0's header checksum. level is Kafka's, 1 to 17, 0 or 9 its default.
func newLZ4Writer(out io.Writer, level int, broken bool) (*lz4Writer, error) {
	l := lz4Writers.Get().(*lz4Writer)
	l.out, l.block, l.level = out, l.block[:0], lz4Level(level)
	header := binary.LittleEndian.AppendUint32(make([]byte, 0, 7), lz4Magic)
	header = append(header, lz4Version|lz4Independent, lz4BlockMax64K<<4)
	summed := header[4:]
	if broken {
		summed = header
	}
	_, err := out.Write(append(header, byte(xxh32(summed)>>8)))
	return l, err
}

// lz4Level maps the levels of lz4-java, whose default 9 stands for the fast compressor in Kafka.
func lz4Level(level int) lz4.CompressionLevel {
	if level <= 0 || level == 9 {
		return lz4.Fast
	}
	return lz4.CompressionLevel(1 << (7 + min(level, 9)))
}

func (l *lz4Writer) Write(p []byte) (int, error) {
	for done := 0; ; {
		n := min(len(p)-done, lz4WriteBlock-len(l.block))
		l.block = append(l.block, p[done:done+n]...)
		done += n
		if len(l.block) == lz4WriteBlock {
			if err := l.flush(); err != nil {
				return done, err
			}
		}
		if done == len(p) {
			return done, nil
		}
	}
}

func (l *lz4Writer) flush() error {
	// A block that does not fit in one byte less than itself is stored.
	dst := l.enc[4 : 4+max(len(l.block)-1, 0)]
	n, err := 0, error(nil)
	if l.level == lz4.Fast {
		n, err = l.fast.CompressBlock(l.block, dst)
	} else {
		n, err = lz4.CompressBlockHC(l.block, dst, l.level, nil, nil)
	}
	field := uint32(n)
	if err != nil || n == 0 {
		n = copy(l.enc[4:], l.block)
		field = uint32(n) | lz4Stored
	}
	binary.LittleEndian.PutUint32(l.enc, field)
	l.block = l.block[:0]
	_, err = l.out.Write(l.enc[:4+n])
	return err
}

// Close writes what is left with the end mark, and returns l to its pool.
func (l *lz4Writer) Close() (err error) {
	if len(l.block) > 0 {
		err = l.flush()
	}
	if err == nil {
		_, err = l.out.Write(make([]byte, 4))
	}
	l.out = nil
	lz4Writers.Put(l)
	return err
}
