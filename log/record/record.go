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
// The slices of a Record are valid until the next iteration; its header keys stay. After an error the iteration ends.
func (e Entry) Records(lim Limits) iter.Seq2[Record, error] { panic("not yet") }

// Records is Entry.Records for a batch.
func (b Batch) Records(lim Limits) iter.Seq2[Record, error] { return Entry(b).Records(lim) }
