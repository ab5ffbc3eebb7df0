package record

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// EntryPrefix is how many bytes of an entry of any magic tell its size and magic: offset, size, four bytes (leader
// epoch or CRC), magic.
const EntryPrefix = 17

// Positions of the fields of a message of magic 0 and 1, the frame included.
const (
	posLegacyCRC        = 12
	posLegacyAttributes = 17
	posLegacyTimestamp  = 18 // magic 1 only
	posLegacyKey0       = 18
	posLegacyKey1       = 26

	minSize0 = posLegacyKey0 + 8
	minSize1 = posLegacyKey1 + 8
)

// Entry is the bytes of exactly one log entry of any magic: a batch of magic 2, or a message of magic 0 or 1, which may
// be the compressed wrapper of a set. It comes from NextEntry, which guarantees the length that the accessors need.
type Entry []byte

// NextEntry cuts the first entry off buf. It returns ErrTruncated where buf ends inside the entry (a fetch may) and an
// error that wraps ErrCorrupt for an impossible size or magic. It does not check the CRC. The entry aliases buf.
func NextEntry(buf []byte) (e Entry, rest []byte, err error) {
	size, err := EntrySize(buf)
	if err != nil {
		return nil, buf, err
	}
	if size > len(buf) {
		return nil, buf, ErrTruncated
	}
	return Entry(buf[:size:size]), buf[size:], nil
}

// EntrySize returns the size in bytes of the entry whose first EntryPrefix bytes prefix begins with, and the errors of
// NextEntry.
func EntrySize(prefix []byte) (int, error) {
	if len(prefix) < sizeOverhead {
		return 0, ErrTruncated
	}
	size := int(int32(binary.BigEndian.Uint32(prefix[posSize:])))
	if size < minSize0-sizeOverhead {
		return 0, framing("an entry says that it has %d bytes", size)
	}
	if len(prefix) < EntryPrefix {
		return 0, ErrTruncated
	}
	magic := int8(prefix[posMagic])
	if magic < 0 || magic > 2 {
		return 0, framing("magic %d does not exist", magic)
	}
	if size+sizeOverhead < [...]int{minSize0, minSize1, HeaderSize}[magic] {
		return 0, framing("an entry of magic %d says that it has %d bytes", magic, size)
	}
	return size + sizeOverhead, nil
}

// Magic is the format: 0, 1 or 2.
func (e Entry) Magic() int8 { return int8(e[posMagic]) }

// Batch returns the entry as a batch if its magic is 2.
func (e Entry) Batch() (Batch, bool) { return Batch(e), e.Magic() == 2 }

// Size is the size of the whole entry in bytes.
func (e Entry) Size() int { return Batch(e).Size() }

// BaseOffset is the first offset that the entry occupies. To tell it, the wrapper of a compressed set of magic 0 or 1
// has to be opened; if that fails it is LastOffset.
func (e Entry) BaseOffset() int64 {
	if e.Magic() == 2 || e.Codec() == None {
		return Batch(e).BaseOffset()
	}
	for r, err := range e.Records(Limits{}) {
		if err != nil {
			break
		}
		return r.Offset
	}
	return e.LastOffset()
}

// LastOffset is the last offset that the entry occupies.
func (e Entry) LastOffset() int64 {
	if e.Magic() == 2 {
		return Batch(e).LastOffset()
	}
	return Batch(e).BaseOffset()
}

// NextOffset is the offset after the entry.
func (e Entry) NextOffset() int64 { return e.LastOffset() + 1 }

// attributes is the bits that all magics share.
func (e Entry) attributes() int16 {
	if e.Magic() == 2 {
		return Batch(e).Attributes()
	}
	return int16(e[posLegacyAttributes])
}

// Codec is the codec that the records are compressed with; it may be one that does not exist.
func (e Entry) Codec() Codec { return Codec(e.attributes() & attrCodec) }

// TimestampType says what the timestamps are; magic 0 has none and says CreateTime.
func (e Entry) TimestampType() TimestampType {
	if e.Magic() == 0 {
		return CreateTime
	}
	return TimestampType(e.attributes() & attrLogAppendTime >> 3)
}

// MaxTimestamp is the greatest timestamp of the entry in ms as its header says, NoTimestamp for magic 0.
func (e Entry) MaxTimestamp() int64 {
	switch e.Magic() {
	case 2:
		return Batch(e).MaxTimestamp()
	case 1:
		return int64(binary.BigEndian.Uint64(e[posLegacyTimestamp:]))
	}
	return NoTimestamp
}

// LeaderEpoch, ProducerID, ProducerEpoch, BaseSequence and LastSequence are -1 for magic 0 and 1.

// LeaderEpoch is that of Batch.
func (e Entry) LeaderEpoch() int32 {
	if e.Magic() < 2 {
		return -1
	}
	return Batch(e).LeaderEpoch()
}

// ProducerID is that of Batch.
func (e Entry) ProducerID() int64 {
	if e.Magic() < 2 {
		return -1
	}
	return Batch(e).ProducerID()
}

// ProducerEpoch is that of Batch.
func (e Entry) ProducerEpoch() int16 {
	if e.Magic() < 2 {
		return -1
	}
	return Batch(e).ProducerEpoch()
}

// BaseSequence is that of Batch.
func (e Entry) BaseSequence() int32 {
	if e.Magic() < 2 {
		return -1
	}
	return Batch(e).BaseSequence()
}

// LastSequence is that of Batch.
func (e Entry) LastSequence() int32 {
	if e.Magic() < 2 {
		return -1
	}
	return Batch(e).LastSequence()
}

// IsTransactional is that of Batch, false for magic 0 and 1.
func (e Entry) IsTransactional() bool { return e.Magic() == 2 && Batch(e).IsTransactional() }

// IsControl is that of Batch, false for magic 0 and 1.
func (e Entry) IsControl() bool { return e.Magic() == 2 && Batch(e).IsControl() }

// CRC is the stored checksum.
func (e Entry) CRC() uint32 {
	if e.Magic() == 2 {
		return Batch(e).CRC()
	}
	return binary.BigEndian.Uint32(e[posLegacyCRC:])
}

// ComputeCRC is the checksum that the entry's bytes have: CRC-32C for magic 2, CRC-32 (IEEE) before.
func (e Entry) ComputeCRC() uint32 {
	if e.Magic() == 2 {
		return Batch(e).computeCRC()
	}
	return crc32.ChecksumIEEE(e[posMagic:])
}

// CheckCRC returns an error that wraps ErrCorrupt if the stored checksum is wrong.
func (e Entry) CheckCRC() error {
	if stored, computed := e.CRC(), e.ComputeCRC(); stored != computed {
		return corrupt("Record is corrupt (stored crc = %d, computed crc = %d)", stored, computed)
	}
	return nil
}

// errFraming is the cause of what EntrySize refuses: a log cannot be read on behind it.
var errFraming = fmt.Errorf("%w", ErrCorrupt)

func framing(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errFraming}, args...)...)
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrCorrupt}, args...)...)
}
