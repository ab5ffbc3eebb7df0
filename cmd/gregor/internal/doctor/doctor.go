// Package doctor is the command that says in words why something does not work: a connection, a partition, a group. What it
// finds out is gathered first and judged by functions that do no I/O.
package doctor

import (
	"fmt"
	"io"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/spf13/cobra"
)

// finding is one thing that was looked at: in order, or in words what is wrong and what to do.
type finding struct {
	about string
	wrong string // "": in order
	todo  string // what would help
	note  string // what is in order and worth knowing
}

// report prints findings and returns an error if one of them is bad.
func report(w io.Writer, findings []finding) error {
	bad := 0
	for _, f := range findings {
		switch {
		case f.wrong == "" && f.note == "":
			fmt.Fprintf(w, "ok    %s\n", f.about)
		case f.wrong == "":
			fmt.Fprintf(w, "ok    %s: %s\n", f.about, f.note)
		default:
			bad++
			fmt.Fprintf(w, "WRONG %s: %s\n", f.about, f.wrong)
			if f.todo != "" {
				fmt.Fprintf(w, "      %s\n", f.todo)
			}
		}
	}
	if bad > 0 {
		return cli.ErrReported
	}
	return nil
}

// Command returns "gregor doctor".
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say in words why a connection, a partition or a group does not work",
		Long: `Look at a broker or cluster (gregor or any Apache Kafka) and say in words what is wrong with it. The exit code is 1 if
something is. Alone it looks at the way to the brokers, at the brokers, and at all partitions and groups; the commands look closer.`,
		Example: `  gregor doctor
  gregor doctor connect -b broker:9092
  gregor doctor cluster
  gregor doctor partition orders
  gregor doctor group billing`,
	}
	var c cli.Connection
	c.AddFlags(cmd)
	cmd.AddCommand(connectCommand(&c), clusterCommand(&c), partitionCommand(&c), groupCommand(&c))
	return cli.GroupOr(cmd, func(cmd *cobra.Command) error {
		findings, err := examine(cmd.Context(), &c)
		if err != nil {
			return err
		}
		return report(cmd.OutOrStdout(), findings)
	})
}
