package cases

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// moves moves replicas and leaders.
func (o *odd) moves() {
	o.elected()
	o.reassigned()
	o.listedMoves()
	o.directories()
}

// elected elects leaders where there is nothing to elect.
func (o *odd) elected() {
	elect := func(version int16, what string, kind int8, topics ...kmsg.ElectLeadersRequestTopic) {
		r := kmsg.NewPtrElectLeadersRequest()
		r.TimeoutMillis, r.ElectionType, r.Topics = 10_000, kind, topics
		o.ask(fmt.Sprint(what, ", type ", kind), version, r)
	}
	of := func(name string, partitions ...int32) kmsg.ElectLeadersRequestTopic {
		return kmsg.ElectLeadersRequestTopic{Topic: name, Partitions: partitions}
	}
	o.each(versions{0, 2, 0, 2}, func(version int16) {
		for _, kind := range []int8{0, 1, 2, -1} {
			if version == 0 && kind != 0 {
				continue
			}
			elect(version, "a partition", kind, of(o.topic, 0))
			elect(version, "a partition twice", kind, of(o.topic, 0, 0))
			elect(version, "a topic twice", kind, of(o.topic, 0), of(o.topic, 1))
			elect(version, "no such partition", kind, of(o.topic, 9, -1))
			elect(version, "no partition", kind, of(o.topic))
			elect(version, "missing topics", kind, of(o.topic+"-missing", 0), of("", 0), of("a/b", 0))
			r := kmsg.NewPtrElectLeadersRequest()
			r.TimeoutMillis, r.ElectionType, r.Topics = 10_000, kind, []kmsg.ElectLeadersRequestTopic{}
			o.ask(fmt.Sprint("nothing, type ", kind), version, r)
		}
	})
	for _, kind := range []int8{2, -1} {
		r := kmsg.NewPtrElectLeadersRequest()
		r.TimeoutMillis, r.ElectionType = 10_000, kind
		o.ask(fmt.Sprint("everything, type ", kind), 2, r)
	}
}

// reassigned moves replicas to where they cannot be, and where they are.
func (o *odd) reassigned() {
	move := func(version int16, what, topic string, partition int32, replicas []int32) {
		r := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		r.TimeoutMillis = 10_000
		of := kmsg.NewAlterPartitionAssignmentsRequestTopic()
		of.Topic = topic
		of.Partitions = []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Partition: partition, Replicas: replicas}}
		r.Topics = append(r.Topics, of)
		o.ask(what, version, r)
	}
	self := o.node
	o.each(versions{0, 0, 0, 1}, func(version int16) {
		move(version, "where it is", o.topic, 0, []int32{self})
		move(version, "to nobody", o.topic, 0, []int32{})
		move(version, "to a stranger", o.topic, 0, []int32{99})
		move(version, "to -1", o.topic, 0, []int32{-1})
		move(version, "twice to one", o.topic, 0, []int32{self, self})
		move(version, "to one more, a stranger", o.topic, 0, []int32{self, 99})
		move(version, "a cancellation of nothing", o.topic, 0, nil)
		move(version, "no such partition", o.topic, 9, []int32{self})
		move(version, "no such partition to nobody", o.topic, 9, []int32{})
		move(version, "a cancellation of no such partition", o.topic, -1, nil)
		for _, name := range []string{"", "a/b", o.topic + "-missing"} {
			move(version, fmt.Sprintf("of %q", name), name, 0, []int32{self})
			move(version, fmt.Sprintf("of %q, a cancellation", name), name, 0, nil)
		}
		r := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		r.TimeoutMillis = 10_000
		o.ask("nothing", version, r)
		of := kmsg.NewAlterPartitionAssignmentsRequestTopic()
		of.Topic = o.topic
		r.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{of}
		o.ask("no partitions", version, r)
		of.Partitions = []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Replicas: []int32{self}}, {Replicas: []int32{99}}}
		r.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{of}
		o.ask("a partition twice", version, r)
		of.Partitions = of.Partitions[:1]
		r.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{of, of}
		o.ask("a topic twice", version, r)
	})
}

// listedMoves asks what moves.
func (o *odd) listedMoves() {
	of := func(name string, partitions ...int32) kmsg.ListPartitionReassignmentsRequestTopic {
		return kmsg.ListPartitionReassignmentsRequestTopic{Topic: name, Partitions: partitions}
	}
	for _, topics := range [][]kmsg.ListPartitionReassignmentsRequestTopic{
		nil, {}, {of(o.topic, 0, 0, 9, -1)}, {of(o.topic)}, {of(o.topic+"-missing", 0)}, {of("", 0), of("a/b", 0)},
	} {
		r := kmsg.NewPtrListPartitionReassignmentsRequest()
		r.TimeoutMillis, r.Topics = 10_000, topics
		o.ask(fmt.Sprintf("%d topics, null %v", len(topics), topics == nil), 0, r)
	}
}

// directories asks where partitions lie.
func (o *odd) directories() {
	o.each(versions{1, 4, 1, 5}, func(version int16) {
		describe := func(what string, topics ...kmsg.DescribeLogDirsRequestTopic) {
			r := kmsg.NewPtrDescribeLogDirsRequest()
			r.Topics = topics
			o.ask(what, version, r)
		}
		of := func(name string, partitions ...int32) kmsg.DescribeLogDirsRequestTopic {
			return kmsg.DescribeLogDirsRequestTopic{Topic: name, Partitions: partitions}
		}
		describe("no topics", []kmsg.DescribeLogDirsRequestTopic{}...)
		describe("a topic twice", of(o.topic, 0, 0), of(o.topic, 0, 9))
		describe("no partitions", of(o.topic))
		describe("missing topics", of(o.topic+"-missing", 0), of("", 0))
	})
}
