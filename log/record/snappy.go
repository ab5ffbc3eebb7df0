package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"sync"

	"github.com/klauspost/compress/s2"
)

// The xerial framing of snappy, which is what Java clients write: a header of 16 bytes (magic, version, oldest
// compatible version), then blocks, each a length and a raw block. Other clients send one raw block.
var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

const (
	xerialHeaderSize = 16
	xerialBlockSize  = 32 << 10
)

var errSnappy = errors.New("invalid snappy data")

// snappyReader reads both framings. Owned by one goroutine.
type snappyReader struct {
	in     []byte // blocks still to come
	raw    bool   // in is one raw block
	block  []byte // the current block, its capacity reused
	unread []byte // of block
}

var snappyReaders = sync.Pool{New: func() any { return new(snappyReader) }}

func newSnappyReader(payload []byte) (*snappyReader, error) {
	s := snappyReaders.Get().(*snappyReader)
	s.in, s.raw = payload, !bytes.HasPrefix(payload, xerialMagic)
	if !s.raw {
		if len(payload) < xerialHeaderSize {
			s.release()
			return nil, &decompressError{errSnappy}
		}
		s.in = payload[xerialHeaderSize:]
	}
	return s, nil
}

func (s *snappyReader) release() {
	if cap(s.block) > 1<<20 {
		s.block = nil
	}
	s.in, s.unread = nil, nil
	snappyReaders.Put(s)
}

func (s *snappyReader) Read(p []byte) (int, error) {
	for len(s.unread) == 0 {
		if len(s.in) == 0 {
			return 0, io.EOF
		}
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.unread)
	s.unread = s.unread[n:]
	return n, nil
}

// next decodes the next block.
func (s *snappyReader) next() (err error) {
	block := s.in
	if s.raw {
		s.in = nil
	} else {
		if len(s.in) < 4 {
			return errSnappy
		}
		size := binary.BigEndian.Uint32(s.in)
		if bytes.HasPrefix(s.in, xerialMagic[:4]) && len(s.in) >= xerialHeaderSize {
			s.in = s.in[xerialHeaderSize:] // streams that were concatenated
			return nil
		}
		if uint64(size) > uint64(len(s.in)-4) {
			return errSnappy
		}
		block, s.in = s.in[4:4+size], s.in[4+size:]
	}
	size, err := snappySize(block)
	if err != nil {
		return err
	}
	if cap(s.block) < size {
		s.block = make([]byte, size)
	}
	s.unread, err = s2.Decode(s.block[:0:cap(s.block)], block)
	return err
}

// snappySize returns what a raw block decodes to, having walked its elements: the length that the block claims is
// believed only if they amount to it. That also refuses s2's extensions of the format, which our decoder would take
// and no client could read.
func snappySize(b []byte) (int, error) {
	claimed, n := binary.Uvarint(b)
	if n <= 0 || claimed > 1<<31 {
		return 0, errSnappy
	}
	size, b := uint64(0), b[n:]
	for len(b) > 0 && size <= claimed {
		tag := b[0]
		head, length := 0, uint64(0)
		switch tag & 3 {
		case 0: // literal
			var ok bool
			if head, length, ok = snappyLiteral(b); !ok || length > uint64(len(b)-head) {
				return 0, errSnappy
			}
			b = b[int(length):]
		case 1:
			if len(b) < 2 || uint64(tag&0xe0)<<3|uint64(b[1]) == 0 {
				return 0, errSnappy
			}
			head, length = 2, uint64(tag>>2&7)+4
		case 2:
			if len(b) < 3 || b[1]|b[2] == 0 {
				return 0, errSnappy
			}
			head, length = 3, uint64(tag>>2)+1
		case 3:
			if len(b) < 5 || b[1]|b[2]|b[3]|b[4] == 0 {
				return 0, errSnappy
			}
			head, length = 5, uint64(tag>>2)+1
		}
		b = b[head:]
		size += length
	}
	if size != claimed || len(b) > 0 {
		return 0, errSnappy
	}
	return int(size), nil
}

// snappyLiteral returns the size of the tag of the literal that b begins with, and the literal's own.
func snappyLiteral(b []byte) (head int, length uint64, ok bool) {
	x := int(b[0] >> 2)
	if x < 60 {
		return 1, uint64(x) + 1, true
	}
	head = 1 + x - 59
	if len(b) < head {
		return 0, 0, false
	}
	for i := head - 1; i > 0; i-- {
		length = length<<8 | uint64(b[i])
	}
	return head, length + 1, true
}

// snappyWriter writes the xerial framing. Owned by one goroutine.
type snappyWriter struct {
	out   io.Writer
	block []byte // not yet compressed, less than xerialBlockSize
	enc   []byte
}

var snappyWriters = sync.Pool{New: func() any {
	return &snappyWriter{
		block: make([]byte, 0, xerialBlockSize),
		enc:   make([]byte, 4+s2.MaxEncodedLen(xerialBlockSize)),
	}
}}

func newSnappyWriter(out io.Writer) (*snappyWriter, error) {
	s := snappyWriters.Get().(*snappyWriter)
	s.out, s.block = out, s.block[:0]
	header := append(make([]byte, 0, xerialHeaderSize), xerialMagic...)
	header = binary.BigEndian.AppendUint32(header, 1)
	header = binary.BigEndian.AppendUint32(header, 1)
	_, err := out.Write(header)
	return s, err
}

func (s *snappyWriter) Write(p []byte) (int, error) {
	for done := 0; ; {
		n := min(len(p)-done, xerialBlockSize-len(s.block))
		s.block = append(s.block, p[done:done+n]...)
		done += n
		if len(s.block) == xerialBlockSize {
			if err := s.flush(); err != nil {
				return done, err
			}
		}
		if done == len(p) {
			return done, nil
		}
	}
}

func (s *snappyWriter) flush() error {
	enc := s2.EncodeSnappy(s.enc[4:], s.block)
	binary.BigEndian.PutUint32(s.enc, uint32(len(enc)))
	s.block = s.block[:0]
	_, err := s.out.Write(s.enc[:4+len(enc)])
	return err
}

// Close writes what is left and returns s to its pool.
func (s *snappyWriter) Close() (err error) {
	if len(s.block) > 0 {
		err = s.flush()
	}
	s.out = nil
	snappyWriters.Put(s)
	return err
}
