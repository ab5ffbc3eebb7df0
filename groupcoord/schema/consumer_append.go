package schema

// appendTagged64 appends the tagged fields of a value that has one, an int64 that is left out when it is 0.
func appendTagged64(dst []byte, v int64) []byte {
	if v == 0 {
		return append(dst, 0)
	}
	return appendInt64(append(dst, 1, 0, 8), v)
}

func appendStrings(dst []byte, list []string) []byte {
	dst = appendUvarint(dst, len(list)+1)
	for _, s := range list {
		dst = appendString(dst, s, true)
	}
	return dst
}

func appendInt32s(dst []byte, list []int32) []byte {
	dst = appendUvarint(dst, len(list)+1)
	for _, v := range list {
		dst = appendInt32(dst, v)
	}
	return dst
}

func appendTopics(dst []byte, list []TopicPartitions) []byte {
	dst = appendUvarint(dst, len(list)+1)
	for i := range list {
		t := &list[i]
		dst = appendInt32s(append(dst, t.Topic[:]...), t.Partitions)
		if t.Epochs == nil {
			dst = append(dst, 0)
			continue
		}
		dst = appendUvarint(append(dst, 1, 0), uvarintLen(len(t.Epochs)+1)+4*len(t.Epochs))
		dst = appendInt32s(dst, t.Epochs)
	}
	return dst
}

func uvarintLen(v int) int {
	n := 1
	for ; v >= 0x80; v >>= 7 {
		n++
	}
	return n
}

// Append appends v as version 0.
func (v ConsumerGroupValue) Append(dst []byte) []byte {
	return appendTagged64(appendInt32(appendInt16(dst, 0), v.Epoch), v.MetadataHash)
}

// Append appends v as version 0.
func (v *ConsumerMemberValue) Append(dst []byte) []byte {
	dst = appendInt16(dst, 0)
	dst = appendNullableString(dst, v.InstanceID, true)
	dst = appendNullableString(dst, v.RackID, true)
	dst = appendString(dst, v.ClientID, true)
	dst = appendString(dst, v.ClientHost, true)
	dst = appendStrings(dst, v.Topics)
	dst = appendString(dst, v.Regex, true)
	dst = appendInt32(dst, v.RebalanceTimeoutMs)
	dst = appendNullableString(dst, v.Assignor, true)
	if v.Classic == nil {
		return append(dst, 1, 0, 1, 0) // Kafka writes the null out
	}
	classic := v.Classic.append(nil)
	dst = appendUvarint(append(dst, 1, 0), len(classic))
	return append(dst, classic...)
}

// append appends a ClassicMember that is present.
func (c *ClassicMember) append(dst []byte) []byte {
	dst = appendInt32(append(dst, 1), c.SessionTimeoutMs)
	dst = appendUvarint(dst, len(c.Protocols)+1)
	for i := range c.Protocols {
		dst = appendString(dst, c.Protocols[i].Name, true)
		dst = append(appendBytes(dst, c.Protocols[i].Metadata, true), 0)
	}
	return append(dst, 0)
}

// Append appends v as version 0.
func (v TargetValue) Append(dst []byte) []byte {
	return appendTagged64(appendInt32(appendInt16(dst, 0), v.Epoch), v.TimestampMs)
}

// AppendTargetOfValue appends what a member shall have, as version 0.
func AppendTargetOfValue(dst []byte, v []TopicPartitions) []byte {
	return append(appendTopics(appendInt16(dst, 0), v), 0)
}

// Append appends v as version 0.
func (v *CurrentValue) Append(dst []byte) []byte {
	dst = appendInt32(appendInt32(appendInt16(dst, 0), v.Epoch), v.PreviousEpoch)
	dst = append(dst, byte(v.State))
	return append(appendTopics(appendTopics(dst, v.Assigned), v.Revoking), 0)
}

// Append appends v as version 0.
func (v *ExpressionValue) Append(dst []byte) []byte {
	dst = appendStrings(appendInt16(dst, 0), v.Topics)
	return append(appendInt64(appendInt64(dst, v.Version), v.TimestampMs), 0)
}
