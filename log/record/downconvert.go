package record

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Downconvert appends entries to dst as magic 0 or 1, for Fetch v0-v3. What is no newer than that stays as it is.
// Control batches and headers are dropped. Records of uncompressed batches before fetchOffset are dropped too, since
// some old clients take the first message for the one they asked for. An entry that entries cuts off ends it.
//
// zstd cannot be converted: a batch of it ends the conversion, or is ErrCompression if it is the first. The result may
// be empty although entries was not: then the reader has to go on behind them.
// After RecordsUtil.downConvert and LazyDownConversionRecords of Kafka.
func Downconvert(dst, entries []byte, magic int8, fetchOffset int64, lim Limits) ([]byte, error) {
	start := len(dst)
	for {
		e, rest, err := NextEntry(entries)
		if errors.Is(err, ErrTruncated) {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
		entries = rest
		switch {
		case e.IsControl():
		case e.Codec() == Zstd:
			if len(dst) > start {
				return dst, nil
			}
			return dst, fmt.Errorf("%w: zstd cannot be converted to magic %d", ErrCompression, magic)
		case e.Magic() <= magic:
			dst = append(dst, e...)
		default:
			if dst, err = downconvert(dst, e, magic, fetchOffset, lim.withDefaults()); err != nil {
				return dst, err
			}
		}
	}
}

// downconvert appends one entry of a newer magic.
func downconvert(dst []byte, e Entry, magic int8, fetchOffset int64, lim Limits) ([]byte, error) {
	attributes := byte(0)
	if magic == 1 && e.TimestampType() == LogAppendTime {
		attributes = attrLogAppendTime
	}
	if e.Codec() != None {
		return downconvertSet(dst, e, magic, attributes, lim)
	}
	for r, err := range e.Records(lim) {
		if err != nil {
			return dst, err
		}
		if r.Offset >= fetchOffset {
			dst = appendLegacy(dst, magic, attributes, r.Offset, r.Timestamp, r.Key, r.Value)
		}
	}
	return dst, nil
}

// downconvertSet appends a wrapper with the records of the compressed entry e, compressed as they were. Magic 1 has
// offsets inside that are relative to the first; the wrapper has the last.
func downconvertSet(dst []byte, e Entry, magic int8, attributes byte, lim Limits) ([]byte, error) {
	start := len(dst)
	out := sink{buf: appendLegacy(dst, magic, attributes|byte(e.Codec()), 0, e.MaxTimestamp(), nil, nil), max: maxEntryBytes}
	body := len(out.buf)
	w, err := newCompressor(e.Codec(), 0, magic, &out)
	if err != nil {
		return dst, err
	}
	first, last, err := writeInner(w, e, magic, attributes, lim)
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	if err != nil || first < 0 {
		return dst, err
	}
	wrapper := Entry(out.buf[start:])
	binary.BigEndian.PutUint64(wrapper, uint64(last))
	binary.BigEndian.PutUint32(out.buf[body-4:], uint32(len(out.buf)-body))
	sealLegacy(wrapper)
	return out.buf, nil
}

// writeInner writes the records of e as messages to w, and returns the first and last offset, -1 without records.
func writeInner(w interface{ Write([]byte) (int, error) }, e Entry, magic int8, attributes byte, lim Limits) (first, last int64, err error) {
	p := chunks.Get().(*[]byte)
	defer putChunk(p)
	first, last = -1, -1
	for r, err := range e.Records(lim) {
		if err != nil {
			return first, last, err
		}
		if first < 0 {
			first = r.Offset
		}
		last = r.Offset
		offset := r.Offset
		if magic == 1 {
			offset -= first
		}
		*p = appendLegacy((*p)[:0], magic, attributes, offset, r.Timestamp, r.Key, r.Value)
		if _, err := w.Write(*p); err != nil {
			return first, last, err
		}
	}
	return first, last, nil
}
