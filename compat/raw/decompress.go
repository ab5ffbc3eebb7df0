package raw

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// decompress undoes Compress.
func decompress(codec int8, b []byte) ([]byte, error) {
	switch codec {
	case None:
		return b, nil
	case Gzip:
		r, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		return io.ReadAll(r)
	case Snappy:
		return unsnappy(b)
	case LZ4:
		return io.ReadAll(lz4.NewReader(bytes.NewReader(b)))
	case Zstd:
		r, err := zstd.NewReader(bytes.NewReader(b), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return io.ReadAll(r)
	}
	return nil, fmt.Errorf("codec %d", codec)
}

// unsnappy reads snappy in Java's framing or none.
func unsnappy(b []byte) ([]byte, error) {
	if !bytes.HasPrefix(b, []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}) {
		return s2.Decode(nil, b)
	}
	var out []byte
	for b = b[16:]; len(b) >= 4; {
		n := int(binary.BigEndian.Uint32(b))
		if n > len(b)-4 {
			return nil, fmt.Errorf("a snappy block of %d bytes in %d", n, len(b)-4)
		}
		block, err := s2.Decode(nil, b[4:4+n])
		if err != nil {
			return nil, err
		}
		out = append(out, block...)
		b = b[4+n:]
	}
	return out, nil
}
