package raw

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Codecs, as in the low three bits of a batch's attributes.
const (
	None int8 = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Record is one record; a nil key or value is null.
type Record struct {
	Key, Value []byte
	Timestamp  int64
}

// Batch describes a batch of format v2.
type Batch struct {
	Records       []Record
	BaseOffset    int64
	Codec         int8
	Attributes    int16 // besides the codec
	ProducerID    int64
	ProducerEpoch int16
	BaseSequence  int32
}

// NewBatch returns a batch of records with these values and timestamp, of no producer.
func NewBatch(timestamp int64, values ...string) Batch {
	b := Batch{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1}
	for _, value := range values {
		b.Records = append(b.Records, Record{Value: []byte(value), Timestamp: timestamp})
	}
	return b
}

// By returns the batch with a producer's id and epoch and the sequence of its first record.
func (b Batch) By(id int64, epoch int16, sequence int32) Batch {
	b.ProducerID, b.ProducerEpoch, b.BaseSequence = id, epoch, sequence
	return b
}

// With returns the batch compressed with a codec.
func (b Batch) With(codec int8) Batch {
	b.Codec = codec
	return b
}

// Encode returns the batch's bytes.
func (b Batch) Encode() []byte {
	var records []byte
	var first, max int64
	for i, r := range b.Records {
		if i == 0 {
			first, max = r.Timestamp, r.Timestamp
		}
		max = maxOf(max, r.Timestamp)
		record := kmsg.Record{OffsetDelta: int32(i), TimestampDelta64: r.Timestamp - first, Key: r.Key, Value: r.Value}
		// The length does not count itself: encode once to learn it. A length of 0 takes one byte.
		record.Length = int32(len(record.AppendTo(nil)) - 1)
		records = record.AppendTo(records)
	}
	batch := kmsg.RecordBatch{
		FirstOffset: b.BaseOffset, Magic: 2, PartitionLeaderEpoch: -1, Attributes: b.Attributes | int16(b.Codec),
		LastOffsetDelta: int32(len(b.Records) - 1), FirstTimestamp: first, MaxTimestamp: max,
		ProducerID: b.ProducerID, ProducerEpoch: b.ProducerEpoch, FirstSequence: b.BaseSequence,
		NumRecords: int32(len(b.Records)), Records: Compress(b.Codec, records),
	}
	encoded := batch.AppendTo(nil)
	binary.BigEndian.PutUint32(encoded[8:], uint32(len(encoded)-12))
	Seal(encoded)
	return encoded
}

func maxOf(a, b int64) int64 {
	if a > b {
		return a
	}
	return b
}

// Seal writes the right CRC into an encoded batch.
func Seal(batch []byte) {
	binary.BigEndian.PutUint32(batch[17:], crc32.Checksum(batch[21:], castagnoli))
}

// Compress compresses what follows a batch's header, as clients do: snappy in Java's framing.
func Compress(codec int8, b []byte) []byte {
	var out bytes.Buffer
	switch codec {
	case None:
		return b
	case Gzip:
		w := gzip.NewWriter(&out)
		mustWrite(w.Write(b))
		must(w.Close())
	case Snappy:
		out.Write([]byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1})
		block := s2.EncodeSnappy(nil, b)
		must(binary.Write(&out, binary.BigEndian, uint32(len(block))))
		out.Write(block)
	case LZ4:
		w := lz4.NewWriter(&out)
		must(w.Apply(lz4.BlockSizeOption(lz4.Block64Kb)))
		mustWrite(w.Write(b))
		must(w.Close())
	case Zstd:
		w, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
		must(err)
		mustWrite(w.Write(b))
		must(w.Close())
	default:
		panic(fmt.Sprintf("codec %d", codec))
	}
	return out.Bytes()
}

func must(err error) {
	if err != nil {
		panic(err) // writing to memory
	}
}

func mustWrite(_ int, err error) { must(err) }

// Message returns one message of format v0 or v1 (magic), framed with its offset and size. Timestamp is of v1 only.
func Message(magic int8, attributes int8, offset, timestamp int64, key, value []byte) []byte {
	var body []byte
	body = kbin.AppendInt8(body, magic)
	body = kbin.AppendInt8(body, attributes)
	if magic == 1 {
		body = kbin.AppendInt64(body, timestamp)
	}
	body = kbin.AppendNullableBytes(body, key)
	body = kbin.AppendNullableBytes(body, value)
	message := kbin.AppendInt64(nil, offset)
	message = kbin.AppendInt32(message, int32(len(body)+4))
	message = kbin.AppendInt32(message, int32(crc32.ChecksumIEEE(body)))
	return append(message, body...)
}

