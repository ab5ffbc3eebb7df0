package schema

// This file is the records of __transaction_state: TransactionLogKey and TransactionLogValue (transaction-coordinator/src/main/
// resources). The type of a key is 0 there, OffsetCommitOld's, since each topic counts its own.

// Transaction is the type of all records of __transaction_state.
const Transaction Type = 0

// TxnStatus is the state of a transactional id. After org.apache.kafka.coordinator.transaction.TransactionState.
type TxnStatus int8

// The states. TxnDead and TxnEpochFence are never stored.
const (
	TxnEmpty          TxnStatus = 0
	TxnOngoing        TxnStatus = 1
	TxnPrepareCommit  TxnStatus = 2
	TxnPrepareAbort   TxnStatus = 3
	TxnCompleteCommit TxnStatus = 4
	TxnCompleteAbort  TxnStatus = 5
	TxnDead           TxnStatus = 6
	TxnEpochFence     TxnStatus = 7
)

// TxnStatuses are Kafka's names of the states; the index is the state.
var TxnStatuses = []string{"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence"}

// String returns Kafka's name of the state.
func (s TxnStatus) String() string {
	if s < 0 || int(s) >= len(TxnStatuses) {
		return "unknown"
	}
	return TxnStatuses[s]
}

// TxnTopic is the partitions of a topic that take part in a transaction.
type TxnTopic struct {
	Topic      string
	Partitions []int32
}

// TxnValue is what is stored of a transactional id. Immutable once decoded.
type TxnValue struct {
	ProducerID         int64
	ProducerEpoch      int16
	TimeoutMs          int32
	Status             TxnStatus
	Topics             []TxnTopic // nil is stored as null, which it is in state Empty only
	UpdateMs           int64      // when anything changed
	StartMs            int64      // when the transaction began; -1 none
	PreviousProducerID int64      // v1: of the last transaction; -1 unknown
	NextProducerID     int64      // v1: what the id goes on with after this transaction, whose epochs are used up; -1 none
	ClientVersion      int16      // v1: transaction version of the producer
}

// maxTxnVersion is the newest TransactionLogValue that is known.
const maxTxnVersion = 1

// DecodeTxnKey reads a key of __transaction_state. The transactional id aliases the key.
func DecodeTxnKey(key []byte) (id []byte, err error) {
	r := reader{src: key}
	version := r.int16()
	if !r.bad && version != 0 {
		return nil, &UnknownVersionError{Transaction, version}
	}
	id = r.string(false)
	if id == nil {
		return nil, ErrMalformed
	}
	return id, r.done()
}

// AppendTxnKey appends the key of a transactional id.
func AppendTxnKey(dst []byte, id string) []byte { return appendString(appendInt16(dst, 0), id, false) }

// DecodeTxnValue reads versions 0 and 1, and returns which it was. The error is ErrMalformed or an *UnknownVersionError.
// Nothing of the result aliases value.
func DecodeTxnValue(value []byte) (*TxnValue, int16, error) {
	r := reader{src: value}
	version := r.int16()
	if r.bad || version < 0 {
		return nil, version, ErrMalformed
	}
	if version > maxTxnVersion {
		return nil, version, &UnknownVersionError{Transaction, version}
	}
	flexible := version >= 1
	v := &TxnValue{PreviousProducerID: -1, NextProducerID: -1}
	v.ProducerID, v.ProducerEpoch, v.TimeoutMs = r.int64(), r.int16(), r.int32()
	if b := r.take(1); b != nil {
		v.Status = TxnStatus(b[0])
	}
	v.Topics = decodeTxnTopics(&r, flexible)
	v.UpdateMs, v.StartMs = r.int64(), r.int64()
	if flexible {
		v.decodeTags(&r)
	}
	if v.Status < TxnEmpty || v.Status > TxnEpochFence {
		r.bad = true
	}
	return v, version, r.done()
}

func (v *TxnValue) decodeTags(r *reader) {
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		tag, b := r.tag()
		field := reader{src: b}
		switch tag {
		case 0:
			v.PreviousProducerID = field.int64()
		case 1:
			v.NextProducerID = field.int64()
		case 2:
			v.ClientVersion = field.int16()
		}
		r.bad = r.bad || field.bad
	}
}

// length reads the number of elements of an array, -1 for null.
func (r *reader) length(flexible bool) int {
	n := 0
	if flexible {
		n = r.compactLen()
	} else {
		n = int(r.int32())
	}
	if n < -1 {
		r.bad = true
	}
	return n
}

func decodeTxnTopics(r *reader, flexible bool) []TxnTopic {
	n := r.length(flexible)
	if n < 0 {
		return nil
	}
	topics := []TxnTopic{}
	for range n {
		name := r.string(flexible)
		t := TxnTopic{Topic: string(name)}
		count := r.length(flexible)
		if r.bad || name == nil || count < 0 || count > len(r.src)/4 { // what is claimed must be there
			r.bad = true
			return nil
		}
		t.Partitions = make([]int32, count)
		for i := range t.Partitions {
			t.Partitions[i] = r.int32()
		}
		if flexible {
			r.skipTags()
		}
		topics = append(topics, t)
	}
	return topics
}

// Append appends v in the given version, 0 or 1.
func (v *TxnValue) Append(dst []byte, version int16) []byte {
	flexible := version >= 1
	dst = appendInt16(dst, version)
	dst = appendInt64(dst, v.ProducerID)
	dst = appendInt16(dst, v.ProducerEpoch)
	dst = appendInt32(dst, v.TimeoutMs)
	dst = append(dst, byte(v.Status))
	dst = v.appendTopics(dst, flexible)
	dst = appendInt64(dst, v.UpdateMs)
	dst = appendInt64(dst, v.StartMs)
	if flexible {
		dst = v.appendTags(dst)
	}
	return dst
}

func (v *TxnValue) appendTopics(dst []byte, flexible bool) []byte {
	switch {
	case v.Topics == nil && flexible:
		return append(dst, 0)
	case v.Topics == nil:
		return appendInt32(dst, -1)
	}
	dst = appendLength(dst, len(v.Topics), flexible)
	for _, t := range v.Topics {
		dst = appendString(dst, t.Topic, flexible)
		dst = appendLength(dst, len(t.Partitions), flexible)
		for _, p := range t.Partitions {
			dst = appendInt32(dst, p)
		}
		if flexible {
			dst = append(dst, 0)
		}
	}
	return dst
}

func appendLength(dst []byte, n int, flexible bool) []byte {
	if flexible {
		return appendUvarint(dst, n+1)
	}
	return appendInt32(dst, int32(n))
}

// appendTags appends the tagged fields that differ from their defaults.
func (v *TxnValue) appendTags(dst []byte) []byte {
	at := len(dst)
	dst = append(dst, 0)
	if v.PreviousProducerID != -1 {
		dst[at]++
		dst = appendInt64(append(dst, 0, 8), v.PreviousProducerID)
	}
	if v.NextProducerID != -1 {
		dst[at]++
		dst = appendInt64(append(dst, 1, 8), v.NextProducerID)
	}
	if v.ClientVersion != 0 {
		dst[at]++
		dst = appendInt16(append(dst, 2, 2), v.ClientVersion)
	}
	return dst
}
