// Command gregor is a Kafka-compatible broker and the tools for daily work with one.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/adopt"
	"github.com/gregor-broker/gregor/cmd/gregor/internal/bench"
	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/gregor-broker/gregor/cmd/gregor/internal/cluster"
	"github.com/gregor-broker/gregor/cmd/gregor/internal/configs"
	"github.com/gregor-broker/gregor/cmd/gregor/internal/consume"
	"github.com/gregor-broker/gregor/cmd/gregor/internal/docs"
	"github.com/gregor-broker/gregor/cmd/gregor/internal/doctor"
	"github.com/gregor-broker/gregor/cmd/gregor/internal/group"
	"github.com/gregor-broker/gregor/cmd/gregor/internal/logdump"
	"github.com/gregor-broker/gregor/cmd/gregor/internal/produce"
	"github.com/gregor-broker/gregor/cmd/gregor/internal/quota"
	"github.com/gregor-broker/gregor/cmd/gregor/internal/serve"
	"github.com/gregor-broker/gregor/cmd/gregor/internal/topic"
	"github.com/gregor-broker/gregor/cmd/gregor/internal/txn"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// version is set when the binary is built (-X main.version=…).
var version = "unversioned"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends whatever does not end by itself
	root := newRoot()
	if err := root.ExecuteContext(ctx); err != nil {
		if !errors.Is(err, cli.ErrReported) {
			fmt.Fprintln(os.Stderr, "gregor: "+inWords(err))
		}
		stop()
		os.Exit(cli.ExitCode(err))
	}
}

// inWords is what to print of an error. One that a library returned as it came from a broker is explained; the rest has its words.
func inWords(err error) string {
	switch err.(type) {
	case *kadm.ShardErrors, *kerr.Error:
		err = cli.Explain(err, "")
	}
	return err.Error()
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "gregor",
		Short: "A Kafka-compatible broker in one binary, and the tools for daily work with it",
		Long: `gregor is a broker that speaks Apache Kafka's protocol, and the tools for daily work with one.

"gregor serve" runs a broker. The other commands talk to a broker (this one or any Apache Kafka) or read its files.`,
		Example: `  gregor serve
  gregor topic create orders --partitions 6
  echo 'hello' | gregor produce orders
  gregor consume orders --follow=false`,
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetVersionTemplate(versionLine())
	cli.Group(root)
	root.SetHelpCommand(cli.HelpCommand())
	root.SetFlagErrorFunc(cli.FlagError)
	root.AddCommand(serve.Command(version), topic.Command(), produce.Command(), consume.Command(), cluster.Command(), group.Command(), txn.Command(),
		configs.Command(), quota.Command(),
		logdump.Command(), adopt.Command(), bench.Command(), doctor.Command(), docs.APIVersions(), docs.Command(), versionCommand())
	cli.MarkUsage(root)
	return root
}
