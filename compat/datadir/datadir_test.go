// Package datadir tests the data directory as something that Apache Kafka and gregor share, and that survives kill -9.
package datadir

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/gregor-broker/gregor/compat/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// content is what a topic holds: for every partition its records, in order.
type content map[int32][]record

type record struct {
	offset, timestamp int64
	key, value        string
	headers           int
}

// readAll reads every partition of a topic from its start to its end.
func readAll(t testing.TB, b *harness.Broker, topic string) content {
	t.Helper()
	client := harness.Client(t, b, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx := harness.Context(t, 2*time.Minute)
	admin := kadm.NewClient(client)
	ends, err := admin.ListEndOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	read := content{}
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("read %s, with %v not reached: %v", topic, left, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			read[r.Partition] = append(read[r.Partition], record{r.Offset, r.Timestamp.UnixMilli(), string(r.Key), string(r.Value), len(r.Headers)})
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return read
}

// same fails the test at the first difference of what two brokers served.
func same(t testing.TB, topic string, got, want content) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d partitions with records, want %d", topic, len(got), len(want))
	}
	for partition, records := range want {
		if len(got[partition]) != len(records) {
			t.Errorf("%s-%d: %d records, want %d", topic, partition, len(got[partition]), len(records))
			continue
		}
		for i, r := range records {
			if got[partition][i] != r {
				t.Errorf("%s-%d: record %d is %+v, want %+v", topic, partition, i, got[partition][i], r)
				break
			}
		}
	}
}

// fill writes to a topic, with some codec, in batches of a few records, as a client of some age.
func fill(t testing.TB, b *harness.Broker, topic string, codec kgo.CompressionCodec, versions *kversion.Versions, records int) {
	t.Helper()
	options := []kgo.Opt{kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(codec), kgo.ProducerBatchMaxBytes(4096)}
	if versions != nil {
		options = append(options, kgo.MaxVersions(versions), kgo.DisableIdempotentWrite())
	}
	client := harness.Client(t, b, options...)
	var batch []*kgo.Record
	for i := range records {
		r := kgo.KeySliceRecord(fmt.Append(nil, "key ", i), fmt.Append(nil, "value ", i, strings.Repeat(" and more", 20)))
		if versions == nil {
			r.Headers = []kgo.RecordHeader{{Key: "n", Value: fmt.Append(nil, i)}}
		}
		batch = append(batch, r)
	}
	if err := client.ProduceSync(harness.Context(t, time.Minute), batch...).FirstErr(); err != nil {
		t.Fatalf("produce to %s: %v", topic, err)
	}
}

// commitHalf commits, for a group, offset 7 of partition 0.
func commitHalf(t testing.TB, b *harness.Broker, group, topic string) {
	t.Helper()
	admin := kadm.NewClient(harness.Client(t, b))
	offsets := kadm.Offsets{}
	offsets.AddOffset(topic, 0, 7, -1)
	harness.Eventually(t, time.Minute, func() error {
		return admin.CommitAllOffsets(context.Background(), group, offsets)
	})
}

// wantCommitted fails the test unless the group's offset is still what commitHalf committed.
func wantCommitted(t testing.TB, b *harness.Broker, group, topic string) {
	t.Helper()
	admin := kadm.NewClient(harness.Client(t, b))
	harness.Eventually(t, time.Minute, func() error {
		fetched, err := admin.FetchOffsets(context.Background(), group)
		if err != nil {
			return err
		}
		if o, ok := fetched.Lookup(topic, 0); !ok || o.At != 7 {
			return fmt.Errorf("the group's offset is %+v, not 7", o.Offset)
		}
		return nil
	})
}

// leaveMembers has a group read a topic and end, and another one whose static member is still in it when the broker stops.
func leaveMembers(t testing.TB, b *harness.Broker, topic string, records int) {
	t.Helper()
	gone := harness.Client(t, b, kgo.ConsumerGroup("readers"), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(), kgo.Balancers(kgo.RangeBalancer()))
	harness.ReadAndCommit(t, gone, records)
	gone.Close()
	stays := harness.Client(t, b, kgo.ConsumerGroup("stayers"), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(), kgo.Balancers(kgo.RangeBalancer()),
		kgo.InstanceID("chair"), kgo.SessionTimeout(5*time.Minute))
	harness.ReadAndCommit(t, stays, records)
	stays.Close() // a static member does not leave
}