// Wrap returns a message set as one compressed message, whose inner messages have offsets from 0 (v1) or 0 each (v0 as old
// producers send it).
func Wrap(magic int8, codec int8, timestamp int64, inner []byte, last int64) []byte {
	return Message(magic, codec, last, timestamp, nil, Compress(codec, inner))
}

// Stored is what a test reads of a batch or message that a broker answered with.
type Stored struct {
	BaseOffset, LastOffset int64
	LeaderEpoch            int32
	Magic                  int8
	Attributes             int16
	BaseTimestamp, MaxTime int64
	ProducerID             int64
	BaseSequence           int32
	Count                  int32
	ValidCRC               bool
	Raw                    []byte
	Records                []Record // of v2 batches: the records, decompressed, with their timestamps
}

// Codec returns the compression.
func (s Stored) Codec() int8 { return int8(s.Attributes & 7) }

// Entries takes a record set apart. What is left at its end is the part of an entry that was cut off.
func Entries(set []byte) (entries []Stored, left []byte, err error) {
	for len(set) >= 17 {
		size := 12 + int(int32(binary.BigEndian.Uint32(set[8:])))
		if size < 17 || size > len(set) {
			break
		}
		entry, err := entryOf(set[:size])
		if err != nil {
			return entries, set, err
		}
		entries = append(entries, entry)
		set = set[size:]
	}
	return entries, set, nil
}

func entryOf(raw []byte) (Stored, error) {
	s := Stored{BaseOffset: int64(binary.BigEndian.Uint64(raw)), Magic: int8(raw[16]), Raw: raw, ProducerID: -1}
	if s.Magic < 2 {
		s.LastOffset, s.Count = s.BaseOffset, 1
		s.Attributes = int16(raw[17])
		s.ValidCRC = crc32.ChecksumIEEE(raw[16:]) == binary.BigEndian.Uint32(raw[12:])
		return s, nil
	}
	var b kmsg.RecordBatch
	if err := b.ReadFrom(raw); err != nil {
		return s, fmt.Errorf("batch at offset %d: %w", s.BaseOffset, err)
	}
	s.LastOffset = s.BaseOffset + int64(b.LastOffsetDelta)
	s.LeaderEpoch, s.Attributes = b.PartitionLeaderEpoch, b.Attributes
	s.BaseTimestamp, s.MaxTime = b.FirstTimestamp, b.MaxTimestamp
	s.ProducerID, s.BaseSequence, s.Count = b.ProducerID, b.FirstSequence, b.NumRecords
	s.ValidCRC = crc32.Checksum(raw[21:], castagnoli) == binary.BigEndian.Uint32(raw[17:])
	plain, err := decompress(s.Codec(), b.Records)
	if err != nil {
		return s, fmt.Errorf("batch at offset %d: %w", s.BaseOffset, err)
	}
	for range b.NumRecords {
		length, n := kbin.Varint(plain)
		if n == 0 || int(length)+n > len(plain) {
			return s, fmt.Errorf("batch at offset %d: a record is cut off", s.BaseOffset)
		}
		var r kmsg.Record
		if err := r.ReadFrom(plain[:n+int(length)]); err != nil {
			return s, fmt.Errorf("batch at offset %d: %w", s.BaseOffset, err)
		}
		timestamp := b.FirstTimestamp + r.TimestampDelta64
		if b.Attributes&8 != 0 {
			timestamp = b.MaxTimestamp
		}
		s.Records = append(s.Records, Record{Key: r.Key, Value: r.Value, Timestamp: timestamp})
		plain = plain[n+int(length):]
	}
	return s, nil
}

// Inflating returns a zstd batch with one record whose value is size zero bytes. It is never whole in memory uncompressed.
func Inflating(size int) []byte {
	// Attributes, timestamp delta, offset delta, null key, value length; after the value no headers.
	body := []byte{0, 0, 0, 1}
	body = binary.AppendVarint(body, int64(size))
	head := append(binary.AppendVarint(nil, int64(len(body)+size+1)), body...)
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
	must(err)
	mustWrite(w.Write(head))
	zeros := make([]byte, 1<<20)
	for left := size; left > 0; left -= len(zeros) {
		mustWrite(w.Write(zeros[:min(left, len(zeros))]))
	}
	mustWrite(w.Write([]byte{0}))
	must(w.Close())
	batch := kmsg.RecordBatch{
		Magic: 2, PartitionLeaderEpoch: -1, Attributes: int16(Zstd), ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: 1,
		Records: out.Bytes(),
	}
	encoded := batch.AppendTo(nil)
	binary.BigEndian.PutUint32(encoded[8:], uint32(len(encoded)-12))
	Seal(encoded)
	return encoded
}
