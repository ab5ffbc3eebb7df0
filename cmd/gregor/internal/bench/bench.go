// Package bench is the command group that measures a broker.
package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Command returns "gregor bench".
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure how fast a broker takes and gives records",
		Long: `Measure how fast a broker takes and gives records. MB are 10^6 bytes of keys and values; a progress bar is drawn while a
person looks.`,
		Example: `  gregor bench produce --records 1000000 --size 1024
  gregor bench consume
  gregor bench latency --rate 1000 --duration 30s --json`,
	}
	var s shared
	s.connection.AddFlags(cmd)
	f := cmd.PersistentFlags()
	f.StringVarP(&s.topic, "topic", "t", "gregor-bench", "the topic; it is created if it does not exist, and stays")
	f.IntVar(&s.partitions, "partitions", 6, "partitions of the topic if it is created")
	f.Int16Var(&s.replication, "replication-factor", -1, "replicas of the topic if it is created; -1: the broker's default")
	f.BoolVar(&s.json, "json", false, "print the result as one line of JSON")
	_ = cmd.RegisterFlagCompletionFunc("topic", func(c *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return s.connection.CompleteTopics(0)(c, nil, typed)
	})
	cmd.AddCommand(produceCommand(&s), consumeCommand(&s), latencyCommand(&s))
	return cli.Group(cmd)
}

// shared is what all benchmarks are told.
type shared struct {
	connection  cli.Connection
	topic       string
	partitions  int
	replication int16
	json        bool
}

// prepare creates the topic if it does not exist.
func (s *shared) prepare(ctx context.Context) error {
	admin, err := s.connection.Admin(ctx)
	if err != nil {
		return err
	}
	defer admin.Close()
	r, err := admin.CreateTopic(ctx, int32(s.partitions), s.replication, nil, s.topic)
	if err != nil && r.Err != kerr.TopicAlreadyExists {
		return fmt.Errorf("topic %s: %w", s.topic, cli.Explain(err, r.ErrMessage))
	}
	return nil
}

// measure runs a benchmark with a progress bar and prints its result.
func (s *shared) measure(cmd *cobra.Command, command string, g goal, m *meter, run func(ctx context.Context) (result, error)) error {
	stop := func() {}
	if cli.IsTerminal(os.Stderr) {
		stop = drawProgress(os.Stderr, g, m)
	}
	r, err := run(cmd.Context())
	stop()
	if err != nil {
		return err
	}
	r.Command, r.Topic = command, s.topic
	return r.write(cmd.OutOrStdout(), s.json)
}

// producing is how records are produced.
type producing struct {
	size        int
	rate        float64
	records     int64
	duration    time.Duration
	acks        string
	compression string
	batchBytes  int32
	linger      time.Duration
}

func (p *producing) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVarP(&p.size, "size", "s", p.size, "bytes of a record's value")
	f.Float64Var(&p.rate, "rate", p.rate, "records per second; 0: as many as possible")
	f.DurationVarP(&p.duration, "duration", "d", p.duration, "how long; 0: until all records are there")
	f.StringVar(&p.acks, "acks", "all", "all, 1 or 0")
	f.StringVarP(&p.compression, "compression", "z", "none", "none, gzip, snappy, lz4 or zstd")
	f.Int32Var(&p.batchBytes, "batch-bytes", 1_000_000, "the largest batch")
	f.DurationVar(&p.linger, "linger", 0, "how long to wait for a batch to fill")
	cli.CompleteProducer(cmd)
}

func (p *producing) check() error {
	switch {
	case p.size < 0 || p.size > 1<<30:
		return cli.Usagef("--size %d: want a number of bytes", p.size)
	case p.rate < 0:
		return cli.Usagef("--rate %v: want a number of records per second", p.rate)
	case p.records <= 0 && p.duration <= 0:
		return cli.Usagef("say with --records or --duration when it ends")
	}
	return nil
}

func (p *producing) clientOptions(topic string) ([]kgo.Opt, error) {
	codec, err := cli.Compression(p.compression)
	if err != nil {
		return nil, err
	}
	opts, err := cli.Acks(p.acks)
	if err != nil {
		return nil, err
	}
	return append(opts, kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(codec), kgo.ProducerLinger(p.linger),
		kgo.ProducerBatchMaxBytes(p.batchBytes)), nil
}

// payloads are values of random letters, so that compression does neither wonders nor nothing; their use is shared.
func payloads(size int) [][]byte {
	random := rand.New(rand.NewPCG(1, 2))
	all := make([][]byte, 64)
	for i := range all {
		all[i] = make([]byte, size)
		for j := range all[i] {
			all[i][j] = byte('a' + random.IntN(26))
		}
	}
	return all
}

// pace calls send for each record of a goal, at a rate, with the moment at which it is due.
func pace(ctx context.Context, rate float64, g goal, send func(i int64, due time.Time)) {
	started := time.Now()
	for i := int64(0); ctx.Err() == nil && (g.records <= 0 || i < g.records); i++ {
		due := time.Now()
		if rate > 0 {
			due = started.Add(time.Duration(float64(i) / rate * float64(time.Second)))
			if wait := time.Until(due); wait > 0 {
				sleep(ctx, wait)
			}
		}
		if g.duration > 0 && time.Since(started) >= g.duration {
			return
		}
		send(i, due)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// total is how many records a topic holds.
func total(ctx context.Context, admin *kadm.Client, topic string) (int64, error) {
	start, err := admin.ListStartOffsets(ctx, topic)
	if err != nil {
		return 0, err
	}
	end, err := admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return 0, err
	}
	if err := end.Error(); err != nil {
		return 0, cli.Explain(err, "")
	}
	var n int64
	end.Each(func(o kadm.ListedOffset) {
		if s, ok := start.Lookup(o.Topic, o.Partition); ok {
			n += o.Offset - s.Offset
		}
	})
	return n, nil
}
