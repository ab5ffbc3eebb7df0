package cleaner

import "crypto/sha256"

// slotBytes is the memory of a key in an offsetMap.
const slotBytes = 24

// offsetMap maps keys, by 128 bits of a hash that nobody can make collide, to offsets. It grows with what is put in.
// Owned by one goroutine.
type offsetMap struct {
	slots  []slot // a power of two; linear probing
	used   int
	max    int   // keys that may be in it
	latest int64 // everything up to this offset was put in; -1 for nothing
}

type slot struct {
	hash   [16]byte
	offset int64 // plus 1, 0 for a free slot
}

const firstSlots = 1 << 10

// newOffsetMap returns an empty map of at most maxBytes, of which it fills loadFactor.
func newOffsetMap(maxBytes int64, loadFactor float64) *offsetMap {
	return &offsetMap{max: max(int(float64(maxBytes/slotBytes)*loadFactor), 1), latest: -1}
}

// put notes that key was last seen at offset, and returns false if the map is full.
func (m *offsetMap) put(key []byte, offset int64) bool {
	if 4*(m.used+1) > 3*len(m.slots) {
		m.grow()
	}
	s := m.find(hashOf(key))
	if s.offset == 0 {
		if m.used == m.max {
			return false
		}
		m.used++
		s.hash = hashOf(key)
	}
	s.offset = offset + 1
	return true
}

// get returns the offset of key, -1 if it is not in the map.
func (m *offsetMap) get(key []byte) int64 {
	if m.used == 0 {
		return -1
	}
	return m.find(hashOf(key)).offset - 1
}

// filled is the part of what may be in the map that is.
func (m *offsetMap) filled() float64 { return float64(m.used) / float64(m.max) }

func hashOf(key []byte) (h [16]byte) {
	sum := sha256.Sum256(key)
	return [16]byte(sum[:16])
}

// find returns the slot that has h, or where it would go.
func (m *offsetMap) find(h [16]byte) *slot {
	mask := len(m.slots) - 1
	i := int(h[0]) | int(h[1])<<8 | int(h[2])<<16 | int(h[3])<<24
	for ; ; i++ {
		if s := &m.slots[i&mask]; s.offset == 0 || s.hash == h {
			return s
		}
	}
}

func (m *offsetMap) grow() {
	old := m.slots
	m.slots = make([]slot, max(2*len(old), firstSlots))
	for i := range old {
		if old[i].offset != 0 {
			*m.find(old[i].hash) = old[i]
		}
	}
}

// advance says that everything up to offset is in the map.
func (m *offsetMap) advance(offset int64) { m.latest = max(m.latest, offset) }
