package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
)

// Downconvert appends entries to dst as magic 0 or 1, for Fetch v0-v3. What is no newer than that stays as it is.
// Control batches and headers are dropped. Records of uncompressed batches before fetchOffset are dropped too, since
// some old clients take the first message for the one they asked for. An entry that entries cuts off ends it.
//
// What is converted may grow. The result has no more bytes than entries, which keep to the client's limit, save that its first entry is
// always whole: what does not fit is left for the next fetch.
//
// zstd cannot be converted: a batch of it ends the conversion, or is ErrCompression if it is the first. The result may
// be empty although entries was not: then the reader has to go on behind them.
// converted is how many records were written anew.
// After RecordsUtil.downConvert and LazyDownConversionRecords of Kafka.
func Downconvert(dst, entries []byte, magic int8, fetchOffset int64, lim Limits) (_ []byte, converted int, err error) {
	start, most := len(dst), len(entries)
	for {
		before, n := len(dst), 0
		e, rest, err := NextEntry(entries)
		if errors.Is(err, ErrTruncated) {
			return dst, converted, nil
		}
		if err != nil {
			return dst, converted, err
		}
		entries = rest
		switch {
		case e.IsControl():
		case e.Codec() == Zstd:
			if len(dst) > start {
				return dst, converted, nil
			}
			return dst, converted, fmt.Errorf("%w: zstd cannot be converted to magic %d", ErrCompression, magic)
		case e.Magic() <= magic:
			dst = append(dst, e...)
		default:
			if dst, n, err = downconvert(dst, e, magic, fetchOffset, lim.withDefaults()); err != nil {
				return dst, converted, err
			}
		}
		if before > start && len(dst)-start > most {
			return dst[:before], converted, nil
		}
		converted += n
	}
}

// downconvert appends one entry of a newer magic. converted is how many records it has.
func downconvert(dst []byte, e Entry, magic int8, fetchOffset int64, lim Limits) (_ []byte, converted int, err error) {
	attributes := byte(0)
	if magic == 1 && e.TimestampType() == LogAppendTime {
		attributes = attrLogAppendTime
	}
	if e.Codec() != None {
		return appendSet(dst, e, magic, attributes, e.Records(lim))
	}
	for r, err := range e.Records(lim) {
		if err != nil {
			return dst, converted, err
		}
		if r.Offset >= fetchOffset {
			dst = appendLegacy(dst, magic, attributes, r.Offset, r.Timestamp, r.Key, r.Value)
			converted++
		}
	}
	return dst, converted, nil
}

// appendSet appends a wrapper of magic 0 or 1 with recs, with codec, time and kind of time of the entry e. Magic 1 has
// offsets inside that are relative to the first; the wrapper has the last. Without records nothing is appended.
// written is how many there were.
func appendSet(dst []byte, e Entry, magic int8, attributes byte, recs iter.Seq2[Record, error]) (_ []byte, written int, err error) {
	start := len(dst)
	out := sink{buf: appendLegacy(dst, magic, attributes|byte(e.Codec()), 0, 0, nil, nil), max: maxEntryBytes}
	body := len(out.buf)
	w, err := newCompressor(e.Codec(), 0, magic, &out)
	if err != nil {
		return dst, 0, err
	}
	span, err := writeInner(w, magic, attributes, recs)
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	if err != nil || span.first < 0 {
		return dst, 0, err
	}
	wrapper := Entry(out.buf[start:])
	binary.BigEndian.PutUint64(wrapper, uint64(span.last))
	if magic == 1 {
		timestamp := span.maxTimestamp
		if attributes&attrLogAppendTime != 0 {
			timestamp = e.MaxTimestamp()
		}
		binary.BigEndian.PutUint64(wrapper[posLegacyTimestamp:], uint64(timestamp))
	}
	binary.BigEndian.PutUint32(out.buf[body-4:], uint32(len(out.buf)-body))
	sealLegacy(wrapper)
	return out.buf, span.records, nil
}

// innerSpan is the offsets of a set, -1 if it is empty, its greatest timestamp, and how many records it has.
type innerSpan struct {
	first, last, maxTimestamp int64
	records                   int
}

// writeInner writes records as messages to w.
func writeInner(w io.Writer, magic int8, attributes byte, recs iter.Seq2[Record, error]) (innerSpan, error) {
	p := chunks.Get().(*[]byte)
	defer putChunk(p)
	span := innerSpan{first: -1, last: -1, maxTimestamp: NoTimestamp}
	for r, err := range recs {
		if err != nil {
			return span, err
		}
		if span.first < 0 {
			span.first = r.Offset
		}
		span.records++
		span.last, span.maxTimestamp = r.Offset, max(span.maxTimestamp, r.Timestamp)
		offset := r.Offset
		if magic == 1 {
			offset -= span.first
		}
		*p = appendLegacy((*p)[:0], magic, attributes, offset, r.Timestamp, r.Key, r.Value)
		if _, err := w.Write(*p); err != nil {
			return span, err
		}
	}
	return span, nil
}