// wantMembers fails the test unless the groups of leaveMembers are as they were.
func wantMembers(t testing.TB, b *harness.Broker, topic string) {
	t.Helper()
	admin := kadm.NewClient(harness.Client(t, b))
	harness.Eventually(t, time.Minute, func() error {
		groups, err := admin.DescribeGroups(context.Background(), "readers", "stayers")
		if err == nil {
			err = groups.Error()
		}
		if err != nil {
			return err
		}
		gone, stays := groups["readers"], groups["stayers"]
		if gone.State != "Empty" || gone.ProtocolType != "consumer" || len(gone.Members) != 0 {
			return fmt.Errorf("the group whose member left is %+v", gone)
		}
		if stays.State != "Stable" || stays.Protocol != "range" || len(stays.Members) != 1 || stays.Members[0].InstanceID == nil || *stays.Members[0].InstanceID != "chair" {
			return fmt.Errorf("the group whose member stays is %+v", stays)
		}
		if assigned, ok := stays.Members[0].Assigned.AsConsumer(); !ok || len(assigned.Topics) != 1 || assigned.Topics[0].Topic != topic {
			return fmt.Errorf("its member has %+v", stays.Members[0].Assigned)
		}
		return nil
	})
	for _, group := range []string{"readers", "stayers"} {
		lags, err := admin.Lag(harness.Context(t, time.Minute), group)
		if l := lags[group]; err != nil || l.Error() != nil || l.Lag.Total() != 0 {
			t.Errorf("%s: %+v, %v", group, l, err)
		}
	}
}

// awaitTopic waits until a topic's partitions are served.
func awaitTopic(t testing.TB, b *harness.Broker, topic string, partitions int) {
	t.Helper()
	admin := kadm.NewClient(harness.Client(t, b))
	harness.Eventually(t, time.Minute, func() error {
		ends, err := admin.ListEndOffsets(context.Background(), topic)
		if err == nil {
			err = ends.Error()
		}
		if err == nil && len(ends[topic]) != partitions {
			err = fmt.Errorf("%d partitions of %s, want %d", len(ends[topic]), topic, partitions)
		}
		return err
	})
}

// TestImport: a directory that Kafka 3.9.2 wrote, with records of all three formats, is imported and served as it is.
func TestImport(t *testing.T) {
	harness.Need(t, "java")
	// Below version 3.0 between brokers, topics may still be written in the old formats.
	kafka := harness.Start(t, harness.Options{Kind: harness.Kafka39, Props: map[string]string{"inter.broker.protocol.version": "2.8"}})
	topics := map[string]int{"formats": 1, "codecs": 3, "compacted": 1, "with.dots-and-dashes_1": 2}
	harness.CreateTopic(t, kafka, "formats", 1, "message.format.version", "0.9.0", "segment.bytes", "20000")
	harness.CreateTopic(t, kafka, "codecs", 3)
	harness.CreateTopic(t, kafka, "compacted", 1, "cleanup.policy", "compact")
	harness.CreateTopic(t, kafka, "with.dots-and-dashes_1", 2)
	fill(t, kafka, "formats", kgo.NoCompression(), kversion.V0_9_0(), 100)
	fill(t, kafka, "formats", kgo.GzipCompression(), kversion.V0_9_0(), 100)
	setFormat(t, kafka, "formats", "0.10.2")
	fill(t, kafka, "formats", kgo.NoCompression(), kversion.V0_10_2(), 100)
	fill(t, kafka, "formats", kgo.SnappyCompression(), kversion.V0_10_2(), 100)
	setFormat(t, kafka, "formats", "2.8")
	for _, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
		fill(t, kafka, "formats", codec, nil, 100)
		fill(t, kafka, "codecs", codec, nil, 300)
	}
	fill(t, kafka, "compacted", kgo.NoCompression(), nil, 50)
	fill(t, kafka, "with.dots-and-dashes_1", kgo.NoCompression(), nil, 50)
	commitHalf(t, kafka, "importers", "codecs")
	leaveMembers(t, kafka, "with.dots-and-dashes_1", 50)
	before, ids := map[string]content{}, topicIDs(t, kafka)
	for topic := range topics {
		before[topic] = readAll(t, kafka, topic)
	}
	kafka.Stop()
	wantFormats(t, kafka.PartitionDir(t, "formats", 0))

	var b *harness.Broker
	if harness.Peer() == harness.Gregor {
		out := harness.Command(t, time.Minute, "", nil, harness.Binary(), "import", kafka.DataDir())
		if out.Code != 0 {
			t.Fatalf("gregor import ended with %d:\n%s", out.Code, out)
		}
		b = harness.Start(t, harness.Options{Kind: harness.Gregor, Dir: t.TempDir(), Props: map[string]string{"log.dirs": kafka.DataDir(), "broker.id": "0"}})
	} else {
		kafka.Restart(nil) // what Kafka itself makes of it
		b = kafka
	}
	for topic, partitions := range topics {
		awaitTopic(t, b, topic, partitions)
		same(t, topic, readAll(t, b, topic), before[topic])
	}
	after := topicIDs(t, b)
	for topic := range topics {
		if after[topic] != ids[topic] {
			t.Errorf("%s has id %v, not the %v that it had", topic, after[topic], ids[topic])
		}
	}
	wantCommitted(t, b, "importers", "codecs")
	wantMembers(t, b, "with.dots-and-dashes_1")
	fill(t, b, "codecs", kgo.Lz4Compression(), nil, 30)
	fill(t, b, "formats", kgo.NoCompression(), nil, 30)
	if n := len(readAll(t, b, "formats")[0]); n != len(before["formats"][0])+30 {
		t.Errorf("formats has %d records, want %d and 30 more", n, len(before["formats"][0]))
	}
}

