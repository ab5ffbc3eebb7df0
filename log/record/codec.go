package record

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/gregor-broker/gregor/wire/errcode"
)

// Codec is a compression codec by its number in the attributes.
type Codec int8

// The codecs of Kafka.
const (
	None Codec = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

var codecNames = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

// ParseCodec returns the codec with the given name, that of compression.type and of String.
func ParseCodec(name string) (Codec, error) {
	for i, n := range codecNames {
		if n == name {
			return Codec(i), nil
		}
	}
	return None, fmt.Errorf("%q is no compression codec (none, gzip, snappy, lz4, zstd)", name)
}

// String is the name that Kafka's configuration and tools use.
func (c Codec) String() string {
	if c.known() {
		return codecNames[c]
	}
	return fmt.Sprintf("codec(%d)", int8(c))
}

func (c Codec) known() bool { return c >= None && c <= Zstd }

// Compression is what a topic's compression.type and compression.*.level ask for. The zero value is "producer": keep
// what was sent.
type Compression struct {
	Fixed bool  // recompress with Codec what comes otherwise
	Codec Codec // if Fixed
	Level int   // of Codec in the codec's own terms, 0 for its default
}

// ParseCompression reads a compression.type: "producer", "uncompressed", or a codec's name. level is that of the
// codec, 0 for its default.
func ParseCompression(name string, level int) (Compression, error) {
	switch name {
	case "producer":
		return Compression{}, nil
	case "uncompressed":
		return Compression{Fixed: true}, nil
	}
	codec, err := ParseCodec(name)
	if err != nil || codec == None {
		return Compression{}, fmt.Errorf("%q is no compression.type (uncompressed, zstd, lz4, snappy, gzip, producer)", name)
	}
	return Compression{Fixed: true, Codec: codec, Level: level}, nil
}

// target is the codec that a set sent with source is stored with.
func (c Compression) target(source Codec) Codec {
	if c.Fixed {
		return c.Codec
	}
	return source
}

// TimestampType says who sets the timestamps.
type TimestampType int8

// The timestamp types, as bit 3 of the attributes has them.
const (
	CreateTime TimestampType = iota
	LogAppendTime
)

// String is the name that Kafka's configuration and tools use.
func (t TimestampType) String() string {
	if t == LogAppendTime {
		return "LogAppendTime"
	}
	return "CreateTime"
}

// ErrCompression is for a codec that does not exist, or that the request's version does not allow.
var ErrCompression = errcode.New(kerr.UnsupportedCompressionType, "the compression codec is not supported here")
