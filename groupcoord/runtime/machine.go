// Package runtime runs the shards of a coordinator: for each partition of an internal topic that this broker leads, one
// goroutine that replays it, handles events, writes what they change and answers once that is safe.
//
// A turn of a shard takes what lies in its mailbox, lets the Machine handle and apply each event, appends one batch with
// all records of the turn, and parks the answers until the high watermark passes the batch's end. So batches grow with the
// load and no linger timer is needed. The invariants:
//
//   - Durable state changes in Machine.Apply only, the same for replayed and for new records.
//   - What can be known beforehand (not leader, below min ISR, too large) is refused before Apply; the state is kept.
//   - If an append fails after Apply, the state is ahead of the log: the shard drops it, answers NOT_COORDINATOR and replays.
//   - Done callbacks run in the order of their events. What only reads waits for all that was written before it, so that it
//     never shows what may be lost.
//   - Timers and answers that do not wait never depend on the high watermark.
package runtime

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/wire/errcode"
)

// What a request is refused with when its shard cannot serve it.
var (
	ErrNotCoordinator = errcode.New(kerr.NotCoordinator, "this broker does not lead the partition that the group or transaction is stored in")
	ErrLoading        = errcode.New(kerr.CoordinatorLoadInProgress, "the coordinator is reading its partition, or has too much to do; try again")
	ErrUnavailable    = errcode.New(kerr.CoordinatorNotAvailable, "the coordinator cannot store anything now; try again")
	ErrTimeout        = errcode.New(kerr.CoordinatorNotAvailable, "what was written has not been replicated in time")
	ErrTooLarge       = errcode.New(kerr.UnknownServerError, "the records of this request do not fit into one batch of the internal topic")
)

// Time is the moment of a turn. Mono is what timers count in; Wall is what is stored, and may jump.
type Time struct {
	Wall time.Time
	Mono time.Duration
}

// WallMs returns the wall time in milliseconds since 1970.
func (t Time) WallMs() int64 { return t.Wall.UnixMilli() }

// Event is a request to a shard.
type Event interface {
	// Refuse answers the request with err. It is called once at most, from any goroutine, instead of Machine.Handle.
	Refuse(err error)
}

// Record is one record of an internal topic. It and its slices are valid during Apply only.
type Record struct {
	Key, Value []byte // Value nil deletes the key
	// Order rises with every record of the partition. At replay it is the record's offset; for a new record it is the
	// smallest offset that it can get.
	Order      int64
	ProducerID int64 // -1, or the producer whose transaction the record belongs to: it counts once EndTransaction commits it
}

// Machine is the state of one partition. All calls come from one goroutine.
type Machine interface {
	// Handle reacts to an Event, or to the Event of a Timer that is due. It changes soft state only.
	Handle(ev any, out *Out)
	// Apply is the one place where durable state changes.
	Apply(rec *Record)
	// EndTransaction commits or drops what Apply got with that producer id.
	EndTransaction(producerID int64, commit bool)
	// Loaded is called once, after the last record of a replay and before the first Handle.
	Loaded(out *Out)
	// Unloaded answers every request that the machine still holds with err. Nothing is called afterwards.
	Unloaded(err error)
}

// Log is the internal topic. Safe for concurrent use; Append and Replay may do I/O, the others do not.
type Log interface {
	// CanAppend tells whether an append would be refused now: not leader of that epoch, or below min ISR.
	CanAppend(p int32, leaderEpoch int32) error
	// Append writes a batch, whose base offset and leader epoch it sets, and returns the offset after it.
	Append(p int32, leaderEpoch int32, b record.Batch) (end int64, err error)
	// AppendIn is Append of a batch of a producer's transaction. guard is what Txn was given. The error says, before anything
	// is written, that the producer's epoch is old or that its transaction does not contain the partition.
	AppendIn(p int32, leaderEpoch int32, guard any, b record.Batch) (end int64, err error)
	// WriteMarker ends a producer's transaction and returns the offset after the marker. A marker that is there already is
	// not written again.
	WriteMarker(p int32, leaderEpoch int32, e record.EndTxn) (end int64, err error)
	// Watch calls f when the high watermark has moved, queued, never inside Append.
	Watch(p int32, f func(hw int64)) (cancel func())
	HighWatermark(p int32) int64
	// Replay calls f with each entry from the log start to the log end, in order. An error of f ends it and is returned.
	Replay(p int32, f func(e record.Entry) error) error
	MaxBatchBytes(p int32) int // max.message.bytes of the topic
}
