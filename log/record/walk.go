package record

import (
	"fmt"
	"math"
)

// maxEntryBytes is the largest size that an entry's size field can have.
const maxEntryBytes = math.MaxInt32

// largeRecord is the size in bytes from which a record whose key and value nobody needs is skipped as it streams by.
const largeRecord = windowBytes

var (
	errStructure = fmt.Errorf("%w: found invalid record structure", ErrCorrupt)
	errRemaining = fmt.Errorf("%w: incorrect declared batch size, records still remaining in file", ErrCorrupt)
)

// parsed is one record of magic 2 as it lies in its batch. Sizes are -1 for null.
type parsed struct {
	timestampDelta int64
	offsetDelta    int64
	keySize        int
	valueSize      int
	headers        int // count
	keyPos         int // in the body
	valuePos       int
	headersPos     int
}

// parseRecord reads the body of a record (what follows its size) and checks that it is exactly body.
func parseRecord(body []byte, p *parsed) error {
	pos := 1 // behind attributes, which nobody uses
	x, next := shortVarint(body, pos)
	if next < 0 {
		x, next = longVarint(body, pos)
	}
	p.timestampDelta, pos = x, next
	if x, next = shortVarint(body, pos); next < 0 {
		x, next = longVarint(body, pos)
	}
	p.offsetDelta, pos = x, next
	if next < 0 || x != int64(int32(x)) {
		return errStructure
	}
	if x, next = shortVarint(body, pos); next < 0 {
		x, next = longVarint(body, pos)
	}
	if next < 0 || x > int64(len(body)-next) {
		return errStructure
	}
	p.keySize, p.keyPos = int(max(x, -1)), next
	pos = next + int(max(x, 0))
	if x, next = shortVarint(body, pos); next < 0 {
		x, next = longVarint(body, pos)
	}
	if next < 0 || x > int64(len(body)-next) {
		return errStructure
	}
	p.valueSize, p.valuePos = int(max(x, -1)), next
	pos = next + int(max(x, 0))
	if pos == len(body)-1 && body[pos] == 0 {
		p.headers = 0
		return nil
	}
	return parseHeaders(body, pos, p)
}

// parseHeaders reads the headers at body[pos:], which are the rest of it.
func parseHeaders(body []byte, pos int, p *parsed) error {
	n, pos := varint(body, pos)
	if pos < 0 || n < 0 || n > int64(len(body)-pos) {
		return errStructure
	}
	p.headers, p.headersPos = int(n), pos
	for range n {
		var size int
		if size, _, pos = field(body, pos); pos < 0 || size < 0 {
			return errStructure
		}
		if _, _, pos = field(body, pos); pos < 0 {
			return errStructure
		}
	}
	if pos != len(body) {
		return errStructure
	}
	return nil
}

// field reads a size at b[pos:] with that many bytes after it: the size (-1 for null), where the bytes begin, and the
// position after them, which is -1 if b is too short.
func field(b []byte, pos int) (size, start, next int) {
	n, start := varint(b, pos)
	if start < 0 || n > int64(len(b)-start) {
		return 0, 0, -1
	}
	if n < 0 {
		return -1, start, start
	}
	return int(n), start, start + int(n)
}

// readHeaders copies the headers of a record that parseRecord has accepted into dst, their values not.
func readHeaders(dst []Header, body []byte, p *parsed) []Header {
	pos := p.headersPos
	for range p.headers {
		size, start, next := field(body, pos)
		h := Header{Key: string(body[start : start+size])}
		size, start, pos = field(body, next)
		if size >= 0 {
			h.Value = body[start : start+size : start+size]
		}
		dst = append(dst, h)
	}
	return dst
}

// nextBody returns the body of the next record of v. It is valid until v is used again.
func nextBody(v *window, maxBytes int) ([]byte, error) {
	size, pos := varint(v.buf[:v.w], v.r)
	if pos < 0 {
		var err error
		if size, err = v.varint(); err != nil {
			return nil, err
		}
		pos = v.r
	}
	v.r = pos
	if size < 1 {
		return nil, errStructure
	}
	if size > int64(maxBytes) {
		return nil, fmt.Errorf("%w: a record of %d bytes", ErrTooLarge, size)
	}
	if size > int64(v.w-v.r) {
		if err := v.need(int(size)); err != nil {
			return nil, err
		}
	}
	body := v.buf[v.r : v.r+int(size) : v.r+int(size)]
	v.r += int(size)
	return body, nil
}

// skimSlice reads the record at b[pos:] and returns the position after it.
func skimSlice(b []byte, pos int, p *parsed) (int, error) {
	size, next := shortVarint(b, pos)
	if next < 0 {
		size, next = longVarint(b, pos)
	}
	if next < 0 || size > int64(len(b)-next) {
		return 0, errEnd
	}
	if size < 1 {
		return 0, errStructure
	}
	end := next + int(size)
	return end, parseRecord(b[next:end], p)
}

// skim reads the next record of v for its deltas and sizes only. A record that is not in memory and large streams by.
func skim(v *window, p *parsed) error {
	size, pos := varint(v.buf[:v.w], v.r)
	if pos > 0 && size > 0 && size <= int64(v.w-pos) {
		v.r = pos + int(size)
		return parseRecord(v.buf[pos:v.r], p)
	}
	if pos < 0 {
		var err error
		if size, err = v.varint(); err != nil {
			return err
		}
	} else {
		v.r = pos
	}
	if size < 1 || size > maxEntryBytes {
		return errStructure
	}
	if size > largeRecord && v.src != nil {
		return skimLarge(v, size, p)
	}
	if err := v.need(int(size)); err != nil {
		return err
	}
	v.r += int(size)
	return parseRecord(v.buf[v.r-int(size):v.r], p)
}

// skimLarge is parseRecord for a record that is not in memory and need not be.
func skimLarge(v *window, size int64, p *parsed) error {
	s := skimmer{v: v, left: size}
	s.skip(1)
	p.timestampDelta = s.varint()
	p.offsetDelta = s.varint()
	p.keySize = s.field()
	p.valueSize = s.field()
	p.headers = int(s.varint())
	for i := 0; i < p.headers && s.err == nil; i++ {
		if s.field() < 0 {
			return errStructure
		}
		s.field()
	}
	if s.err != nil {
		return s.err
	}
	if s.left != 0 || p.headers < 0 || p.offsetDelta != int64(int32(p.offsetDelta)) {
		return errStructure
	}
	return nil
}

// skimmer reads fields of a record of which left bytes remain, until something fails.
type skimmer struct {
	v    *window
	left int64
	err  error
}

func (s *skimmer) skip(n int64) {
	if s.err == nil && n > s.left {
		s.err = errStructure
	}
	if s.err == nil {
		s.left -= max(n, 0)
		s.err = s.v.skip(n)
	}
}

func (s *skimmer) varint() int64 {
	if s.err != nil {
		return 0
	}
	var x int64
	if x, s.err = s.v.varint(); s.err != nil {
		return 0
	}
	// An encoding longer than it need be is found out by what is left not being zero in the end.
	if s.left -= int64(varintSize(x)); s.left < 0 {
		s.err = errStructure
	}
	return x
}

func (s *skimmer) field() int {
	n := s.varint()
	s.skip(n)
	return int(max(n, -1))
}
