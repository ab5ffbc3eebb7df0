// Package produce is the command that makes records of the lines it reads.
package produce

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

type options struct {
	keySeparator string
	headers      []string
	null         string
	compression  string
	acks         string
	partition    int32
	quiet        bool
}

// Command returns "gregor produce".
func Command() *cobra.Command {
	var c cli.Connection
	var o options
	cmd := &cobra.Command{
		Use:   "produce TOPIC",
		Short: "Produce a record for each line of standard input",
		Example: `  echo 'hello' | gregor produce greetings
  printf 'k1:v1\nk2:v2\n' | gregor produce state --key-separator :
  gregor produce orders --header source=import --compression zstd <orders.txt
  printf 'k1:\n' | gregor produce state --key-separator : --null ''     # a tombstone`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.CompleteTopics(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			parser, err := o.parser(args[0])
			if err != nil {
				return err
			}
			opts, err := o.clientOptions()
			if err != nil {
				return err
			}
			client, err := c.Client(cmd.Context(), opts...)
			if err != nil {
				return err
			}
			defer client.Close()
			if err := o.partitionExists(cmd.Context(), client, args[0]); err != nil {
				return err
			}
			n, err := produceLines(cmd.Context(), client, cmd.InOrStdin(), parser)
			if !o.quiet {
				fmt.Fprintln(cmd.ErrOrStderr(), cli.Count(n, "record")+" produced")
			}
			return err
		},
	}
	c.AddFlags(cmd)
	f := cmd.Flags()
	f.StringVarP(&o.keySeparator, "key-separator", "k", "", `what stands between key and value of a line (\t for a tab); without it there are no keys`)
	f.StringArrayVarP(&o.headers, "header", "H", nil, "a header of every record, `key=value` (repeatable)")
	f.StringVar(&o.null, "null", "", "a key or value of exactly this `text` is null")
	f.StringVarP(&o.compression, "compression", "z", "none", "none, gzip, snappy, lz4 or zstd")
	f.StringVar(&o.acks, "acks", "all", "replicas that must have a record before it counts: all, 1 (the leader) or 0")
	f.Int32VarP(&o.partition, "partition", "p", -1, "the partition; -1: by key, or spread")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "do not say how many records were produced")
	cli.CompleteProducer(cmd)
	cmd.PreRun = func(cmd *cobra.Command, _ []string) { parserNull(&o, cmd.Flags().Changed("null")) }
	return cmd
}

// nothing is a null text that no line has: lines have no line feed.
const nothing = "\n"

func parserNull(o *options, given bool) {
	if !given {
		o.null = nothing
	}
}

// partitionExists refuses a partition that the topic does not have. A topic that does not exist yet may be made.
func (o options) partitionExists(ctx context.Context, client *kgo.Client, topic string) error {
	if o.partition < 0 {
		return nil
	}
	details, err := kadm.NewClient(client).ListTopicsWithInternal(ctx, topic)
	if err != nil || details[topic].Err != nil {
		return err
	}
	return cli.HasPartitions(details[topic], o.partition)
}

func (o options) clientOptions() ([]kgo.Opt, error) {
	codec, err := cli.Compression(o.compression)
	if err != nil {
		return nil, err
	}
	opts, err := cli.Acks(o.acks)
	if err != nil {
		return nil, err
	}
	opts = append(opts, kgo.ProducerBatchCompression(codec), kgo.AllowAutoTopicCreation())
	if o.partition >= 0 {
		opts = append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	return opts, nil
}

// parser makes records of lines.
type parser struct {
	topic     string
	separator string
	null      string
	headers   []kgo.RecordHeader
	partition int32
}

func (o options) parser(topic string) (*parser, error) {
	separator, err := cli.Unescape(o.keySeparator)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--key-separator: %w", err))
	}
	pairs, err := cli.KeyValues("header", o.headers)
	if err != nil {
		return nil, err
	}
	p := &parser{topic: topic, separator: separator, null: o.null, partition: max(o.partition, 0)}
	for _, h := range pairs {
		p.headers = append(p.headers, kgo.RecordHeader{Key: h[0], Value: []byte(h[1])})
	}
	return p, nil
}

// record makes a record of a line without its end.
func (p *parser) record(line string) (*kgo.Record, error) {
	r := &kgo.Record{Topic: p.topic, Partition: p.partition, Headers: p.headers}
	value := line
	if p.separator != "" {
		key, rest, ok := strings.Cut(line, p.separator)
		if !ok {
			return nil, fmt.Errorf("the line has no key separator %q", p.separator)
		}
		r.Key, value = p.bytes(key), rest
	}
	r.Value = p.bytes(value)
	return r, nil
}

func (p *parser) bytes(s string) []byte {
	if s == p.null {
		return nil
	}
	return []byte(s)
}

// produceLines produces a record per line until the input ends, and returns how many were acknowledged. The first error
// ends it; what is under way is waited for.
func produceLines(ctx context.Context, client *kgo.Client, in io.Reader, p *parser) (int, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu struct {
		sync.Mutex
		done int
		err  error
	}
	lines := bufio.NewReaderSize(in, 1<<16)
	var readErr error
	for number := 1; ctx.Err() == nil; number++ {
		line, err := lines.ReadString('\n')
		if err != nil && (!errors.Is(err, io.EOF) || line == "") {
			if !errors.Is(err, io.EOF) {
				readErr = err
			}
			break
		}
		record, err := p.record(strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"))
		if err != nil {
			readErr = fmt.Errorf("line %d: %w", number, err)
			break
		}
		client.Produce(ctx, record, func(_ *kgo.Record, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				mu.done++
			} else if mu.err == nil {
				mu.err = fmt.Errorf("line %d: %w", number, explain(err, p.topic))
				cancel(mu.err)
			}
		})
	}
	flushErr := client.Flush(context.WithoutCancel(ctx))
	mu.Lock()
	defer mu.Unlock()
	return mu.done, errors.Join(readErr, mu.err, flushErr)
}

func explain(err error, topic string) error {
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return fmt.Errorf("topic %s does not exist, or has no such partition", topic)
	}
	if strings.HasPrefix(err.Error(), "invalid record partitioning choice") { // franz-go's, of a topic that was made just now
		return fmt.Errorf("topic %s has no such partition: it was created with num.partitions of them", topic)
	}
	if errors.Is(err, kerr.InvalidRecord) {
		return cli.Explain(err, "The broker does not take such a record. A compacted topic takes none without a key (--key-separator).")
	}
	return cli.Explain(err, "")
}
