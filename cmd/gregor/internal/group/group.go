// Package group is the command group that manages consumer groups.
package group

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

// Command returns "gregor group".
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "group",
		Short: "List, describe, reset and delete consumer groups",
		Example: `  gregor group list
  gregor group describe billing
  gregor group reset billing --topic orders --to start --execute
  gregor group delete billing`,
	}
	var c cli.Connection
	c.AddFlags(cmd)
	cmd.AddCommand(listCommand(&c), describeCommand(&c), resetCommand(&c), deleteCommand(&c))
	return cli.Group(cmd)
}

// groupStates are all that a group can be in, of either protocol.
var groupStates = []string{"Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Stable", "Dead"}

func listCommand(c *cli.Connection) *cobra.Command {
	var states []string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List groups",
		Example: `  gregor group list
  gregor group list --state Stable,Empty`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.SomeOf("state", states, groupStates); err != nil {
				return err
			}
			admin, err := c.Admin(cmd.Context())
			if err != nil {
				return err
			}
			defer admin.Close()
			groups, err := admin.ListGroups(cmd.Context(), states...)
			if err != nil && len(groups) == 0 {
				return err
			}
			rows := [][]string{{"GROUP", "STATE", "TYPE", "PROTOCOL", "COORDINATOR"}}
			for _, g := range groups.Sorted() {
				rows = append(rows, []string{g.Group, dash(g.State), dash(g.GroupType), dash(g.ProtocolType), strconv.Itoa(int(g.Coordinator))})
			}
			return errors.Join(cli.Table(cmd.OutOrStdout(), rows), cli.Explain(err, "")) // of brokers that do not answer
		},
	}
	cmd.Flags().StringSliceVarP(&states, "state", "s", nil, "only groups in these `states`: "+strings.Join(groupStates, ", "))
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(groupStates, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func describeCommand(c *cli.Connection) *cobra.Command {
	return &cobra.Command{
		Use:               "describe GROUP...",
		Short:             "Show members, offsets and lag of groups",
		Example:           `  gregor group describe billing`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: c.CompleteGroups(0),
		RunE: func(cmd *cobra.Command, groups []string) error {
			admin, err := c.Admin(cmd.Context())
			if err != nil {
				return err
			}
			defer admin.Close()
			described, err := Describe(cmd.Context(), admin, groups)
			if err != nil {
				return err
			}
			var failures cli.Failures
			for i, l := range described.Sorted() {
				if failures.Check(cmd.ErrOrStderr(), l.Group, cli.Explain(l.Error(), "")) {
					continue
				}
				if i > 0 {
					fmt.Fprintln(cmd.OutOrStdout())
				}
				if err := writeGroup(cmd.OutOrStdout(), l); err != nil {
					return err
				}
			}
			return failures.Err()
		},
	}
}

func writeGroup(w io.Writer, l kadm.DescribedGroupLag) error {
	fmt.Fprintf(w, "group        %s\nstate        %s\nassignor     %s\ncoordinator  %d\nmembers      %d\nlag          %d\n",
		l.Group, l.State, dash(l.Protocol), l.Coordinator.NodeID, len(l.Members), l.Lag.Total())
	if rows := lagRows(l); len(rows) > 1 {
		fmt.Fprintln(w)
		if err := cli.Table(w, rows); err != nil {
			return err
		}
	}
	if idle := idleMembers(l); len(idle) > 1 {
		fmt.Fprintln(w)
		return cli.Table(w, idle)
	}
	return nil
}

func lagRows(l kadm.DescribedGroupLag) [][]string {
	rows := [][]string{{"TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER", "HOST"}}
	for _, p := range l.Lag.Sorted() {
		member, host := "-", "-"
		if p.Member != nil {
			member, host = memberName(*p.Member), p.Member.ClientHost
		}
		rows = append(rows, []string{p.Topic, strconv.Itoa(int(p.Partition)), offset(p.Commit.At), offset(p.End.Offset), offset(p.Lag), member, host})
	}
	return rows
}

// idleMembers lists the members that no partition is assigned to.
func idleMembers(l kadm.DescribedGroupLag) [][]string {
	rows := [][]string{{"MEMBER WITHOUT PARTITIONS", "HOST"}}
	busy := map[string]bool{}
	for _, p := range l.Lag.Sorted() {
		if p.Member != nil {
			busy[p.Member.MemberID] = true
		}
	}
	for _, m := range l.Members {
		if !busy[m.MemberID] {
			rows = append(rows, []string{memberName(m), m.ClientHost})
		}
	}
	return rows
}

func memberName(m kadm.DescribedGroupMember) string {
	if m.InstanceID != nil {
		return *m.InstanceID + " (" + m.MemberID + ")"
	}
	return m.MemberID
}

func offset(n int64) string {
	if n < 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}

func deleteCommand(c *cli.Connection) *cobra.Command {
	return &cobra.Command{
		Use:               "delete GROUP...",
		Short:             "Delete groups with their offsets; they must not have members",
		Example:           `  gregor group delete billing`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: c.CompleteGroups(0),
		RunE: func(cmd *cobra.Command, groups []string) error {
			admin, err := c.Admin(cmd.Context())
			if err != nil {
				return err
			}
			defer admin.Close()
			deleted, err := cli.AskCoordinator(cmd.Context(), func(ctx context.Context) (kadm.DeleteGroupResponses, error) {
				return admin.DeleteGroups(ctx, groups...)
			})
			if err != nil {
				return err
			}
			var failures cli.Failures
			for _, r := range deleted.Sorted() {
				failures.Report(cmd.OutOrStdout(), cmd.ErrOrStderr(), r.Group, "deleted", cli.Explain(r.Err, ""))
			}
			return failures.Err()
		},
	}
}
