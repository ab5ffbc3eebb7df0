// Package txn is the command group that shows transactions and ends those that hang.
package txn

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Command returns "gregor txn".
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "txn",
		Short: "List and describe transactions, and abort those that hang",
		Example: `  gregor txn list --state Ongoing --longer-than 5m
  gregor txn describe payments-1
  gregor txn abort --topic orders --partition 3 --start-offset 1207`,
	}
	var c cli.Connection
	c.AddFlags(cmd)
	cmd.AddCommand(listCommand(&c), describeCommand(&c), abortCommand(&c))
	return cli.Group(cmd)
}

// states are all that a transactional id can be in.
var states = []string{"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "PrepareEpochFence", "Dead"}

func listCommand(c *cli.Connection) *cobra.Command {
	r := kmsg.NewPtrListTransactionsRequest()
	var longer time.Duration
	var pattern string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List transactional ids",
		Example: `  gregor txn list
  gregor txn list --state Ongoing --longer-than 5m
  gregor txn list --pattern 'payments-.*'`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.SomeOf("state", r.StateFilters, states); err != nil {
				return err
			}
			if cmd.Flags().Changed("longer-than") {
				r.DurationFilterMillis = longer.Milliseconds()
			}
			if pattern != "" {
				r.TransactionalIDPattern = &pattern
			}
			client, err := c.Client(cmd.Context())
			if err != nil {
				return err
			}
			defer client.Close()
			rows := [][]string{}
			var failures cli.Failures
			for _, shard := range client.RequestSharded(cmd.Context(), r) {
				resp, err := answered(shard.Resp, shard.Err)
				if failures.Check(cmd.ErrOrStderr(), fmt.Sprintf("broker %d", shard.Meta.NodeID), err) {
					continue
				}
				if len(resp.UnknownStateFilters) > 0 {
					return fmt.Errorf("broker %d does not know the state %s", shard.Meta.NodeID, strings.Join(resp.UnknownStateFilters, ", "))
				}
				for _, s := range resp.TransactionStates {
					rows = append(rows, []string{s.TransactionalID, s.TransactionState, strconv.FormatInt(s.ProducerID, 10), strconv.Itoa(int(shard.Meta.NodeID))})
				}
			}
			slices.SortFunc(rows, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
			rows = slices.Insert(rows, 0, []string{"TRANSACTIONAL ID", "STATE", "PRODUCER", "COORDINATOR"})
			if err := cli.Table(cmd.OutOrStdout(), rows); err != nil {
				return err
			}
			return failures.Err()
		},
	}
	cmd.Flags().StringSliceVarP(&r.StateFilters, "state", "s", nil, "only those in these `states`: "+strings.Join(states, ", "))
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(states, cobra.ShellCompDirectiveNoFileComp))
	cmd.Flags().Int64SliceVar(&r.ProducerIDFilters, "producer", nil, "only those of these producer `ids`")
	cmd.Flags().DurationVar(&longer, "longer-than", 0, "only those whose transaction began longer ago (Kafka 3.8 and up)")
	cmd.Flags().StringVar(&pattern, "pattern", "", "only those that a regular `expression` fits as a whole (Kafka 4.1 and up)")
	return cmd
}

// answered is a broker's part of the list, or what went wrong with it.
func answered(resp kmsg.Response, err error) (*kmsg.ListTransactionsResponse, error) {
	if err != nil {
		return nil, cli.Explain(err, "")
	}
	list := resp.(*kmsg.ListTransactionsResponse)
	return list, cli.Explain(kerr.ErrorForCode(list.ErrorCode), "")
}

func describeCommand(c *cli.Connection) *cobra.Command {
	return &cobra.Command{
		Use:               "describe TRANSACTIONAL-ID...",
		Short:             "Show the state of transactional ids and the partitions of their transactions",
		Example:           `  gregor txn describe payments-1`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, ids []string) error {
			admin, err := c.Admin(cmd.Context())
			if err != nil {
				return err
			}
			defer admin.Close()
			described, err := cli.AskCoordinator(cmd.Context(), func(ctx context.Context) (kadm.DescribedTransactions, error) {
				return admin.DescribeTransactions(ctx, ids...)
			})
			if err != nil {
				return err
			}
			var failures cli.Failures
			for i, d := range described.Sorted() {
				if failures.Check(cmd.ErrOrStderr(), d.TxnID, cli.Explain(d.Err, "")) {
					continue
				}
				if i > 0 {
					fmt.Fprintln(cmd.OutOrStdout())
				}
				if err := writeTransaction(cmd.OutOrStdout(), d, time.Now()); err != nil {
					return err
				}
			}
			return failures.Err()
		},
	}
}

// writeTransaction shows one transactional id.
func writeTransaction(w io.Writer, d kadm.DescribedTransaction, now time.Time) error {
	began := "-"
	if d.StartTimestamp >= 0 {
		at := time.UnixMilli(d.StartTimestamp)
		began = fmt.Sprintf("%s (%s ago)", at.UTC().Format(time.RFC3339), now.Sub(at).Round(time.Second))
	}
	fmt.Fprintf(w, "id           %s\nstate        %s\nproducer     %d\nepoch        %d\ntimeout      %s\nbegan        %s\ncoordinator  %d\n",
		d.TxnID, d.State, d.ProducerID, d.ProducerEpoch, time.Duration(d.TimeoutMillis)*time.Millisecond, began, d.Coordinator)
	rows := [][]string{{"TOPIC", "PARTITION"}}
	for _, t := range d.Topics.Sorted() {
		for _, p := range t.Partitions {
			rows = append(rows, []string{t.Topic, strconv.Itoa(int(p))})
		}
	}
	if len(rows) == 1 {
		return nil
	}
	fmt.Fprintln(w)
	return cli.Table(w, rows)
}
