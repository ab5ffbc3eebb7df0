package schema

// OffsetKey is the key of a committed offset.
type OffsetKey struct {
	Group, Topic []byte // they alias the key
	Partition    int32
}

// DecodeOffsetKey reads a key of type OffsetCommit or OffsetCommitOld.
func DecodeOffsetKey(key []byte) (OffsetKey, error) {
	r := reader{src: key}
	r.int16()
	k := OffsetKey{Group: r.string(false), Topic: r.string(false), Partition: r.int32()}
	if k.Group == nil || k.Topic == nil {
		return OffsetKey{}, ErrMalformed
	}
	return k, r.done()
}

// AppendOffsetKey appends the key of type OffsetCommit.
func AppendOffsetKey(dst []byte, group, topic string, partition int32) []byte {
	dst = appendInt16(dst, int16(OffsetCommit))
	dst = appendString(dst, group, false)
	dst = appendString(dst, topic, false)
	return appendInt32(dst, partition)
}

// OffsetValue is a committed offset.
type OffsetValue struct {
	Offset      int64
	LeaderEpoch int32  // v3+; -1 unknown
	Metadata    []byte // aliases the value
	CommitMs    int64
	ExpireMs    int64    // v1 only; -1 none
	TopicID     [16]byte // v4+; zero unknown
}

// maxOffsetVersion is the newest OffsetCommitValue that is known.
const maxOffsetVersion = 4

// DecodeOffsetValue reads versions 0 to 4, and returns which it was. The error is ErrMalformed or an *UnknownVersionError.
func DecodeOffsetValue(value []byte) (OffsetValue, int16, error) {
	r := reader{src: value}
	version := r.int16()
	if r.bad || version < 0 {
		return OffsetValue{}, version, ErrMalformed
	}
	if version > maxOffsetVersion {
		return OffsetValue{}, version, &UnknownVersionError{OffsetCommit, version}
	}
	flexible := version >= 4
	v := OffsetValue{Offset: r.int64(), LeaderEpoch: -1, ExpireMs: -1}
	if version >= 3 {
		v.LeaderEpoch = r.int32()
	}
	v.Metadata = r.string(flexible)
	v.CommitMs = r.int64()
	if version == 1 {
		v.ExpireMs = r.int64()
	}
	if flexible {
		for n := r.uvarint(); n > 0 && !r.bad; n-- {
			if tag, b := r.tag(); tag == 0 {
				r.bad = r.bad || len(b) != len(v.TopicID)
				copy(v.TopicID[:], b)
			}
		}
	}
	if v.Metadata == nil {
		return OffsetValue{}, version, ErrMalformed
	}
	return v, version, r.done()
}

// Append appends v in the given version, 0 to 4.
func (v *OffsetValue) Append(dst []byte, version int16) []byte {
	flexible := version >= 4
	dst = appendInt16(dst, version)
	dst = appendInt64(dst, v.Offset)
	if version >= 3 {
		dst = appendInt32(dst, v.LeaderEpoch)
	}
	if flexible {
		dst = appendUvarint(dst, len(v.Metadata)+1)
	} else {
		dst = appendInt16(dst, int16(len(v.Metadata)))
	}
	dst = append(dst, v.Metadata...)
	dst = appendInt64(dst, v.CommitMs)
	if version == 1 {
		dst = appendInt64(dst, v.ExpireMs)
	}
	if !flexible {
		return dst
	}
	if v.TopicID == [16]byte{} {
		return append(dst, 0)
	}
	dst = append(dst, 1, 0, byte(len(v.TopicID)))
	return append(dst, v.TopicID[:]...)
}
