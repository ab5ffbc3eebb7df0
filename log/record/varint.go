package record

// varint reads the zig-zag varint at b[p:] and returns it with the position after it, -1 if b ends before or it has
// more than 64 bits.
func varint(b []byte, p int) (int64, int) {
	if x, next := shortVarint(b, p); next > 0 {
		return x, next
	}
	return longVarint(b, p)
}

// shortVarint is varint for one byte, which nearly all have; -1 for what may be longer. It is small enough to be
// inlined, varint is not: loops over records call it themselves.
func shortVarint(b []byte, p int) (int64, int) {
	if uint(p) < uint(len(b)) && b[p] < 0x80 {
		u := int64(b[p])
		return u>>1 ^ -(u & 1), p + 1
	}
	return 0, -1
}

//go:noinline
func longVarint(b []byte, p int) (int64, int) {
	if p < 0 {
		return 0, -1
	}
	if len(b)-p >= 2 && b[p+1] < 0x80 {
		u := int64(b[p]&0x7f) | int64(b[p+1])<<7
		return u>>1 ^ -(u & 1), p + 2
	}
	var u uint64
	for shift := uint(0); p < len(b); shift += 7 {
		c := b[p]
		p++
		if shift == 63 && c > 1 {
			return 0, -1
		}
		u |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return int64(u>>1) ^ -int64(u&1), p
		}
	}
	return 0, -1
}

// appendVarint appends v as a zig-zag varint.
func appendVarint(b []byte, v int64) []byte {
	u := uint64(v)<<1 ^ uint64(v>>63)
	for u >= 0x80 {
		b = append(b, byte(u)|0x80)
		u >>= 7
	}
	return append(b, byte(u))
}

// varintSize is the number of bytes that appendVarint appends.
func varintSize(v int64) int {
	n := 1
	for u := uint64(v)<<1 ^ uint64(v>>63); u >= 0x80; u >>= 7 {
		n++
	}
	return n
}
