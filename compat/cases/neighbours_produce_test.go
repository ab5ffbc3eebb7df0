package cases

import (
	"fmt"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/raw"
)

var produceNeighbours = []neighbour{
	{"resent-batches", "", resentNeighbours},     // P1
	{"acks", "", acksNeighbours},                 // P2
	{"append-time", "", appendTimeNeighbours},    // P5
	{"time-limits", "", timeLimitNeighbours},     // P5
	{"recompressed", "", recompressedNeighbours}, // P5, F5
}

// produceVersions are those that a producer of each Kafka may use; 13 names topics by their ids.
var produceVersions = both(3, 11, 3, 13)

func (k *talk) produce(what string, version, acks int16, topic string, records []byte) {
	k.t.Helper()
	r := produceRequest(version, acks, topic, records)
	if version >= 13 {
		r.Topics[0].TopicID = k.topicID(topic)
	}
	k.ask(what, version, r)
}

// dump notes what is stored from an offset on.
func (k *talk) dump(topic string, offset int64) {
	k.t.Helper()
	p := fetchFrom(k.t, k.c, fetchVersion, topic, offset)
	k.say("%s from %d: %s, high watermark %d: %s", topic, offset, codeWord(p.ErrorCode), p.HighWatermark, k.batches(p.RecordBatches))
}

// resentNeighbours: whatever is asked for a second time is answered with what was answered at first, in each version.
func resentNeighbours(k *talk) {
	for _, kind := range []string{"CreateTime", "LogAppendTime"} {
		topic := k.topic(kind, 1, "message.timestamp.type", kind)
		pid := k.producer("producer to " + kind)
		three := raw.NewBatch(1000, "a", "b", "c").With(raw.Gzip).By(pid, 0, 0)
		three.Records[2].Timestamp = 3000
		one := raw.NewBatch(2000, "d").By(pid, 0, 3)
		k.produce("three", 9, -1, topic, three.Encode())
		k.produce("one", 9, 1, topic, one.Encode())
		for _, version := range k.versions(produceVersions) {
			k.produce("three again", version, -1, topic, three.Encode())
			k.produce("one again", version, 1, topic, one.Encode())
			k.produce("two of the three", version, -1, topic, raw.NewBatch(1000, "a", "b").By(pid, 0, 0).Encode())
			k.produce("a gap", version, -1, topic, raw.NewBatch(1000, "a").By(pid, 0, 9).Encode())
			k.produce("an old epoch", version, -1, topic, raw.NewBatch(1000, "a").By(pid, -1, 4).Encode())
		}
		k.produce("other words for the same", 9, -1, topic, raw.NewBatch(9000, "x").By(pid, 0, 3).Encode())
		k.produce("a new epoch with its first", 9, -1, topic, raw.NewBatch(1000, "e").By(pid, 1, 0).Encode())
		k.produce("the epoch before", 9, -1, topic, one.Encode())
		k.produce("a new epoch amid", 9, -1, topic, raw.NewBatch(1000, "f").By(pid, 2, 7).Encode())
		k.produce("no epoch has so many", 9, -1, topic, raw.NewBatch(1000, "f").By(pid, math.MaxInt16, 0).Encode())
		k.dump(topic, 0)
		trimmed := deleteRecords(k.t, k.c, topic, 0, 2)
		k.say("trimmed to %d, %s", trimmed.LowWatermark, codeWord(trimmed.ErrorCode))
		k.produce("with a log that begins at 2", 9, -1, topic, raw.NewBatch(1000, "f").By(pid, math.MaxInt16, 0).Encode())
	}
}

// acksNeighbours: only -1, 0 and 1 are asked for; each of a request's partitions is told so.
func acksNeighbours(k *talk) {
	topic, missing := k.topic("topic", 2), k.name("missing")
	one := raw.NewBatch(1000, "a").Encode()
	damaged := append([]byte(nil), one...)
	damaged[len(damaged)-1] ^= 1
	for _, version := range k.versions(produceVersions) {
		for _, acks := range []int16{-2, 2, math.MaxInt16, 1, -1} {
			k.produce(fmt.Sprint("acks ", acks), version, acks, topic, one)
		}
		if version < 13 {
			k.produce("acks 2, a missing topic", version, 2, missing, one)
			k.produce("acks 1, a missing topic", version, 1, missing, one)
		}
		k.produce("acks 2, damaged", version, 2, topic, damaged)
	}
	several := produceRequest(9, 2, topic, one)
	several.Topics[0].Partitions = append(several.Topics[0].Partitions, kmsg.ProduceRequestTopicPartition{Partition: 1, Records: one},
		kmsg.ProduceRequestTopicPartition{Partition: 7, Records: one})
	k.ask("acks 2, three partitions of which one is missing", 9, several)
	several.Acks = 1
	k.ask("acks 1, three partitions of which one is missing", 9, several)
	none := produceRequest(9, -1, topic, nil)
	none.Topics = nil
	k.ask("no topic", 9, none)
	none.Acks = 2
	k.ask("acks 2, no topic", 9, none)
}

