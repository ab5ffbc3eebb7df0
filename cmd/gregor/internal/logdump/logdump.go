// Package logdump is the command that shows what the files of a data directory hold.
package logdump

import (
	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/gregor-broker/gregor/log/dump"
	"github.com/spf13/cobra"
)

// Command returns "gregor log".
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "log",
		Short:   "Look into the files of a data directory",
		Example: `  gregor log dump data/orders-0 --print-data-log`,
	}
	cmd.AddCommand(dumpCommand())
	return cli.Group(cmd)
}

func dumpCommand() *cobra.Command {
	var o dump.Options
	var offsets, transactions bool
	cmd := &cobra.Command{
		Use:   "dump FILE|DIR...",
		Short: "Show batches, records, indexes and snapshots, as kafka-dump-log does",
		Long: `Show what the files of a partition hold: .log (batches and records), .index and .timeindex (checked against their log),
.txnindex, .snapshot. Of a directory all such files are shown. What is wrong with them is told on standard error.

The files are only read; a broker may be running on them.`,
		Example: `  gregor log dump data/orders-0
  gregor log dump data/orders-0/00000000000000000000.log --print-data-log
  gregor log dump data/orders-0/*.index --index-sanity-check
  gregor log dump data/__consumer_offsets-12 --offsets-decoder`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, paths []string) error {
			switch {
			case offsets && transactions:
				return cli.Usagef("--offsets-decoder and --transaction-log-decoder exclude each other")
			case offsets:
				o.Decode = decodeOffsets
			case transactions:
				o.Decode = decodeTransactions
			}
			o.PrintData = o.PrintData || offsets || transactions || o.SkipRecordMetadata
			o.Problems = cmd.ErrOrStderr()
			return dump.Run(cmd.OutOrStdout(), paths, o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.Deep, "deep-iteration", false, "show records, too")
	f.BoolVarP(&o.PrintData, "print-data-log", "p", false, "show records with keys and values")
	f.BoolVar(&o.SkipRecordMetadata, "skip-record-metadata", false, "of records show keys and values only")
	f.BoolVar(&offsets, "offsets-decoder", false, "show the records of __consumer_offsets in words")
	f.BoolVar(&transactions, "transaction-log-decoder", false, "show the records of __transaction_state in words")
	f.BoolVar(&o.IndexSanityOnly, "index-sanity-check", false, "of indexes say only whether they are sound")
	f.BoolVar(&o.VerifyIndexOnly, "verify-index-only", false, "of indexes say only what is wrong")
	f.Int64Var(&o.MaxBytes, "max-bytes", 0, "how much of a log file to show; 0: all")
	return cmd
}
