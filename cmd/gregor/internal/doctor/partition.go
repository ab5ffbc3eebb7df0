package doctor

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/gregor-broker/gregor/cmd/gregor/internal/cluster"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

func partitionCommand(c *cli.Connection) *cobra.Command {
	return &cobra.Command{
		Use:   "partition TOPIC[:PARTITIONS] [PARTITION]",
		Short: "Say why partitions have no leader or too few in-sync replicas",
		Example: `  gregor doctor partition orders
  gregor doctor partition orders:0,3-5`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: c.CompleteTopics(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			chosen, err := cli.ParseSelection([]string{strings.Join(args, ":")})
			if err != nil {
				return cli.Usage(err)
			}
			admin, err := c.Admin(cmd.Context(), cluster.Patiently()...)
			if err != nil {
				return err
			}
			defer admin.Close()
			for topic, partitions := range chosen { // one
				t, err := lookAtTopic(cmd.Context(), admin, topic)
				if err != nil {
					return err
				}
				return report(cmd.OutOrStdout(), t.judge(partitions))
			}
			return nil
		},
	}
}

// topicState is what is known of a topic and of who holds it.
type topicState struct {
	detail kadm.TopicDetail
	alive  map[int32]bool
	dirs   kadm.DescribedAllLogDirs
	minISR int
	moving map[int32]bool // partitions whose replicas are being reassigned
}

func lookAtTopic(ctx context.Context, admin *kadm.Client, topic string) (*topicState, error) {
	m, err := admin.Metadata(ctx, topic)
	if err != nil {
		return nil, err
	}
	t := &topicState{detail: m.Topics[topic], alive: map[int32]bool{}, minISR: 1, moving: map[int32]bool{}}
	if t.detail.Err != nil {
		return nil, fmt.Errorf("topic %s: %w", topic, cli.Explain(t.detail.Err, ""))
	}
	for _, b := range m.Brokers {
		t.alive[b.NodeID] = true
	}
	set := kadm.TopicsSet{}
	set.Add(topic, t.detail.Partitions.Numbers()...)
	quick, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	t.dirs, _ = admin.DescribeAllLogDirs(quick, set) // what cannot be had is judged without
	if configs, err := admin.DescribeTopicConfigs(ctx, topic); err == nil && len(configs) == 1 {
		for _, c := range configs[0].Configs {
			if n, err := strconv.Atoi(c.MaybeValue()); err == nil && c.Key == "min.insync.replicas" {
				t.minISR = n
			}
		}
	}
	if moves, err := admin.ListPartitionReassignments(ctx, set); err == nil {
		for _, p := range moves[topic] {
			t.moving[p.Partition] = true
		}
	}
	return t, nil
}

// judge says of each partition, or of some, what keeps it from being whole.
func (t *topicState) judge(some []int32) []finding {
	if len(some) == 0 {
		some = t.detail.Partitions.Numbers()
	}
	var findings []finding
	for _, n := range some {
		if p, ok := t.detail.Partitions[n]; ok {
			findings = append(findings, t.judgePartition(p))
		} else {
			findings = append(findings, finding{about: fmt.Sprintf("%s-%d", t.detail.Topic, n), wrong: "the topic has no such partition"})
		}
	}
	return findings
}

func (t *topicState) judgePartition(p kadm.PartitionDetail) finding {
	f := finding{about: fmt.Sprintf("%s-%d", t.detail.Topic, p.Partition)}
	var reasons []string
	for _, r := range p.Replicas {
		if !slices.Contains(p.ISR, r) {
			reasons = append(reasons, t.whyOutOfSync(p.Partition, r))
		}
	}
	switch {
	case p.Leader < 0:
		var gone []string
		for _, r := range p.ISR {
			gone = append(gone, t.whyOutOfSync(p.Partition, r))
		}
		f.wrong = "it has no leader: of the replicas that were in sync, " + strings.Join(append(gone, reasons...), "; ")
		f.todo = "Start that broker again: nobody else has all that was acknowledged."
		if len(p.ISR) > 1 {
			f.todo = "Start one of those brokers again: nobody else has all that was acknowledged."
		}
		if slices.ContainsFunc(p.Replicas, func(r int32) bool { return t.alive[r] && !slices.Contains(p.ISR, r) }) {
			f.todo += fmt.Sprintf(" If they are lost for good, gregor cluster elect --unclean %s:%d lets another lead, without the records that it does not have.",
				t.detail.Topic, p.Partition)
		}
	case len(reasons) > 0:
		f.wrong = fmt.Sprintf("%d of %s in sync: %s", len(p.ISR), cli.Count(len(p.Replicas), "replica"), strings.Join(reasons, "; "))
		if len(p.ISR) < t.minISR {
			f.todo = fmt.Sprintf("Producers with acks=all are refused: min.insync.replicas is %d.", t.minISR)
		}
	default:
		f.note = fmt.Sprintf("broker %d leads, %s in sync", p.Leader, cli.Count(len(p.ISR), "replica"))
	}
	if t.moving[p.Partition] {
		f.about += " (its replicas are being reassigned)"
	}
	return f
}

// whyOutOfSync says what is known of a replica that is not in sync.
func (t *topicState) whyOutOfSync(partition, broker int32) string {
	if !t.alive[broker] {
		return fmt.Sprintf("broker %d does not run, or has lost its session with ZooKeeper", broker)
	}
	dirs, told := t.dirs[broker]
	if !told {
		return fmt.Sprintf("broker %d is registered and does not answer (gregor doctor connect)", broker)
	}
	var failed []string
	for _, dir := range dirs {
		if dir.Err != nil {
			failed = append(failed, dir.Dir)
			continue
		}
		if held, ok := dir.Topics.Lookup(t.detail.Topic, partition); ok {
			if held.OffsetLag > 0 {
				return fmt.Sprintf("broker %d is %d records behind in %s: it has just come back, its disk or network is too slow, or a replication throttle holds it back",
					broker, held.OffsetLag, dir.Dir)
			}
			return fmt.Sprintf("broker %d has everything and should be in sync in a moment", broker)
		}
	}
	if len(failed) > 0 {
		return fmt.Sprintf("broker %d runs, but its log directories %s have failed", broker, strings.Join(failed, ", "))
	}
	return fmt.Sprintf("broker %d runs and does not hold it: it has not been told yet, or could not create it (see its log)", broker)
}
