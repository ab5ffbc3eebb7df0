// Package schema reads and writes the records of __consumer_offsets as Apache Kafka stores them.
//
// A key begins with an int16, the record's type; a value with an int16, its version. The schemas are Kafka's
// OffsetCommitKey, OffsetCommitValue, GroupMetadataKey and GroupMetadataValue (group-coordinator/src/main/resources).
package schema

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Type is the type of a record, the first two bytes of its key.
type Type int16

// The types that classic groups are made of.
const (
	OffsetCommitOld Type = 0 // as OffsetCommit; brokers before 0.9
	OffsetCommit    Type = 1
	GroupMetadata   Type = 2
)

var typeNames = map[Type]string{
	0: "OffsetCommit", 1: "OffsetCommit", 2: "GroupMetadata",
	3: "ConsumerGroupMetadata", 4: "ConsumerGroupPartitionMetadata", 5: "ConsumerGroupMemberMetadata",
	6: "ConsumerGroupTargetAssignmentMetadata", 7: "ConsumerGroupTargetAssignmentMember", 8: "ConsumerGroupCurrentMemberAssignment",
	9: "ShareGroupPartitionMetadata", 10: "ShareGroupMemberMetadata", 11: "ShareGroupMetadata", 12: "ShareGroupTargetAssignmentMetadata",
	13: "ShareGroupTargetAssignmentMember", 14: "ShareGroupCurrentMemberAssignment", 15: "ShareGroupStatePartitionMetadata",
	16: "ConsumerGroupRegularExpression", 17: "StreamsGroupMetadata", 19: "StreamsGroupMemberMetadata",
	20: "StreamsGroupTargetAssignmentMetadata", 21: "StreamsGroupTargetAssignmentMember", 22: "StreamsGroupCurrentMemberAssignment",
	23: "StreamsGroupTopology",
}

// String returns Kafka's name of the type.
func (t Type) String() string {
	if name, ok := typeNames[t]; ok {
		return name
	}
	return fmt.Sprintf("record type %d", int16(t))
}

// ErrMalformed says that bytes do not follow their schema.
var ErrMalformed = errors.New("schema: the record does not follow its schema")

// UnknownVersionError says that a value was written by a newer broker.
type UnknownVersionError struct {
	Type    Type
	Version int16
}

func (e *UnknownVersionError) Error() string {
	return fmt.Sprintf("schema: version %d of %v is not known", e.Version, e.Type)
}

// TypeOf returns the type of a key.
func TypeOf(key []byte) (Type, error) {
	if len(key) < 2 {
		return 0, ErrMalformed
	}
	return Type(binary.BigEndian.Uint16(key)), nil
}

// reader takes numbers and strings off src. After the first short read bad is set and all reads return zero values.
type reader struct {
	src []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.src) {
		r.bad, r.src = true, nil
		return nil
	}
	b := r.src[:n:n]
	r.src = r.src[n:]
	return b
}

func (r *reader) int16() int16 {
	if b := r.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *reader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *reader) uvarint() uint32 {
	v, n := binary.Uvarint(r.src)
	if n <= 0 || n > 5 || v > 1<<32-1 {
		r.bad, r.src = true, nil
		return 0
	}
	r.src = r.src[n:]
	return uint32(v)
}

// compactLen reads a length of the flexible encoding: -1 is null.
func (r *reader) compactLen() int { return int(r.uvarint()) - 1 }

// string returns the bytes of a string, nil for null.
func (r *reader) string(flexible bool) []byte {
	n := 0
	if flexible {
		n = r.compactLen()
	} else {
		n = int(r.int16())
	}
	return r.nullable(n)
}

// bytes returns a byte array, nil for null.
func (r *reader) bytes(flexible bool) []byte {
	n := 0
	if flexible {
		n = r.compactLen()
	} else {
		n = int(r.int32())
	}
	return r.nullable(n)
}

func (r *reader) nullable(n int) []byte {
	switch {
	case n == -1:
		return nil
	case n == 0:
		return []byte{}
	}
	return r.take(n)
}

// tag returns the next tagged field. Their number stands before the first.
func (r *reader) tag() (tag uint32, value []byte) {
	tag = r.uvarint()
	return tag, r.take(int(r.uvarint()))
}

// skipTags passes over the tagged fields.
func (r *reader) skipTags() {
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		r.tag()
	}
}

// done returns ErrMalformed if something was missing. Bytes after the last field are ignored, as Kafka does.
func (r *reader) done() error {
	if r.bad {
		return ErrMalformed
	}
	return nil
}

func appendInt16(dst []byte, v int16) []byte { return binary.BigEndian.AppendUint16(dst, uint16(v)) }
func appendInt32(dst []byte, v int32) []byte { return binary.BigEndian.AppendUint32(dst, uint32(v)) }
func appendInt64(dst []byte, v int64) []byte { return binary.BigEndian.AppendUint64(dst, uint64(v)) }

func appendUvarint(dst []byte, v int) []byte { return binary.AppendUvarint(dst, uint64(v)) }

// appendString appends a string of at most 32767 bytes; longer ones cannot come in over the protocol either.
func appendString(dst []byte, s string, flexible bool) []byte {
	if flexible {
		return append(appendUvarint(dst, len(s)+1), s...)
	}
	return append(appendInt16(dst, int16(len(s))), s...)
}

func appendNullableString(dst []byte, s *string, flexible bool) []byte {
	switch {
	case s != nil:
		return appendString(dst, *s, flexible)
	case flexible:
		return append(dst, 0)
	}
	return appendInt16(dst, -1)
}

func appendBytes(dst, b []byte, flexible bool) []byte {
	if flexible {
		return append(appendUvarint(dst, len(b)+1), b...)
	}
	return append(appendInt32(dst, int32(len(b))), b...)
}
