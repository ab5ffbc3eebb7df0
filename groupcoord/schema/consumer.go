package schema

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// The types that groups of the consumer protocol (KIP-848) are made of. Their schemas are Kafka's ConsumerGroup*Key and
// ConsumerGroup*Value (group-coordinator/src/main/resources); all values have version 0.
const (
	ConsumerGroup      Type = 3
	ConsumerTopics     Type = 4 // ConsumerGroupPartitionMetadata: written before 4.1, deleted since (KIP-1101)
	ConsumerMember     Type = 5
	ConsumerTarget     Type = 6 // of the group: epoch of the target assignment
	ConsumerTargetOf   Type = 7 // of a member: what it shall have
	ConsumerCurrent    Type = 8 // of a member: what it has
	ConsumerExpression Type = 16
)

// ConsumerKey is the key of a record of a group of the consumer protocol.
type ConsumerKey struct {
	Kind  Type
	Group []byte // aliases the key
	Of    []byte // member id or regular expression, by Kind; nil for a record of the whole group. Aliases the key
}

// IsConsumer reports whether records of that type belong to groups of the consumer protocol.
func (t Type) IsConsumer() bool {
	return ConsumerGroup <= t && t <= ConsumerCurrent || t == ConsumerExpression
}

// ofWhole reports whether there is one record of that type per group.
func (t Type) ofWhole() bool { return t == ConsumerGroup || t == ConsumerTopics || t == ConsumerTarget }

// DecodeConsumerKey reads a key for whose type IsConsumer holds.
func DecodeConsumerKey(key []byte) (ConsumerKey, error) {
	r := reader{src: key}
	k := ConsumerKey{Kind: Type(r.int16())}
	k.Group = r.string(false)
	if !k.Kind.ofWhole() {
		if k.Of = r.string(false); k.Of == nil {
			return ConsumerKey{}, ErrMalformed
		}
	}
	if k.Group == nil {
		return ConsumerKey{}, ErrMalformed
	}
	return k, r.done()
}

// AppendConsumerKey appends the key of a record of the whole group, or of one member or expression of it.
func AppendConsumerKey(dst []byte, kind Type, group, of string) []byte {
	dst = appendString(appendInt16(dst, int16(kind)), group, false)
	if kind.ofWhole() {
		return dst
	}
	return appendString(dst, of, false)
}

// ConsumerGroupValue is the state of a group of the consumer protocol.
type ConsumerGroupValue struct {
	Epoch        int32
	MetadataHash int64 // of the topics that its members consume; 0 none
}

// ConsumerMemberValue is what a member said of itself.
type ConsumerMemberValue struct {
	InstanceID, RackID   *string
	ClientID, ClientHost string
	Topics               []string
	Regex                string // "" none
	RebalanceTimeoutMs   int32
	Assignor             *string
	Classic              *ClassicMember // of a member that speaks the classic protocol
}

// ClassicMember is what a member of the classic protocol said.
type ClassicMember struct {
	SessionTimeoutMs int32
	Protocols        []ClassicProtocol
}

// ClassicProtocol is an assignor of the client and what it wants to know.
type ClassicProtocol struct {
	Name     string
	Metadata []byte
}

// TargetValue tells of which epoch the members' target assignments are.
type TargetValue struct {
	Epoch       int32
	TimestampMs int64 // when it was computed; 0 unknown (KIP-1263)
}

// TopicPartitions are partitions of a topic.
type TopicPartitions struct {
	Topic      [16]byte
	Partitions []int32
	Epochs     []int32 // since which epoch each is assigned; nil unknown (KIP-1251)
}

// CurrentValue is what a member has.
type CurrentValue struct {
	Epoch, PreviousEpoch int32
	State                int8
	Assigned, Revoking   []TopicPartitions
}

// ExpressionValue is what a regular expression stands for.
type ExpressionValue struct {
	Topics      []string
	Version     int64 // of the metadata that it was resolved with
	TimestampMs int64
}

// consumerReader begins to read a value of a consumer group's record.
func consumerReader(kind Type, value []byte) (*reader, int16, error) {
	r := &reader{src: slices.Clone(value)}
	version := r.int16()
	switch {
	case r.bad || version < 0:
		return nil, version, ErrMalformed
	case version > 0:
		return nil, version, &UnknownVersionError{kind, version}
	}
	return r, version, nil
}

// tags calls f with each tagged field.
func (r *reader) tags(f func(tag uint32, b []byte)) {
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		f(r.tag())
	}
}

