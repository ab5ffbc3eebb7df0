package consumer

import (
	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/groupcoord/runtime"
	"github.com/gregor-broker/gregor/groupcoord/schema"
)

// Metadata tells which topics exist. Safe for concurrent use; never blocks.
type Metadata interface {
	PartitionCount(topic string) int32 // 0 for a topic that does not exist
	TopicID(topic string) (id [16]byte, ok bool)
	TopicName(id [16]byte) (topic string, ok bool)
	TopicNames() []string
	// Racks returns the racks of the brokers that have a replica of the partition, in order.
	Racks(topic string, partition int32) []string
	// TopicsVersion is another number whenever topics or partitions have come or gone. It rises, also from one start of the
	// process to the next.
	TopicsVersion() int64
}

// Env is what the groups of one shard share. Owned by the shard's goroutine.
type Env struct {
	Settings *Settings
	Log      *zap.Logger
	NewID    func() string // a random id
	Metadata Metadata
	Times    func(group string) Times

	hashes     map[string]int64 // of topics, as of hashesOf
	hashesOf   int64            // version of the metadata
	key, value []byte           // scratch
}

// writer writes records of one group. Where the group is not stored as it is in hand (it is being converted, or is new),
// they are applied to it at once, so that what follows sees them.
type writer struct {
	e     *Env
	out   *runtime.Out
	group string
	draft *Group // nil, or what the records are applied to
}

func (w *writer) write(kind schema.Type, of string, value []byte) {
	w.e.key = schema.AppendConsumerKey(w.e.key[:0], kind, w.group, of)
	w.out.Write(w.e.key, value)
	if w.draft == nil {
		return
	}
	key, err := schema.DecodeConsumerKey(w.e.key)
	if err == nil {
		_, err = w.draft.Apply(key, value)
	}
	if err != nil {
		panic(err) // what we encode can be read
	}
}

func (w *writer) groupRecord(epoch int32, hash int64) {
	w.e.value = schema.ConsumerGroupValue{Epoch: epoch, MetadataHash: hash}.Append(w.e.value[:0])
	w.write(schema.ConsumerGroup, "", w.e.value)
}

func (w *writer) member(v *View) {
	w.e.value = v.Said.Append(w.e.value[:0])
	w.write(schema.ConsumerMember, v.ID, w.e.value)
}

func (w *writer) target(epoch int32, ms int64) {
	w.e.value = schema.TargetValue{Epoch: epoch, TimestampMs: ms}.Append(w.e.value[:0])
	w.write(schema.ConsumerTarget, "", w.e.value)
}

func (w *writer) targetOf(member string, p Partitions) {
	w.e.value = schema.AppendTargetOfValue(w.e.value[:0], p)
	w.write(schema.ConsumerTargetOf, member, w.e.value)
}

func (w *writer) current(v *View) {
	value := schema.CurrentValue{
		Epoch: v.Epoch, PreviousEpoch: v.PreviousEpoch, State: int8(v.State), Assigned: v.Assigned, Revoking: v.Revoking,
	}
	w.e.value = value.Append(w.e.value[:0])
	w.write(schema.ConsumerCurrent, v.ID, w.e.value)
}

// removeMember writes that there is no such member.
func (w *writer) removeMember(id string) {
	w.write(schema.ConsumerCurrent, id, nil)
	w.write(schema.ConsumerTargetOf, id, nil)
	w.write(schema.ConsumerMember, id, nil)
}

// writeNoTopics deletes the record that Kafka before 4.1 wrote.
func (w *writer) writeNoTopics() { w.write(schema.ConsumerTopics, "", nil) }
