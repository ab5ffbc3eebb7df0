package cases

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/raw"
)

// offsetsAt asks for offsets of partitions of the topic by the same timestamp.
func (o *odd) offsetsAt(what string, version int16, isolation int8, replica int32, timestamp int64, partitions ...int32) {
	o.t.Helper()
	of := kmsg.NewListOffsetsRequestTopic()
	of.Topic = o.topic
	for _, p := range partitions {
		asked := kmsg.NewListOffsetsRequestTopicPartition()
		asked.Partition, asked.Timestamp, asked.MaxNumOffsets = p, timestamp, 5
		of.Partitions = append(of.Partitions, asked)
	}
	r := kmsg.NewPtrListOffsetsRequest()
	r.ReplicaID, r.IsolationLevel, r.TimeoutMillis = replica, isolation, 10_000
	r.Topics = []kmsg.ListOffsetsRequestTopic{of}
	o.ask(fmt.Sprintf("%s, timestamp %d, partitions %v", what, timestamp, partitions), version, r)
}

// offsets asks for offsets in every version.
func (o *odd) offsets() {
	mustProduce(o.t, o.c, o.topic, raw.NewBatch(1000, "a", "b").Encode())
	mustProduce(o.t, o.c, o.topic, raw.NewBatch(3000, "c").Encode())
	mustProduce(o.t, o.c, o.topic, raw.NewBatch(2000, "d").Encode())
	o.each(versions{0, 9, 1, 11}, func(version int16) {
		for _, timestamp := range []int64{-1, -2, -3, -4, -5, -6, -7, -100, 0, 1000, 1001, 2500, 3000, 3001, 1 << 62} {
			o.offsetsAt("each", version, 0, -1, timestamp, 0, 1)
		}
		o.offsetsAt("a partition twice", version, 0, -1, -1, 0, 0, 1)
		o.offsetsAt("no such partition", version, 0, -1, -1, 9, -1)
		o.offsetsAt("no such partition", version, 0, -1, -3, 9)
		o.offsetsAt("no such partition twice", version, 0, -1, -7, 9, 9)
		o.offsetsAt("no partitions", version, 0, -1, -1)
		for _, isolation := range []int8{1, 2, -1} {
			o.offsetsAt(fmt.Sprint("isolation ", isolation), version, isolation, -1, -1, 0)
			o.offsetsAt(fmt.Sprint("isolation ", isolation), version, isolation, -1, -7, 0)
			o.offsetsAt(fmt.Sprint("isolation ", isolation), version, isolation, -1, -3, 0)
			o.offsetsAt(fmt.Sprint("isolation ", isolation), version, isolation, -1, 2500, 0)
		}
		o.offsetsAt("the debugging replica", version, 0, -2, -1, 0)
		o.offsetsAt("the debugging replica", version, 0, -2, 2500, 0)
		o.offsetsAt("the future replica", version, 0, -3, -1, 0)
		o.offsetsAt("replica 5", version, 0, 5, -1, 0)
		o.offsetsAt("replica -7", version, 0, -7, -1, 0)
		for _, epoch := range []int32{-2, 0, 7} {
			r := kmsg.NewPtrListOffsetsRequest()
			of := kmsg.NewListOffsetsRequestTopic()
			of.Topic = o.topic
			p := kmsg.NewListOffsetsRequestTopicPartition()
			p.Timestamp, p.CurrentLeaderEpoch, p.MaxNumOffsets = -1, epoch, 0
			of.Partitions = append(of.Partitions, p)
			r.Topics = append(r.Topics, of)
			o.ask(fmt.Sprint("leader epoch ", epoch), version, r)
		}
		r := kmsg.NewPtrListOffsetsRequest()
		o.ask("nothing", version, r)
		of := kmsg.NewListOffsetsRequestTopic()
		of.Partitions = []kmsg.ListOffsetsRequestTopicPartition{{Timestamp: -1}}
		for _, name := range []string{"", "a/b", o.topic + "-missing"} {
			of.Topic = name
			r.Topics = append(r.Topics, of)
		}
		o.ask("topics that there are not", version, r)
	})
	o.epochs()
	o.producers()
	o.trims()
}

// epochs asks where epochs end.
func (o *odd) epochs() {
	o.each(versions{0, 4, 2, 4}, func(version int16) {
		r := kmsg.NewPtrOffsetForLeaderEpochRequest()
		r.ReplicaID = -1
		of := kmsg.NewOffsetForLeaderEpochRequestTopic()
		of.Topic = o.topic
		for _, epochs := range [][3]int32{{0, -1, 0}, {0, -1, -1}, {0, -1, 5}, {0, 0, 0}, {0, 7, 0}, {9, -1, 0}, {1, -1, 0}, {0, -1, -7}} {
			p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			p.Partition, p.CurrentLeaderEpoch, p.LeaderEpoch = epochs[0], epochs[1], epochs[2]
			of.Partitions = []kmsg.OffsetForLeaderEpochRequestTopicPartition{p}
			r.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{of}
			o.ask(fmt.Sprint("partition, current epoch, epoch ", epochs), version, r)
		}
		of.Topic = o.topic + "-missing"
		r.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{of, of}
		o.ask("a missing topic twice", version, r)
		r.Topics = nil
		o.ask("nothing", version, r)
	})
}

// producers asks who has written.
func (o *odd) producers() {
	for _, names := range [][]string{{o.topic}, {o.topic, o.topic}, {o.topic + "-missing"}, {""}, {"a/b"}, nil} {
		r := kmsg.NewPtrDescribeProducersRequest()
		for _, name := range names {
			r.Topics = append(r.Topics, kmsg.DescribeProducersRequestTopic{Topic: name, Partitions: []int32{0, 0, 9, -1}})
		}
		o.ask(fmt.Sprintf("%q", names), 0, r)
	}
}

// trims deletes records that are there and that are not.
func (o *odd) trims() {
	o.each(versions{0, 2, 0, 2}, func(version int16) {
		for _, offset := range []int64{-1, -2, 0, 1, 99} {
			r := kmsg.NewPtrDeleteRecordsRequest()
			r.TimeoutMillis = 30_000
			for _, name := range []string{o.topic, o.topic + "-missing", "", "a/b"} {
				of := kmsg.NewDeleteRecordsRequestTopic()
				of.Topic = name
				for _, p := range []int32{1, 9, -1} {
					of.Partitions = append(of.Partitions, kmsg.DeleteRecordsRequestTopicPartition{Partition: p, Offset: offset})
				}
				r.Topics = append(r.Topics, of)
			}
			o.ask(fmt.Sprint("offset ", offset), version, r)
		}
		o.ask("nothing", version, kmsg.NewPtrDeleteRecordsRequest())
	})
	ready(o.t, o.c, o.topic) // and with it the topic of offsets
	r := kmsg.NewPtrDeleteRecordsRequest()
	of := kmsg.NewDeleteRecordsRequestTopic()
	of.Topic, of.Partitions = o.topic, []kmsg.DeleteRecordsRequestTopicPartition{{Offset: 2}}
	r.Topics = append(r.Topics, of)
	o.ask("no timeout", 2, r)
	r.Topics[0].Partitions[0].Offset = 1
	o.ask("an offset before the start", 2, r)
	r.Topics[0].Topic = "__consumer_offsets"
	o.ask("an internal topic", 2, r)
}
