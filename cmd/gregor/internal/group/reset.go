package group

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

func resetCommand(c *cli.Connection) *cobra.Command {
	var topics []string
	var to string
	var execute bool
	cmd := &cobra.Command{
		Use:   "reset GROUP",
		Short: "Move a group's offsets",
		Long: `Move the offsets of a group that has no members. Without --execute it only shows what would be done.

--to is "start", "end", an offset, "+N" or "-N" (from where the group is now), or "time:" and a point in time: a date,
@milliseconds, or -2h (two hours ago). Offsets outside a partition become its nearest end.

--topic is a topic, or topic:0,3-5 for some of its partitions. Without it, all that the group has offsets of.`,
		Example: `  gregor group reset billing --to start
  gregor group reset billing --topic orders:0 --to 1000 --execute
  gregor group reset billing --to time:-24h --execute`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.CompleteGroups(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if to == "" {
				return cli.Usagef("say with --to where the offsets go")
			}
			target, err := parseTarget(to, time.Now())
			if err != nil {
				return cli.Usage(fmt.Errorf("--to: %w", err))
			}
			chosen, err := cli.ParseSelection(topics)
			if err != nil {
				return cli.Usage(fmt.Errorf("--topic: %w", err))
			}
			admin, err := c.Admin(cmd.Context())
			if err != nil {
				return err
			}
			defer admin.Close()
			moves, err := planMoves(cmd.Context(), admin, args[0], chosen, target)
			if err != nil {
				return err
			}
			return carryOut(cmd, admin, args[0], moves, execute)
		},
	}
	f := cmd.Flags()
	f.StringArrayVarP(&topics, "topic", "t", nil, "a `TOPIC` or TOPIC:PARTITIONS (repeatable)")
	f.StringVar(&to, "to", "", "where to: start, end, N, +N, -N or time:TIME")
	f.BoolVar(&execute, "execute", false, "do it")
	_ = cmd.RegisterFlagCompletionFunc("topic", func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return c.CompleteTopics(0)(cmd, nil, typed)
	})
	return cmd
}

// target is where offsets go.
type target struct {
	kind targetKind
	n    int64 // offset, distance, or milliseconds
}

type targetKind int

const (
	toStart targetKind = iota
	toEnd
	toOffset
	byDistance
	toTime
)

func parseTarget(text string, now time.Time) (target, error) {
	switch text {
	case "start", "earliest":
		return target{kind: toStart}, nil
	case "end", "latest":
		return target{kind: toEnd}, nil
	}
	if moment, ok := strings.CutPrefix(text, "time:"); ok {
		ms, err := cli.ParseTime(moment, now)
		return target{toTime, ms}, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return target{}, fmt.Errorf("%q: want start, end, N, +N, -N or time:TIME", text)
	case strings.HasPrefix(text, "+") || n < 0:
		return target{byDistance, n}, nil
	}
	return target{toOffset, n}, nil
}

// move is one partition's change.
type move struct {
	topic     string
	partition int32
	from, to  int64 // from is -1 without an offset
}

func planMoves(ctx context.Context, admin *kadm.Client, group string, chosen cli.Selection, t target) ([]move, error) {
	committed, err := cli.AskCoordinator(ctx, func(ctx context.Context) (kadm.OffsetResponses, error) { return admin.FetchOffsets(ctx, group) })
	if err != nil {
		return nil, cli.Explain(err, "")
	}
	topics := committed.Offsets().TopicsSet()
	for topic := range chosen {
		topics.Add(topic)
	}
	names := topics.Topics()
	if len(names) == 0 {
		return nil, fmt.Errorf("group %s has no offsets; say with --topic which to set", group)
	}
	start, err := admin.ListStartOffsets(ctx, names...)
	if err != nil {
		return nil, err
	}
	end, err := admin.ListEndOffsets(ctx, names...)
	if err != nil {
		return nil, err
	}
	found := end
	if t.kind == toTime {
		if found, err = admin.ListOffsetsAfterMilli(ctx, t.n, names...); err != nil {
			return nil, err
		}
	}
	var moves []move
	for _, e := range sortedOffsets(end) {
		held, has := committed.Lookup(e.Topic, e.Partition)
		if !chosen.Has(e.Topic, e.Partition) || len(chosen) == 0 && !has {
			continue
		}
		if e.Err != nil && e.Partition < 0 {
			return nil, fmt.Errorf("topic %s: %w", e.Topic, cli.Explain(e.Err, ""))
		}
		if e.Err != nil {
			return nil, fmt.Errorf("%s-%d: %w", e.Topic, e.Partition, cli.Explain(e.Err, ""))
		}
		from := int64(-1)
		if has && held.Err == nil {
			from = held.At
		}
		s, _ := start.Lookup(e.Topic, e.Partition)
		at, _ := found.Lookup(e.Topic, e.Partition)
		to, err := t.of(from, s.Offset, e.Offset, at.Offset)
		if err != nil {
			return nil, fmt.Errorf("%s-%d: %w", e.Topic, e.Partition, err)
		}
		moves = append(moves, move{e.Topic, e.Partition, from, to})
	}
	return moves, nil
}

func sortedOffsets(offsets kadm.ListedOffsets) []kadm.ListedOffset {
	var all []kadm.ListedOffset
	offsets.Each(func(o kadm.ListedOffset) { all = append(all, o) })
	slices.SortFunc(all, func(a, b kadm.ListedOffset) int {
		if c := strings.Compare(a.Topic, b.Topic); c != 0 {
			return c
		}
		return int(a.Partition) - int(b.Partition)
	})
	return all
}

// of computes the new offset of a partition from the present one, its bounds and the one found by time.
func (t target) of(from, start, end, found int64) (int64, error) {
	to := from
	switch t.kind {
	case toStart:
		to = start
	case toEnd:
		to = end
	case toOffset:
		to = t.n
	case byDistance:
		if from < 0 {
			return 0, fmt.Errorf("the group has no offset to count from")
		}
		to = from + t.n
	case toTime:
		to = found
	}
	return min(max(to, start), end), nil
}

func carryOut(cmd *cobra.Command, admin *kadm.Client, group string, moves []move, execute bool) error {
	rows := [][]string{{"TOPIC", "PARTITION", "FROM", "TO"}}
	offsets := kadm.Offsets{}
	for _, m := range moves {
		rows = append(rows, []string{m.topic, strconv.Itoa(int(m.partition)), offset(m.from), offset(m.to)})
		offsets.AddOffset(m.topic, m.partition, m.to, -1)
	}
	if err := cli.Table(cmd.OutOrStdout(), rows); err != nil {
		return err
	}
	if !execute {
		fmt.Fprintln(cmd.ErrOrStderr(), "nothing was changed; --execute does it")
		return nil
	}
	committed, err := admin.CommitOffsets(cmd.Context(), group, offsets)
	if err == nil {
		err = committed.Error()
	}
	if err != nil {
		return fmt.Errorf("the offsets were not changed (a group with members refuses it): %w", cli.Explain(err, ""))
	}
	return nil
}
