package api

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// kgoClient is a whole client over the plane's pipes.
func (p *plane) kgoClient(opts ...kgo.Opt) *kgo.Client {
	p.t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers("broker-1:9092"), kgo.MetadataMinAge(10 * time.Millisecond),
		kgo.Dialer(func(context.Context, string, string) (net.Conn, error) { return p.dial(), nil }),
	}, opts...)...)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(c.Close)
	return c
}

// TestAClientProducesAndConsumes has franz-go write idempotently in every codec and read everything back, in order,
// through a fetch session, some of it as it comes. It does not run in a synctest bubble, since the zstd decoders of
// franz-go are closed by finalizers, which run outside of it.
func TestAClientProducesAndConsumes(t *testing.T) {
	const partitions, each = 3, 200
	p := newPlane(t)
	p.topic("t", partitions)
	consumer := p.kgoClient(kgo.ConsumeTopics("t"), kgo.FetchMaxWait(5*time.Second))
	codecs := []kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	next := map[int32]int{}
	for round, codec := range codecs {
		producer := p.kgoClient(kgo.ProducerBatchCompression(codec), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic("t"))
		for n := range each {
			for i := range int32(partitions) {
				producer.Produce(ctx, &kgo.Record{Partition: i, Value: fmt.Appendf(nil, "%d", round*each+n)}, func(r *kgo.Record, err error) {
					if err != nil {
						t.Errorf("produce: %v", err)
					}
				})
			}
		}
		if err := producer.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		for got := 0; got < partitions*each; {
			fetches := consumer.PollFetches(ctx)
			if err := fetches.Err(); err != nil {
				t.Fatal(err)
			}
			fetches.EachRecord(func(r *kgo.Record) {
				got++
				if want := fmt.Sprint(next[r.Partition]); string(r.Value) != want || r.Offset != int64(next[r.Partition]) {
					t.Errorf("partition %d: %q at offset %d, want %q", r.Partition, r.Value, r.Offset, want)
				}
				next[r.Partition]++
			})
		}
	}
	if p.services.Sessions.Len() == 0 {
		t.Error("the consumer has no fetch session")
	}
}
