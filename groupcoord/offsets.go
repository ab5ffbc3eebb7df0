package groupcoord

import (
	"errors"
	"slices"
	"unicode/utf16"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/groupcoord/consumer"
	"github.com/gregor-broker/gregor/groupcoord/group"
	"github.com/gregor-broker/gregor/groupcoord/runtime"
	"github.com/gregor-broker/gregor/groupcoord/schema"
	"github.com/gregor-broker/gregor/wire/errcode"
)

var (
	errUnknownPartition = errcode.New(kerr.UnknownTopicOrPartition, "there is no such topic or partition")
	errUnknownTopicID   = errcode.New(kerr.UnknownTopicID, "there is no topic with that id")
	errGroupNotFound    = errcode.New(kerr.GroupIDNotFound, "there is no such group")
)

// OffsetCommit stores how far a group has read.
// v0 (only without ZooKeeper, see broker/oldoffsets) · v1 generation, commit timestamp · v2–v4 retention time ·
// v6 leader epoch · v7 group.instance.id · v9 GROUP_ID_NOT_FOUND · v10 topic ids.
func (c *Coordinator) OffsetCommit(_ Caller, r *kmsg.OffsetCommitRequest, reply func(kmsg.Response)) {
	r.Topics = slices.DeleteFunc(r.Topics, func(t kmsg.OffsetCommitRequestTopic) bool { return len(t.Partitions) == 0 })
	if !c.o.Config.Kafka4 {
		r.Topics = committed.once(r.Topics)
	}
	ev := &commit{request: r, reply: reply, topics: make([]target, len(r.Topics))}
	ev.response = kmsg.NewPtrOffsetCommitResponse()
	ev.response.Version = r.Version
	ev.response.Topics = make([]kmsg.OffsetCommitResponseTopic, len(r.Topics))
	valid := false
	for i := range r.Topics {
		t, a := &r.Topics[i], &ev.response.Topics[i]
		a.Topic, a.TopicID = t.Topic, t.TopicID
		a.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, len(t.Partitions))
		known, err := c.resolve(r.Version >= 10, t.Topic, t.TopicID)
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
	if !valid {
		reply(ev.response)
		return
	}
	c.submit(r.Group, ev)
}

// target is an existing topic that a request names.
type target struct {
	name       string
	id         [16]byte // stored with the offset, where the format has it
	partitions int32
}

// resolve finds the topic that a request names by id or by name.
func (c *Coordinator) resolve(byID bool, name string, id [16]byte) (target, error) {
	if byID {
		known, ok := c.o.Metadata.TopicName(id)
		if !ok {
			return target{}, errUnknownTopicID
		}
		return target{known, id, c.o.Metadata.PartitionCount(known)}, nil
	}
	n := c.o.Metadata.PartitionCount(name)
	if n == 0 {
		return target{}, errUnknownPartition
	}
	known, _ := c.o.Metadata.TopicID(name)
	return target{name, known, n}, nil
}

type commit struct {
	request  *kmsg.OffsetCommitRequest
	response *kmsg.OffsetCommitResponse // has an error already where a partition does not exist
	topics   []target
	reply    func(kmsg.Response)
}

// Refuse implements runtime.Event.
func (ev *commit) Refuse(err error) { ev.answer(errcode.Of(err)) }

// answer gives code to all partitions that have no error yet.
func (ev *commit) answer(code int16) {
	for i := range ev.response.Topics {
		giveRest(ev.response.Topics[i].Partitions, func(p *kmsg.OffsetCommitResponseTopicPartition) *int16 { return &p.ErrorCode }, code)
	}
	ev.reply(ev.response)
}

// giveRest gives code to all partitions of a topic that have no error yet.
func giveRest[P any](partitions []P, errorCode func(*P) *int16, code int16) {
	for i := range partitions {
		if c := errorCode(&partitions[i]); *c == 0 {
			*c = code
		}
	}
}

func (m *machine) commit(ev *commit, out *runtime.Out) {
	allowed, err := m.checkCommit(ev.request, out)
	if err == nil && allowed != nil {
		err = m.checkPartitions(ev, allowed)
	}
	if err != nil {
		ev.Refuse(err)
		return
	}
	nowMs := out.Now.WallMs()
	for i := range ev.request.Topics {
		answers := ev.response.Topics[i].Partitions
		for j := range answers {
			if answers[j].ErrorCode != 0 {
				continue
			}
			p := &ev.request.Topics[i].Partitions[j]
			if m.isTooLarge(p) {
				answers[j].ErrorCode = kerr.OffsetMetadataTooLarge.Code
				continue
			}
			m.writeOffset(out, ev.request, &ev.topics[i], p, nowMs)
		}
	}
	out.Then(func(err error, _ *runtime.Out) { ev.answer(m.commitCode(err)) })
}

// commitCode is the answer for offsets of which err is what became.
func (m *machine) commitCode(err error) int16 {
	if errors.Is(err, runtime.ErrTooLarge) && !m.settings.Kafka4 {
		return kerr.InvalidCommitOffsetSize.Code
	}
	return errcode.Of(err)
}

// checkCommit says whether the sender may commit, and counts the commit as a sign of life if so. A commit to a group that
// does not exist is fine if it claims no generation: it creates one without members.
// After OffsetMetadataManager.validateOffsetCommit.
func (m *machine) checkCommit(r *kmsg.OffsetCommitRequest, out *runtime.Out) (partition func([16]byte, int32) error, err error) {
	e := m.groups[r.Group]
	switch {
	case e != nil:
		return e.checkCommit(out, &consumer.Commit{MemberID: r.MemberID, InstanceID: r.InstanceID, Epoch: r.Generation, Version: r.Version})
	case r.Generation < 0:
		return nil, nil
	case r.Version >= 9 && m.settings.Kafka4:
		return nil, errGroupNotFound
	}
	return nil, group.ErrIllegalGeneration
}

