package cases

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/raw"
)

var fetchNeighbours = []neighbour{
	{"one-big-batch", "", bigBatchNeighbours},      // F1
	{"big-batch-sessions", "", sessionNeighbours},  // F1
	{"old-fetches", "3.9", oldFetchNeighbours},     // F1, F5
	{"zstd-between", "3.9", mixedCodecsNeighbours}, // F5
	{"inside-a-batch", "", insideNeighbours},       // S3, F1
}

// sizes tells of a fetch's answer how much of which partition it holds, in terms of the batches that were sent.
func (k *talk) sizes(what string, version int16, r *kmsg.FetchRequest) *kmsg.FetchResponse {
	k.t.Helper()
	r.SetVersion(version)
	answer := raw.Do[*kmsg.FetchResponse](k.c, r)
	var words []string
	for _, topic := range answer.Topics {
		for _, p := range topic.Partitions {
			entries, left, err := raw.Entries(p.RecordBatches)
			if err != nil {
				k.t.Fatal(err)
			}
			var offsets []string
			for _, e := range entries {
				offsets = append(offsets, fmt.Sprint(e.BaseOffset))
			}
			words = append(words, fmt.Sprintf("%s%d %s, high watermark %d, batches [%s] and %d bytes", topic.Topic, p.Partition, codeWord(p.ErrorCode),
				p.HighWatermark, strings.Join(offsets, " "), len(left)))
		}
	}
	k.sayOf("Fetch", fmt.Sprint("v", version), "%s: %s; %s", what, codeWord(answer.ErrorCode), strings.Join(words, "; "))
	return answer
}

// bigAndSmall makes a topic whose partition 0 begins with a large batch; 1 has small ones and 2 nothing.
func (k *talk) bigAndSmall() string {
	k.t.Helper()
	topic := k.topic("topic", 3)
	put := func(partition int32, value string) {
		r := produceRequest(produceVersion, -1, topic, raw.NewBatch(1000, value).Encode())
		r.Topics[0].Partitions[0].Partition = partition
		wantCode(k.t, "produce", partition0(k.t, raw.Do[*kmsg.ProduceResponse](k.c, r)).ErrorCode, nil)
	}
	put(0, strings.Repeat("x", 600_000))
	for range 3 {
		put(0, "small")
		put(1, "small")
	}
	return topic
}

// fetchVersions are those that get batches as they are stored, before topics are named by their ids.
var fetchVersions = both(4, 12, 4, 12)

func bigBatchNeighbours(k *talk) {
	topic := k.bigAndSmall()
	for _, version := range k.versions(fetchVersions) {
		for _, order := range [][]at{{{0, 0}, {1, 0}, {2, 0}}, {{1, 0}, {0, 0}}, {{2, 0}, {1, 3}, {0, 0}, {1, 0}}, {{1, 9}, {0, 0}}, {{7, 0}, {0, 0}, {1, 0}}} {
			for _, most := range [][2]int32{{1, 1}, {1, 1 << 20}, {1 << 20, 1}, {100, 73}, {700_000, 700_000}, {0, 0}, {-1, -1}} {
				k.sizes(fmt.Sprintf("%v, at most %d and %d", order, most[0], most[1]), version, fetchRequest(version, topic, most[0], most[1], order...))
			}
		}
	}
	for _, version := range k.versions(both(13, 17, 13, 17)) {
		r := fetchRequest(version, topic, 1, 1, at{0, 0}, at{1, 0})
		r.Topics[0].TopicID = k.topicID(topic)
		k.sizes("by id", version, r)
	}
}

// sessionNeighbours: in a session whoever was answered goes to the end, so that everybody has a turn.
func sessionNeighbours(k *talk) {
	topic := k.bigAndSmall()
	for _, version := range k.versions(both(7, 12, 7, 12)) {
		open := fetchRequest(version, topic, 1, 1, at{0, 0}, at{1, 0}, at{2, 0})
		open.SessionEpoch = 0
		answer := k.sizes("the session's first", version, open)
		next := [3]int64{1, 0, 0}
		for epoch := range int32(7) {
			r := fetchRequest(version, topic, 1, 1)
			r.SessionID, r.SessionEpoch, r.MaxWaitMillis = answer.SessionID, epoch+1, 100
			r.Topics[0].Partitions = nil
			for partition, offset := range next {
				p := kmsg.NewFetchRequestTopicPartition()
				p.Partition, p.FetchOffset, p.PartitionMaxBytes = int32(partition), offset, 1
				if epoch%3 == 2 {
					r.Topics[0].Partitions = append(r.Topics[0].Partitions, p)
				}
			}
			if epoch%3 != 2 {
				r.Topics = nil
			}
			got := k.sizes(fmt.Sprint("the session's next, ", next), version, r)
			for _, topic := range got.Topics {
				for _, p := range topic.Partitions {
					if entries, _, err := raw.Entries(p.RecordBatches); err == nil && len(entries) > 0 && epoch%3 == 1 {
						next[p.Partition] = entries[len(entries)-1].LastOffset + 1
					}
				}
			}
		}
		r := fetchRequest(version, topic, 1, 1)
		r.SessionID, r.SessionEpoch, r.Topics = answer.SessionID, 99, nil
		k.sizes("an epoch to come", version, r)
		r.SessionID = 1
		k.sizes("another's session", version, r)
	}
}

