package cases

import (
	"fmt"
	"math"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/compat/raw"
)

// topics creates, grows and deletes topics.
func (o *odd) topics() {
	o.created()
	o.createdTwice()
	o.grown()
	o.deleted()
}

// assigned is an assignment of partitions in their order.
func assigned(replicas ...[]int32) (all []kmsg.CreateTopicsRequestTopicReplicaAssignment) {
	for i, r := range replicas {
		all = append(all, kmsg.CreateTopicsRequestTopicReplicaAssignment{Partition: int32(i), Replicas: r})
	}
	return all
}

// created asks for topics, never really.
func (o *odd) created() {
	type wish struct {
		what       string
		name       string
		partitions int32
		replicas   int16
		assignment []kmsg.CreateTopicsRequestTopicReplicaAssignment
		configs    []string
	}
	self, fresh := o.node, o.topic+"-new"
	apart := assigned([]int32{self}, []int32{self})
	apart[1].Partition = 5
	negative := assigned([]int32{self})
	negative[0].Partition = -1
	for _, w := range []wish{
		{"as it should be", fresh, 1, 1, nil, nil},
		{"defaults", fresh, -1, -1, nil, nil},
		{"no partitions", fresh, 0, 1, nil, nil},
		{"fewer than none", fresh, -2, 1, nil, nil},
		{"too many partitions", fresh, 10_001, 1, nil, nil},
		{"no replicas", fresh, 1, 0, nil, nil},
		{"fewer replicas than none", fresh, 1, -2, nil, nil},
		{"too many replicas", fresh, 1, 9, nil, nil},
		{"no name", "", 1, 1, nil, nil},
		{"a bad name", "a/b", 1, 1, nil, nil},
		{"a dot", ".", 1, 1, nil, nil},
		{"a long name", strings.Repeat("x", 250), 1, 1, nil, nil},
		{"an internal name", "__consumer_offsets_x", 1, 1, nil, nil},
		{"a name that is there", o.topic, 1, 1, nil, nil},
		{"a name that is there, badly", o.topic, 0, 0, nil, nil},
		{"a name that collides", strings.ReplaceAll(o.topic, ".", "_"), 1, 1, nil, nil},
		{"an assignment", fresh, -1, -1, assigned([]int32{self}), nil},
		{"an assignment and a number", fresh, 1, -1, assigned([]int32{self}), nil},
		{"an assignment and replicas", fresh, -1, 1, assigned([]int32{self}), nil},
		{"an assignment to a stranger", fresh, -1, -1, assigned([]int32{99}), nil},
		{"an assignment to no id", fresh, -1, -1, assigned([]int32{-1}), nil},
		{"an assignment twice to one", fresh, -1, -1, assigned([]int32{self, self}), nil},
		{"an assignment of other sizes", fresh, -1, -1, assigned([]int32{self}, []int32{self, 99}), nil},
		{"an assignment with gaps", fresh, -1, -1, apart, nil},
		{"an assignment of -1", fresh, -1, -1, negative, nil},
		{"a config", fresh, 1, 1, nil, []string{"retention.ms", "5"}},
		{"a bad config", fresh, 1, 1, nil, []string{"retention.ms", "x"}},
		{"an unknown config", fresh, 1, 1, nil, []string{"no.such.key", "5"}},
		{"a config of brokers", fresh, 1, 1, nil, []string{"log.retention.ms", "5"}},
		{"a config without a value", fresh, 1, 1, nil, []string{"retention.ms", "-"}},
		{"an empty config", fresh, 1, 1, nil, []string{"retention.ms", ""}},
		{"a config twice", fresh, 1, 1, nil, []string{"retention.ms", "5", "retention.ms", "6"}},
		{"a bad config of a topic that is there", o.topic, 1, 1, nil, []string{"retention.ms", "x"}},
		{"a bad config and no partitions", fresh, 0, 1, nil, []string{"retention.ms", "x"}},
		{"a bad name and no partitions", "a/b", 0, 1, nil, nil},
		{"a throttle", fresh, 1, 1, nil, []string{"leader.replication.throttled.replicas", "x"}},
		{"remote storage", fresh, 1, 1, nil, []string{"remote.storage.enable", "true"}},
	} {
		of := kmsg.NewCreateTopicsRequestTopic()
		of.Topic, of.NumPartitions, of.ReplicationFactor, of.ReplicaAssignment = w.name, w.partitions, w.replicas, w.assignment
		for i := 0; i < len(w.configs); i += 2 {
			of.Configs = append(of.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: w.configs[i], Value: orNull(w.configs[i+1])})
		}
		o.create(w.what, of)
	}
	if o.s.Kind == harness.Kafka39 {
		return // which would create a topic with nobody's partitions
	}
	of := kmsg.NewCreateTopicsRequestTopic()
	of.Topic, of.NumPartitions, of.ReplicationFactor = fresh, -1, -1
	of.ReplicaAssignment = assigned([]int32{})
	o.create("an assignment to nobody", of)
	of.ReplicaAssignment = assigned([]int32{self}, []int32{self})
	of.ReplicaAssignment[1].Partition = 0
	o.create("an assignment of one twice", of)
}