// isTooLarge reports whether an offset comes with more metadata than may be stored.
func (m *machine) isTooLarge(p *kmsg.OffsetCommitRequestTopicPartition) bool {
	return p.Metadata != nil && JavaLength(*p.Metadata) > m.settings.OffsetMetadataMaxBytes
}

// checkPartitions says whether all partitions are allowed that exist and whose offsets would be stored.
func (m *machine) checkPartitions(ev *commit, allowed func([16]byte, int32) error) error {
	for i := range ev.response.Topics {
		for j, p := range ev.response.Topics[i].Partitions {
			if p.ErrorCode != 0 || m.isTooLarge(&ev.request.Topics[i].Partitions[j]) {
				continue
			}
			if err := allowed(ev.topics[i].id, p.Partition); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeOffset writes one committed offset.
func (m *machine) writeOffset(out *runtime.Out, r *kmsg.OffsetCommitRequest, t *target, p *kmsg.OffsetCommitRequestTopicPartition, nowMs int64) {
	v := schema.OffsetValue{Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, CommitMs: nowMs, ExpireMs: -1, TopicID: t.id}
	if p.Metadata != nil {
		v.Metadata = []byte(*p.Metadata)
	}
	if p.Timestamp != -1 {
		v.CommitMs = p.Timestamp
	}
	if r.RetentionTimeMillis != -1 {
		v.ExpireMs = nowMs + r.RetentionTimeMillis
	}
	m.putOffset(out, r.Group, t, p.Partition, &v)
}

// putOffset writes an offset in the format of the records that are kept.
func (m *machine) putOffset(out *runtime.Out, group string, t *target, partition int32, v *schema.OffsetValue) {
	m.key = schema.AppendOffsetKey(m.key[:0], group, t.name, partition)
	m.value = v.Append(m.value[:0], m.settings.offsetFormat().Version(v.ExpireMs != -1))
	out.Write(m.key, m.value)
}

// JavaLength is the number of UTF-16 code units in s, which is what offset.metadata.max.bytes limits.
func JavaLength(s string) int {
	n := 0
	for _, r := range s {
		n += max(utf16.RuneLen(r), 1)
	}
	return n
}

// OffsetDelete deletes committed offsets, except of topics that members of the group consume.
func (c *Coordinator) OffsetDelete(_ Caller, r *kmsg.OffsetDeleteRequest, reply func(kmsg.Response)) {
	r.Topics = forgotten.together(r.Topics)
	ev := &offsetDelete{request: r, response: kmsg.NewPtrOffsetDeleteResponse(), reply: reply}
	ev.response.Version = r.Version
	ev.response.Topics = make([]kmsg.OffsetDeleteResponseTopic, len(r.Topics))
	for i := range r.Topics {
		t, a := &r.Topics[i], &ev.response.Topics[i]
		a.Topic, a.Partitions = t.Topic, make([]kmsg.OffsetDeleteResponseTopicPartition, 0, len(t.Partitions))
		n, known := c.o.Metadata.PartitionCount(t.Topic), map[int32]bool{}
		for j := range t.Partitions {
			p := kmsg.NewOffsetDeleteResponseTopicPartition()
			p.Partition = t.Partitions[j].Partition
			switch {
			case p.Partition < 0 || p.Partition >= n:
				p.ErrorCode = errUnknownPartition.Code()
			case known[p.Partition] && !c.o.Config.Kafka4:
				continue
			default:
				known[p.Partition] = true
			}
			a.Partitions = append(a.Partitions, p)
		}
	}
	if r.Group == "" {
		ev.Refuse(errInvalidGroup)
		return
	}
	c.submit(r.Group, ev)
}

type offsetDelete struct {
	request  *kmsg.OffsetDeleteRequest
	response *kmsg.OffsetDeleteResponse
	reply    func(kmsg.Response)
}

// Refuse implements runtime.Event.
func (ev *offsetDelete) Refuse(err error) {
	ev.response.ErrorCode, ev.response.Topics = errcode.Of(err), nil
	ev.reply(ev.response)
}

func (m *machine) offsetDelete(ev *offsetDelete, out *runtime.Out) {
	e := m.groups[ev.request.Group]
	if e == nil {
		ev.Refuse(errGroupNotFound)
		return
	}
	if err := e.checkOffsetDelete(); err != nil {
		ev.Refuse(err)
		return
	}
	allowed, deleted := 0, 0
	for i := range ev.response.Topics {
		t := &ev.response.Topics[i]
		subscribed := e.subscribed(t.Topic)
		for j := range t.Partitions {
			p := &t.Partitions[j]
			switch {
			case p.ErrorCode != 0:
				continue
			case subscribed:
				p.ErrorCode = kerr.GroupSubscribedToTopic.Code
				continue
			case e.offsets.Get(t.Topic, p.Partition) != nil || m.pending.Has(e.ID(), t.Topic, p.Partition):
				m.forgetOffset(out, e.ID(), t.Topic, p.Partition)
				deleted++
			}
			allowed++
		}
	}
	if allowed > 0 {
		m.forgetEmptied(out, e, deleted)
	}
	out.Then(func(err error, _ *runtime.Out) {
		if err != nil {
			ev.Refuse(err)
			return
		}
		ev.reply(ev.response)
	})
}
