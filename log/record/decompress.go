package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// openWindow returns a window on what payload decompresses to, and the function that returns its state to the pools.
// magic is that of the entry: the lz4 frames of magic 0 have a wrong header checksum.
func openWindow(codec Codec, magic int8, payload []byte, maxBytes int64) (window, func(), error) {
	switch codec {
	case None:
		return sliceWindow(payload), func() {}, nil
	case Zstd:
		return openZstd(payload, maxBytes)
	}
	src, err := newDecompressor(codec, magic, payload)
	if err != nil {
		return window{}, nil, err
	}
	return streamWindow(src, maxBytes), src.release, nil
}

// decompressor is a pooled stream.
type decompressor interface {
	io.Reader
	release() // must not be used afterwards
}

func newDecompressor(codec Codec, magic int8, payload []byte) (decompressor, error) {
	switch codec {
	case Gzip:
		return newGzipReader(payload)
	case Snappy:
		return newSnappyReader(payload)
	case LZ4:
		return newLZ4Reader(payload, magic > 0)
	}
	return nil, fmt.Errorf("%w: %v", ErrCompression, codec)
}

type gzipReader struct {
	gzip.Reader
	in bytes.Reader
}

var gzipReaders = sync.Pool{New: func() any { return new(gzipReader) }}

func newGzipReader(payload []byte) (*gzipReader, error) {
	g := gzipReaders.Get().(*gzipReader)
	g.in.Reset(payload)
	if err := g.Reset(&g.in); err != nil {
		g.release()
		return nil, &decompressError{err}
	}
	return g, nil
}

func (g *gzipReader) release() {
	g.in.Reset(nil)
	gzipReaders.Put(g)
}

// Decompress appends to dst what src decompresses to, and returns ErrTooLarge if that is more than maxBytes. It reads
// the forms of magic 1 and 2; those of magic 0 differ for lz4 alone.
func Decompress(dst []byte, codec Codec, src []byte, maxBytes int64) ([]byte, error) {
	if codec == None {
		if int64(len(src)) > maxBytes {
			return dst, ErrTooLarge
		}
		return append(dst, src...), nil
	}
	v, release, err := openWindow(codec, 2, src, maxBytes)
	if err != nil {
		return dst, err
	}
	defer release()
	defer v.close()
	for {
		dst = append(dst, v.buf[v.r:v.w]...)
		v.r = v.w
		if !v.fill() {
			break
		}
	}
	if err := v.failure(); !errors.Is(err, errEnd) {
		return dst, err
	}
	return dst, nil
}
