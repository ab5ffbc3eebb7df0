package cluster

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// electAtOnce is how many partitions one request names, so that the bar moves and no request runs into its time limit.
const electAtOnce = 200

func electCommand(c *cli.Connection) *cobra.Command {
	var unclean bool
	cmd := &cobra.Command{
		Use:   "elect [TOPIC[:PARTITIONS]...]",
		Short: "Give partitions back to their preferred leaders",
		Long: `Give partitions back to their preferred leaders, the first of their replicas: all partitions, or those of the topics that are
named. It is what is due after brokers were restarted.

With --unclean it lets a replica that is not in sync lead those of the named partitions that have no leader. What only the
replicas in sync had is lost for good; do it when they do not come back.`,
		Example: `  gregor cluster elect
  gregor cluster elect orders payments:0,3-5
  gregor cluster elect --unclean orders:7`,
		ValidArgsFunction: c.CompleteTopics(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			chosen, err := cli.ParseSelection(args)
			if err != nil {
				return cli.Usage(err)
			}
			if unclean && len(chosen) == 0 {
				return cli.Usagef("--unclean loses records: name the topics")
			}
			s, err := connect(cmd.Context(), c)
			if err != nil {
				return err
			}
			defer s.Close()
			return elect(cmd, s, chosen, unclean)
		},
	}
	cmd.Flags().BoolVar(&unclean, "unclean", false, "let replicas lead that are not in sync, where there is no leader; records are lost")
	return cmd
}

// candidates are the chosen partitions that an election can help.
func candidates(topics kadm.TopicDetails, chosen cli.Selection, unclean bool) (list []partition, looked int) {
	for _, t := range topics.Sorted() {
		for _, p := range t.Partitions.Sorted() {
			if !chosen.Has(p.Topic, p.Partition) {
				continue
			}
			looked++
			if unclean && p.Leader < 0 || !unclean && len(p.Replicas) > 0 && p.Leader != p.Replicas[0] {
				list = append(list, partition{p.Topic, p.Partition})
			}
		}
	}
	return list, looked
}

func elect(cmd *cobra.Command, s session, chosen cli.Selection, unclean bool) error {
	topics, err := s.ListTopicsWithInternal(cmd.Context())
	if err != nil {
		return err
	}
	for topic, partitions := range chosen {
		if !topics.Has(topic) {
			return fmt.Errorf("there is no topic %s", topic)
		}
		for _, n := range partitions {
			if _, ok := topics[topic].Partitions[n]; !ok {
				return fmt.Errorf("there is no partition %s", partition{topic, n})
			}
		}
	}
	list, looked := candidates(topics, chosen, unclean)
	how := kadm.ElectPreferredReplica
	if unclean {
		how = kadm.ElectLiveReplica
	}
	done, failures := 0, cli.Failures{}
	d := newDisplay(cmd.ErrOrStderr())
	for batch := range slices.Chunk(list, electAtOnce) {
		set := kadm.TopicsSet{}
		for _, p := range batch {
			set.Add(p.topic, p.id)
		}
		answers, err := s.ElectLeaders(cmd.Context(), how, set)
		if err != nil {
			d.close()
			return err
		}
		d.close()
		for _, p := range batch {
			a := answers[p.topic][p.id]
			if errors.Is(a.Err, kerr.ElectionNotNeeded) {
				a.Err = nil
			}
			if !failures.Check(cmd.ErrOrStderr(), p.String(), cli.Explain(a.Err, a.ErrMessage)) {
				done++
			}
		}
		d.show(fmt.Sprintf("%s %s elected", cli.Bar(float64(done)/float64(len(list))), cli.Count(done, "leader")), "")
	}
	d.close()
	what := "were led by their preferred replicas already"
	switch {
	case unclean:
		what = "had a leader already"
	case looked == 1:
		what = "was led by its preferred replica already"
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s elected; %d of %s %s\n", cli.Count(done, "leader"), looked-len(list),
		cli.Count(looked, "partition"), what)
	return failures.Err()
}
