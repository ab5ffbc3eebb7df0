// Package topic is the command group that manages topics.
package topic

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Command returns "gregor topic".
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topic",
		Short: "Create, list, describe, change and delete topics",
		Example: `  gregor topic create orders --partitions 6 --config retention.ms=86400000
  gregor topic list
  gregor topic describe orders
  gregor topic alter orders --config cleanup.policy=compact --partitions 12
  gregor topic delete orders`,
	}
	var c cli.Connection
	c.AddFlags(cmd)
	cmd.AddCommand(createCommand(&c), listCommand(&c), describeCommand(&c), deleteCommand(&c), alterCommand(&c))
	return cli.Group(cmd)
}

func completeConfig(cmd *cobra.Command, flags ...string) {
	for _, name := range flags {
		suffix := "="
		if name == "delete-config" {
			suffix = ""
		}
		_ = cmd.RegisterFlagCompletionFunc(name, func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
			return config.TopicKeys(typed, suffix), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		})
	}
}

func createCommand(c *cli.Connection) *cobra.Command {
	var partitions int32
	var replication int16
	var configs []string
	var ifNotExists bool
	cmd := &cobra.Command{
		Use:   "create TOPIC...",
		Short: "Create topics",
		Example: `  gregor topic create orders
  gregor topic create orders payments --partitions 6 --replication-factor 3
  gregor topic create state --config cleanup.policy=compact --config segment.ms=60000`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, topics []string) error {
			pairs, err := cli.KeyValues("config", configs)
			if err != nil {
				return err
			}
			values := map[string]*string{}
			for _, p := range pairs {
				values[p[0]] = &p[1]
			}
			admin, err := c.Admin(cmd.Context())
			if err != nil {
				return err
			}
			defer admin.Close()
			created, err := admin.CreateTopics(cmd.Context(), partitions, replication, values, topics...)
			if err != nil {
				return err
			}
			var failures cli.Failures
			for _, r := range created.Sorted() {
				done := "created with " + cli.Count(int(r.NumPartitions), "partition")
				if r.NumPartitions < 0 {
					done = "created"
				}
				err := cli.Explain(r.Err, r.ErrMessage)
				if ifNotExists && r.Err == kerr.TopicAlreadyExists {
					done, err = "exists already", nil
				}
				failures.Report(cmd.OutOrStdout(), cmd.ErrOrStderr(), r.Topic, done, err)
			}
			return failures.Err()
		},
	}
	f := cmd.Flags()
	f.Int32VarP(&partitions, "partitions", "p", -1, "number of partitions; -1: the broker's num.partitions")
	f.Int16VarP(&replication, "replication-factor", "r", -1, "replicas of each partition; -1: the broker's default.replication.factor")
	f.StringArrayVarP(&configs, "config", "c", nil, "a setting of the topic, `key=value` (repeatable)")
	f.BoolVar(&ifNotExists, "if-not-exists", false, "a topic that exists is no error")
	completeConfig(cmd, "config")
	return cmd
}

func listCommand(c *cli.Connection) *cobra.Command {
	var internal, names bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List topics",
		Example: `  gregor topic list
  gregor topic list --names --internal`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			admin, err := c.Admin(cmd.Context())
			if err != nil {
				return err
			}
			defer admin.Close()
			topics, err := admin.ListTopicsWithInternal(cmd.Context())
			if err != nil {
				return err
			}
			if !internal {
				topics.FilterInternal()
			}
			return cli.Table(cmd.OutOrStdout(), listRows(topics, names))
		},
	}
	cmd.Flags().BoolVar(&internal, "internal", false, "also list the broker's own topics")
	cmd.Flags().BoolVar(&names, "names", false, "print names only")
	return cmd
}

func listRows(topics kadm.TopicDetails, names bool) [][]string {
	var rows [][]string
	if !names {
		rows = append(rows, []string{"TOPIC", "PARTITIONS", "REPLICAS"})
	}
	for _, t := range topics.Sorted() {
		if names {
			rows = append(rows, []string{t.Topic})
			continue
		}
		rows = append(rows, []string{t.Topic, strconv.Itoa(len(t.Partitions)), strconv.Itoa(t.Partitions.NumReplicas())})
	}
	return rows
}

func deleteCommand(c *cli.Connection) *cobra.Command {
	var ifExists bool
	cmd := &cobra.Command{
		Use:               "delete TOPIC...",
		Short:             "Delete topics with all their records",
		Example:           `  gregor topic delete orders payments`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: c.CompleteTopics(0),
		RunE: func(cmd *cobra.Command, topics []string) error {
			admin, err := c.Admin(cmd.Context())
			if err != nil {
				return err
			}
			defer admin.Close()
			deleted, err := admin.DeleteTopics(cmd.Context(), topics...)
			if err != nil {
				return err
			}
			var failures cli.Failures
			for _, r := range deleted.Sorted() {
				done, err := "deleted", cli.Explain(r.Err, r.ErrMessage)
				if ifExists && r.Err == kerr.UnknownTopicOrPartition {
					done, err = "does not exist", nil
				}
				failures.Report(cmd.OutOrStdout(), cmd.ErrOrStderr(), r.Topic, done, err)
			}
			return failures.Err()
		},
	}
	cmd.Flags().BoolVar(&ifExists, "if-exists", false, "a topic that does not exist is no error")
	return cmd
}

