package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
)

const (
	// zstdMaxWindow is the largest window that Kafka's own decoder accepts (ZSTD_WINDOWLOG_LIMIT_DEFAULT); level 22
	// claims it whatever the content is.
	zstdMaxWindow = 128 << 20
	// zstdStreamWindow is the largest window that is allocated because a frame's header says so.
	zstdStreamWindow = 8 << 20
	// A payload is first decoded whole, into a buffer that is kept: of the size that the frame says, or four times the
	// payload, within these limits. Most batches fit, and then no window is needed.
	zstdMinBuffer = 256 << 10
	zstdMaxBuffer = 2 << 20
	// zstdBlock is the most that a block decodes to.
	zstdBlock = 128 << 10
	// zstdMaxRatio is how much more than itself a frame with a large window may claim to contain.
	zstdMaxRatio = 256
)

// zstdDecoder is a decoder with the buffer that it decodes into whole. Owned by one goroutine.
type zstdDecoder struct {
	*zstd.Decoder
	in  bytes.Reader
	buf []byte
}

var zstdDecoders = sync.Pool{New: func() any {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(zstdMaxWindow), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(err) // the options are constants
	}
	return &zstdDecoder{Decoder: d}
}}

// room is an empty buffer for a payload of n bytes.
func (d *zstdDecoder) room(h *zstd.Header, n int) []byte {
	want := 4 * n
	if h.HasFCS && h.FrameContentSize < zstdMaxBuffer {
		want = int(h.FrameContentSize)
	}
	want = min(max(want, zstdMinBuffer), zstdMaxBuffer)
	if cap(d.buf) < want {
		d.buf = make([]byte, want)
	}
	return d.buf[:0]
}

func (d *zstdDecoder) release() {
	d.in.Reset(nil)
	if err := d.Reset(nil); err == nil {
		zstdDecoders.Put(d)
	}
}

// openZstd decodes a small payload at once. What does not fit is streamed, which allocates the window that the frame
// claims; if that is large, the payload is instead decoded into buffers that grow with what it really contains.
func openZstd(payload []byte, maxBytes int64) (window, func(), error) {
	d := zstdDecoders.Get().(*zstdDecoder)
	var h zstd.Header
	if err := h.Decode(payload); err != nil {
		d.release()
		return window{}, nil, &decompressError{err}
	}
	for buf := d.room(&h, len(payload)); ; buf = make([]byte, 0, 4*cap(buf)) {
		out, err := d.DecodeAll(payload, buf)
		if err == nil {
			return limited(out, maxBytes, d)
		}
		// The buffer was too small if it is full but for a block, or smaller than what the frame claims.
		claims := h.HasFCS && errors.Is(err, zstd.ErrDecoderSizeExceeded)
		if !claims && len(out)+zstdBlock < cap(buf) {
			d.release()
			return window{}, nil, &decompressError{err}
		}
		if h.WindowSize <= zstdStreamWindow || int64(cap(buf)) >= min(zstdMaxWindow/2, maxBytes) {
			break
		}
		if claims && h.FrameContentSize/zstdMaxRatio > uint64(len(payload)) {
			d.release()
			return window{}, nil, fmt.Errorf("%w: a frame of %d bytes claims %d", ErrTooLarge, len(payload), h.FrameContentSize)
		}
	}
	d.in.Reset(payload)
	if err := d.Reset(&d.in); err != nil {
		d.release()
		return window{}, nil, &decompressError{err}
	}
	return streamWindow(d.Decoder, maxBytes), d.release, nil
}

func limited(out []byte, maxBytes int64, d *zstdDecoder) (window, func(), error) {
	if int64(len(out)) > maxBytes {
		d.release()
		return window{}, nil, ErrTooLarge
	}
	return sliceWindow(out), d.release, nil
}

// zstdEncoders pools encoders by zstd.EncoderLevel.
var zstdEncoders [zstd.SpeedBestCompression + 1]sync.Pool

// zstdWriter is a pooled encoder.
type zstdWriter struct {
	*zstd.Encoder
	level zstd.EncoderLevel
}

// newZstdWriter starts a frame. level is zstd's own, 0 for its default of 3.
func newZstdWriter(out io.Writer, level int) (*zstdWriter, error) {
	if level == 0 {
		level = 3
	}
	l := zstd.EncoderLevelFromZstd(level)
	if w, ok := zstdEncoders[l].Get().(*zstdWriter); ok {
		w.Reset(out)
		return w, nil
	}
	enc, err := zstd.NewWriter(out, zstd.WithEncoderLevel(l), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true),
		zstd.WithWindowSize(1<<20), zstd.WithEncoderCRC(false))
	return &zstdWriter{enc, l}, err
}

// Close ends the frame and returns w to its pool.
func (w *zstdWriter) Close() error {
	err := w.Encoder.Close()
	w.Reset(nil)
	zstdEncoders[w.level].Put(w)
	return err
}
