package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func consumeCommand(s *shared) *cobra.Command {
	var records int64
	var fetchBytes int32
	cmd := &cobra.Command{
		Use:   "consume",
		Short: "Read what is in the topic, from the start",
		Example: `  gregor bench consume
  gregor bench consume --topic orders --records 100000 --json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := s.connection.Client(cmd.Context(), kgo.ConsumeTopics(s.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
				kgo.FetchMaxBytes(fetchBytes), kgo.FetchMaxPartitionBytes(fetchBytes))
			if err != nil {
				return err
			}
			defer client.Close()
			there, err := total(cmd.Context(), kadm.NewClient(client), s.topic)
			switch {
			case err != nil:
				return fmt.Errorf("topic %s: %w", s.topic, err)
			case there == 0:
				return fmt.Errorf("topic %s is empty; gregor bench produce fills it", s.topic)
			case records <= 0 || records > there:
				records = there
			}
			g, m := goal{records: records}, &meter{}
			return s.measure(cmd, "consume", g, m, func(ctx context.Context) (result, error) {
				return consumeAll(ctx, client, g, m)
			})
		},
	}
	cmd.Flags().Int64VarP(&records, "records", "n", 0, "how many records; 0: all that are there")
	cmd.Flags().Int32Var(&fetchBytes, "fetch-bytes", 50<<20, "the most to ask for at once")
	return cmd
}

// silence is how long nothing may come before what was compacted away is no longer waited for.
const silence = 5 * time.Second

func consumeAll(ctx context.Context, client *kgo.Client, g goal, m *meter) (result, error) {
	started, first, last := time.Now(), time.Duration(0), time.Duration(0)
	for m.records.Load() < g.records && ctx.Err() == nil {
		wait, cancel := context.WithTimeout(ctx, silence)
		fetches := client.PollFetches(wait)
		cancel()
		if err := fetches.Err0(); errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			break
		} else if err != nil {
			return result{}, cli.Explain(err, "")
		}
		fetches.EachRecord(func(r *kgo.Record) { m.count(len(r.Key) + len(r.Value)) })
		last = time.Since(started)
		if first == 0 && m.records.Load() > 0 {
			first = last
		}
	}
	r := newResult("consume", "", m, last)
	r.FirstMs = millis(first)
	return r, nil
}
