// Package sarama runs IBM/sarama, which many Go services still use, against the broker. It is a module of its own so that
// the client and what it needs stay out of gregor's.
package sarama

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/compat/raw"
)

const count = 100

// TestVersions: from the oldest protocol that the client can speak to the newest, each with the codecs of its time.
func TestVersions(t *testing.T) {
	b := harness.Shared(t)
	for _, test := range []struct {
		version sarama.KafkaVersion
		codecs  []sarama.CompressionCodec
	}{
		{sarama.V0_8_2_0, []sarama.CompressionCodec{sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionSnappy}},
		{sarama.V0_10_0_0, []sarama.CompressionCodec{sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionLZ4}},
		{sarama.V0_10_2_0, []sarama.CompressionCodec{sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4}},
		{sarama.V0_11_0_0, []sarama.CompressionCodec{sarama.CompressionNone, sarama.CompressionLZ4}},
		{sarama.V2_8_0_0, []sarama.CompressionCodec{sarama.CompressionNone, sarama.CompressionSnappy, sarama.CompressionZSTD}},
		{sarama.V3_6_0_0, []sarama.CompressionCodec{sarama.CompressionGZIP, sarama.CompressionLZ4, sarama.CompressionZSTD}},
		{sarama.MaxVersion, []sarama.CompressionCodec{sarama.CompressionNone, sarama.CompressionSnappy}},
	} {
		t.Run(test.version.String(), func(t *testing.T) {
			if b.Kind == harness.Kafka44 && !test.version.IsAtLeast(sarama.V2_1_0_0) {
				t.Skip("Kafka 4 dropped these versions")
			}
			topic := "sarama-" + test.version.String()
			harness.CreateTopic(t, b, topic, 1)
			for _, codec := range test.codecs {
				produce(t, b, topic, test.version, codec)
			}
			checkCodecs(t, b, topic, test.codecs)
			consume(t, b, topic, test.version, count*len(test.codecs))
			commit(t, b, topic, test.version)
			if test.version.IsAtLeast(sarama.V0_10_2_0) {
				consumeInGroup(t, b, topic, test.version, count*len(test.codecs))
			}
		})
	}
}

func settings(version sarama.KafkaVersion) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = version
	config.ApiVersionsRequest = version.IsAtLeast(sarama.V0_10_0_0)
	return config
}

// commit stores an offset without being in a group, as these clients did from the first on, and reads it back.
func commit(t *testing.T, b *harness.Broker, topic string, version sarama.KafkaVersion) {
	t.Helper()
	group := "committers-" + version.String()
	managed := func(f func(sarama.PartitionOffsetManager)) {
		client, err := sarama.NewClient([]string{b.Addr}, settings(version))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		offsets, err := sarama.NewOffsetManagerFromClient(group, client)
		if err != nil {
			t.Fatal(err)
		}
		defer offsets.Close()
		partition, err := offsets.ManagePartition(topic, 0)
		if err != nil {
			t.Fatal(err)
		}
		f(partition)
		if err := partition.Close(); err != nil {
			t.Error(err)
		}
	}
	managed(func(p sarama.PartitionOffsetManager) { p.MarkOffset(7, "note") })
	managed(func(p sarama.PartitionOffsetManager) {
		if offset, note := p.NextOffset(); offset != 7 || note != "note" {
			t.Errorf("committed are %d and %q", offset, note)
		}
	})
}

func produce(t *testing.T, b *harness.Broker, topic string, version sarama.KafkaVersion, codec sarama.CompressionCodec) {
	t.Helper()
	config := settings(version)
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Compression = codec
	config.Producer.Return.Successes = true
	if version.IsAtLeast(sarama.V0_11_0_0) {
		config.Producer.Idempotent = true
		config.Net.MaxOpenRequests = 1
	}
	producer, err := sarama.NewSyncProducer([]string{b.Addr}, config)
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	var messages []*sarama.ProducerMessage
	for i := range count {
		messages = append(messages, &sarama.ProducerMessage{Topic: topic, Key: sarama.StringEncoder(fmt.Sprint("k", i)), Value: sarama.StringEncoder(fmt.Sprint("value ", i))})
	}
	if err := producer.SendMessages(messages); err != nil {
		t.Fatalf("%s: %v", codec, err)
	}
}

// checkCodecs: what was written with a codec is stored with it, in format v2 (case N3).
func checkCodecs(t *testing.T, b *harness.Broker, topic string, want []sarama.CompressionCodec) {
	t.Helper()
	p := kmsg.NewFetchRequestTopicPartition()
	p.PartitionMaxBytes = 1 << 20
	r := raw.With(kmsg.NewPtrFetchRequest(), 11)
	r.ReplicaID, r.MaxBytes, r.SessionEpoch = -1, 1<<20, -1
	r.Topics = []kmsg.FetchRequestTopic{{Topic: topic, Partitions: []kmsg.FetchRequestTopicPartition{p}}}
	entries, _, err := raw.Entries(raw.Do[*kmsg.FetchResponse](raw.Dial(t, b.Addr), r).Topics[0].Partitions[0].RecordBatches)
	if err != nil {
		t.Fatal(err)
	}
	var got []sarama.CompressionCodec
	for _, e := range entries {
		if codec := sarama.CompressionCodec(e.Codec()); len(got) == 0 || got[len(got)-1] != codec {
			got = append(got, codec)
		}
		if e.Magic != 2 || !e.ValidCRC {
			t.Errorf("the batch at %d is of format v%d, CRC valid: %v", e.BaseOffset, e.Magic, e.ValidCRC)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("stored with %v, want %v", got, want)
	}
}

func consume(t *testing.T, b *harness.Broker, topic string, version sarama.KafkaVersion, n int) {
	t.Helper()
	consumer, err := sarama.NewConsumer([]string{b.Addr}, settings(version))
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
	if err != nil {
		t.Fatal(err)
	}
	defer partition.Close()
	ctx := harness.Context(t, time.Minute)
	for i := range n {
		select {
		case m := <-partition.Messages():
			if m.Offset != int64(i) || string(m.Value) != fmt.Sprint("value ", i%count) || string(m.Key) != fmt.Sprint("k", i%count) {
				t.Fatalf("record %d has offset %d, key %q and value %q", i, m.Offset, m.Key, m.Value)
			}
		case <-ctx.Done():
			t.Fatalf("only %d of %d records", i, n)
		}
	}
}

// member counts what a group's only member gets.
type member struct {
	left int
	done context.CancelFunc
}

func (*member) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, "")
		if m.left--; m.left == 0 {
			session.Commit()
			m.done()
		}
	}
	return nil
}

func consumeInGroup(t *testing.T, b *harness.Broker, topic string, version sarama.KafkaVersion, n int) {
	t.Helper()
	config := settings(version)
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	group, err := sarama.NewConsumerGroup([]string{b.Addr}, topic+"-group", config)
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	ctx, cancel := context.WithCancel(harness.Context(t, time.Minute))
	m := &member{left: n, done: cancel}
	if err := group.Consume(ctx, []string{topic}, m); err != nil && ctx.Err() == nil {
		t.Fatal(err)
	}
	if m.left != 0 {
		t.Errorf("%d of %d records did not reach the group's member", m.left, n)
	}
}
