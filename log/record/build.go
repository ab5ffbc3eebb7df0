package record

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"sync"
)

// BatchOptions are the header fields of a batch to build. A batch without an idempotent producer has ProducerID,
// ProducerEpoch and BaseSequence -1: see NoProducer.
type BatchOptions struct {
	BaseOffset    int64
	LeaderEpoch   int32
	Codec         Codec
	Level         int // of the codec, 0 for its default
	TimestampType TimestampType
	ProducerID    int64
	ProducerEpoch int16
	BaseSequence  int32
	Transactional bool
	Control       bool
}

// NoProducer returns o without an idempotent producer.
func (o BatchOptions) NoProducer() BatchOptions {
	o.ProducerID, o.ProducerEpoch, o.BaseSequence = -1, -1, -1
	return o
}

func (o *BatchOptions) attributes() int16 {
	a := int16(o.Codec)
	if o.TimestampType == LogAppendTime {
		a |= attrLogAppendTime
	}
	if o.Transactional {
		a |= attrTransactional
	}
	if o.Control {
		a |= attrControl
	}
	return a
}

// Build makes a batch of magic 2 of recs, of which there is at least one. Offsets are BaseOffset+i if the records' are
// all 0, else those of the records, which must rise from BaseOffset on. The base timestamp is that of the first record,
// the maximum that of all: under LogAppendTime a batch of ours has one time. Nothing of recs is kept.
func Build(o BatchOptions, recs []Record) (Batch, error) {
	return build(&o, recs, maxEntryBytes)
}

func build(o *BatchOptions, recs []Record, maxBytes int) (Batch, error) {
	if len(recs) == 0 {
		return nil, fmt.Errorf("%w: a batch needs a record", ErrCorrupt)
	}
	size, given := HeaderSize, false
	for i := range recs {
		size += recordSize(int64(i), recs[i].Timestamp-recs[0].Timestamp, &recs[i]) + 5
		given = given || recs[i].Offset != 0
	}
	w, err := newBuilder(o, recs[0].Timestamp, size, maxBytes)
	if err != nil {
		return nil, err
	}
	defer w.free()
	for i := range recs {
		offset := o.BaseOffset + int64(i)
		if given {
			offset = recs[i].Offset
		}
		if err := w.add(offset, &recs[i]); err != nil {
			return nil, err
		}
	}
	return w.finish()
}

// builder makes one batch of records that are added one by one, compressing as they come. What it holds beside the
// batch is one chunk and one record. Owned by one goroutine; free must follow.
type builder struct {
	*BatchOptions
	baseTimestamp int64
	maxTimestamp  int64
	last          int64 // offset delta of the last record, -1 before the first
	horizon       bool  // baseTimestamp is a delete horizon
	count         int32
	out           sink           // the batch
	compressor    io.WriteCloser // writes to out; nil without compression
	chunk         *[]byte        // pooled; records on their way to the compressor
}

// chunkBytes is what is collected before the compressor is called.
const chunkBytes = 16 << 10

var chunks = sync.Pool{New: func() any { b := make([]byte, 0, chunkBytes+4<<10); return &b }}

// putChunk returns a chunk to the pool unless a huge record has made it huge.
func putChunk(p *[]byte) {
	if cap(*p) <= 1<<20 {
		chunks.Put(p)
	}
}

// newBuilder starts a batch of at most maxBytes. size is a guess at the size of the uncompressed batch.
func newBuilder(o *BatchOptions, baseTimestamp int64, size, maxBytes int) (*builder, error) {
	w := &builder{BatchOptions: o, baseTimestamp: baseTimestamp, maxTimestamp: NoTimestamp, last: -1}
	if o.Codec != None {
		size = HeaderSize + size/4
	}
	w.out = sink{buf: make([]byte, HeaderSize, max(size, 2*HeaderSize)), max: maxBytes}
	if o.Codec == None {
		return w, nil
	}
	var err error
	if w.compressor, err = newCompressor(o.Codec, o.Level, 2, &w.out); err != nil {
		return nil, err
	}
	w.chunk = chunks.Get().(*[]byte)
	*w.chunk = (*w.chunk)[:0]
	return w, nil
}

// free returns pooled memory. It may be called twice.
func (w *builder) free() {
	if w.compressor != nil {
		w.compressor.Close() // abandoned; the error is that of the sink or of no interest
		w.compressor = nil
	}
	if w.chunk != nil {
		putChunk(w.chunk)
		w.chunk = nil
	}
}

