package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

// reassignFlags say what "gregor cluster reassign" is to do. At most one of plan, topics (with to and factor) and drain is given.
type reassignFlags struct {
	plan                           string
	topics                         []string
	to, drain                      []int32
	factor                         int
	execute, json                  bool
	verify, cancel, watch, doNotGo bool
}

func reassignCommand(c *cli.Connection) *cobra.Command {
	var o reassignFlags
	cmd := &cobra.Command{
		Use:   "reassign",
		Short: "Move replicas between brokers, with a progress bar",
		Long: `Move replicas between brokers. Without --execute it only shows what would be done. What is to move comes from one of

  --topic orders --to 1,2,3   the replicas of topics evenly on these brokers (without --to: on all), copying as little as possible;
                              --replication-factor gives each partition another number of them
  --drain 4                   all replicas away from brokers, to those that have the fewest
  --plan FILE                 a file as kafka-reassign-partitions takes it (-: standard input); --json writes one

With --execute it then shows how far the moves are until all are done; Ctrl-C ends the showing and not the moves, which
"gregor cluster reassign --watch" shows again. --verify says how far those of a plan are, --cancel ends moves and puts back what
was: those of --plan or --topic, or all. Replicas stay where they are until the copies are in sync.`,
		Example: `  gregor cluster reassign --topic orders --to 1,2,3 --execute
  gregor cluster reassign --drain 4 --json > plan.json
  gregor cluster reassign --plan plan.json --execute
  gregor cluster reassign --plan plan.json --verify
  gregor cluster reassign --watch
  gregor cluster reassign --cancel`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			s, err := connect(cmd.Context(), c)
			if err != nil {
				return err
			}
			defer s.Close()
			return o.run(cmd, s)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.plan, "plan", "", "a `file` that says where replicas go; -: standard input")
	f.StringArrayVarP(&o.topics, "topic", "t", nil, "a `TOPIC` or TOPIC:PARTITIONS (repeatable)")
	f.Int32SliceVar(&o.to, "to", nil, "the `brokers` that are to have the replicas; none: all")
	f.IntVarP(&o.factor, "replication-factor", "r", 0, "replicas of each partition from now on; 0: as many as it has")
	f.Int32SliceVar(&o.drain, "drain", nil, "the `brokers` that are to have no replicas")
	f.BoolVar(&o.execute, "execute", false, "do it")
	f.BoolVar(&o.doNotGo, "no-wait", false, "with --execute: end when the moves have begun")
	f.BoolVar(&o.json, "json", false, "write the plan as JSON")
	f.BoolVar(&o.verify, "verify", false, "say how far the moves of a plan are")
	f.BoolVar(&o.cancel, "cancel", false, "end moves that are under way")
	f.BoolVar(&o.watch, "watch", false, "show how far the moves are that are under way")
	_ = cmd.RegisterFlagCompletionFunc("topic", func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return c.CompleteTopics(0)(cmd, nil, typed)
	})
	return cmd
}

// arrivedTries is how often a broker is asked, lookEvery apart, whether moves ended as they should.
const arrivedTries = 20

// check finds command lines that make no sense.
func (o *reassignFlags) check() error {
	sources, modes := 0, 0
	for _, given := range []bool{o.plan != "", len(o.topics) > 0, len(o.drain) > 0} {
		if given {
			sources++
		}
	}
	for _, given := range []bool{o.execute, o.json, o.verify, o.cancel, o.watch} {
		if given {
			modes++
		}
	}
	switch {
	case sources > 1:
		return cli.Usagef("give one of --plan, --topic and --drain")
	case modes > 1:
		return cli.Usagef("give one of --execute, --json, --verify, --cancel and --watch")
	case sources == 0 && !o.cancel && !o.watch:
		return cli.Usagef("say with --plan, --topic or --drain what is to move")
	case o.verify && o.plan == "":
		return cli.Usagef("--verify needs the --plan whose moves it looks for")
	case o.watch && sources > 0:
		return cli.Usagef("--watch shows all moves that are under way; give nothing else")
	case o.cancel && len(o.drain) > 0:
		return cli.Usagef("--cancel takes --plan, --topic or nothing")
	case len(o.topics) == 0 && (len(o.to) > 0 || o.factor != 0):
		return cli.Usagef("--to and --replication-factor are for --topic")
	case o.factor < 0:
		return cli.Usagef("--replication-factor %d: want a number of at least 1", o.factor)
	case o.doNotGo && !o.execute:
		return cli.Usagef("--no-wait is for --execute")
	}
	return nil
}

