package record

import (
	"encoding/binary"
	"hash/crc32"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/gregor-broker/gregor/wire/errcode"
)

// Positions of the fields of a batch of magic 2. Everything from posAttributes on is covered by the CRC, so that the
// leader can assign offset and epoch without computing it again.
const (
	posBaseOffset      = 0
	posSize            = 8
	posLeaderEpoch     = 12
	posMagic           = 16
	posCRC             = 17
	posAttributes      = 21
	posLastOffsetDelta = 23
	posBaseTimestamp   = 27
	posMaxTimestamp    = 35
	posProducerID      = 43
	posProducerEpoch   = 51
	posBaseSequence    = 53
	posCount           = 57

	// HeaderSize is the size in bytes of a batch of magic 2 without its records.
	HeaderSize = 61
	// sizeOverhead is what the size field of an entry of any magic does not count: the offset and itself.
	sizeOverhead = 12
)

// Attribute bits of a batch; bits 0 to 2 are the codec. Messages of magic 1 have bits 0 to 3 only.
const (
	attrCodec         = 0x07
	attrLogAppendTime = 0x08
	attrTransactional = 0x10
	attrControl       = 0x20
	attrDeleteHorizon = 0x40
	attrKnown         = 0x7f // Kafka keeps no other where it rewrites a header
)

// NoTimestamp is the timestamp in ms of a record that has none, as all of magic 0 are.
const NoTimestamp int64 = -1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Batch is the bytes of exactly one batch of magic 2, at least HeaderSize of them. Its accessors check nothing: a Batch
// comes from Entry.Batch, Build, Check, or from bytes that passed Validate. It owns no memory of its own, and is safe
// for concurrent reading only.
type Batch []byte

// BaseOffset is the offset that the records' deltas are relative to. It is that of the first record unless compaction
// removed that one.
func (b Batch) BaseOffset() int64 { return int64(binary.BigEndian.Uint64(b[posBaseOffset:])) }

// LastOffset is the last offset that the batch occupies, also where compaction removed that record.
func (b Batch) LastOffset() int64 { return b.BaseOffset() + int64(b.LastOffsetDelta()) }

// NextOffset is the offset after the batch.
func (b Batch) NextOffset() int64 { return b.LastOffset() + 1 }

// Size is the size of the whole batch in bytes, as its header says.
func (b Batch) Size() int { return int(int32(binary.BigEndian.Uint32(b[posSize:]))) + sizeOverhead }

// LeaderEpoch is the epoch of the leader that appended the batch, -1 where none was assigned.
func (b Batch) LeaderEpoch() int32 { return int32(binary.BigEndian.Uint32(b[posLeaderEpoch:])) }

// CRC is the stored CRC-32C of the bytes from the attributes to the end.
func (b Batch) CRC() uint32 { return binary.BigEndian.Uint32(b[posCRC:]) }

// Attributes is the raw bit field.
func (b Batch) Attributes() int16 { return int16(binary.BigEndian.Uint16(b[posAttributes:])) }

// Codec is the codec that the records are compressed with; it may be one that does not exist.
func (b Batch) Codec() Codec { return Codec(b.Attributes() & attrCodec) }

// TimestampType says what the batch's timestamps are.
func (b Batch) TimestampType() TimestampType {
	return TimestampType(b.Attributes() & attrLogAppendTime >> 3)
}

// IsTransactional says whether the batch belongs to a transaction.
func (b Batch) IsTransactional() bool { return b.Attributes()&attrTransactional != 0 }

// IsControl says whether the records are control records, which clients never see.
func (b Batch) IsControl() bool { return b.Attributes()&attrControl != 0 }

// HasDeleteHorizon says whether BaseTimestamp is the time from which the cleaner may drop the batch's tombstones and
// markers (KIP-534).
func (b Batch) HasDeleteHorizon() bool { return b.Attributes()&attrDeleteHorizon != 0 }

