package record

import (
	"github.com/gregor-broker/gregor/wire/errcode"
)

// Rules is what a topic demands of a produced record set. Times are in ms.
type Rules struct {
	Now           int64 // wall clock
	TimestampType TimestampType
	BeforeMaxMs   int64 // how far before Now a timestamp may lie (message.timestamp.before.max.ms)
	AfterMaxMs    int64 // how far after Now (message.timestamp.after.max.ms)
	MaxBatchBytes int   // max.message.bytes
	RequireKeys   bool  // the topic is compacted
	Compression   Compression
	AllowZstd     bool // false only where the cluster must not store zstd
	Client        bool // false for the coordinators, which may write control batches
}

// Checked is a record set that is ready for the log, which writes base offset and leader epoch into it.
type Checked struct {
	// Batch is nil if there is nothing to append: an empty set of Produce v0-v2, answered with NONE and base offset -1.
	Batch                Batch
	MaxTimestamp         int64 // ms, NoTimestamp if no record has one
	OffsetOfMaxTimestamp int32 // the delta that the time index gets: the last of the batch, as in Kafka
	LogAppendTime        int64 // ms; -1 under CreateTime
	SourceCodec          Codec // as sent, for metrics and the topic's "producer"
}

// RecordError says what is wrong with one record of a refused set.
type RecordError struct {
	Index   int32 // in the batch
	Message string
}

// Invalid is the error for a set that is refused. It unwraps to Err, so that errcode knows its code.
type Invalid struct {
	Err          *errcode.Error
	RecordErrors []RecordError // at most maxRecordErrors, by rising Index; empty if the batch as a whole is wrong
}

// Error is the message for the response.
func (e *Invalid) Error() string { return e.Err.Error() }

// Unwrap returns the error with the code.
func (e *Invalid) Unwrap() error { return e.Err }

// Code is the protocol's error code.
func (e *Invalid) Code() int16 { return e.Err.Code() }

// Check validates a produced record set, and makes of it the one batch of magic 2 that the log stores. raw may be
// modified, and Checked.Batch aliases it unless a rewrite was needed. An error is an *Invalid.
//
// Produce v3 and later send exactly one batch of magic 2; sets of magic 0 and 1 (Produce v0-v2) are converted up.
func Check(raw []byte, produceVersion int16, r *Rules) (Checked, error) { panic("not yet") }

// Trusted wraps a batch that we built ourselves.
func Trusted(b Batch) Checked {
	logAppendTime := int64(-1)
	if b.TimestampType() == LogAppendTime {
		logAppendTime = b.MaxTimestamp()
	}
	return Checked{
		Batch: b, MaxTimestamp: b.MaxTimestamp(), OffsetOfMaxTimestamp: b.LastOffsetDelta(),
		LogAppendTime: logAppendTime, SourceCodec: b.Codec(),
	}
}
