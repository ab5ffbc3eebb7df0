package groupcoord

import (
	"github.com/gregor-broker/gregor/groupcoord/consumer"
	"github.com/gregor-broker/gregor/groupcoord/group"
	"github.com/gregor-broker/gregor/groupcoord/offset"
	"github.com/gregor-broker/gregor/groupcoord/runtime"
)

// entry is one group, of either protocol. It exists from the first record or JoinGroup on until it is deleted, or found to be
// empty by cleanUp.
type entry struct {
	group.Group                 // the classic side: of no meaning while consumer is not nil
	consumer    *consumer.Group // nil for a classic group
	offsets     offset.Set
}

// kind is the type of the group that tools show.
func (e *entry) kind() string {
	if e.consumer != nil {
		return "consumer"
	}
	return "classic"
}

// state is the state of the group that tools show.
func (e *entry) state() string {
	if e.consumer != nil {
		return string(e.consumer.State())
	}
	return e.State().String()
}

// protocolType is the protocol type that tools show.
func (e *entry) protocolType() string {
	if e.consumer != nil {
		return consumer.ProtocolType
	}
	return e.ProtocolType()
}

// subscribed reports whether members consume the topic.
func (e *entry) subscribed(topic string) bool {
	if e.consumer != nil {
		return e.consumer.Subscribed(topic)
	}
	return e.Subscribed(topic)
}

// retention tells from when on the age of an offset counts, see group.Group.Retention. Offsets of a group of the consumer
// protocol age from their commit on, save those of topics that its members consume.
func (e *entry) retention() (since int64, ok bool) {
	if e.consumer != nil {
		return -1, true
	}
	return e.Retention()
}

// idle reports whether the group has no members. Who was only told to join does not keep a group from being deleted, as with Kafka.
func (e *entry) idle() bool {
	if e.consumer != nil {
		return e.consumer.Empty()
	}
	return e.State() == group.Empty
}

// checkDelete says whether the group may be deleted.
func (e *entry) checkDelete() error {
	if e.consumer != nil && !e.consumer.Empty() {
		return group.ErrNotEmpty
	}
	return e.CheckDelete()
}

// checkOffsetDelete says whether offsets may be deleted at all.
func (e *entry) checkOffsetDelete() error {
	if e.consumer != nil {
		return nil
	}
	return e.CheckOffsetDelete()
}

// checkTxnCommit says whether someone may commit offsets in a transaction, which is no sign of life of a member.
func (e *entry) checkTxnCommit(c *consumer.Commit) (partition func([16]byte, int32) error, err error) {
	if e.consumer != nil {
		c.Transactional = true
		return e.consumer.CheckCommit(c)
	}
	return nil, e.CheckTxnCommit(c.MemberID, c.InstanceID, c.Epoch)
}

// checkCommit says whether someone may commit offsets at all, and in which partitions; partition is nil for all. The commit
// counts as a sign of life of a member of a classic group.
func (e *entry) checkCommit(out *runtime.Out, c *consumer.Commit) (partition func([16]byte, int32) error, err error) {
	if e.consumer != nil {
		return e.consumer.CheckCommit(c)
	}
	if err = e.CheckCommit(c.MemberID, c.InstanceID, c.Epoch); err == nil {
		e.Committed(out, c.MemberID)
	}
	return nil, err
}
