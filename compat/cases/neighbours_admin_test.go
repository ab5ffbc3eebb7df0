package cases

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/raw"
)

var adminNeighbours = []neighbour{
	{"metadata-creates", "", metadataNeighbours},     // A3
	{"nothing-else-creates", "", creationNeighbours}, // A3
	{"trimming", "", trimNeighbours},                 // S3
	{"versions-of-the-future", "", futureNeighbours}, // N1
	{"old-metadata", "3.9", oldMetadataNeighbours},   // A3
}

// metadataNeighbours: which names are created when they are asked for, and what is said of them then.
func metadataNeighbours(k *talk) {
	known := k.topic("known.topic", 1)
	ask := func(version int16, create bool, topics ...string) {
		k.t.Helper()
		said := metadata(k.t, k.c, version, create, topics)
		var words []string
		for _, t := range said {
			word := "null"
			if t.Topic != nil {
				word = *t.Topic
			}
			words = append(words, fmt.Sprintf("%s %s internal %t, %d partitions", word, codeWord(t.ErrorCode), t.IsInternal, len(t.Partitions)))
		}
		what := strings.Join(topics, ", ")
		if len(what) > 200 {
			what = "a long name"
		}
		k.sayOf("Metadata", fmt.Sprint("v", version), "of %q, create %t: %s", what, create, strings.ReplaceAll(strings.Join(words, "; "), strings.Repeat("n", 250), "a long name"))
	}
	for _, version := range k.versions(both(4, 12, 4, 13)) {
		missing := k.name("missing")
		ask(version, false, missing)
		ask(version, false, missing, known, missing)
		for _, bad := range []string{"", ".", "..", "a b", "a/b", strings.Repeat("n", 250), "ü"} {
			ask(version, true, bad)
			ask(version, false, bad)
		}
		if alike := strings.ReplaceAll(known, ".", "_"); standard(k.s) == "3.9" { // 4.4 leaves that to its controller, and says nothing
			k.call(alike, "known_topic")
			ask(version, true, alike)
		}
		ask(version, true, "a b", known)
	}
	for _, version := range k.versions(both(10, 12, 10, 13)) {
		for _, create := range []bool{true, false} {
			r := raw.With(kmsg.NewPtrMetadataRequest(), version)
			r.AllowAutoTopicCreation = create
			r.Topics = []kmsg.MetadataRequestTopic{{TopicID: [16]byte{9, 9}}}
			answer := raw.Do[*kmsg.MetadataResponse](k.c, r).Topics
			k.sayOf("Metadata", fmt.Sprint("v", version), "of an unknown id, create %t: %d topics, %s", create, len(answer), codeWord(answer[0].ErrorCode))
		}
	}
}

// creationNeighbours: asking in any other way creates nothing.
func creationNeighbours(k *talk) {
	missing := k.name("missing")
	group := k.group("group")
	k.produce("to no topic", 9, 1, missing, raw.NewBatch(1000, "a").Encode())
	k.ask("of no topic", 11, fetchRequest(11, missing, 1<<20, 1<<20, at{0, 0}))
	k.ask("of no topic", 5, listRequest(missing, 0, -1))
	k.ask("of no topic", 7, commitRequest(group, "", -1, missing, "", 0))
	trimmed := deleteRecords(k.t, k.c, missing, 0, 0)
	k.say("DeleteRecords of no topic: %s, low watermark %d", codeWord(trimmed.ErrorCode), trimmed.LowWatermark)
	d := kmsg.NewPtrDescribeConfigsRequest()
	of := kmsg.NewDescribeConfigsRequestResource()
	of.ResourceType, of.ResourceName = kmsg.ConfigResourceTypeTopic, missing
	d.Resources = []kmsg.DescribeConfigsRequestResource{of}
	for _, version := range k.versions(both(0, 4, 1, 4)) {
		k.ask("of no topic", version, d)
	}
	e := kmsg.NewPtrOffsetForLeaderEpochRequest()
	e.ReplicaID = -1
	e.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: missing, Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{
		{Partition: 0, CurrentLeaderEpoch: -1, LeaderEpoch: 0}}}}
	for _, version := range k.versions(both(0, 4, 2, 4)) {
		k.ask("of no topic", version, e)
	}
	producers := kmsg.NewPtrDescribeProducersRequest()
	producers.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: missing, Partitions: []int32{0}}}
	k.ask("of no topic", 0, producers)
	grow := kmsg.NewPtrCreatePartitionsRequest()
	grow.TimeoutMillis, grow.Topics = 30_000, []kmsg.CreatePartitionsRequestTopic{{Topic: missing, Count: 2}}
	k.ask("of no topic", 3, grow)
	remove := kmsg.NewPtrDeleteTopicsRequest()
	remove.TimeoutMillis, remove.TopicNames = 30_000, []string{missing}
	k.ask("of no topic", 5, remove)
	if standard(k.s) == "4.4" {
		p := kmsg.NewPtrDescribeTopicPartitionsRequest()
		p.ResponsePartitionLimit = 100
		p.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: missing}}
		k.ask("of no topic", 0, p)
	}
	k.say("%d topics have its name", len(metadata(k.t, k.c, 4, false, []string{missing})[0].Partitions))
}

