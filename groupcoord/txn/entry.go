package txn

import (
	"math"
	"slices"

	"github.com/gregor-broker/gregor/groupcoord/runtime"
	"github.com/gregor-broker/gregor/groupcoord/schema"
)

// exhausted is the first epoch after which a producer id is replaced: one more is kept for fencing.
const exhausted = math.MaxInt16 - 1

// second is the first level of transaction.version, and version of a producer, where every transaction raises the epoch.
const second = 2

// partition is a partition that takes part in a transaction.
type partition struct {
	topic string
	index int32
}

// entry is one transactional id. Owned by its machine.
type entry struct {
	id    string
	value *schema.TxnValue // as stored; never changed, only replaced, by Apply
	read  []byte           // while the partition is replayed, in place of value: most states are followed by others

	// lastEpoch is the epoch before the last rise, with which a producer that has not got the answer may ask again; -1 none. It is
	// not stored. next is what it becomes with the record that is being written.
	lastEpoch, next int16

	ending   *ending          // of a prepared transaction; nil while that is not replicated
	again    runtime.Timer    // tries again to write that the transaction is complete
	held     []*addPartitions // wait for that
	patience runtime.Timer    // ends their waiting
}

// second says whether the producer speaks the second protocol.
func (e *entry) second() bool { return e.value.ClientVersion >= second }

// prepared says whether the transaction's end is decided and not complete.
func (e *entry) prepared() bool {
	return e.value.Status == schema.TxnPrepareCommit || e.value.Status == schema.TxnPrepareAbort
}

// identity is the producer id and epoch that the producer goes by: while a transaction ends that used up the epochs, the next ones,
// which it has been told.
func (e *entry) identity() (id int64, epoch int16) { return goesOnWith(e.value) }

func goesOnWith(v *schema.TxnValue) (id int64, epoch int16) {
	if v.ClientVersion >= second && v.NextProducerID != -1 {
		return v.NextProducerID, 0
	}
	return v.ProducerID, v.ProducerEpoch
}

// marked says whether every partition of a prepared transaction has its marker.
func (e *entry) marked() bool { return e.prepared() && e.ending != nil && e.ending.left == 0 }

// has says whether a partition takes part.
func (e *entry) has(topic string, index int32) bool {
	for i := range e.value.Topics {
		if t := &e.value.Topics[i]; t.Topic == topic {
			return slices.Contains(t.Partitions, index)
		}
	}
	return false
}

// follow returns a copy of the value to make the next one of. Its producer id becomes the previous one.
func (e *entry) follow(status schema.TxnStatus, nowMs int64) *schema.TxnValue {
	v := *e.value
	v.PreviousProducerID, v.Status, v.UpdateMs = v.ProducerID, status, nowMs
	return &v
}

// with returns the partitions that take part and those of more, each once.
func (e *entry) with(more []schema.TxnTopic) []schema.TxnTopic {
	all := make([]schema.TxnTopic, len(e.value.Topics), len(e.value.Topics)+len(more))
	for i, t := range e.value.Topics {
		all[i] = schema.TxnTopic{Topic: t.Topic, Partitions: slices.Clip(t.Partitions)} // appending copies
	}
	for _, t := range more {
		at := slices.IndexFunc(all, func(o schema.TxnTopic) bool { return o.Topic == t.Topic })
		if at < 0 {
			at = len(all)
			all = append(all, schema.TxnTopic{Topic: t.Topic, Partitions: []int32{}})
		}
		for _, p := range t.Partitions {
			if !slices.Contains(all[at].Partitions, p) {
				all[at].Partitions = append(all[at].Partitions, p)
			}
		}
	}
	return all
}