// setFormat has Kafka 3.9 write a topic in the format of a version from now on. Its log goes by a setting some time after the broker has
// told it: changes are taken up one after the other, so it does once the next one is being worked on.
func setFormat(t testing.TB, kafka *harness.Broker, topic, version string) {
	t.Helper()
	setConfig(t, kafka, topic, "message.format.version", version)
	next := fmt.Sprint(60_000 + len(kafka.Log())) // which no change had before
	setConfig(t, kafka, topic, "file.delete.delay.ms", next)
	working := regexp.MustCompile(`Processing override for entityPath: topics/` + topic + ` with config: .*file\.delete\.delay\.ms -> ` + next)
	harness.Eventually(t, time.Minute, func() error {
		if !working.MatchString(kafka.Log()) {
			return fmt.Errorf("it does not work on file.delete.delay.ms=%s", next)
		}
		return nil
	})
}

func setConfig(t testing.TB, b *harness.Broker, topic, key, value string) {
	t.Helper()
	admin := kadm.NewClient(harness.Client(t, b))
	responses, err := admin.AlterTopicConfigs(harness.Context(t, time.Minute), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: key, Value: &value}}, topic)
	if err == nil {
		_, err = responses.On(topic, func(r *kadm.AlterConfigsResponse) error { return r.Err })
	}
	if err != nil {
		t.Fatalf("set %s of %s: %v", key, topic, err)
	}
}

func topicIDs(t testing.TB, b *harness.Broker) map[string]kadm.TopicID {
	t.Helper()
	admin := kadm.NewClient(harness.Client(t, b))
	topics, err := admin.ListTopicsWithInternal(harness.Context(t, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]kadm.TopicID{}
	for name, detail := range topics {
		ids[name] = detail.ID
	}
	return ids
}

// wantFormats fails the test unless a partition's segments hold batches of all three formats.
func wantFormats(t testing.TB, dir string) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[byte]bool{}
	for _, path := range logs {
		segment, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for len(segment) >= 17 {
			found[segment[16]] = true
			size := 12 + int(segment[8])<<24 + int(segment[9])<<16 + int(segment[10])<<8 + int(segment[11])
			segment = segment[min(size, len(segment)):]
		}
	}
	if !found[0] || !found[1] || !found[2] {
		t.Fatalf("%s has the formats %v, not all of 0, 1 and 2", dir, found)
	}
}
