package record

import "encoding/binary"

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
	key := binary.BigEndian.AppendUint16(make([]byte, 2, 4), uint16(t))
	value := binary.BigEndian.AppendUint32(make([]byte, 2, 6), uint32(coordinatorEpoch))
	b, err := Build(BatchOptions{
		ProducerID: producerID, ProducerEpoch: producerEpoch, BaseSequence: -1, LeaderEpoch: -1,
		Transactional: true, Control: true,
	}, []Record{{Timestamp: timestamp, Key: key, Value: value}})
	if err != nil {
		panic(err) // one small record: Build has nothing to refuse
	}
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
