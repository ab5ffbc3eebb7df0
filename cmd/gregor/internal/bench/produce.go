package bench

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
)

func produceCommand(s *shared) *cobra.Command {
	p := producing{size: 1024}
	clients := 1
	cmd := &cobra.Command{
		Use:   "produce",
		Short: "Produce as fast as possible, or at a rate",
		Example: `  gregor bench produce
  gregor bench produce --records 5000000 --size 100 --compression lz4
  gregor bench produce --rate 10000 --duration 1m --acks 1`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("records") && p.duration > 0 {
				p.records = 0
			}
			if err := p.check(); err != nil {
				return err
			}
			if err := s.prepare(cmd.Context()); err != nil {
				return err
			}
			g, m := goal{p.records, p.duration}, &meter{}
			return s.measure(cmd, "produce", g, m, func(ctx context.Context) (result, error) {
				return p.run(ctx, s, g, m, clients)
			})
		},
	}
	p.addFlags(cmd)
	cmd.Flags().Int64VarP(&p.records, "records", "n", 1_000_000, "how many records; with --duration the default is no limit")
	cmd.Flags().IntVar(&clients, "clients", 1, "number of clients, each with its own connection")
	return cmd
}

// run produces with several clients in turn and waits until everything is acknowledged or has failed.
func (p *producing) run(ctx context.Context, s *shared, g goal, m *meter, clients int) (result, error) {
	opts, err := p.clientOptions(s.topic)
	if err != nil {
		return result{}, err
	}
	var all []*kgo.Client
	for range max(clients, 1) {
		client, err := s.connection.Client(ctx, opts...)
		if err != nil {
			return result{}, err
		}
		defer client.Close()
		all = append(all, client)
	}
	values := payloads(p.size)
	started := time.Now()
	pace(ctx, p.rate, g, func(i int64, _ time.Time) {
		sent := time.Now()
		all[i%int64(len(all))].Produce(ctx, kgo.SliceRecord(values[i%int64(len(values))]), func(r *kgo.Record, err error) {
			if err != nil {
				m.errors.Add(1)
				return
			}
			m.latency.record(time.Since(sent))
			m.count(len(r.Value))
		})
	})
	for _, client := range all {
		if err := client.Flush(ctx); err != nil {
			break // interrupted: what was measured counts
		}
	}
	return newResult("produce", s.topic, m, time.Since(started)), nil
}