// LastOffsetDelta is LastOffset - BaseOffset.
func (b Batch) LastOffsetDelta() int32 { return int32(binary.BigEndian.Uint32(b[posLastOffsetDelta:])) }

// BaseTimestamp is what the records' timestamp deltas are relative to, in ms.
func (b Batch) BaseTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[posBaseTimestamp:])) }

// MaxTimestamp is the greatest timestamp of the batch in ms; under LogAppendTime that of every record.
func (b Batch) MaxTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[posMaxTimestamp:])) }

// ProducerID is the id of an idempotent producer, -1 without.
func (b Batch) ProducerID() int64 { return int64(binary.BigEndian.Uint64(b[posProducerID:])) }

// ProducerEpoch is the epoch of an idempotent producer, -1 without.
func (b Batch) ProducerEpoch() int16 { return int16(binary.BigEndian.Uint16(b[posProducerEpoch:])) }

// BaseSequence is the sequence number of the first record, -1 without and in control batches.
func (b Batch) BaseSequence() int32 { return int32(binary.BigEndian.Uint32(b[posBaseSequence:])) }

// LastSequence is the sequence number of the last offset of the batch, -1 without. Sequences wrap from the greatest
// int32 to 0.
func (b Batch) LastSequence() int32 {
	if b.BaseSequence() == -1 {
		return -1
	}
	return AddSequence(b.BaseSequence(), b.LastOffsetDelta())
}

// AddSequence returns the sequence number n after sequence, both not negative.
func AddSequence(sequence, n int32) int32 {
	return int32((int64(sequence) + int64(n)) & math.MaxInt32)
}

// Count is the number of records, as the header says. It may be 0 after compaction.
func (b Batch) Count() int32 { return int32(binary.BigEndian.Uint32(b[posCount:])) }

// SetBaseOffset assigns the offsets of the batch. The CRC does not cover them.
func (b Batch) SetBaseOffset(offset int64) {
	binary.BigEndian.PutUint64(b[posBaseOffset:], uint64(offset))
}

// SetLeaderEpoch assigns the leader epoch. The CRC does not cover it.
func (b Batch) SetLeaderEpoch(epoch int32) {
	binary.BigEndian.PutUint32(b[posLeaderEpoch:], uint32(epoch))
}

// setAttributes, setMaxTimestamp and the like change what the CRC covers: updateCRC must follow.
func (b Batch) setAttributes(a int16) { binary.BigEndian.PutUint16(b[posAttributes:], uint16(a)) }

func (b Batch) setMaxTimestamp(ts int64) {
	binary.BigEndian.PutUint64(b[posMaxTimestamp:], uint64(ts))
}

func (b Batch) setSize() { binary.BigEndian.PutUint32(b[posSize:], uint32(len(b)-sizeOverhead)) }

func (b Batch) computeCRC() uint32 { return crc32.Checksum(b[posAttributes:], castagnoli) }

func (b Batch) updateCRC() { binary.BigEndian.PutUint32(b[posCRC:], b.computeCRC()) }

// payload is the records as they are stored, compressed or not.
func (b Batch) payload() []byte { return b[HeaderSize:] }

// Validate returns an error that wraps ErrCorrupt unless b is one whole batch of magic 2 with the right CRC.
func (b Batch) Validate() error {
	if len(b) < HeaderSize {
		return corrupt("a batch of %d bytes is smaller than its header", len(b))
	}
	if b.Size() != len(b) {
		return corrupt("the batch says it has %d bytes, there are %d", b.Size(), len(b))
	}
	if b[posMagic] != 2 {
		return corrupt("magic %d is not 2", int8(b[posMagic]))
	}
	return Entry(b).CheckCRC()
}

var (
	// ErrCorrupt is the cause of every error about bytes that are no valid record data.
	ErrCorrupt = errcode.New(kerr.CorruptMessage, "the record data is corrupt")
	// ErrTruncated says that the bytes end inside an entry.
	ErrTruncated = errcode.New(kerr.CorruptMessage, "the record data ends inside a batch")
)
