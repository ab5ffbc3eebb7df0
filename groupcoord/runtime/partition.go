package runtime

import "unicode/utf16"

// PartitionFor returns which of n partitions of an internal topic stores the group or transactional id key. It is Kafka's
// Utils.abs(key.hashCode()) % n: the hash runs over UTF-16 code units.
func PartitionFor(key string, n int32) int32 {
	h := int32(0)
	for _, r := range key {
		if r < 0x10000 {
			h = 31*h + r
			continue
		}
		hi, lo := utf16.EncodeRune(r)
		h = 31*(31*h+hi) + lo
	}
	if h < 0 {
		if h = -h; h < 0 {
			h = 0
		}
	}
	return h % n
}