func (o *reassignFlags) run(cmd *cobra.Command, s session) error {
	switch {
	case o.cancel:
		return o.runCancel(cmd, s)
	case o.watch:
		return watch(cmd, s, nil)
	}
	moves, err := o.moves(cmd, s)
	if err != nil {
		return err
	}
	switch {
	case o.verify:
		return verify(cmd, s, moves)
	case o.json:
		return writePlan(cmd.OutOrStdout(), moves)
	}
	if len(moves) == 0 {
		fmt.Fprintln(cmd.OutOrStdout(), "nothing is to move")
		return nil
	}
	if err := showMoves(cmd.OutOrStdout(), moves); err != nil {
		return err
	}
	if !o.execute {
		fmt.Fprintln(cmd.ErrOrStderr(), "nothing was changed; --execute does it")
		return nil
	}
	return o.runExecute(cmd, s, moves)
}

// moves is what is asked for, with the replicas as they are now.
func (o *reassignFlags) moves(cmd *cobra.Command, s session) ([]move, error) {
	m, err := s.Client.Metadata(cmd.Context())
	if err != nil {
		return nil, err
	}
	if o.plan != "" {
		moves, err := openPlan(cmd.InOrStdin(), o.plan)
		if err != nil {
			return nil, fmt.Errorf("the plan %s: %w", o.plan, err)
		}
		return moves, withPresent(moves, m.Topics)
	}
	moving, err := s.underWay(cmd.Context())
	if err != nil {
		return nil, err
	}
	all := present(m.Topics)
	for i, p := range all {
		if now, ok := moving[p.partition]; ok { // counts as where it goes
			all[i].from = slices.DeleteFunc(slices.Clone(now.Replicas), func(b int32) bool { return slices.Contains(now.RemovingReplicas, b) })
		}
	}
	if len(o.drain) > 0 {
		return planDrain(m, all, o.drain)
	}
	return planTopics(m, all, o)
}

