package schema

import "slices"

// DecodeGroupKey reads a key of type GroupMetadata. The group aliases the key.
func DecodeGroupKey(key []byte) (group []byte, err error) {
	r := reader{src: key}
	r.int16()
	group = r.string(false)
	if group == nil {
		return nil, ErrMalformed
	}
	return group, r.done()
}

// AppendGroupKey appends the key of type GroupMetadata.
func AppendGroupKey(dst []byte, group string) []byte {
	return appendString(appendInt16(dst, int16(GroupMetadata)), group, false)
}

// GroupValue is what is stored of a classic group: its last complete generation. Immutable once decoded.
type GroupValue struct {
	ProtocolType string // "" for a group that has not had members
	Generation   int32
	Protocol     *string // nil without members
	Leader       *string // nil without members
	StateMs      int64   // when the group came to its state; -1 unknown
	Members      []Member
}

// Member is a member in its last complete generation.
type Member struct {
	ID                 string
	InstanceID         *string // of a static member
	ClientID           string
	ClientHost         string
	RebalanceTimeoutMs int32 // -1: as the session's
	SessionTimeoutMs   int32
	Subscription       []byte // metadata of the chosen protocol
	Assignment         []byte
}

// maxGroupVersion is the newest GroupMetadataValue that is known; GroupVersion the one that is written.
const (
	maxGroupVersion       = 4
	GroupVersion    int16 = 3
)

// DecodeGroupValue reads versions 0 to 4, and returns which it was. The error is ErrMalformed or an *UnknownVersionError.
// Nothing of the result aliases value.
func DecodeGroupValue(value []byte) (*GroupValue, int16, error) {
	r := reader{src: slices.Clone(value)}
	version := r.int16()
	if r.bad || version < 0 {
		return nil, version, ErrMalformed
	}
	if version > maxGroupVersion {
		return nil, version, &UnknownVersionError{GroupMetadata, version}
	}
	flexible := version >= 4
	v := &GroupValue{StateMs: -1}
	v.ProtocolType = string(r.string(flexible))
	v.Generation = r.int32()
	v.Protocol = optional(r.string(flexible))
	v.Leader = optional(r.string(flexible))
	if version >= 2 {
		v.StateMs = r.int64()
	}
	n := 0
	if flexible {
		n = r.compactLen()
	} else {
		n = int(r.int32())
	}
	for range n {
		m := decodeMember(&r, version)
		if r.bad {
			return nil, version, ErrMalformed
		}
		v.Members = append(v.Members, m)
	}
	if flexible {
		r.skipTags()
	}
	return v, version, r.done()
}

func decodeMember(r *reader, version int16) Member {
	flexible := version >= 4
	m := Member{RebalanceTimeoutMs: -1}
	m.ID = string(r.string(flexible))
	if version >= 3 {
		m.InstanceID = optional(r.string(flexible))
	}
	m.ClientID = string(r.string(flexible))
	m.ClientHost = string(r.string(flexible))
	if version >= 1 {
		m.RebalanceTimeoutMs = r.int32()
	}
	m.SessionTimeoutMs = r.int32()
	m.Subscription = r.bytes(flexible)
	m.Assignment = r.bytes(flexible)
	if flexible {
		r.skipTags()
	}
	return m
}

func optional(b []byte) *string {
	if b == nil {
		return nil
	}
	s := string(b)
	return &s
}

// Append appends v in the given version, 0 to 4.
func (v *GroupValue) Append(dst []byte, version int16) []byte {
	flexible := version >= 4
	dst = appendInt16(dst, version)
	dst = appendString(dst, v.ProtocolType, flexible)
	dst = appendInt32(dst, v.Generation)
	dst = appendNullableString(dst, v.Protocol, flexible)
	dst = appendNullableString(dst, v.Leader, flexible)
	if version >= 2 {
		dst = appendInt64(dst, v.StateMs)
	}
	if flexible {
		dst = appendUvarint(dst, len(v.Members)+1)
	} else {
		dst = appendInt32(dst, int32(len(v.Members)))
	}
	for i := range v.Members {
		dst = v.Members[i].append(dst, version)
	}
	if flexible {
		dst = append(dst, 0)
	}
	return dst
}

func (m *Member) append(dst []byte, version int16) []byte {
	flexible := version >= 4
	dst = appendString(dst, m.ID, flexible)
	if version >= 3 {
		dst = appendNullableString(dst, m.InstanceID, flexible)
	}
	dst = appendString(dst, m.ClientID, flexible)
	dst = appendString(dst, m.ClientHost, flexible)
	if version >= 1 {
		dst = appendInt32(dst, m.RebalanceTimeoutMs)
	}
	dst = appendInt32(dst, m.SessionTimeoutMs)
	dst = appendBytes(dst, m.Subscription, flexible)
	dst = appendBytes(dst, m.Assignment, flexible)
	if flexible {
		dst = append(dst, 0)
	}
	return dst
}