// fixed64 reads the int64 that a tagged field consists of.
func (r *reader) fixed64(b []byte) int64 {
	if len(b) != 8 {
		r.bad = true
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}

func (r *reader) strings() []string {
	var list []string
	for n := r.compactLen(); n > 0 && !r.bad; n-- {
		b := r.string(true)
		if b == nil {
			r.bad = true
		}
		list = append(list, string(b))
	}
	return list
}

func (r *reader) uuid() (id [16]byte) {
	copy(id[:], r.take(16))
	return id
}

func (r *reader) int32s() []int32 {
	n := r.compactLen()
	if n <= 0 || n > len(r.src)/4 {
		r.bad = r.bad || n > 0
		return nil
	}
	list := make([]int32, n)
	for i := range list {
		list[i] = r.int32()
	}
	return list
}

// topics reads partitions by topic; withEpochs says whether the tag for epochs is known there.
func (r *reader) topics(withEpochs bool) []TopicPartitions {
	var list []TopicPartitions
	for n := r.compactLen(); n > 0 && !r.bad; n-- {
		t := TopicPartitions{Topic: r.uuid(), Partitions: r.int32s()}
		r.tags(func(tag uint32, b []byte) {
			if tag == 0 && withEpochs {
				inner := reader{src: b}
				t.Epochs = inner.int32s()
				r.bad = r.bad || inner.bad
			}
		})
		list = append(list, t)
	}
	return list
}

// DecodeConsumerGroupValue reads a ConsumerGroup value. Like the other decoders it returns the version, and as error ErrMalformed
// or an *UnknownVersionError; nothing of the result aliases value.
func DecodeConsumerGroupValue(value []byte) (v ConsumerGroupValue, version int16, err error) {
	r, version, err := consumerReader(ConsumerGroup, value)
	if err != nil {
		return v, version, err
	}
	v.Epoch = r.int32()
	r.tags(func(tag uint32, b []byte) {
		if tag == 0 {
			v.MetadataHash = r.fixed64(b)
		}
	})
	return v, version, r.done()
}

// DecodeConsumerMemberValue reads a ConsumerMember value.
func DecodeConsumerMemberValue(value []byte) (v *ConsumerMemberValue, version int16, err error) {
	r, version, err := consumerReader(ConsumerMember, value)
	if err != nil {
		return nil, version, err
	}
	v = &ConsumerMemberValue{}
	v.InstanceID, v.RackID = optional(r.string(true)), optional(r.string(true))
	v.ClientID, v.ClientHost = string(r.string(true)), string(r.string(true))
	v.Topics = r.strings()
	v.Regex = string(r.string(true))
	v.RebalanceTimeoutMs = r.int32()
	v.Assignor = optional(r.string(true))
	r.tags(func(tag uint32, b []byte) {
		if tag == 0 {
			v.Classic = r.classic(b)
		}
	})
	return v, version, r.done()
}

// classic reads a nullable ClassicMember: 0 stands for null, 1 before one that is present.
func (r *reader) classic(b []byte) *ClassicMember {
	inner := &reader{src: b}
	defer func() { r.bad = r.bad || inner.bad }()
	if present := inner.uvarint(); present == 0 {
		return nil
	}
	c := &ClassicMember{SessionTimeoutMs: inner.int32()}
	for n := inner.compactLen(); n > 0 && !inner.bad; n-- {
		p := ClassicProtocol{Name: string(inner.string(true)), Metadata: inner.bytes(true)}
		inner.skipTags()
		c.Protocols = append(c.Protocols, p)
	}
	inner.skipTags()
	return c
}

// DecodeTargetValue reads a ConsumerTarget value.
func DecodeTargetValue(value []byte) (v TargetValue, version int16, err error) {
	r, version, err := consumerReader(ConsumerTarget, value)
	if err != nil {
		return v, version, err
	}
	v.Epoch = r.int32()
	r.tags(func(tag uint32, b []byte) {
		if tag == 0 {
			v.TimestampMs = r.fixed64(b)
		}
	})
	return v, version, r.done()
}

// DecodeTargetOfValue reads a ConsumerTargetOf value.
func DecodeTargetOfValue(value []byte) (v []TopicPartitions, version int16, err error) {
	r, version, err := consumerReader(ConsumerTargetOf, value)
	if err != nil {
		return nil, version, err
	}
	v = r.topics(false)
	r.skipTags()
	return v, version, r.done()
}

// DecodeCurrentValue reads a ConsumerCurrent value.
func DecodeCurrentValue(value []byte) (v CurrentValue, version int16, err error) {
	r, version, err := consumerReader(ConsumerCurrent, value)
	if err != nil {
		return v, version, err
	}
	v.Epoch, v.PreviousEpoch = r.int32(), r.int32()
	if b := r.take(1); b != nil {
		v.State = int8(b[0])
	}
	v.Assigned, v.Revoking = r.topics(true), r.topics(true)
	r.skipTags()
	return v, version, r.done()
}

// DecodeExpressionValue reads a ConsumerExpression value.
func DecodeExpressionValue(value []byte) (v *ExpressionValue, version int16, err error) {
	r, version, err := consumerReader(ConsumerExpression, value)
	if err != nil {
		return nil, version, err
	}
	v = &ExpressionValue{Topics: r.strings(), Version: r.int64(), TimestampMs: r.int64()}
	r.skipTags()
	return v, version, r.done()
}

// Equal reports whether two members say the same.
func (v *ConsumerMemberValue) Equal(o *ConsumerMemberValue) bool {
	return equalString(v.InstanceID, o.InstanceID) && equalString(v.RackID, o.RackID) && v.ClientID == o.ClientID &&
		v.ClientHost == o.ClientHost && slices.Equal(v.Topics, o.Topics) && v.Regex == o.Regex &&
		v.RebalanceTimeoutMs == o.RebalanceTimeoutMs && equalString(v.Assignor, o.Assignor) && v.Classic.equal(o.Classic)
}

func (c *ClassicMember) equal(o *ClassicMember) bool {
	if c == nil || o == nil {
		return c == o
	}
	return c.SessionTimeoutMs == o.SessionTimeoutMs && slices.EqualFunc(c.Protocols, o.Protocols, func(a, b ClassicProtocol) bool {
		return a.Name == b.Name && bytes.Equal(a.Metadata, b.Metadata)
	})
}

func equalString(a, b *string) bool {
	return a == b || a != nil && b != nil && *a == *b
}
