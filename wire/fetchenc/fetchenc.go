// Package fetchenc encodes Fetch responses whose records are file ranges. The generated codec cannot leave holes for
// them; a test holds this encoder equal to it, byte for byte, in every version.
package fetchenc

import "github.com/gregor-broker/gregor/wire/payload"

// Response is the body of a Fetch response. Fields mean what they mean in the protocol; those that a version does not
// have are not sent.
type Response struct {
	ThrottleMillis int32
	ErrorCode      int16
	SessionID      int32
	Topics         []Topic
	Brokers        []Broker // where the current leaders that partitions name are reached (v16+)
}

// Topic is named up to v12 and identified from v13 on.
type Topic struct {
	Topic      string
	TopicID    [16]byte
	Partitions []Partition
}

// Partition holds one partition's records. Nil pointers and a nil AbortedTransactions are left out or null.
type Partition struct {
	Partition            int32
	ErrorCode            int16
	HighWatermark        int64
	LastStableOffset     int64
	LogStartOffset       int64
	AbortedTransactions  []AbortedTransaction // null for read_uncommitted, empty when there is none
	PreferredReadReplica int32
	Records              payload.Part // the zero Part is an empty record set
	DivergingEpoch       *EpochEnd
	CurrentLeader        *Leader
}

// AbortedTransaction tells a read_committed consumer what to drop.
type AbortedTransaction struct{ ProducerID, FirstOffset int64 }

// EpochEnd is where the leader's log leaves a follower's (KIP-595).
type EpochEnd struct {
	Epoch     int32
	EndOffset int64
}

// Leader is the partition's leader as this broker knows it (KIP-951).
type Leader struct{ ID, Epoch int32 }

// Broker is where a leader is reached.
type Broker struct {
	NodeID int32
	Host   string
	Port   int32
	Rack   *string
}

// Versions from which on something is in the response.
const (
	throttled  = 1
	isolated   = 4 // last stable offset, aborted transactions
	logStart   = 5
	sessions   = 7
	rackAware  = 11
	flexible   = 12
	byID       = 13
	withLeader = 16
)

// copied is the size up to which records in memory are copied between the fields around them rather than sent from
// where they are.
const copied = 4096

// encoder appends to buf and cuts a part off wherever a file range follows.
type encoder struct {
	version int16
	parts   []payload.Part
	buf     []byte
	cut     int // buf up to here is in parts already
}

// Encode returns head, which is copied, followed by the body of r in the given version. The files of r pass to the parts.
func Encode(head []byte, r *Response, version int16) []payload.Part {
	const parts = 4 // two of a partition with records, and one more
	e := encoder{version: version, parts: make([]payload.Part, 0, parts), buf: make([]byte, 0, len(head)+sizeHint(r))}
	e.buf = append(e.buf, head...)
	e.response(r)
	e.flush()
	return e.parts
}

// sizeHint is about what the fields take, so that most responses need one buffer.
func sizeHint(r *Response) int {
	n := 64
	for i := range r.Topics {
		n += len(r.Topics[i].Topic) + 24 + 72*len(r.Topics[i].Partitions)
	}
	return n
}

// flush turns what was appended since the last cut into a part.
func (e *encoder) flush() {
	if len(e.buf) > e.cut {
		e.parts = append(e.parts, payload.Part{Bytes: e.buf[e.cut:len(e.buf):len(e.buf)]})
		e.cut = len(e.buf)
	}
}

func (e *encoder) records(p payload.Part) {
	n := p.Size()
	if e.version >= flexible {
		e.uvarint(uint32(n) + 1)
	} else {
		e.int32(int32(n))
	}
	switch {
	case n == 0:
		payload.Release([]payload.Part{p})
	case p.File == nil && n <= copied:
		e.buf = append(e.buf, p.Bytes...)
	default:
		e.flush()
		e.parts = append(e.parts, p)
	}
}