// appendTimeNeighbours: the broker's time is written over, whatever the codec, and found again.
func appendTimeNeighbours(k *talk) {
	topic := k.topic("topic", 1, "message.timestamp.type", "LogAppendTime")
	for _, codec := range []int8{raw.None, raw.Gzip, raw.Snappy, raw.LZ4, raw.Zstd} {
		b := raw.NewBatch(1000, "a", "b", "c").With(codec)
		b.Records[1].Timestamp, b.Records[2].Timestamp = 5000, 3000
		k.produce(fmt.Sprint("codec ", codec), 9, -1, topic, b.Encode())
	}
	late := raw.NewBatch(k.began+time.Hour.Milliseconds()*24*365, "of next year")
	k.produce("of next year", 9, -1, topic, late.Encode())
	k.produce("of no time", 9, -1, topic, raw.NewBatch(-1, "a").Encode())
	marked := raw.NewBatch(1000, "a").With(raw.LZ4)
	marked.Attributes = 8
	for _, version := range k.versions(produceVersions) {
		k.produce("marked as of the broker's time", version, -1, topic, marked.Encode())
	}
	k.dump(topic, 0)
	for _, at := range []int64{0, 1, 5000} {
		k.list(topic, both(1, 9, 1, 11), at)
	}
	plain := k.topic("plain", 1)
	k.produce("marked, to a topic of the producer's time", 9, -1, plain, marked.Encode())
	k.dump(plain, 0)
}

// timeLimitNeighbours: records that are too early or too late are named, of any codec.
func timeLimitNeighbours(k *talk) {
	topic := k.topic("limited", 1, "message.timestamp.before.max.ms", "60000", "message.timestamp.after.max.ms", "60000")
	hour := time.Hour.Milliseconds()
	times := func(codec int8, at ...int64) []byte {
		b := raw.NewBatch(0).With(codec)
		for _, t := range at {
			b.Records = append(b.Records, raw.Record{Value: []byte("v"), Timestamp: t})
		}
		return b.Encode()
	}
	for _, codec := range []int8{raw.None, raw.LZ4} {
		for _, version := range k.versions(produceVersions) {
			k.produce("early", version, -1, topic, times(codec, now(), now()-hour))
		}
		k.produce("early, late, in time", 9, -1, topic, times(codec, now()-hour, now()+hour, now()))
		k.produce("all late", 9, -1, topic, times(codec, now()+hour, now()+hour))
		k.produce("of no time", 9, -1, topic, times(codec, -1))
		k.produce("before time", 9, -1, topic, times(codec, -5))
		k.produce("in time", 9, -1, topic, times(codec, now()))
	}
	k.dump(topic, 0)
	byAppend := k.topic("of the broker's time", 1, "message.timestamp.type", "LogAppendTime", "message.timestamp.before.max.ms", "60000")
	k.produce("early, where the broker's time is kept", 9, -1, byAppend, times(raw.LZ4, 1000))
	free := k.topic("free", 1)
	k.produce("two hours ahead", 9, -1, free, times(raw.None, now()+2*hour))
	k.produce("of no time", 9, -1, free, times(raw.None, -1))
	k.produce("before time", 9, -1, free, times(raw.None, -5))
	k.produce("as late as can be", 9, -1, free, times(raw.None, math.MaxInt64))
}

// recompressedNeighbours: a topic of a codec has what comes in another opened and closed again, and what comes in its own left as it is.
func recompressedNeighbours(k *talk) {
	for _, kept := range []string{"uncompressed", "gzip", "snappy", "lz4", "zstd"} {
		topic := k.topic("topic of "+kept, 1, "compression.type", kept)
		for _, codec := range []int8{raw.None, raw.Gzip, raw.Snappy, raw.LZ4, raw.Zstd} {
			b := raw.NewBatch(5000, "a", "b", "c").With(codec)
			b.Records[1].Timestamp, b.Records[2].Timestamp = 9000, 7000
			k.produce(fmt.Sprint("codec ", codec), 9, -1, topic, b.Encode())
		}
		pid := k.producer("producer to " + kept)
		k.produce("of a producer", 9, -1, topic, raw.NewBatch(1000, "d", "e").With(raw.LZ4).By(pid, 0, 0).Encode())
		k.produce("of a producer, again", 9, -1, topic, raw.NewBatch(1000, "d", "e").With(raw.LZ4).By(pid, 0, 0).Encode())
		k.dump(topic, 0)
		for _, version := range []int16{3, 6, 7} {
			k.produce("zstd", version, -1, topic, raw.NewBatch(1000, "z").With(raw.Zstd).Encode())
		}
		for _, version := range []int16{4, 9, 10} {
			p := fetchFrom(k.t, k.c, version, topic, 0)
			k.sayOf("Fetch", fmt.Sprint("v", version), "of %s: %s, high watermark %d, records %t", topic, codeWord(p.ErrorCode), p.HighWatermark, len(p.RecordBatches) > 0)
		}
	}
}
