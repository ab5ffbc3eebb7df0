package dump

import (
	"errors"
	"io"
	"os"

	"github.com/gregor-broker/gregor/log/record"
)

// entries reads the entries of a log file in order, one in memory at a time.
type entries struct {
	f        *os.File
	pos, end int64
	buf      []byte
}

// openEntries begins at a position; end is the size of the file, or less.
func openEntries(path string, maxBytes int64) (*entries, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	end := info.Size()
	if maxBytes > 0 {
		end = min(end, maxBytes)
	}
	return &entries{f: f, end: end}, nil
}

func (r *entries) close() { r.f.Close() }

// next returns the entry at pos, valid until the next call, and moves behind it. It returns io.EOF at the end,
// record.ErrTruncated where the end is inside an entry, an error that wraps record.ErrCorrupt for what is none.
func (r *entries) next() (record.Entry, error) {
	if r.pos >= r.end {
		return nil, io.EOF
	}
	prefix, err := r.read(r.pos, record.EntryPrefix)
	if err != nil {
		return nil, err
	}
	size, err := record.EntrySize(prefix)
	if err != nil {
		return nil, err
	}
	raw, err := r.read(r.pos, size)
	if err != nil {
		return nil, err
	}
	r.pos += int64(size)
	return record.Entry(raw), nil
}

// read returns n bytes at pos; nothing is allocated for what the file does not have.
func (r *entries) read(pos int64, n int) ([]byte, error) {
	if int64(n) > r.end-pos {
		return nil, record.ErrTruncated
	}
	if cap(r.buf) < n {
		r.buf = make([]byte, max(n, 64<<10))
	}
	buf := r.buf[:n:n]
	if got, err := r.f.ReadAt(buf, pos); got < n {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // the file became shorter
		}
		return nil, err
	}
	return buf, nil
}
