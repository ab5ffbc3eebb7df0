package cases

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/raw"
)

var listNeighbours = []neighbour{
	{"offsets-by-segment", "3.9", segmentNeighbours},        // F3, v0
	{"offsets-after-trimming", "", trimmedOffsetNeighbours}, // F3, S3
	{"epoch-ends", "", epochEndNeighbours},                  // F3
}

func listRequest(topic string, partition int32, timestamp int64) *kmsg.ListOffsetsRequest {
	r := kmsg.NewPtrListOffsetsRequest()
	r.ReplicaID, r.TimeoutMillis = -1, 10_000
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp, p.MaxNumOffsets, p.CurrentLeaderEpoch = partition, timestamp, 10, -1
	r.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
	return r
}

// list asks in each version for the offset of a time.
func (k *talk) list(topic string, versions map[string][2]int16, timestamp int64) {
	k.t.Helper()
	for _, version := range k.versions(versions) {
		for _, isolation := range []int8{0, 1} {
			r := listRequest(topic, 0, timestamp)
			r.IsolationLevel = isolation
			k.ask(fmt.Sprint(topic, " at ", timestamp, ", isolation ", isolation), version, r)
			if version < 2 {
				break
			}
		}
	}
}

// segmentNeighbours: v0 answers as many offsets as are asked for.
func segmentNeighbours(k *talk) {
	empty, filled, missing := k.topic("empty", 1), k.topic("filled", 1, "segment.bytes", "100"), k.name("missing")
	for range 3 {
		mustProduce(k.t, k.c, filled, raw.NewBatch(now(), "v").Encode())
	}
	later := now() + 60_000
	k.call(later, "later")
	for _, topic := range []string{empty, filled, missing} {
		for _, at := range []int64{-1, -2, -3, 0, later} {
			for _, most := range []int32{-1, 0, 1, 2, 10} {
				r := listRequest(topic, 0, at)
				r.Topics[0].Partitions[0].MaxNumOffsets = most
				k.ask(fmt.Sprintf("%s at %d, at most %d", topic, at, most), 0, r)
			}
		}
	}
	twice := listRequest(filled, 0, -1)
	twice.Topics[0].Partitions = append(twice.Topics[0].Partitions, twice.Topics[0].Partitions[0])
	k.ask("a partition twice", 0, twice)
}

// trimmedOffsetNeighbours: what lies before the start of a log is not found, also where it is in a batch that is still there.
func trimmedOffsetNeighbours(k *talk) {
	topic := k.topic("topic", 1)
	b := raw.NewBatch(10, "a", "b", "c", "d").With(raw.Gzip)
	b.Records[1].Timestamp, b.Records[2].Timestamp, b.Records[3].Timestamp = 40, 20, 30
	mustProduce(k.t, k.c, topic, b.Encode())
	mustProduce(k.t, k.c, topic, raw.NewBatch(25, "e").Encode())
	for _, start := range []int64{1, 2, 4, 5} {
		trimmed := deleteRecords(k.t, k.c, topic, 0, start)
		k.say("trimmed to %d, %s", trimmed.LowWatermark, codeWord(trimmed.ErrorCode))
		for _, at := range []int64{-1, -2, -3, -4, 0, 15, 25, 35, 40, 41} {
			k.list(topic, both(7, 8, 7, 8), at)
		}
		k.dump(topic, start)
		k.dump(topic, start-1)
	}
}

// epochEndNeighbours: where leader epochs end.
func epochEndNeighbours(k *talk) {
	topic, empty := k.topic("topic", 1), k.topic("empty", 1)
	mustProduce(k.t, k.c, topic, raw.NewBatch(1000, "a", "b").Encode())
	for _, version := range k.versions(both(0, 4, 2, 4)) {
		for _, replica := range []int32{-1, -2} {
			for _, name := range []string{topic, empty} {
				for _, current := range []int32{-2, -1, 0, 3} {
					for _, epoch := range []int32{-1, 0, 5} {
						r := kmsg.NewPtrOffsetForLeaderEpochRequest()
						r.ReplicaID = replica
						r.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: name, Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{
							{Partition: 0, CurrentLeaderEpoch: current, LeaderEpoch: epoch}, {Partition: 7, CurrentLeaderEpoch: current, LeaderEpoch: epoch}}}}
						k.ask(fmt.Sprintf("%s, replica %d, current %d, epoch %d", name, replica, current, epoch), version, r)
					}
				}
			}
		}
	}
	r := kmsg.NewPtrOffsetForLeaderEpochRequest()
	r.ReplicaID = -1
	one := kmsg.OffsetForLeaderEpochRequestTopic{Topic: topic, Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{{Partition: 0, CurrentLeaderEpoch: -1}}}
	r.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{one, one}
	k.ask("a topic twice", 4, r)
	r.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{one}
	r.Topics[0].Partitions = append(r.Topics[0].Partitions, r.Topics[0].Partitions[0])
	k.ask("a partition twice", 4, r)
	r.Topics[0].Partitions = nil
	k.ask("no partition", 4, r)
}
