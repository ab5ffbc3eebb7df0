package groupcoord

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/groupcoord/offset"
	"github.com/gregor-broker/gregor/groupcoord/runtime"
	"github.com/gregor-broker/gregor/wire/errcode"
)

// OffsetFetch tells what groups have committed.
// v0 (only without ZooKeeper, see broker/oldoffsets; an error where there is no offset) · v2 all topics, error of the group · v5 leader epoch ·
// v7 RequireStable · v8 several groups · v9 member id and epoch (of no meaning for classic groups) · v10 topic ids.
func (c *Coordinator) OffsetFetch(_ Caller, r *kmsg.OffsetFetchRequest, reply func(kmsg.Response)) {
	groups := r.Groups
	if r.Version < 8 {
		groups = []kmsg.OffsetFetchRequestGroup{asGroup(r)}
	}
	if !c.o.Config.Kafka4 {
		for i := range groups {
			groups[i].Topics = fetched.once(groups[i].Topics)
		}
	}
	answers := make([]kmsg.OffsetFetchResponseGroup, len(groups))
	all := runtime.NewGather(len(groups), func() {
		resp := kmsg.NewPtrOffsetFetchResponse()
		resp.Version = r.Version
		if r.Version < 8 {
			fillSingle(resp, &groups[0], &answers[0])
		} else {
			resp.Groups = answers
		}
		reply(resp)
	})
	for i := range groups {
		c.submit(groups[i].Group, c.newFetch(r, &groups[i], &answers[i], all.Done))
	}
}

// newFetch prepares the answer for one group.
func (c *Coordinator) newFetch(r *kmsg.OffsetFetchRequest, g *kmsg.OffsetFetchRequestGroup, a *kmsg.OffsetFetchResponseGroup, done func()) *fetch {
	ev := &fetch{group: g.Group, member: g.MemberID, epoch: g.MemberEpoch, everything: g.Topics == nil, stable: r.RequireStable, answer: a, done: done, metadata: c.o.Metadata, byID: r.Version >= 10}
	a.Group = g.Group
	a.Topics = make([]kmsg.OffsetFetchResponseGroupTopic, len(g.Topics))
	ev.names = make([]string, len(g.Topics))
	for i := range g.Topics {
		t := &g.Topics[i]
		code := int16(0)
		ev.names[i] = t.Topic
		if ev.byID {
			name, ok := c.o.Metadata.TopicName(t.TopicID)
			if !ok {
				code = errUnknownTopicID.Code()
			}
			ev.names[i] = name
		}
		a.Topics[i].Topic, a.Topics[i].TopicID = t.Topic, t.TopicID
		a.Topics[i].Partitions = make([]kmsg.OffsetFetchResponseGroupTopicPartition, len(t.Partitions))
		for j, p := range t.Partitions {
			a.Topics[i].Partitions[j] = nothingCommitted(p, code)
		}
	}
	return ev
}

// asGroup brings a request for one group (before version 8) into the form for several.
func asGroup(r *kmsg.OffsetFetchRequest) kmsg.OffsetFetchRequestGroup {
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = r.Group
	if r.Topics != nil || r.Version < 2 {
		g.Topics = make([]kmsg.OffsetFetchRequestGroupTopic, len(r.Topics))
	}
	for i := range r.Topics {
		g.Topics[i].Topic, g.Topics[i].Partitions = r.Topics[i].Topic, r.Topics[i].Partitions
	}
	return g
}

// fillSingle brings the answer for one group into the form of versions before 8. Versions 0 and 1 have no error for the whole
// group: there every partition gets it.
func fillSingle(resp *kmsg.OffsetFetchResponse, asked *kmsg.OffsetFetchRequestGroup, g *kmsg.OffsetFetchResponseGroup) {
	resp.ErrorCode = g.ErrorCode
	topics := g.Topics
	if g.ErrorCode != 0 && resp.Version < 2 {
		topics = make([]kmsg.OffsetFetchResponseGroupTopic, len(asked.Topics))
		for i, t := range asked.Topics {
			topics[i].Topic = t.Topic
			for _, p := range t.Partitions {
				topics[i].Partitions = append(topics[i].Partitions, nothingCommitted(p, g.ErrorCode))
			}
		}
	}
	resp.Topics = make([]kmsg.OffsetFetchResponseTopic, len(topics))
	for i := range topics {
		resp.Topics[i].Topic = topics[i].Topic
		resp.Topics[i].Partitions = make([]kmsg.OffsetFetchResponseTopicPartition, len(topics[i].Partitions))
		for j, p := range topics[i].Partitions {
			resp.Topics[i].Partitions[j] = kmsg.OffsetFetchResponseTopicPartition{
				Partition: p.Partition, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: p.Metadata, ErrorCode: p.ErrorCode,
			}
			if resp.Version == 0 && p.ErrorCode == 0 && p.Offset < 0 {
				resp.Topics[i].Partitions[j].ErrorCode = errUnknownPartition.Code() // which clients of that time look for
			}
		}
	}
}