func (o *odd) create(what string, of kmsg.CreateTopicsRequestTopic) {
	r := kmsg.NewPtrCreateTopicsRequest()
	r.ValidateOnly, r.TimeoutMillis, r.Topics = true, 30_000, []kmsg.CreateTopicsRequestTopic{of}
	o.ask(what, 4, r)
}

// createdTwice asks for topics more than once.
func (o *odd) createdTwice() {
	o.each(versions{2, 7, 2, 7}, func(version int16) {
		of := kmsg.NewCreateTopicsRequestTopic()
		of.Topic, of.NumPartitions, of.ReplicationFactor = o.topic+"-new", 1, 1
		r := kmsg.NewPtrCreateTopicsRequest()
		r.ValidateOnly, r.TimeoutMillis, r.Topics = true, 30_000, []kmsg.CreateTopicsRequestTopic{of, of}
		o.ask("a topic twice", version, r)
		bad := of
		bad.Topic, bad.NumPartitions = "a/b", 0
		r.Topics = []kmsg.CreateTopicsRequestTopic{of, bad, bad, of}
		o.ask("topics twice", version, r)
		r.Topics = nil
		o.ask("nothing", version, r)
	})
}

// grown asks for more partitions.
func (o *odd) grown() {
	to := func(replicas ...[]int32) (all []kmsg.CreatePartitionsRequestTopicAssignment) {
		for _, r := range replicas {
			all = append(all, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: r})
		}
		return all
	}
	grow := func(what, name string, count int32, assignment []kmsg.CreatePartitionsRequestTopicAssignment) {
		of := kmsg.NewCreatePartitionsRequestTopic()
		of.Topic, of.Count, of.Assignment = name, count, assignment
		r := kmsg.NewPtrCreatePartitionsRequest()
		r.ValidateOnly, r.TimeoutMillis, r.Topics = true, 30_000, []kmsg.CreatePartitionsRequestTopic{of}
		o.ask(what, 3, r)
	}
	self := []int32{o.node}
	counts := []int32{1, 2, 3, 10_003}
	if o.s.Kind != harness.Kafka39 { // which does not answer
		counts = append(counts, math.MinInt32, -1, 0)
	}
	for _, count := range counts {
		grow(fmt.Sprint("to ", count), o.topic, count, nil)
	}
	for _, name := range []string{"", "a/b", o.topic + "-missing"} {
		grow(fmt.Sprintf("of %q", name), name, 3, nil)
		grow(fmt.Sprintf("of %q to nothing", name), name, 0, nil)
	}
	grow("to a broker", o.topic, 3, to(self))
	grow("to too many", o.topic, 3, to(self, self))
	grow("to too few", o.topic, 4, to(self))
	grow("to none", o.topic, 3, to())
	grow("to an empty list", o.topic, 3, []kmsg.CreatePartitionsRequestTopicAssignment{})
	grow("to nobody", o.topic, 3, to([]int32{}))
	grow("to a stranger", o.topic, 3, to([]int32{99}))
	grow("to -1", o.topic, 3, to([]int32{-1}))
	grow("twice to one", o.topic, 3, to([]int32{o.node, o.node}))
	grow("to different sizes", o.topic, 4, to(self, []int32{o.node, 99}))
	grow("not at all, with an assignment", o.topic, 2, to(self))
	r := kmsg.NewPtrCreatePartitionsRequest()
	o.each(versions{0, 3, 0, 3}, func(version int16) { o.ask("nothing", version, r) })
}