// oldFetchNeighbours: up to v2 every limit is hard, for each partition of a request.
func oldFetchNeighbours(k *talk) {
	topic := k.bigAndSmall()
	for _, version := range []int16{0, 1, 2} {
		for _, order := range [][]at{{{0, 0}, {1, 0}}, {{1, 0}, {0, 0}}, {{2, 0}, {0, 0}}, {{7, 0}, {1, 1}}} {
			for _, most := range []int32{0, 1, 100, 5000, 700_000} {
				answer := raw.Do[*kmsg.FetchResponse](k.c, fetchRequest(version, topic, 0, most, order...))
				for _, p := range answer.Topics[0].Partitions {
					entries, _, err := raw.Entries(p.RecordBatches)
					if err != nil {
						k.t.Fatal(err)
					}
					messages := 0
					for _, e := range entries {
						if e.BaseOffset >= 0 && e.ValidCRC {
							messages++
						}
					}
					k.sayOf("Fetch", fmt.Sprint("v", version), "%v, at most %d: partition %d %s, high watermark %d, %d messages", order, most, p.Partition, codeWord(p.ErrorCode),
						p.HighWatermark, messages)
				}
			}
		}
	}
}

// mixedCodecsNeighbours: old consumers get what comes before the first batch of zstd.
func mixedCodecsNeighbours(k *talk) {
	topic := k.topic("topic", 1)
	for _, codec := range []int8{raw.Gzip, raw.None, raw.Zstd, raw.LZ4} {
		mustProduce(k.t, k.c, topic, raw.NewBatch(1000, "a", "b").With(codec).Encode())
	}
	for version := range int16(4) {
		for offset := range int64(8) {
			p := fetchFrom(k.t, k.c, version, topic, offset)
			entries, _, err := raw.Entries(p.RecordBatches)
			if err != nil {
				k.t.Fatal(err)
			}
			first := "nothing"
			if len(entries) > 0 && entries[0].BaseOffset >= 0 {
				first = fmt.Sprintf("%d of codec %d", entries[0].BaseOffset, entries[0].Codec())
			}
			k.sayOf("Fetch", fmt.Sprint("v", version), "at %d: %s, high watermark %d, first is %s", offset, codeWord(p.ErrorCode), p.HighWatermark, first)
		}
	}
}

// insideNeighbours: offsets within batches, at the end, behind it and before the start.
func insideNeighbours(k *talk) {
	topic := k.topic("topic", 1)
	for range 2 {
		mustProduce(k.t, k.c, topic, raw.NewBatch(1000, "a", "b", "c").With(raw.LZ4).Encode())
	}
	trimmed := deleteRecords(k.t, k.c, topic, 0, 1)
	k.say("trimmed to %d, %s", trimmed.LowWatermark, codeWord(trimmed.ErrorCode))
	for _, version := range k.versions(fetchVersions) {
		for _, offset := range []int64{-1, 0, 1, 2, 5, 6, 7} {
			for _, isolation := range []int8{0, 1} {
				r := fetchRequest(version, topic, 1<<20, 1<<20, at{0, offset})
				r.IsolationLevel, r.MinBytes = isolation, 0
				k.ask(fmt.Sprint("at ", offset, ", isolation ", isolation), version, r)
			}
		}
	}
	for _, epoch := range []int32{-2, -1, 0, 1, 5} {
		r := fetchRequest(12, topic, 1<<20, 1<<20, at{0, 1})
		r.Topics[0].Partitions[0].CurrentLeaderEpoch = epoch
		k.ask(fmt.Sprint("leader epoch ", epoch), 12, r)
		r = fetchRequest(12, topic, 1<<20, 1<<20, at{0, 1})
		r.Topics[0].Partitions[0].LastFetchedEpoch = epoch
		k.ask(fmt.Sprint("last epoch ", epoch), 12, r)
	}
}
