package record

import (
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// sink collects bytes, at most max of them; a write beyond it fails with ErrTooLarge.
type sink struct {
	buf []byte
	max int
}

func (s *sink) Write(p []byte) (int, error) {
	if len(s.buf)+len(p) > s.max {
		return 0, ErrTooLarge
	}
	s.buf = append(s.buf, p...)
	return len(p), nil
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// newCompressor returns a stream that compresses into out and that Close returns to its pool; it must be closed.
// magic is that of the entry that the result is for.
func newCompressor(codec Codec, level int, magic int8, out io.Writer) (io.WriteCloser, error) {
	switch codec {
	case None:
		return nopCloser{out}, nil
	case Gzip:
		return newGzipWriter(out, level)
	case Snappy:
		return newSnappyWriter(out)
	case LZ4:
		return newLZ4Writer(out, level, magic == 0)
	case Zstd:
		return newZstdWriter(out, level)
	}
	return nil, fmt.Errorf("%w: %v", ErrCompression, codec)
}

// gzipWriters pools writers by level.
var gzipWriters [gzip.BestCompression + 1]sync.Pool

type gzipWriter struct {
	*gzip.Writer
	level int
}

// newGzipWriter starts a stream. level is 1 to 9, anything else the default of 6.
func newGzipWriter(out io.Writer, level int) (*gzipWriter, error) {
	if level < gzip.BestSpeed || level > gzip.BestCompression {
		level = 6
	}
	if w, ok := gzipWriters[level].Get().(*gzipWriter); ok {
		w.Reset(out)
		return w, nil
	}
	w, err := gzip.NewWriterLevel(out, level)
	return &gzipWriter{w, level}, err
}

// Close ends the stream and returns w to its pool.
func (w *gzipWriter) Close() error {
	err := w.Writer.Close()
	w.Reset(io.Discard)
	gzipWriters[w.level].Put(w)
	return err
}

// Compress appends src to dst, compressed in the form that batches of magic 2 have. level is the codec's own, 0 for
// its default.
func Compress(dst []byte, codec Codec, level int, src []byte) ([]byte, error) {
	s := sink{buf: dst, max: maxEntryBytes}
	if err := compressTo(&s, codec, level, 2, src); err != nil {
		return dst, err
	}
	return s.buf, nil
}

func compressTo(s *sink, codec Codec, level int, magic int8, src []byte) error {
	w, err := newCompressor(codec, level, magic, s)
	if err != nil {
		return err
	}
	_, err = w.Write(src)
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	return err
}