// deleted deletes topics by name and by id.
func (o *odd) deleted() {
	harness.CreateTopic(o.t, o.s.Broker, o.topic+"-doomed", 1)
	o.each(versions{1, 5, 1, 5}, func(version int16) {
		for _, names := range [][]string{nil, {""}, {"a/b"}, {o.topic + "-missing"}, {o.topic + "-missing", o.topic + "-missing"}} {
			r := kmsg.NewPtrDeleteTopicsRequest()
			r.TimeoutMillis, r.TopicNames = 30_000, names
			o.ask(fmt.Sprintf("%q", names), version, r)
		}
	})
	id := o.id()
	o.each(versions{6, 6, 6, 6}, func(version int16) {
		remove := func(what string, topics ...kmsg.DeleteTopicsRequestTopic) {
			r := kmsg.NewPtrDeleteTopicsRequest()
			r.TimeoutMillis, r.Topics = 30_000, topics
			o.ask(what, version, r)
		}
		named := func(name string) kmsg.DeleteTopicsRequestTopic { return kmsg.DeleteTopicsRequestTopic{Topic: &name} }
		remove("nothing")
		remove("a name and an id", kmsg.DeleteTopicsRequestTopic{Topic: &o.topic, TopicID: id})
		if o.s.Kind != harness.Kafka39 { // which deletes it
			remove("no name and no id", kmsg.DeleteTopicsRequestTopic{})
			remove("a name and its id", kmsg.DeleteTopicsRequestTopic{TopicID: id}, named(o.topic))
			remove("a name twice", named(o.topic), named(o.topic))
			remove("an id twice", kmsg.DeleteTopicsRequestTopic{TopicID: id}, kmsg.DeleteTopicsRequestTopic{TopicID: id})
		}
		remove("a missing name twice", named(o.topic+"-missing"), named(o.topic+"-missing"))
		remove("an id of nothing", kmsg.DeleteTopicsRequestTopic{TopicID: [16]byte{9}})
		remove("an id of nothing twice", kmsg.DeleteTopicsRequestTopic{TopicID: [16]byte{9}}, kmsg.DeleteTopicsRequestTopic{TopicID: [16]byte{9}})
		remove("a reserved id", kmsg.DeleteTopicsRequestTopic{TopicID: [16]byte{15: 1}})
		remove("an empty name", named(""))
		remove("a bad name", named("a/b"))
		remove("one that is there and one that is not", named(o.topic+"-doomed"), named(o.topic+"-missing"))
	})
	o.each(versions{9, 12, 9, 13}, func(version int16) { o.looked(version, id) })
}

// looked asks for the metadata of topics that there are and are not.
func (o *odd) looked(version int16, id [16]byte) {
	look := func(what string, topics ...kmsg.MetadataRequestTopic) {
		r := kmsg.NewPtrMetadataRequest()
		r.Topics = topics
		r.SetVersion(version)
		answer := raw.Do[*kmsg.MetadataResponse](o.c, r)
		answer.Brokers, answer.ClusterID, answer.ControllerID = nil, nil, -1
		o.note(what, r, answer)
	}
	named := func(name string) kmsg.MetadataRequestTopic { return kmsg.MetadataRequestTopic{Topic: &name} }
	look("none", []kmsg.MetadataRequestTopic{}...)
	look("a topic twice", named(o.topic), named(o.topic))
	look("a missing topic twice", named(o.topic+"-missing"), named(o.topic+"-missing"))
	look("a bad name", named("a/b"), named(""))
	if version >= 12 {
		look("an id", kmsg.MetadataRequestTopic{TopicID: id})
		look("an id twice", kmsg.MetadataRequestTopic{TopicID: id}, kmsg.MetadataRequestTopic{TopicID: id})
		look("an id and a name", kmsg.MetadataRequestTopic{TopicID: id}, named(o.topic))
		look("an id with a name", kmsg.MetadataRequestTopic{TopicID: id, Topic: &o.topic})
		look("an id with another name", kmsg.MetadataRequestTopic{TopicID: id, Topic: ptr("x")})
		look("an id of nothing", kmsg.MetadataRequestTopic{TopicID: [16]byte{9}})
	}
}
