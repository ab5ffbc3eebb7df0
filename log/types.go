package log

import (
	"encoding/base64"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/gregor-broker/gregor/log/checkpoint"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/gregor-broker/gregor/wire/payload"
)

// TopicPartition names a partition.
type TopicPartition = checkpoint.TopicPartition

// TopicID is a topic's unique id, zero when unknown (KIP-516).
type TopicID [16]byte

// String is the form that Kafka prints: base64url without padding.
func (id TopicID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// ParseTopicID reads the form that String prints.
func ParseTopicID(s string) (TopicID, error) {
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(raw) != len(TopicID{}) {
		return TopicID{}, fmt.Errorf("%q is not a topic id", s)
	}
	return TopicID(raw), nil
}

// The errors of this package that have a code in the protocol. They are wrapped with the partition and the cause.
var (
	ErrOffsetOutOfRange    = errcode.New(kerr.OffsetOutOfRange, "the offset is outside the range of the log")
	ErrReadSize            = errcode.New(kerr.UnknownServerError, "a negative number of bytes cannot be read") // Kafka has no better code
	ErrStorage             = errcode.New(kerr.KafkaStorageError, "the log could not be written or read")
	ErrBatchTooLarge       = errcode.New(kerr.RecordListTooLarge, "the batch is larger than a segment of the log")
	ErrPolicy              = errcode.New(kerr.PolicyViolation, "records can be deleted only where cleanup.policy contains delete")
	ErrInconsistentTopicID = errcode.New(kerr.InconsistentTopicID, "the directory belongs to another topic of this name")
	ErrUnexpectedOffset    = errcode.New(kerr.UnknownServerError, "the offsets do not continue the log")
	ErrOldEpoch            = errcode.New(kerr.NotLeaderForPartition, "a leader of an older epoch must not write")
	ErrCorrupt             = errcode.New(kerr.CorruptMessage, "the records are corrupt")
	ErrUnknownPartition    = errcode.New(kerr.UnknownTopicOrPartition, "the log does not exist")
	ErrName                = errcode.New(kerr.InvalidTopicException, "no directory can have this name")
)

// Isolation says how far a read may go.
type Isolation int8

// The ends of a read: the log end for followers, the high watermark, the last stable offset (read_committed).
const (
	LogEnd Isolation = iota
	HighWatermark
	Committed
)

// Appended says where a batch was stored.
type Appended struct {
	BaseOffset, LastOffset int64
	LogAppendTime          int64 // ms; -1 when the records keep their own time
	LogStartOffset         int64
	Duplicate              bool // nothing was written: the producer's batch had been stored before, at these offsets
}

// Bounds are the offsets that a log publishes.
type Bounds struct {
	Start         int64 // first offset that can be read
	End           int64 // next offset to be written
	HighWatermark int64
	Stable        int64 // last stable offset: min(high watermark, first open transaction)
}

// end returns the first offset that iso hides.
func (b *Bounds) end(iso Isolation) int64 {
	switch iso {
	case HighWatermark:
		return b.HighWatermark
	case Committed:
		return b.Stable
	}
	return b.End
}

// Read is what a fetch finds in one partition. Part, when its Len is not 0, holds a file that the receiver releases. Aborted is
// what a read_committed consumer must skip of it.
type Read struct {
	Part    payload.Part
	Aborted []AbortedTxn
	Bounds
}

// AbortedTxn is an aborted transaction that a read_committed consumer must skip.
type AbortedTxn struct{ ProducerID, FirstOffset, LastOffset int64 }

// ProducerState is one row of DescribeProducers.
type ProducerState struct {
	ProducerID       int64
	ProducerEpoch    int16
	LastSequence     int32 // -1 when unknown
	LastTimestamp    int64 // ms
	CoordinatorEpoch int32
	TxnStartOffset   int64 // -1 when no transaction is open
}