// trimNeighbours: how far a log may be trimmed, by the policy of its topic, and what is asked for twice.
func trimNeighbours(k *talk) {
	five := raw.NewBatch(1000, "a", "b", "c", "d", "e").Encode()
	keyed := keyed("k", "a", "b", "c", "d", "e").Encode()
	for _, version := range k.versions(both(0, 2, 0, 2)) {
		trim := func(what, topic string, offsets ...int64) {
			r := kmsg.NewPtrDeleteRecordsRequest()
			r.TimeoutMillis = 10_000
			asked := kmsg.DeleteRecordsRequestTopic{Topic: topic}
			for i, offset := range offsets {
				asked.Partitions = append(asked.Partitions, kmsg.DeleteRecordsRequestTopicPartition{Partition: int32(i), Offset: offset})
			}
			r.Topics = []kmsg.DeleteRecordsRequestTopic{asked}
			k.ask(fmt.Sprint(what, " ", offsets), version, r)
		}
		for _, policy := range []string{"delete", "compact", "compact,delete", "delete,compact"} {
			topic := k.topic("topic of "+policy, 1, "cleanup.policy", policy)
			mustProduce(k.t, k.c, topic, keyed)
			for _, offset := range []int64{-3, -2, 6, 3, 2, 0, -1, 5} {
				trim(topic, topic, offset)
			}
			trim("two partitions of "+topic, topic, 0, 0)
			k.dump(topic, 5)
			k.dump(topic, 4)
		}
		topic := k.topic("topic", 1)
		mustProduce(k.t, k.c, topic, five)
		trim("no partition", topic)
		trim("no topic", k.name("missing"), 0)
		trim("internal topic", "__consumer_offsets", 0)
	}
}

// futureNeighbours: ApiVersions of any version that is not known is answered in v0, whatever the header and body are; and what is asked
// is judged by its own version.
func futureNeighbours(k *talk) {
	for _, version := range []int16{5, 6, 7, 99, 32767, -1} {
		if standard(k.s) == "4.4" && version == 5 {
			continue // which it knows
		}
		for _, body := range [][]byte{{0}, {0, 4, 'f', 'o', 'o', 2, '1', 0}, {0, 0xff, 0xff, 0xff}} {
			c := raw.Dial(k.t, k.s.Addr)
			c.Write(header(18, version, 7, body...))
			k.sayOf("ApiVersions", fmt.Sprint("v", version), "%x behind the client id: %x", body, c.Frame())
			apiVersions(k.t, c, 3)
		}
	}
	for _, version := range []int16{3, 4} {
		for _, software := range [][2]string{{"good-name", "1.0"}, {"bad name!", "1"}, {"", ""}, {"good", ""}, {"", "1"}, {"-bad", "1"}, {"bad-", "1"}, {"good", "1 0"},
			{"a", "b"}, {"ü", "1"}, {strings.Repeat("x", 300), "1"}} {
			c := raw.Dial(k.t, k.s.Addr)
			r := raw.With(kmsg.NewPtrApiVersionsRequest(), version)
			r.ClientSoftwareName, r.ClientSoftwareVersion = software[0], software[1]
			answer := raw.Do[*kmsg.ApiVersionsResponse](c, r)
			k.sayOf("ApiVersions", fmt.Sprint("v", version), "of %.20q: %s, any keys %t", software, codeWord(answer.ErrorCode), len(answer.ApiKeys) > 0)
			apiVersions(k.t, c, 0)
		}
	}
}

// oldMetadataNeighbours: which old versions create what they are asked for.
func oldMetadataNeighbours(k *talk) {
	known := k.topic("known", 1)
	for version := range int16(4) {
		for _, names := range [][]string{{known}, {"a b"}, {""}, {known, "a b", known}} {
			said := metadata(k.t, k.c, version, false, names)
			for _, t := range said {
				k.sayOf("Metadata", fmt.Sprint("v", version), "of %q: %s %s internal %t, %d partitions", names, *t.Topic, codeWord(t.ErrorCode), t.IsInternal, len(t.Partitions))
			}
		}
	}
}
