// Package frame reads and writes what surrounds every Kafka message: the length prefix, the request header (versions
// 0, 1 and 2) and the response header (0 and 1). It owns no state.
package frame

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// LengthSize is the size of the prefix that says how many bytes follow it.
const LengthSize = 4

const (
	apiVersionsKey        = 18
	controlledShutdownKey = 7
)

// Header is a request's header, without the tagged fields, none of which has a meaning for a broker yet.
type Header struct {
	Key           int16
	Version       int16
	CorrelationID int32
	ClientID      *string // nil when the client sent null, or no client id at all (ControlledShutdown v0)
	Flexible      bool    // the message uses compact encodings and tagged fields
}

// ErrHeader is in the chain of every error of ParseHeader.
var ErrHeader = errors.New("no valid request header")

// firstFlexible holds by API key the first version with flexible encodings; keys that never became flexible, or are
// unknown, have none.
var firstFlexible = flexibleVersions()

const never = int16(1<<15 - 1)

func flexibleVersions() []int16 {
	table := make([]int16, kmsg.MaxKey+1)
	for key := range table {
		table[key] = never
		r := kmsg.RequestForKey(int16(key))
		if r == nil {
			continue
		}
		for v := int16(0); v <= r.MaxVersion(); v++ {
			r.SetVersion(v)
			if r.IsFlexible() {
				table[key] = v
				break
			}
		}
	}
	return table
}

// Flexible reports whether API key at version uses flexible encodings. Unknown keys do not.
func Flexible(key, version int16) bool {
	return key >= 0 && int(key) < len(firstFlexible) && version >= firstFlexible[key]
}

// ParseHeader splits a request (without its length prefix) into header and body. It accepts any key and version; whether
// they are served is for others to say. The body aliases b, the header does not.
func ParseHeader(b []byte) (h Header, body []byte, err error) { return ParseHeaderReusing(b, nil) }

// ParseHeaderReusing is ParseHeader that returns known as the client id, rather than a new string, when it is the same:
// a connection's requests nearly always carry one id.
func ParseHeaderReusing(b []byte, known *string) (h Header, body []byte, err error) {
	if len(b) < 8 {
		return h, nil, fmt.Errorf("%w: %d bytes are too few", ErrHeader, len(b))
	}
	h.Key = int16(binary.BigEndian.Uint16(b))
	h.Version = int16(binary.BigEndian.Uint16(b[2:]))
	h.CorrelationID = int32(binary.BigEndian.Uint32(b[4:]))
	h.Flexible = Flexible(h.Key, h.Version)
	body = b[8:]
	if h.Key == controlledShutdownKey && h.Version == 0 {
		return h, body, nil
	}
	if h.ClientID, body, err = clientID(body, known); err != nil {
		return h, nil, err
	}
	if !h.Flexible {
		return h, body, nil
	}
	rest, ok := SkipTags(body)
	if !ok {
		// A later ApiVersions may have a header that we do not know; it is answered from its version alone (KIP-511).
		if h.Key == apiVersionsKey {
			return h, nil, nil
		}
		return h, nil, fmt.Errorf("%w: broken tagged fields", ErrHeader)
	}
	return h, rest, nil
}

// clientID reads a nullable string with an int16 length, which stayed that way in flexible headers.
func clientID(b []byte, known *string) (*string, []byte, error) {
	if len(b) < 2 {
		return nil, nil, fmt.Errorf("%w: it ends before the client id", ErrHeader)
	}
	n := int(int16(binary.BigEndian.Uint16(b)))
	b = b[2:]
	switch {
	case n == -1:
		return nil, b, nil
	case n < 0 || n > len(b):
		return nil, nil, fmt.Errorf("%w: a client id of %d bytes in %d", ErrHeader, n, len(b))
	case known != nil && string(b[:n]) == *known:
		return known, b[n:], nil
	}
	id := string(b[:n])
	return &id, b[n:], nil
}

// SkipTags passes over a section of tagged fields; ok is false if it is broken.
func SkipTags(b []byte) (rest []byte, ok bool) {
	count, b, ok := uvarint(b)
	for ; ok && count > 0; count-- {
		var size uint32
		if _, b, ok = uvarint(b); !ok {
			break
		}
		if size, b, ok = uvarint(b); !ok {
			break
		}
		if ok = uint64(size) <= uint64(len(b)); ok {
			b = b[size:]
		}
	}
	return b, ok
}

func uvarint(b []byte) (v uint32, rest []byte, ok bool) {
	x, n := binary.Uvarint(b)
	if n <= 0 || n > 5 || x > 1<<32-1 {
		return 0, nil, false
	}
	return uint32(x), b[n:], true
}

// AppendResponseHeader appends the header of a response to API key at version: the correlation id, and an empty section
// of tagged fields in flexible versions, except for ApiVersions, whose readers do not know yet what they will get.
func AppendResponseHeader(dst []byte, key, version int16, correlationID int32) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlationID))
	if key != apiVersionsKey && Flexible(key, version) {
		dst = append(dst, 0)
	}
	return dst
}
