package doctor

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

func partitionCommand(c *cli.Connection) *cobra.Command {
	return &cobra.Command{
		Use:               "partition TOPIC [PARTITION]",
		Short:             "Say why partitions have no leader or too few in-sync replicas",
		Example:           `  gregor doctor partition orders`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: c.CompleteTopics(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			only := int32(-1)
			if len(args) == 2 {
				n, err := strconv.ParseInt(args[1], 10, 32)
				if err != nil || n < 0 {
					return cli.Usagef("%q is no number of a partition", args[1])
				}
				only = int32(n)
			}
			admin, err := c.Admin(cmd.Context())
			if err != nil {
				return err
			}
			defer admin.Close()
			t, err := lookAtTopic(cmd.Context(), admin, args[0])
			if err != nil {
				return err
			}
			return report(cmd.OutOrStdout(), t.judge(only))
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
	t.dirs, _ = admin.DescribeAllLogDirs(ctx, set) // what cannot be had is judged without
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

// judge says of each partition, or of only one, what keeps it from being whole.
func (t *topicState) judge(only int32) []finding {
	var findings []finding
	for _, p := range t.detail.Partitions.Sorted() {
		if only < 0 || only == p.Partition {
			findings = append(findings, t.judgePartition(p))
		}
	}
	if len(findings) == 0 {
		findings = append(findings, finding{about: fmt.Sprintf("%s-%d", t.detail.Topic, only), wrong: "the topic has no such partition"})
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
		f.wrong = fmt.Sprintf("it has no leader: none of the replicas that were in sync (%v) can lead. %s", p.ISR, strings.Join(reasons, "; "))
		f.todo = "Start one of those brokers again; or accept to lose records: an unclean election (kafka-leader-election --election-type unclean)."
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
	var failed []string
	for _, dir := range t.dirs[broker] {
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
