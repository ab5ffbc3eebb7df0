package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"github.com/gregor-broker/gregor/log/record"
)

// ErrCorrupt is the cause of errors about bytes that are no entry or have a wrong checksum.
var ErrCorrupt = record.ErrCorrupt

// headerBytes is how much of an entry a scanner shows: all fields of any magic, no records.
const headerBytes = record.HeaderSize

// Scanner walks the entries of a log file by their headers. Not safe for concurrent use.
type Scanner struct {
	r         io.ReaderAt
	next, end int64
	buf       []byte
	lo, hi    int64 // the part of the file that buf holds

	pos  int64
	size int
	head [headerBytes]byte
}

// Buffers of two sizes: finding a position reads little, recovery reads everything.
const (
	findBuffer = 4 << 10
	readBuffer = 256 << 10
)

var (
	findScanners = sync.Pool{New: func() any { return &Scanner{buf: make([]byte, findBuffer)} }}
	readScanners = sync.Pool{New: func() any { return &Scanner{buf: make([]byte, readBuffer)} }}
)

// newScanner takes a scanner over [pos, end) of r from pool.
func newScanner(pool *sync.Pool, r io.ReaderAt, pos, end int64) *Scanner {
	s := pool.Get().(*Scanner)
	s.r, s.next, s.end, s.lo, s.hi = r, pos, end, 0, 0
	return s
}

func (s *Scanner) recycle(pool *sync.Pool) {
	s.r = nil
	pool.Put(s)
}

// window returns the n bytes from pos on, n at most the buffer's size; fewer at the end of the range.
func (s *Scanner) window(pos int64, n int) ([]byte, error) {
	n = int(min(int64(n), s.end-pos))
	if pos < s.lo || pos+int64(n) > s.hi {
		want := int(min(int64(len(s.buf)), s.end-pos))
		k, err := s.r.ReadAt(s.buf[:want], pos)
		if k < n {
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		s.lo, s.hi = pos, pos+int64(k)
	}
	return s.buf[pos-s.lo:][:n], nil
}

// Next moves to the next entry. It returns io.EOF at the end of the range, record.ErrTruncated if the range ends inside the
// entry, an error that wraps ErrCorrupt for what is no entry, or the reader's error.
func (s *Scanner) Next() error {
	if s.next >= s.end {
		return io.EOF
	}
	head, err := s.window(s.next, headerBytes)
	if err != nil {
		return err
	}
	size, err := record.EntrySize(head)
	if err != nil {
		return err
	}
	if int64(size) > s.end-s.next {
		return record.ErrTruncated
	}
	s.pos, s.size = s.next, size
	copy(s.head[:], head)
	s.next += int64(size)
	return nil
}

// Pos is where the entry begins, Size its size in bytes.
func (s *Scanner) Pos() int64 { return s.pos }
func (s *Scanner) Size() int  { return s.size }

// Head is the entry without its records, valid until the next call of Next.
func (s *Scanner) Head() record.Entry { return s.head[:] }

// Whole reads the entry into memory of its own.
func (s *Scanner) Whole() (record.Entry, error) {
	e := make(record.Entry, s.size)
	if _, err := s.r.ReadAt(e, s.pos); err != nil {
		return nil, fmt.Errorf("reading the entry at position %d: %w", s.pos, err)
	}
	return e, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CheckCRC reads the whole entry, a buffer at a time, and compares its checksum.
func (s *Scanner) CheckCRC() error {
	stored, table, from := s.Head().CRC(), crc32.IEEETable, 16
	if s.Head().Magic() == 2 {
		table, from = castagnoli, 21
	}
	sum := uint32(0)
	for at := from; at < s.size; {
		part, err := s.window(s.pos+int64(at), min(s.size-at, len(s.buf)))
		if err != nil {
			return err
		}
		sum = crc32.Update(sum, table, part)
		at += len(part)
	}
	if sum != stored {
		return fmt.Errorf("%w: checksum %#x at position %d should be %#x", ErrCorrupt, stored, s.pos, sum)
	}
	return nil
}

// baseOffset is the first offset of an entry as far as its header tells: for the compressed wrapper of magic 0 and 1
// that is the last one.
func baseOffset(head record.Entry) int64 { return int64(binary.BigEndian.Uint64(head)) }