func openPlan(stdin io.Reader, name string) ([]move, error) {
	if name == "-" {
		return readPlan(stdin)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readPlan(file)
}

// present is every partition with its replicas.
func present(topics kadm.TopicDetails) []move {
	var all []move
	topics.EachPartition(func(p kadm.PartitionDetail) {
		all = append(all, move{partition: partition{p.Topic, p.Partition}, from: p.Replicas})
	})
	sortMoves(all)
	return all
}

// withPresent adds the replicas that partitions have to a plan that was read.
func withPresent(moves []move, topics kadm.TopicDetails) error {
	for i, m := range moves {
		p, ok := topics[m.topic].Partitions[m.id]
		if !ok {
			return fmt.Errorf("there is no partition %s", m.partition)
		}
		moves[i].from = p.Replicas
	}
	return nil
}

func planDrain(m kadm.Metadata, all []move, drain []int32) ([]move, error) {
	for _, b := range drain {
		registered := slices.ContainsFunc(m.Brokers, func(r kadm.BrokerDetail) bool { return r.NodeID == b })
		if !registered && !slices.ContainsFunc(all, func(p move) bool { return slices.Contains(p.from, b) }) {
			return nil, fmt.Errorf("there is no broker %d, and no partition has a replica on it", b)
		}
	}
	var rest []target
	for _, b := range targets(m) {
		if !slices.Contains(drain, b.id) {
			rest = append(rest, b)
		}
	}
	// What stays is counted, but left alone even if it is on a broker that is away.
	s := newSpreader(rest)
	var leaving []move
	for _, p := range all {
		if slices.ContainsFunc(p.from, func(b int32) bool { return slices.Contains(drain, b) }) {
			leaving = append(leaving, p)
		} else {
			s.count(p.from, 1)
		}
	}
	return s.drain(leaving)
}

func planTopics(m kadm.Metadata, all []move, o *reassignFlags) ([]move, error) {
	chosen, err := cli.ParseSelection(o.topics)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--topic: %w", err))
	}
	for topic := range chosen {
		if err := m.Topics[topic].Err; err != nil || !m.Topics.Has(topic) {
			return nil, fmt.Errorf("there is no topic %s", topic)
		}
	}
	list := targets(m)
	if len(o.to) > 0 {
		for _, broker := range o.to {
			if !slices.ContainsFunc(list, func(b target) bool { return b.id == broker }) {
				return nil, fmt.Errorf("there is no broker %d", broker)
			}
		}
		list = slices.DeleteFunc(list, func(b target) bool { return !slices.Contains(o.to, b.id) })
	}
	some := slices.DeleteFunc(all, func(p move) bool { return !chosen.Has(p.topic, p.id) })
	return newSpreader(list).balance(some, o.factor)
}

func targets(m kadm.Metadata) []target {
	var list []target
	for _, b := range m.Brokers {
		t := target{id: b.NodeID}
		if b.Rack != nil {
			t.rack = *b.Rack
		}
		list = append(list, t)
	}
	return list
}

func showMoves(w io.Writer, moves []move) error {
	rows := [][]string{{"PARTITION", "FROM", "TO"}}
	for _, m := range moves {
		rows = append(rows, []string{m.partition.String(), cli.IDs(m.from), cli.IDs(m.to)})
	}
	return cli.Table(w, rows)
}

func (o *reassignFlags) runExecute(cmd *cobra.Command, s session, moves []move) error {
	var wanted kadm.AlterPartitionAssignmentsReq
	for _, m := range moves {
		wanted.Assign(m.topic, m.id, m.to)
	}
	refused, err := alter(cmd, s, wanted)
	if err != nil && len(refused) == 0 {
		return err
	}
	moves = slices.DeleteFunc(moves, func(m move) bool { return refused[m.partition] })
	if o.doNotGo || len(moves) == 0 {
		return err
	}
	return cmp.Or(watch(cmd, s, moves), err)
}

// alter asks for new replicas, or with none for the end of moves, and tells of each partition for which that is refused.
func alter(cmd *cobra.Command, s session, wanted kadm.AlterPartitionAssignmentsReq) (refused map[partition]bool, err error) {
	answers, err := s.AlterPartitionAssignments(cmd.Context(), wanted)
	if err != nil {
		return nil, err
	}
	var failures cli.Failures
	refused = map[partition]bool{}
	for _, a := range answers.Sorted() {
		p := partition{a.Topic, a.Partition}
		if failures.Check(cmd.ErrOrStderr(), p.String(), cli.Explain(a.Err, a.ErrMessage)) {
			refused[p] = true
		}
	}
	return refused, failures.Err()
}

