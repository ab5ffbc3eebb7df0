package record

import "iter"

// Header is a record header. A nil Value is null.
type Header struct {
	Key   string
	Value []byte
}

// Record is one record. Nil Key and Value are null. Timestamp is in ms, NoTimestamp without.
type Record struct {
	Offset    int64
	Timestamp int64
	Key       []byte
	Value     []byte
	Headers   []Header
}

// Limits bound what opening an entry may cost. Zero fields mean the defaults.
type Limits struct {
	MaxRecordBytes int   // the largest record, since one is held in memory; default 128 MiB
	MaxTotalBytes  int64 // what an entry may decompress to; default 1 GiB
}

const (
	defaultMaxRecordBytes = 128 << 20
	defaultMaxTotalBytes  = 1 << 30
)

func (l Limits) withDefaults() Limits {
	if l.MaxRecordBytes <= 0 {
		l.MaxRecordBytes = defaultMaxRecordBytes
	}
	if l.MaxTotalBytes <= 0 {
		l.MaxTotalBytes = defaultMaxTotalBytes
	}
	return l
}

// Records streams the records of an entry of any magic in order, holding one record and the codec's window in memory.
// The slices of a Record are valid until the next iteration; its header keys stay. After an error, which wraps
// ErrCorrupt, ErrCompression or ErrTooLarge, the iteration ends.
func (e Entry) Records(lim Limits) iter.Seq2[Record, error] {
	lim = lim.withDefaults()
	if b, ok := e.Batch(); ok {
		return func(yield func(Record, error) bool) { b.each(lim, yield) }
	}
	return func(yield func(Record, error) bool) { e.eachLegacy(lim, yield) }
}

// Records is Entry.Records for a batch.
func (b Batch) Records(lim Limits) iter.Seq2[Record, error] { return Entry(b).Records(lim) }

// each yields the records of a batch.
func (b Batch) each(lim Limits, yield func(Record, error) bool) {
	count := b.Count()
	if count == 0 {
		return // emptied by compaction; what it says of its codec does not matter
	}
	v, release, err := openWindow(b.Codec(), 2, b.payload(), lim.MaxTotalBytes)
	if err != nil {
		yield(Record{}, err)
		return
	}
	defer release()
	defer v.close()
	base, baseTimestamp := b.BaseOffset(), b.BaseTimestamp()
	logAppend := b.TimestampType() == LogAppendTime
	var headers []Header
	var p parsed
	for range count {
		body, err := nextBody(&v, lim.MaxRecordBytes)
		if err == nil {
			err = parseRecord(body, &p)
		}
		if err != nil {
			yield(Record{}, err)
			return
		}
		r := Record{Offset: base + p.offsetDelta, Timestamp: baseTimestamp + p.timestampDelta}
		if logAppend {
			r.Timestamp = b.MaxTimestamp()
		}
		if p.keySize >= 0 {
			r.Key = body[p.keyPos : p.keyPos+p.keySize : p.keyPos+p.keySize]
		}
		if p.valueSize >= 0 {
			r.Value = body[p.valuePos : p.valuePos+p.valueSize : p.valuePos+p.valueSize]
		}
		if p.headers > 0 {
			headers = readHeaders(headers[:0], body, &p)
			r.Headers = headers
		}
		if !yield(r, nil) {
			return
		}
	}
	if end, err := v.atEnd(); err != nil {
		yield(Record{}, err)
	} else if !end || count < 0 {
		yield(Record{}, errRemaining)
	}
}