// add appends a record, whose own offset is ignored. ErrTooLarge if the batch becomes too large.
func (w *builder) add(offset int64, r *Record) error {
	delta := offset - w.BaseOffset
	if delta <= w.last || delta > math.MaxInt32 {
		return fmt.Errorf("%w: offset %d in a batch from %d does not follow the one before", ErrCorrupt, offset, w.BaseOffset)
	}
	w.last = delta
	w.count++
	w.maxTimestamp = max(w.maxTimestamp, r.Timestamp)
	size := recordSize(delta, r.Timestamp-w.baseTimestamp, r)
	to := &w.out.buf
	if w.compressor != nil {
		to = w.chunk
	} else if len(w.out.buf)+size > w.out.max {
		return ErrTooLarge
	}
	*to = appendVarint(*to, int64(size))
	*to = appendRecord(*to, delta, r.Timestamp-w.baseTimestamp, r)
	if w.compressor == nil || len(*to) < chunkBytes {
		return nil
	}
	return w.compress()
}

// compress empties the chunk.
func (w *builder) compress() error {
	_, err := w.compressor.Write(*w.chunk)
	*w.chunk = (*w.chunk)[:0]
	return err
}

// finish returns the batch, in memory of its own; ErrTooLarge if it is too large.
func (w *builder) finish() (Batch, error) {
	if w.compressor != nil {
		err := w.compress()
		if cerr := w.compressor.Close(); err == nil {
			err = cerr
		}
		w.compressor = nil
		if err != nil {
			return nil, err
		}
	}
	if len(w.out.buf) > w.out.max {
		return nil, ErrTooLarge
	}
	w.header(w.out.buf)
	return w.out.buf, nil
}

func (w *builder) header(b Batch) {
	b[posMagic] = 2
	b.setSize()
	b.SetBaseOffset(w.BaseOffset)
	b.SetLeaderEpoch(w.LeaderEpoch)
	attributes := w.attributes()
	if w.horizon {
		attributes |= attrDeleteHorizon
	}
	b.setAttributes(attributes)
	binary.BigEndian.PutUint32(b[posLastOffsetDelta:], uint32(w.last))
	binary.BigEndian.PutUint64(b[posBaseTimestamp:], uint64(w.baseTimestamp))
	b.setMaxTimestamp(w.maxTimestamp)
	binary.BigEndian.PutUint64(b[posProducerID:], uint64(w.ProducerID))
	binary.BigEndian.PutUint16(b[posProducerEpoch:], uint16(w.ProducerEpoch))
	binary.BigEndian.PutUint32(b[posBaseSequence:], uint32(w.BaseSequence))
	binary.BigEndian.PutUint32(b[posCount:], uint32(w.count))
	b.updateCRC()
}

// recordSize is the size in bytes of a record without its own size field.
func recordSize(offsetDelta, timestampDelta int64, r *Record) int {
	n := 1 + varintSize(timestampDelta) + varintSize(offsetDelta) + fieldSize(r.Key) + fieldSize(r.Value)
	n += varintSize(int64(len(r.Headers)))
	for i := range r.Headers {
		h := &r.Headers[i]
		n += varintSize(int64(len(h.Key))) + len(h.Key) + fieldSize(h.Value)
	}
	return n
}

func fieldSize(f []byte) int {
	if f == nil {
		return 1
	}
	return varintSize(int64(len(f))) + len(f)
}

// appendRecord appends a record without its size field.
func appendRecord(dst []byte, offsetDelta, timestampDelta int64, r *Record) []byte {
	dst = append(dst, 0)
	dst = appendVarint(dst, timestampDelta)
	dst = appendVarint(dst, offsetDelta)
	dst = appendField(dst, r.Key)
	dst = appendField(dst, r.Value)
	dst = appendVarint(dst, int64(len(r.Headers)))
	for i := range r.Headers {
		dst = appendVarint(dst, int64(len(r.Headers[i].Key)))
		dst = append(dst, r.Headers[i].Key...)
		dst = appendField(dst, r.Headers[i].Value)
	}
	return dst
}

func appendField(dst, f []byte) []byte {
	if f == nil {
		return append(dst, 1) // -1
	}
	return append(appendVarint(dst, int64(len(f))), f...)
}
