package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// keyPosition is where the key's size stands in a message of magic 0 or 1.
func (e Entry) keyPosition() int {
	if e.Magic() == 0 {
		return posLegacyKey0
	}
	return posLegacyKey1
}

// legacyKeyValue returns key and value of a message of magic 0 or 1, nil for null. They alias e. Bytes after the value
// are tolerated, as Kafka does.
func (e Entry) legacyKeyValue() (key, value []byte, err error) {
	key, rest, err := legacyField(e[e.keyPosition():])
	if err != nil {
		return nil, nil, err
	}
	value, _, err = legacyField(rest)
	return key, value, err
}

// legacyField reads an int32 size, negative for null, and that many bytes.
func legacyField(b []byte) (field, rest []byte, err error) {
	if len(b) < 4 {
		return nil, nil, errStructure
	}
	n := int32(binary.BigEndian.Uint32(b))
	b = b[4:]
	if n < 0 {
		return nil, b, nil
	}
	if int(n) > len(b) {
		return nil, nil, errStructure
	}
	return b[:n:n], b[n:], nil
}

// innerFunc receives the messages of a set: the message, its offset in the log, its timestamp.
type innerFunc func(m Entry, offset, timestamp int64) (more bool)

// eachLegacy yields the records of a message or wrapper of magic 0 or 1.
func (e Entry) eachLegacy(lim Limits, yield func(Record, error) bool) {
	var failed error
	err := e.EachMessage(lim, func(m Entry, offset, timestamp int64) bool {
		var r Record
		if r.Key, r.Value, failed = m.legacyKeyValue(); failed != nil {
			return false
		}
		r.Offset, r.Timestamp = offset, timestamp
		return yield(r, nil)
	})
	if failed != nil {
		err = failed
	}
	if err != nil {
		yield(Record{}, err)
	}
}

// EachMessage calls f with the message that the entry of magic 0 or 1 is or, if it is a wrapper, with those inside, their
// offset in the log and their timestamp; m is valid during the call. Those inside of a wrapper of
// magic 1 have offsets relative to the first, which the wrapper's offset, that of the last, makes absolute: so the set
// is read twice. Some versions of librdkafka leave the wrapper's offset 0: then they count from 0.
// After Kafka's AbstractLegacyRecordBatch.
func (e Entry) EachMessage(lim Limits, f func(m Entry, offset, timestamp int64) (more bool)) error {
	if e.Codec() == None {
		f(e, e.LastOffset(), e.MaxTimestamp())
		return nil
	}
	lim = lim.withDefaults()
	_, set, err := e.legacyKeyValue()
	if err != nil {
		return err
	}
	if set == nil {
		return fmt.Errorf("%w: found invalid compressed record set with null value (magic = %d)", ErrCorrupt, e.Magic())
	}
	if e.Codec() > LZ4 {
		return fmt.Errorf("%w: %v in a message of magic %d", ErrCompression, e.Codec(), e.Magic())
	}
	base := int64(0)
	if e.Magic() == 1 && e.LastOffset() != 0 {
		last := int64(-1)
		err := e.eachInner(set, lim, func(m Entry, offset, _ int64) bool { last = offset; return true })
		if err != nil {
			return err
		}
		if base = e.LastOffset() - last; base < 0 {
			return corrupt("the wrapper's offset %d is less than that of the last inner message %d", e.LastOffset(), last)
		}
	}
	return e.eachInner(set, lim, func(m Entry, offset, timestamp int64) bool { return f(m, base+offset, timestamp) })
}

// eachInner calls f with the messages of the compressed set of the wrapper e, with their own offsets.
func (e Entry) eachInner(set []byte, lim Limits, f innerFunc) error {
	v, release, err := openWindow(e.Codec(), e.Magic(), set, lim.MaxTotalBytes)
	if err != nil {
		return err
	}
	defer release()
	defer v.close()
	for n := 0; ; n++ {
		m, err := nextInner(&v, lim.MaxRecordBytes)
		if err != nil || m == nil {
			if err == nil && n == 0 {
				err = corrupt("found invalid compressed record set with no inner records")
			}
			return err
		}
		timestamp := m.MaxTimestamp()
		if m.Magic() == 1 && e.TimestampType() == LogAppendTime {
			timestamp = e.MaxTimestamp()
		}
		if !f(m, m.LastOffset(), timestamp) {
			return nil
		}
	}
}

// nextInner returns the next message of v, valid until v is used again; nil at the end, which may cut a message off.
func nextInner(v *window, maxBytes int) (Entry, error) {
	size := EntryPrefix
	for _, whole := range [...]bool{false, true} {
		if err := v.need(size); errors.Is(err, errEnd) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
		if whole {
			break
		}
		var err error
		if size, err = EntrySize(v.buf[v.r:v.w]); err != nil {
			return nil, err
		}
		if size > maxBytes {
			return nil, fmt.Errorf("%w: a message of %d bytes", ErrTooLarge, size)
		}
	}
	m := Entry(v.buf[v.r : v.r+size : v.r+size])
	v.r += size
	if m.Magic() > 1 {
		return nil, corrupt("a message of magic %d inside a set of magic 0 or 1", m.Magic())
	}
	if m.Codec() != None {
		return nil, fmt.Errorf("%w: inner messages must not be compressed", ErrCorrupt)
	}
	return m, nil
}

// legacySize is the size in bytes of a message of magic 0 or 1 with its frame.
func legacySize(magic int8, r *Record) int {
	if magic == 0 {
		return minSize0 + len(r.Key) + len(r.Value)
	}
	return minSize1 + len(r.Key) + len(r.Value)
}

// appendLegacy appends a message of magic 0 or 1 with its frame to dst.
func appendLegacy(dst []byte, magic int8, attributes byte, offset, timestamp int64, key, value []byte) []byte {
	start := len(dst)
	dst = binary.BigEndian.AppendUint64(dst, uint64(offset))
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0, byte(magic), attributes)
	if magic == 1 {
		dst = binary.BigEndian.AppendUint64(dst, uint64(timestamp))
	}
	dst = appendLegacyField(dst, key)
	dst = appendLegacyField(dst, value)
	sealLegacy(dst[start:])
	return dst
}

func appendLegacyField(dst, field []byte) []byte {
	if field == nil {
		return append(dst, 0xff, 0xff, 0xff, 0xff)
	}
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(field))), field...)
}

// sealLegacy writes size and CRC of the message that m is.
func sealLegacy(m []byte) {
	binary.BigEndian.PutUint32(m[posSize:], uint32(len(m)-sizeOverhead))
	binary.BigEndian.PutUint32(m[posLegacyCRC:], crc32.ChecksumIEEE(m[posMagic:]))
}