// changes are what "topic alter" is asked to do to the configuration.
type changes struct{ set, remove, add, subtract []string }

func (c changes) alterations() ([]kadm.AlterConfig, error) {
	var all []kadm.AlterConfig
	for _, part := range []struct {
		flag string
		list []string
		op   kadm.IncrementalOp
	}{{"config", c.set, kadm.SetConfig}, {"append", c.add, kadm.AppendConfig}, {"subtract", c.subtract, kadm.SubtractConfig}} {
		pairs, err := cli.KeyValues(part.flag, part.list)
		if err != nil {
			return nil, err
		}
		for _, p := range pairs {
			all = append(all, kadm.AlterConfig{Op: part.op, Name: p[0], Value: &p[1]})
		}
	}
	for _, name := range c.remove {
		all = append(all, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: name})
	}
	return all, nil
}

func alterCommand(c *cli.Connection) *cobra.Command {
	var wanted changes
	var partitions int
	var dry bool
	cmd := &cobra.Command{
		Use:   "alter TOPIC...",
		Short: "Change settings or the number of partitions",
		Long: `Change settings of topics, or add partitions. Settings that are not named stay as they are; --delete-config goes back to
the default. The number of partitions can only grow.`,
		Example: `  gregor topic alter orders --config retention.ms=3600000 --delete-config segment.bytes
  gregor topic alter orders --append cleanup.policy=compact
  gregor topic alter orders --partitions 12`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: c.CompleteTopics(0),
		RunE: func(cmd *cobra.Command, topics []string) error {
			alterations, err := wanted.alterations()
			if err != nil {
				return err
			}
			if len(alterations) == 0 && partitions == 0 {
				return cli.Usagef("nothing to change: give --config, --delete-config, --append, --subtract or --partitions")
			}
			admin, err := c.Admin(cmd.Context())
			if err != nil {
				return err
			}
			defer admin.Close()
			var failures cli.Failures
			if err := alterConfigs(cmd, admin, &failures, alterations, topics, dry); err != nil {
				return err
			}
			if err := alterPartitions(cmd, admin, &failures, partitions, topics, dry); err != nil {
				return err
			}
			return failures.Err()
		},
	}
	f := cmd.Flags()
	f.StringArrayVarP(&wanted.set, "config", "c", nil, "set `key=value` (repeatable)")
	f.StringArrayVarP(&wanted.remove, "delete-config", "d", nil, "go back to the default of `key` (repeatable)")
	f.StringArrayVar(&wanted.add, "append", nil, "append to a list, `key=value` (repeatable)")
	f.StringArrayVar(&wanted.subtract, "subtract", nil, "take from a list, `key=value` (repeatable)")
	f.IntVarP(&partitions, "partitions", "p", 0, "the `number` of partitions to have from now on")
	f.BoolVar(&dry, "validate-only", false, "only say whether it would be done")
	completeConfig(cmd, "config", "delete-config", "append", "subtract")
	return cmd
}

func alterConfigs(cmd *cobra.Command, admin *kadm.Client, failures *cli.Failures, list []kadm.AlterConfig, topics []string, dry bool) error {
	if len(list) == 0 {
		return nil
	}
	alter := admin.AlterTopicConfigs
	if dry {
		alter = admin.ValidateAlterTopicConfigs
	}
	responses, err := alter(cmd.Context(), list, topics...)
	if err != nil {
		return err
	}
	for _, r := range responses {
		failures.Report(cmd.OutOrStdout(), cmd.ErrOrStderr(), r.Name, outcome("settings changed", dry), cli.Explain(r.Err, r.ErrMessage))
	}
	return nil
}

func alterPartitions(cmd *cobra.Command, admin *kadm.Client, failures *cli.Failures, n int, topics []string, dry bool) error {
	if n == 0 {
		return nil
	}
	update := func(ctx context.Context) (kadm.CreatePartitionsResponses, error) {
		return admin.UpdatePartitions(ctx, n, topics...)
	}
	if dry {
		update = func(ctx context.Context) (kadm.CreatePartitionsResponses, error) {
			return admin.ValidateUpdatePartitions(ctx, n, topics...)
		}
	}
	responses, err := update(cmd.Context())
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(responses)) {
		r := responses[name]
		failures.Report(cmd.OutOrStdout(), cmd.ErrOrStderr(), name, outcome(cli.Count(n, "partition"), dry), cli.Explain(r.Err, r.ErrMessage))
	}
	return nil
}

func outcome(done string, dry bool) string {
	if dry {
		return strings.TrimSpace("would do: " + done)
	}
	return done
}