var noMetadata = ""

func nothingCommitted(partition int32, code int16) kmsg.OffsetFetchResponseGroupTopicPartition {
	return kmsg.OffsetFetchResponseGroupTopicPartition{Partition: partition, Offset: -1, LeaderEpoch: -1, Metadata: &noMetadata, ErrorCode: code}
}

// fetch is the part of an OffsetFetch request that is about one group.
type fetch struct {
	group      string
	member     *string
	epoch      int32
	everything bool // all topics of the group
	stable     bool // not what an open transaction may change
	byID       bool
	names      []string // of the topics in answer
	answer     *kmsg.OffsetFetchResponseGroup
	metadata   Metadata
	done       func()
}

// Refuse implements runtime.Event.
func (ev *fetch) Refuse(err error) {
	ev.answer.ErrorCode, ev.answer.Topics = errcode.Of(err), nil
	ev.done()
}

func (m *machine) fetch(ev *fetch, out *runtime.Out) {
	if e := m.groups[ev.group]; e != nil {
		if e.consumer != nil {
			if err := e.consumer.CheckFetch(ev.member, ev.epoch); err != nil {
				ev.Refuse(err)
				return
			}
		}
		if ev.everything {
			m.fetchEverything(ev, e)
		} else {
			m.fetchTopics(ev, e)
		}
	}
	out.Then(func(err error, _ *runtime.Out) {
		if err != nil {
			ev.Refuse(err)
			return
		}
		ev.done()
	})
}

func (m *machine) fetchTopics(ev *fetch, e *entry) {
	for i := range ev.answer.Topics {
		t := &ev.answer.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			if p.ErrorCode != 0 {
				continue
			}
			if ev.stable && m.pending.Has(e.ID(), ev.names[i], p.Partition) {
				p.ErrorCode = kerr.UnstableOffsetCommit.Code
				continue
			}
			// What was committed to an earlier topic of the same name is no answer to one who names the topic by its id.
			c := e.offsets.Get(ev.names[i], p.Partition)
			if c != nil && (!ev.byID || c.TopicID == nil || *c.TopicID == t.TopicID) {
				p.Offset, p.LeaderEpoch, p.Metadata = c.Offset, c.LeaderEpoch, metadataOf(c)
			}
		}
	}
}

// fetchEverything answers with all topics of the group; by id only with those that exist.
func (m *machine) fetchEverything(ev *fetch, e *entry) {
	for name, list := range e.offsets.Topics() {
		t := kmsg.NewOffsetFetchResponseGroupTopic()
		t.Topic = name
		if ev.byID {
			id, ok := ev.metadata.TopicID(name)
			if !ok {
				continue
			}
			t.TopicID = id
		}
		t.Partitions = make([]kmsg.OffsetFetchResponseGroupTopicPartition, 0, len(list))
		for i := range list {
			c := &list[i]
			p := nothingCommitted(c.Partition, 0)
			if ev.stable && m.pending.Has(e.ID(), name, c.Partition) {
				p.ErrorCode = kerr.UnstableOffsetCommit.Code
			} else {
				p.Offset, p.LeaderEpoch, p.Metadata = c.Offset, c.LeaderEpoch, metadataOf(c)
			}
			t.Partitions = append(t.Partitions, p)
		}
		ev.answer.Topics = append(ev.answer.Topics, t)
	}
}

func metadataOf(c *offset.Committed) *string {
	if c.Metadata == "" {
		return &noMetadata
	}
	text := c.Metadata
	return &text
}
