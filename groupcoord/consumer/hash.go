package consumer

import (
	"encoding/binary"
	"maps"
	"slices"
	"unicode/utf16"

	"github.com/zeebo/xxh3"
)

// hashOf returns the hash of the existing ones of topics, whose names are in order: it is another one when partitions come,
// topics come or go, or replicas move to other racks. 0 for none. It is stored, so it is Kafka's: Utils.computeGroupHash,
// an XXH3 of numbers in little-endian order.
func (e *Env) hashOf(topics []string) int64 {
	if version := e.Metadata.TopicsVersion(); e.hashes == nil || e.hashesOf != version {
		e.hashes, e.hashesOf = map[string]int64{}, version
	}
	var b []byte
	for _, topic := range topics {
		if _, ok := e.Metadata.TopicID(topic); ok {
			b = binary.LittleEndian.AppendUint64(b, uint64(e.topicHash(topic)))
		}
	}
	if len(b) == 0 {
		return 0
	}
	return int64(xxh3.Hash(b))
}

// topicHash is Kafka's Utils.computeTopicHash.
func (e *Env) topicHash(topic string) int64 {
	if h, ok := e.hashes[topic]; ok {
		return h
	}
	id, _ := e.Metadata.TopicID(topic)
	n := e.Metadata.PartitionCount(topic)
	b := []byte{0}
	b = binary.LittleEndian.AppendUint64(b, binary.BigEndian.Uint64(id[:8]))
	b = binary.LittleEndian.AppendUint64(b, binary.BigEndian.Uint64(id[8:]))
	b = appendJavaString(b, topic)
	b = binary.LittleEndian.AppendUint32(b, uint32(n))
	for p := range n {
		b = binary.LittleEndian.AppendUint32(b, uint32(p))
		for _, rack := range e.Metadata.Racks(topic, p) {
			b = binary.LittleEndian.AppendUint32(b, uint32(len(utf16.Encode([]rune(rack)))))
			b = appendJavaString(b, rack)
		}
	}
	h := int64(xxh3.Hash(b))
	e.hashes[topic] = h
	return h
}

// appendJavaString appends a string as hash4j does: UTF-16 code units, then their number.
func appendJavaString(b []byte, s string) []byte {
	units := utf16.Encode([]rune(s))
	for _, u := range units {
		b = binary.LittleEndian.AppendUint16(b, u)
	}
	return binary.LittleEndian.AppendUint32(b, uint32(len(units)))
}

func sortedKeys(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }
