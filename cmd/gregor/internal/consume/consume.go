// Package consume is the command that prints records.
package consume

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

type options struct {
	offset     string
	partitions string
	group      string
	format     string
	num        int
	follow     bool
	committed  bool
}

// Command returns "gregor consume".
func Command() *cobra.Command {
	var c cli.Connection
	var o options
	cmd := &cobra.Command{
		Use:   "consume TOPIC...",
		Short: "Print records",
		Long: `Print the records of topics, from the start and then as they come in, until Ctrl-C.

With --group the topics' partitions are shared among all members of the group, it goes on where the group has left off,
and what was printed is committed.

--offset is where to begin: "start", "end", an offset, -N (the last N records of each partition), or a time: a date,
@milliseconds, -2h (two hours ago). With --group it counts where the group has no offset yet.

--format is printed for each record:
` + formatHelp,
		Example: `  gregor consume orders
  gregor consume orders --follow=false --format '%p:%o %k=%v\n'
  gregor consume orders --offset end --num 1
  gregor consume orders --offset -1h --partition 0,2
  gregor consume orders --group billing`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: c.CompleteTopics(0),
		RunE: func(cmd *cobra.Command, topics []string) error {
			p, err := o.plan(topics)
			if err != nil {
				return err
			}
			return p.run(cmd.Context(), &c, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	c.AddFlags(cmd)
	f := cmd.Flags()
	f.StringVarP(&o.offset, "offset", "o", "start", "where to begin: start, end, N, -N or a time")
	f.StringVarP(&o.partitions, "partition", "p", "", "only these partitions, as in `0,3-5`")
	f.StringVarP(&o.group, "group", "g", "", "consume as a member of this `GROUP`")
	f.StringVarP(&o.format, "format", "f", `%v\n`, "how to print a record, see above")
	f.IntVarP(&o.num, "num", "n", 0, "stop after this `number` of records; 0: do not")
	f.BoolVar(&o.follow, "follow", true, "wait for new records; --follow=false stops at the present end")
	f.BoolVar(&o.committed, "read-committed", false, "leave out records of transactions that are open or aborted")
	_ = cmd.RegisterFlagCompletionFunc("group", c.CompleteGroups(0))
	_ = cmd.RegisterFlagCompletionFunc("offset", cobra.FixedCompletions([]string{"start", "end"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// plan is what to do, checked.
type plan struct {
	options
	topics     []string
	begin      kgo.Offset
	exact      int64   // the offset that begin is, -1 if it is not one
	partitions []int32 // empty: all
	format     format
}

func (o options) plan(topics []string) (*plan, error) {
	p := &plan{options: o, topics: topics}
	var err error
	if p.begin, p.exact, err = parseOffset(o.offset, time.Now()); err != nil {
		return nil, cli.Usage(fmt.Errorf("--offset: %w", err))
	}
	if o.partitions != "" {
		if p.partitions, err = cli.ParsePartitions(o.partitions); err != nil {
			return nil, cli.Usage(fmt.Errorf("--partition: %w", err))
		}
		if o.group != "" {
			return nil, cli.Usagef("--partition and --group exclude each other: the group decides who reads what")
		}
	}
	if p.format, err = parseFormat(o.format); err != nil {
		return nil, cli.Usage(fmt.Errorf("--format: %w", err))
	}
	if o.num < 0 {
		return nil, cli.Usagef("--num %d: want a number of records", o.num)
	}
	return p, nil
}

func (p *plan) clientOptions() []kgo.Opt {
	opts := []kgo.Opt{kgo.KeepControlRecords(), kgo.FetchMaxWait(500 * time.Millisecond), kgo.ConsumeResetOffset(p.begin)}
	if p.committed {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	switch {
	case p.group != "":
		opts = append(opts, kgo.ConsumeTopics(p.topics...), kgo.ConsumerGroup(p.group), kgo.AutoCommitMarks(), kgo.BlockRebalanceOnPoll())
	case len(p.partitions) > 0:
		opts = append(opts, kgo.ConsumePartitions(p.chosen()))
	default:
		opts = append(opts, kgo.ConsumeTopics(p.topics...))
	}
	return opts
}

func (p *plan) chosen() map[string]map[int32]kgo.Offset {
	all := map[string]map[int32]kgo.Offset{}
	for _, topic := range p.topics {
		all[topic] = map[int32]kgo.Offset{}
		for _, partition := range p.partitions {
			all[topic][partition] = p.begin
		}
	}
	return all
}

// idleEnd is how long nothing may arrive before --follow=false takes it that the rest of a partition is compacted away.
const idleEnd = 5 * time.Second

func (p *plan) run(ctx context.Context, c *cli.Connection, out, errOut io.Writer) error {
	client, err := c.Client(ctx, p.clientOptions()...)
	if err != nil {
		return err
	}
	defer client.CloseAllowingRebalance()
	if err := p.topicsExist(ctx, client); err != nil {
		return err
	}
	end, err := p.ends(ctx, client)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(out, 1<<16)
	err = p.print(ctx, source{client, end, errOut}, w)
	if flushErr := w.Flush(); err == nil {
		err = flushErr
	}
	if p.group != "" {
		commit, cancel := context.WithTimeout(context.WithoutCancel(ctx), idleEnd)
		defer cancel()
		if commitErr := client.CommitMarkedOffsets(commit); err == nil {
			err = commitErr
		}
	}
	return err
}

// topicsExist refuses topics and partitions that do not exist: the client would wait for them.
func (p *plan) topicsExist(ctx context.Context, client *kgo.Client) error {
	details, err := kadm.NewClient(client).ListTopics(ctx, p.topics...)
	if err != nil {
		return err
	}
	for _, t := range details.Sorted() {
		if t.Err != nil {
			return fmt.Errorf("topic %s: %w", t.Topic, cli.Explain(t.Err, ""))
		}
		if err := cli.HasPartitions(t, p.partitions...); err != nil {
			return err
		}
	}
	return nil
}

// print writes records until the context ends, the number is reached or, without --follow, the ends are.
func (p *plan) print(ctx context.Context, s source, w *bufio.Writer) error {
	var line []byte
	for printed := 0; !s.end.reached(); {
		fetches, err := s.poll(ctx)
		if err != nil || fetches == nil {
			return err
		}
		for records := fetches.RecordIter(); !records.Done(); {
			r := records.Next()
			s.end.passed(r)
			if r.Attrs.IsControl() {
				continue
			}
			line = p.format.append(line[:0], r)
			if _, err := w.Write(line); err != nil {
				return err
			}
			if p.group != "" {
				s.client.MarkCommitRecords(r)
			}
			if printed++; printed == p.num {
				return nil
			}
		}
		s.client.AllowRebalance()
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// source is where records come from.
type source struct {
	client *kgo.Client
	end    *ends     // nil: none
	told   io.Writer // what the client gets over by itself
}

// poll returns what has arrived; nil when it is over.
func (s source) poll(ctx context.Context) (kgo.Fetches, error) {
	wait, cancel := ctx, context.CancelFunc(func() {})
	if s.end != nil {
		wait, cancel = context.WithTimeout(ctx, idleEnd)
	}
	defer cancel()
	fetches := s.client.PollFetches(wait)
	if ctx.Err() != nil || fetches.IsClientClosed() {
		return nil, nil
	}
	for _, e := range fetches.Errors() {
		switch text := passing(e.Err); {
		case errors.Is(e.Err, context.DeadlineExceeded):
			return nil, nil
		case text != "":
			fmt.Fprintln(s.told, "gregor: "+text)
		case e.Topic == "":
			return nil, cli.Explain(e.Err, "")
		default:
			return nil, fmt.Errorf("%s-%d: %w", e.Topic, e.Partition, cli.Explain(e.Err, ""))
		}
	}
	return fetches, nil
}

// passing says in words what the client tells of and goes on after, "" for an error that ends the command: a group is joined again,
// and where records were lost reading goes on behind them.
func passing(err error) string {
	var lost *kgo.ErrDataLoss
	var group *kgo.ErrGroupSession
	var answer *kerr.Error
	switch {
	case errors.As(err, &lost):
		return fmt.Sprintf("%s-%d: records were lost, by an unclean election or deletion: it goes on from offset %d instead of %d",
			lost.Topic, lost.Partition, lost.ResetTo, lost.ConsumedTo)
	case errors.As(err, &group) && errors.As(err, &answer) && !answer.Retriable:
		return ""
	case errors.As(err, &group) && answer != nil:
		return "out of the group for now: " + cli.Explain(answer, "").Error()
	case errors.As(err, &group):
		return "out of the group for now: its coordinator does not answer"
	}
	return ""
}
