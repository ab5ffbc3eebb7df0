package clients

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/gregor-broker/gregor/compat/harness"
)

// TestFranzVersions: franz-go, pinned to the versions of brokers of every age, writes and reads back, alone and in a group.
func TestFranzVersions(t *testing.T) {
	b := harness.Shared(t)
	for _, test := range []struct {
		name     string
		versions *kversion.Versions
		modern   bool // Kafka 4 still serves it
	}{
		{"0.9", kversion.V0_9_0(), false},
		{"0.10.0", kversion.V0_10_0(), false},
		{"0.10.2", kversion.V0_10_2(), false},
		{"0.11", kversion.V0_11_0(), false},
		{"1.1", kversion.V1_1_0(), false},
		{"2.1", kversion.V2_1_0(), true},
		{"2.8", kversion.V2_8_0(), true},
		{"3.9", kversion.V3_9_0(), true},
		{"newest", nil, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if b.Kind == harness.Kafka44 && !test.modern {
				t.Skip("Kafka 4 dropped these versions")
			}
			exchange(t, b, test.versions)
		})
	}
}

// exchange writes with each codec that the versions have, and reads it all back in a group.
func exchange(t *testing.T, b *harness.Broker, versions *kversion.Versions) {
	topic := name("franz")
	harness.CreateTopic(t, b, topic, 3)
	var pinned []kgo.Opt
	if versions != nil {
		pinned = append(pinned, kgo.MaxVersions(versions))
	}
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	switch version, ok := produceVersion(versions); {
	case ok && version < 2:
		codecs = codecs[:3] // lz4 in message format 0 has a wrong header checksum, which the client does not read
	case ok && version < 7:
		codecs = codecs[:4] // zstd came with v7
	}
	ctx := harness.Context(t, time.Minute)
	want := map[string]bool{}
	for i, codec := range codecs {
		options := append([]kgo.Opt{kgo.ProducerBatchCompression(codec), kgo.DefaultProduceTopic(topic)}, pinned...)
		if version, ok := produceVersion(versions); ok && version < 3 {
			options = append(options, kgo.DisableIdempotentWrite())
		}
		producer := harness.Client(t, b, options...)
		var records []*kgo.Record
		for j := range 50 {
			value := fmt.Sprintf("value %d of codec %d, which has some length to compress", j, i)
			want[value] = true
			records = append(records, kgo.KeySliceRecord(fmt.Append(nil, "k", j), []byte(value)))
		}
		if err := producer.ProduceSync(ctx, records...).FirstErr(); err != nil {
			t.Fatalf("codec %d: %v", i, err)
		}
	}
	consumer := harness.Client(t, b, append([]kgo.Opt{
		kgo.ConsumeTopics(topic), kgo.ConsumerGroup(topic + "group"), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}, pinned...)...)
	for len(want) > 0 {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("%d records are missing: %v", len(want), err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !want[string(r.Value)] {
				t.Errorf("%q came twice, or was never sent", r.Value)
			}
			delete(want, string(r.Value))
		})
	}
	if err := consumer.CommitUncommittedOffsets(ctx); err != nil {
		t.Errorf("commit: %v", err)
	}
}

// produceVersion returns the newest Produce version that the client may use, and whether it is pinned.
func produceVersion(versions *kversion.Versions) (int16, bool) {
	if versions == nil {
		return 0, false
	}
	return versions.LookupMaxKeyVersion(0)
}
