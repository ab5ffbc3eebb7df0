package record

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/gregor-broker/gregor/wire/errcode"
)

// windowBytes is what a window holds of a stream, unless a single record needs more.
const windowBytes = 64 << 10

// ErrTooLarge says that opening an entry would exceed the Limits.
var ErrTooLarge = errcode.New(kerr.MessageTooLarge, "the records decompress to more than the limit")

// errEnd says that the records end inside one.
var errEnd = fmt.Errorf("%w: the records end inside a record", ErrCorrupt)

var windowPool = sync.Pool{New: func() any { b := make([]byte, windowBytes); return &b }}

// window is a sliding view of a stream of bytes: buf[r:w] are the bytes that were read and not yet used. Without a
// source it is a view of a slice. Not safe for concurrent use.
type window struct {
	buf    []byte
	r, w   int
	src    io.Reader
	left   int64 // bytes that may still be read before the limit is exceeded
	err    error // what ended the source; io.EOF at its end
	pooled *[]byte
}

// sliceWindow views b itself.
func sliceWindow(b []byte) window { return window{buf: b, w: len(b), err: io.EOF} }

// streamWindow reads src, at most maxBytes of it. close returns its memory.
func streamWindow(src io.Reader, maxBytes int64) window {
	p := windowPool.Get().(*[]byte)
	return window{buf: *p, src: src, left: maxBytes, pooled: p}
}

func (v *window) close() {
	if v.pooled != nil {
		windowPool.Put(v.pooled)
		v.pooled = nil
	}
	v.buf, v.src, v.err, v.r, v.w = nil, nil, io.EOF, 0, 0
}

// fill reads more bytes behind buf[r:w], which it may move, and says whether there are any. buf grows only when it is
// full of unused bytes, so what is allocated is at most twice what arrived.
func (v *window) fill() bool {
	if v.err != nil {
		return false
	}
	if v.r > 0 {
		v.w = copy(v.buf, v.buf[v.r:v.w])
		v.r = 0
	}
	if v.w == len(v.buf) {
		bigger := make([]byte, 2*len(v.buf))
		copy(bigger, v.buf[:v.w])
		v.buf = bigger
	}
	for tries := 0; ; tries++ {
		n, err := v.src.Read(v.buf[v.w:])
		v.w += n
		v.left -= int64(n)
		switch {
		case v.left < 0:
			v.err = ErrTooLarge
		case err != nil:
			v.err = err
		case n == 0 && tries == 100:
			v.err = io.ErrNoProgress
		}
		if n > 0 || v.err != nil {
			return n > 0
		}
	}
}

// need makes buf[r:r+n] available. It returns errEnd where the stream ends before, and what made the source fail.
func (v *window) need(n int) error {
	for v.w-v.r < n {
		if !v.fill() {
			return v.failure()
		}
	}
	return nil
}

// failure is why fill found nothing.
func (v *window) failure() error {
	switch {
	case v.err == io.EOF:
		return errEnd
	case errors.Is(v.err, ErrTooLarge):
		return v.err
	}
	return &decompressError{v.err}
}

// varint reads a varint that may lie across the end of what was read.
func (v *window) varint() (int64, error) {
	for {
		x, p := varint(v.buf[:v.w], v.r)
		if p >= 0 {
			v.r = p
			return x, nil
		}
		if v.w-v.r >= 10 {
			return 0, errStructure
		}
		if !v.fill() {
			return 0, v.failure()
		}
	}
}

// skip drops n bytes; a negative n is a null field's and drops none.
func (v *window) skip(n int64) error {
	for n > 0 {
		if v.r == v.w && !v.fill() {
			return v.failure()
		}
		step := min(n, int64(v.w-v.r))
		v.r += int(step)
		n -= step
	}
	return nil
}

// atEnd says whether nothing is left; an error if the source fails instead of ending.
func (v *window) atEnd() (bool, error) {
	if v.r < v.w || v.fill() {
		return false, nil
	}
	if v.err != io.EOF {
		return false, v.failure()
	}
	return true, nil
}

// decompressError says that a compressed stream is not one of its codec.
type decompressError struct{ cause error }

func (e *decompressError) Error() string {
	return "the records cannot be decompressed: " + e.cause.Error()
}

func (e *decompressError) Unwrap() []error { return []error{ErrCorrupt, e.cause} }

// tee makes everything that is read from now on also be written to out, and writes what was read before. It returns
// the error of that write; later ones end the stream.
func (v *window) tee(out io.Writer) error {
	_, err := out.Write(v.buf[v.r:v.w])
	if v.src != nil {
		v.src = io.TeeReader(v.src, out)
	}
	return err
}
