package cases

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/raw"
)

// id returns the id of the topic.
func (o *odd) id() [16]byte {
	o.t.Helper()
	r := raw.With(kmsg.NewPtrMetadataRequest(), 12)
	of := kmsg.NewMetadataRequestTopic()
	of.Topic = &o.topic
	r.Topics = append(r.Topics, of)
	return raw.Do[*kmsg.MetadataResponse](o.c, r).Topics[0].TopicID
}

// commits commits, fetches and deletes offsets.
func (o *odd) commits() {
	group := o.topic + "-group"
	ready(o.t, o.c, group)
	id := o.id()
	topics := map[string][16]byte{o.topic: id, o.topic + "-missing": {9}, "": {}}
	o.each(versions{2, 9, 2, 10}, func(version int16) { // version 1 needs a topic that 4.4 has not
		commit := func(what, group, name string, partitions ...kmsg.OffsetCommitRequestTopicPartition) {
			r := kmsg.NewPtrOffsetCommitRequest()
			r.Group = group
			of := kmsg.NewOffsetCommitRequestTopic()
			of.Topic, of.TopicID, of.Partitions = name, topics[name], partitions
			r.Topics = append(r.Topics, of)
			o.ask(what, version, r)
		}
		at := func(partition int32, offset int64) kmsg.OffsetCommitRequestTopicPartition {
			p := kmsg.NewOffsetCommitRequestTopicPartition()
			p.Partition, p.Offset = partition, offset
			return p
		}
		commit("a partition twice", group, o.topic, at(0, 5), at(0, 7))
		commit("an offset of -1", group, o.topic, at(0, -1))
		commit("an offset of -7", group, o.topic, at(0, -7))
		commit("no such partition", group, o.topic, at(9, 1), at(-1, 1))
		commit("no partition", group, o.topic)
		commit("a missing topic", group, o.topic+"-missing", at(0, 1))
		commit("a topic without a name", group, "", at(0, 1))
		commit("no group", "", o.topic, at(0, 1))
		big := at(1, 3)
		big.Metadata = ptr(strings.Repeat("x", 4097))
		commit("much metadata", group, o.topic, big, at(0, 9))
		r := kmsg.NewPtrOffsetCommitRequest()
		r.Group = group
		o.ask("nothing", version, r)
		of := kmsg.NewOffsetCommitRequestTopic()
		of.Topic, of.TopicID, of.Partitions = o.topic, id, []kmsg.OffsetCommitRequestTopicPartition{at(1, 4)}
		r.Topics = []kmsg.OffsetCommitRequestTopic{of, of}
		o.ask("a topic twice", version, r)
		r.MemberID = "nobody"
		o.ask("a member without a generation", version, r)
		r.MemberID, r.Generation = "", 1
		o.ask("a generation without a member", version, r)
		r.MemberID, r.Generation, r.InstanceID = "", -1, ptr("no instance")
		o.ask("an instance", version, r)
	})
	o.fetched(group, id)
	o.forgotten(group)
}

// fetched asks for what was committed.
func (o *odd) fetched(group string, id [16]byte) {
	o.each(versions{1, 7, 1, 7}, func(version int16) {
		r := kmsg.NewPtrOffsetFetchRequest()
		of := kmsg.NewOffsetFetchRequestTopic()
		of.Topic, of.Partitions = o.topic, []int32{0, 0, 1, 9, -1}
		missing := of
		missing.Topic = o.topic + "-missing"
		for _, name := range []string{group, "", o.topic + "-none"} {
			r.Group, r.Topics = name, []kmsg.OffsetFetchRequestTopic{of, missing, of}
			o.ask(fmt.Sprintf("%q, topics twice", name), version, r)
			if version >= 2 && name != "" { // all that anybody committed without a group

				r.Topics = nil
				o.ask(fmt.Sprintf("%q, all", name), version, r)
			}
			r.Topics = []kmsg.OffsetFetchRequestTopic{}
			o.ask(fmt.Sprintf("%q, none", name), version, r)
		}
	})
	o.each(versions{8, 9, 8, 10}, func(version int16) {
		ask := func(what string, member *string, epoch int32, groups ...string) {
			r := kmsg.NewPtrOffsetFetchRequest()
			for i, name := range groups {
				of := kmsg.NewOffsetFetchRequestGroup()
				of.Group, of.MemberID, of.MemberEpoch = name, member, epoch
				topic := kmsg.NewOffsetFetchRequestGroupTopic()
				topic.Topic, topic.TopicID, topic.Partitions = o.topic, id, []int32{0, 0, 9}
				missing := topic
				missing.Topic, missing.TopicID = o.topic+"-missing", [16]byte{9}
				if i == 0 {
					of.Topics = []kmsg.OffsetFetchRequestGroupTopic{topic, missing}
				}
				r.Groups = append(r.Groups, of)
			}
			o.ask(what, version, r)
		}
		ask("a group", nil, -1, group)
		ask("a group twice", nil, -1, group, group)
		ask("groups that there are not", nil, -1, o.topic+"-none")
		ask("nobody", ptr("nobody"), -1, group)
		ask("nobody of an epoch", ptr("nobody"), 0, group, o.topic+"-none")
		ask("an epoch of nobody", nil, 5, group)
		ask("no name", ptr(""), 0, group)
	})
}

// forgotten deletes offsets and groups.
func (o *odd) forgotten(group string) {
	for _, name := range []string{group, "", o.topic + "-none"} {
		r := kmsg.NewPtrOffsetDeleteRequest()
		r.Group = name
		o.ask(fmt.Sprintf("%q, nothing", name), 0, r)
		for _, topic := range []string{o.topic, o.topic + "-missing", "", o.topic} {
			of := kmsg.NewOffsetDeleteRequestTopic()
			of.Topic = topic
			of.Partitions = []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}, {Partition: 0}}
			r.Topics = append(r.Topics, of)
		}
		o.ask(fmt.Sprintf("%q, topics twice", name), 0, r)
	}
	o.each(versions{0, 2, 0, 3}, func(version int16) {
		for _, names := range [][]string{nil, {""}, {o.topic + "-none"}, {o.topic + "-none", o.topic + "-none"}} {
			r := kmsg.NewPtrDeleteGroupsRequest()
			r.Groups = names
			o.ask(fmt.Sprintf("%q", names), version, r)
		}
	})
	r := kmsg.NewPtrDeleteGroupsRequest()
	r.Groups = []string{group, group}
	o.ask("a group twice", 2, r)
	o.ask("a group that was deleted", 2, r)
}
