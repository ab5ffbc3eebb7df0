package record

import (
	"encoding/binary"
	"slices"
)

// ControlType is the type of a control record, the second field of its key.
type ControlType int16

// The control types that a log outside KRaft holds.
const (
	Abort  ControlType = 0
	Commit ControlType = 1
)

// ParseControl reads the key of a control record: int16 version, int16 type. It accepts every version from 0 on, as
// Kafka does for forward compatibility.
func ParseControl(key []byte) (ControlType, error) {
	if len(key) < 4 {
		return 0, corrupt("the key of a control record has %d bytes, at least 4 are needed", len(key))
	}
	if v := int16(binary.BigEndian.Uint16(key)); v < 0 {
		return 0, corrupt("version %d of a control record's key", v)
	}
	return ControlType(binary.BigEndian.Uint16(key[2:])), nil
}

// CoordinatorEpoch reads the value of an end marker: int16 version, int32 epoch of the transaction coordinator.
func CoordinatorEpoch(value []byte) (int32, error) {
	if len(value) < 6 {
		return 0, corrupt("the value of an end transaction marker has %d bytes, at least 6 are needed", len(value))
	}
	if v := int16(binary.BigEndian.Uint16(value)); v < 0 {
		return 0, corrupt("version %d of an end transaction marker", v)
	}
	return int32(binary.BigEndian.Uint32(value[2:])), nil
}

// BuildMarker makes the control batch that ends a transaction. timestamp is in ms.
func BuildMarker(producerID int64, producerEpoch int16, t ControlType, coordinatorEpoch int32, timestamp int64) Batch {
	return BuildMarkerIn(nil, producerID, producerEpoch, t, coordinatorEpoch, timestamp)
}

// MarkerSize is the size of such a batch in bytes.
const MarkerSize = HeaderSize + 17

// BuildMarkerIn is BuildMarker in memory that is large enough, or in memory of its own.
func BuildMarkerIn(memory []byte, producerID int64, producerEpoch int16, t ControlType, coordinatorEpoch int32, timestamp int64) Batch {
	var key [4]byte
	var value [6]byte
	binary.BigEndian.PutUint16(key[2:], uint16(t))
	binary.BigEndian.PutUint32(value[2:], uint32(coordinatorEpoch))
	r := Record{Key: key[:], Value: value[:]}
	b := slices.Grow(memory[:0], MarkerSize)[:HeaderSize]
	clear(b)
	b = appendRecord(appendVarint(b, int64(recordSize(0, 0, &r))), 0, 0, &r)
	w := builder{count: 1, baseTimestamp: timestamp, maxTimestamp: timestamp, BatchOptions: &BatchOptions{
		ProducerID: producerID, ProducerEpoch: producerEpoch, BaseSequence: -1, LeaderEpoch: -1, Transactional: true, Control: true,
	}}
	w.header(b)
	return b
}

// EndTxn is how a producer's transaction ends.
type EndTxn struct {
	ProducerID       int64
	ProducerEpoch    int16
	Commit           bool
	CoordinatorEpoch int32
	// Bumped is set under transaction version 2: the epoch is greater than that of the transaction's data.
	Bumped bool
}
