package cleaner

import (
	"fmt"
	"io"

	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/log/segment"
)

// readAhead is what is read of a segment at once.
const readAhead = 1 << 20

// reader reads the entries of a segment in order. Owned by one goroutine; its buffer serves one segment after another.
type reader struct {
	f        *segment.Handle
	pos, end int64  // what of the file is still to be read
	buf      []byte // grows to the largest entry
	r, w     int    // buf[r:w] was read and not used
}

// open begins at a position of a segment, which the caller must not truncate. close must follow.
func (r *reader) open(s *segment.Segment, pos int64) (err error) {
	if r.buf == nil {
		r.buf = make([]byte, readAhead)
	}
	r.pos, r.end, r.r, r.w = pos, s.Size(), 0, 0
	r.f, err = s.Acquire()
	return err
}

func (r *reader) close() { r.f.Release() }

// next returns the next entry, valid until the next call, after it has compared its checksum; io.EOF at the end.
func (r *reader) next() (record.Entry, error) {
	if r.r == r.w && r.pos == r.end {
		return nil, io.EOF
	}
	if err := r.need(record.EntryPrefix); err != nil {
		return nil, err
	}
	size, err := record.EntrySize(r.buf[r.r:r.w])
	if err != nil {
		return nil, r.at(err)
	}
	if err := r.need(size); err != nil {
		return nil, err
	}
	e := record.Entry(r.buf[r.r : r.r+size : r.r+size])
	if err := e.CheckCRC(); err != nil {
		return nil, r.at(err)
	}
	r.r += size
	return e, nil
}

// need makes n bytes available in buf. What the file does not have is not allocated.
func (r *reader) need(n int) error {
	have := r.w - r.r
	if have >= n {
		return nil
	}
	if int64(n-have) > r.end-r.pos {
		return r.at(record.ErrTruncated)
	}
	if n > len(r.buf) {
		bigger := make([]byte, n)
		r.w = copy(bigger, r.buf[r.r:r.w])
		r.buf = bigger
	} else {
		r.w = copy(r.buf, r.buf[r.r:r.w])
	}
	r.r = 0
	want := int(min(int64(len(r.buf)-r.w), r.end-r.pos))
	got, err := r.f.ReadAt(r.buf[r.w:r.w+want], r.pos)
	r.pos += int64(got)
	r.w += got
	if got < want && (err == nil || err == io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if got == want {
		err = nil
	}
	return err
}

func (r *reader) at(err error) error {
	return fmt.Errorf("position %d: %w", r.pos-int64(r.w-r.r), err)
}