// runCancel ends the moves of a plan, of topics, or all.
func (o *reassignFlags) runCancel(cmd *cobra.Command, s session) error {
	moving, err := s.underWay(cmd.Context())
	if err != nil {
		return err
	}
	mine := func(partition) bool { return true }
	if o.plan != "" {
		moves, err := openPlan(cmd.InOrStdin(), o.plan)
		if err != nil {
			return fmt.Errorf("the plan %s: %w", o.plan, err)
		}
		mine = func(p partition) bool {
			return slices.ContainsFunc(moves, func(m move) bool { return m.partition == p })
		}
	} else if len(o.topics) > 0 {
		chosen, err := cli.ParseSelection(o.topics)
		if err != nil {
			return cli.Usage(fmt.Errorf("--topic: %w", err))
		}
		mine = func(p partition) bool { return chosen.Has(p.topic, p.id) }
	}
	var wanted kadm.AlterPartitionAssignmentsReq
	var names []string
	for p := range moving {
		if mine(p) {
			wanted.CancelAssign(p.topic, p.id)
			names = append(names, p.String())
		}
	}
	if len(names) == 0 {
		fmt.Fprintln(cmd.OutOrStdout(), "nothing is moving")
		return nil
	}
	if _, err := alter(cmd, s, wanted); err != nil {
		return err
	}
	slices.Sort(names)
	fmt.Fprintf(cmd.OutOrStdout(), "cancelled: %s\n", strings.Join(names, ", "))
	return nil
}

// verify says of each partition of a plan whether it has its replicas, and ends with an error if one has not.
func verify(cmd *cobra.Command, s session, moves []move) error {
	g, err := begin(cmd.Context(), s, moves)
	if err != nil {
		return err
	}
	now, err := g.measure(cmd.Context(), s)
	if err != nil {
		return err
	}
	for _, m := range moves {
		switch c := g.copies[m.partition]; {
		case now.done[m.partition] && slices.Equal(m.from, m.to):
			fmt.Fprintf(cmd.OutOrStdout(), "%s: done\n", m.partition)
		case now.done[m.partition]:
			fmt.Fprintf(cmd.OutOrStdout(), "%s: not under way; its replicas are %s, not %s\n", m.partition, cli.IDs(m.from), cli.IDs(m.to))
		default:
			fmt.Fprintf(cmd.OutOrStdout(), "%s: moving, %s of %s copied\n", m.partition, cli.Size(now.bytesOf[m.partition]), cli.Size(c.bytes()))
		}
	}
	if open := slices.ContainsFunc(moves, func(m move) bool { return !now.done[m.partition] || !slices.Equal(m.from, m.to) }); open {
		return fmt.Errorf("not all moves are done")
	}
	return nil
}

// watch shows how far moves are until all are done; nil = all that are under way.
func watch(cmd *cobra.Command, s session, moves []move) error {
	g, err := begin(cmd.Context(), s, moves)
	if err != nil {
		return err
	}
	if len(g.copies) == 0 {
		fmt.Fprintln(cmd.OutOrStdout(), "nothing is moving")
		return nil
	}
	err = g.follow(cmd.Context(), s, newDisplay(cmd.ErrOrStderr()))
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("the moves go on; gregor cluster reassign --watch shows them again, --cancel ends them")
	}
	if err == nil {
		err = arrived(cmd.Context(), s, moves)
	}
	if err == nil {
		fmt.Fprintf(cmd.OutOrStdout(), "%s done\n", cli.Count(len(g.copies), "move"))
	}
	return err
}

// arrived says which partitions do not have the replicas that their moves were for: somebody has cancelled those, or moved them elsewhere.
// A broker may be told of the end of a move a little later than the controller knows it.
func arrived(ctx context.Context, s session, moves []move) error {
	for try := 1; ; try++ {
		topics, err := s.ListTopicsWithInternal(ctx)
		if err != nil {
			return err
		}
		var astray []string
		for _, m := range moves {
			if p := topics[m.topic].Partitions[m.id]; !slices.Equal(p.Replicas, m.to) {
				astray = append(astray, fmt.Sprintf("%s has replicas %s, not %s", m.partition, cli.IDs(p.Replicas), cli.IDs(m.to)))
			}
		}
		switch {
		case len(astray) == 0:
			return nil
		case try == arrivedTries:
			return fmt.Errorf("moves ended otherwise: %s", strings.Join(astray, "; "))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lookEvery):
		}
	}
}
