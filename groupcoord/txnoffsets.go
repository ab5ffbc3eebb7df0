package groupcoord

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/groupcoord/consumer"
	"github.com/gregor-broker/gregor/groupcoord/group"
	"github.com/gregor-broker/gregor/groupcoord/runtime"
	"github.com/gregor-broker/gregor/groupcoord/schema"
	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/wire/errcode"
)

// TxnOffsetCommit stores, as part of a producer's transaction, how far a group has read. guard is what the Log wants to see
// before a transaction begins; refused is why the transaction's coordinator does not allow it, or nil.
// v2 leader epoch · v3 generation, member id and group.instance.id (KIP-447) · v4 TRANSACTION_ABORTABLE · v5 the partition
// joins the transaction implicitly (KIP-890) · v6 topic ids.
// After GroupCoordinatorService.commitTransactionalOffsets and OffsetMetadataManager.commitTransactionalOffset.
func (c *Coordinator) TxnOffsetCommit(_ Caller, r *kmsg.TxnOffsetCommitRequest, guard any, refused error, reply func(kmsg.Response)) {
	ev := &txnCommit{request: r, guard: guard, reply: reply, topics: make([]target, len(r.Topics))}
	ev.response = kmsg.NewPtrTxnOffsetCommitResponse()
	ev.response.Version = r.Version
	ev.response.Topics = make([]kmsg.TxnOffsetCommitResponseTopic, len(r.Topics))
	valid := false
	for i := range r.Topics {
		t, a := &r.Topics[i], &ev.response.Topics[i]
		a.Topic, a.TopicID = t.Topic, t.TopicID
		a.Partitions = make([]kmsg.TxnOffsetCommitResponseTopicPartition, len(t.Partitions))
		known, err := c.resolve(r.Version >= txnCommitByID, t.Topic, t.TopicID)
		ev.topics[i] = known
		for j := range t.Partitions {
			p := t.Partitions[j].Partition
			a.Partitions[j].Partition = p
			switch {
			case err != nil:
				a.Partitions[j].ErrorCode = errcode.Of(err)
			case p < 0 || p >= known.partitions:
				a.Partitions[j].ErrorCode = errUnknownPartition.Code()
			default:
				valid = true
			}
		}
	}
	switch {
	case !valid:
		reply(ev.response)
	case r.Group == "":
		ev.Refuse(errInvalidGroup)
	case refused != nil:
		ev.Refuse(txnCommitRefusal(refused))
	default:
		c.submit(r.Group, ev)
	}
}

// Versions of TxnOffsetCommit: the first with topic ids, and the first that may be answered with STALE_MEMBER_EPOCH.
const (
	txnCommitByID  = 6
	txnCommitStale = 6
)

// txnCommitRefusal is the answer to a transaction that could not be verified. NETWORK_EXCEPTION is one that old clients do
// not try again, as they do COORDINATOR_LOAD_IN_PROGRESS.
func txnCommitRefusal(err error) error {
	switch errcode.Of(err) {
	case kerr.NetworkException.Code:
		return errors.Join(runtime.ErrLoading, err)
	case kerr.NotLeaderForPartition.Code, kerr.UnknownTopicOrPartition.Code, kerr.KafkaStorageError.Code:
		return errors.Join(runtime.ErrNotCoordinator, err)
	}
	return err
}

type txnCommit struct {
	request  *kmsg.TxnOffsetCommitRequest
	response *kmsg.TxnOffsetCommitResponse // has an error already where a partition does not exist
	guard    any
	topics   []target
	reply    func(kmsg.Response)
}

// Refuse implements runtime.Event.
func (ev *txnCommit) Refuse(err error) { ev.answer(errcode.Of(err)) }

// answer gives code to all partitions that have no error yet.
func (ev *txnCommit) answer(code int16) {
	for i := range ev.response.Topics {
		giveRest(ev.response.Topics[i].Partitions, func(p *kmsg.TxnOffsetCommitResponseTopicPartition) *int16 { return &p.ErrorCode }, code)
	}
	ev.reply(ev.response)
}

func (m *machine) txnCommit(ev *txnCommit, out *runtime.Out) {
	r := ev.request
	if err := m.checkTxnCommit(ev); err != nil {
		ev.Refuse(err)
		return
	}
	nowMs := out.Now.WallMs()
	for i := range r.Topics {
		answers := ev.response.Topics[i].Partitions
		for j := range answers {
			if answers[j].ErrorCode != 0 {
				continue
			}
			p := &r.Topics[i].Partitions[j]
			if p.Metadata != nil && JavaLength(*p.Metadata) > m.settings.OffsetMetadataMaxBytes {
				answers[j].ErrorCode = kerr.OffsetMetadataTooLarge.Code
				continue
			}
			v := schema.OffsetValue{Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, CommitMs: nowMs, ExpireMs: -1, TopicID: ev.topics[i].id}
			if p.Metadata != nil {
				v.Metadata = []byte(*p.Metadata)
			}
			m.putOffset(out, r.Group, &ev.topics[i], p.Partition, &v)
		}
	}
	out.In(runtime.Txn{ProducerID: r.ProducerID, ProducerEpoch: r.ProducerEpoch, Guard: ev.guard})
	out.Then(func(err error, _ *runtime.Out) { ev.answer(m.commitCode(err)) })
}

// checkTxnCommit is checkCommit for a transaction. Versions that do not know STALE_MEMBER_EPOCH get ILLEGAL_GENERATION.
func (m *machine) checkTxnCommit(ev *txnCommit) error {
	r := ev.request
	e := m.groups[r.Group]
	switch {
	case e == nil && r.Generation < 0:
		return nil
	case e == nil && !m.settings.Kafka4:
		return group.ErrUnknownMember
	case e == nil:
		return group.ErrIllegalGeneration
	}
	allowed, err := e.checkTxnCommit(&consumer.Commit{MemberID: r.MemberID, InstanceID: r.InstanceID, Epoch: r.Generation, Version: r.Version})
	for i := range ev.response.Topics {
		for _, p := range ev.response.Topics[i].Partitions {
			if err == nil && allowed != nil && p.ErrorCode == 0 {
				err = allowed(ev.topics[i].id, p.Partition)
			}
		}
	}
	if errcode.Of(err) == kerr.StaleMemberEpoch.Code && r.Version < txnCommitStale {
		return group.ErrIllegalGeneration
	}
	return err
}

// EndTransaction ends a producer's transaction in a partition of __consumer_offsets that this broker leads: its pending
// offsets are committed or dropped. done is called once, on any goroutine, when the marker is replicated.
func (c *Coordinator) EndTransaction(partition int32, e record.EndTxn, done func(error)) {
	c.send(partition, &endTxn{e, done})
}

type endTxn struct {
	record.EndTxn
	done func(error)
}

// Refuse implements runtime.Event.
func (ev *endTxn) Refuse(err error) { ev.done(err) }

func (m *machine) endTxn(ev *endTxn, out *runtime.Out) {
	out.End(ev.EndTxn)
	out.Then(func(err error, _ *runtime.Out) { ev.done(err) })
}
