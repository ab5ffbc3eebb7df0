package clients

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/compat/raw"
)

// TestN3CompressionStaysOn: librdkafka decides from the advertised version ranges whether it may compress; what it was told
// to compress arrives compressed, with its codec, in format v2.
func TestN3CompressionStaysOn(t *testing.T) {
	b := harness.Shared(t)
	for codec, name := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		topic := "codec-stays-" + name
		harness.CreateTopic(t, b, topic, 1)
		kcat(t, b, strings.Repeat("the same line again and again\n", 100), "-P", "-t", topic, "-z", name)
		p := kmsg.NewFetchRequestTopicPartition()
		p.PartitionMaxBytes = 1 << 20
		request := raw.With(kmsg.NewPtrFetchRequest(), 11)
		request.ReplicaID, request.MaxWaitMillis, request.MinBytes, request.MaxBytes, request.SessionEpoch = -1, 500, 1, 1<<20, -1
		asked := kmsg.NewFetchRequestTopic()
		asked.Topic, asked.Partitions = topic, []kmsg.FetchRequestTopicPartition{p}
		request.Topics = []kmsg.FetchRequestTopic{asked}
		answer := raw.Do[*kmsg.FetchResponse](raw.Dial(t, b.Addr), request)
		entries, _, err := raw.Entries(answer.Topics[0].Partitions[0].RecordBatches)
		if err != nil || len(entries) == 0 {
			t.Fatalf("%s: %d batches, %v", name, len(entries), err)
		}
		compressed := 0
		for _, e := range entries {
			if e.Codec() == int8(codec) {
				compressed++
			}
			if e.Magic != 2 || !e.ValidCRC {
				t.Errorf("%s: a batch of format v%d, CRC valid: %v", name, e.Magic, e.ValidCRC)
			}
		}
		if compressed == 0 { // a batch of a line or two is not worth it to the client
			t.Errorf("%s: none of %d batches has the codec", name, len(entries))
		}
	}
}
