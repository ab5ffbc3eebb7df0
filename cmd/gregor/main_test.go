package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/spf13/cobra"
)

func run(args ...string) (string, error) {
	root := newRoot()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err := root.Execute()
	return out.String(), err
}

func TestVersion(t *testing.T) {
	for _, form := range []string{"version", "--version"} {
		out, err := run(form)
		if err != nil || !strings.HasPrefix(out, "gregor unversioned (go1.") {
			t.Error(form, out, err)
		}
	}
}

func TestUsageErrors(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"nope", `unknown command "nope" for "gregor"; see gregor --help`},
		{"topik", `unknown command "topik" for "gregor"; did you mean topic?; see gregor --help`},
		{"topic crate", `unknown command "crate" for "gregor topic"; did you mean create?; see gregor topic --help`},
		{"serve --foo", "unknown flag: --foo; see gregor serve --help"},
		{"serve x", `gregor serve does not take "x"; usage: gregor serve [--config FILE] [--override key=value ...] [flags]; see gregor serve --help`},
		{"topic create", "an argument is missing; usage: gregor topic create TOPIC... [flags]; see gregor topic create --help"},
		{"topic alter t", "nothing to change: give --config, --delete-config, --append, --subtract or --partitions"},
		{"config describe broker", "an argument is missing; usage: gregor config describe KIND NAME [flags]; see gregor config describe --help"},
		{"config alter broker 1", "nothing to change: give --config, --delete-config, --append or --subtract"},
		{"quota set x=1", "say with --user, --client-id or --ip, or their -default, whose quotas are meant"},
		{"quota set --ip 10.0.0.7 x=fast", "x=fast: want QUOTA=VALUE, as in producer_byte_rate=1000000"},
		{"consume", "an argument is missing; usage: gregor consume TOPIC... [flags]; see gregor consume --help"},
		{"group reset g", "say with --to where the offsets go"},
		{"cluster reassign", "say with --plan, --topic or --drain what is to move"},
		{"cluster elect --unclean", "--unclean loses records: name the topics"},
		{"txn abort --topic t", "name the transaction by --topic, --partition and either --start-offset or --producer"},
		{"serve --log-level loud", "--log-level loud: want debug, info, warn or error"},
		{"serve --log-format xml", "--log-format xml: want text or json"},
		{"produce t --acks 2", "--acks 2: want all, 1 or 0"},
		{"produce t --compression lzma", "--compression lzma: want none, gzip, snappy, lz4 or zstd"},
		{"help nope", `unknown command "nope" for "gregor"; see gregor --help`},
		{"help topic nope", `unknown command "nope" for "gregor topic"; see gregor topic --help`},
		{"topic create t --partitions many", "--partitions many: want a whole number; see gregor topic create --help"},
		{"topic create t -r x", "--replication-factor x: want a whole number up to 32767; see gregor topic create --help"},
		{"bench produce --duration 5", "--duration 5: want a time with its unit, as in 500ms, 10s or 5m; see gregor bench produce --help"},
		{"cluster reassign --drain one", "--drain one: want whole numbers, as in 1,2,3; see gregor cluster reassign --help"},
		{"topic list -b localhost:http", "--bootstrap-server localhost:http: want host:port"},
		{"topic list -b http://localhost:9092", "--bootstrap-server http://localhost:9092: want host:port"},
		{"doctor connect -b localhost:0", "--bootstrap-server localhost:0: want host:port"},
		{"group list --state Unwell", "--state Unwell: want Empty, PreparingRebalance, CompletingRebalance, Assigning, Reconciling, Stable or Dead"},
		{"txn list --state Open", "--state Open: want Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, PrepareEpochFence or Dead"},
		{"bench produce --records 0", "say with --records or --duration when it ends"},
	} {
		_, err := run(strings.Fields(c.line)...)
		if err == nil || err.Error() != c.want || cli.ExitCode(err) != 2 {
			t.Errorf("%s: %v (exit %d)", c.line, err, cli.ExitCode(err))
		}
	}
}

func TestServeRefuses(t *testing.T) {
	for _, c := range []struct{ override, want string }{
		{"num.io.threads=0", `num.io.threads: "0" given (--override); allowed: an integer of at least 1`},
		{"authorizer.class.name=x", `authorizer.class.name: "x" given (--override); allowed: nothing`},
	} {
		_, err := run("serve", "--override", c.override)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", c.override, err)
		}
	}
}

// Every command that a user sees has a help text, and an example unless it needs none.
func TestHelp(t *testing.T) {
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Hidden {
			return
		}
		if cmd.Short == "" || cmd.Example == "" && cmd.Name() != "version" {
			t.Errorf("%s: no help text or no example", cmd.CommandPath())
		}
		for _, below := range cmd.Commands() {
			visit(below)
		}
	}
	visit(newRoot())
}

func TestCompletion(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"__complete serve --override num.io", "num.io.threads="},
		{"__complete topic create t --config retention.m", "retention.ms="},
		{"__complete topic alter t --delete-config retention.m", "retention.ms\n"},
		{"__complete produce t --compression ", "zstd"},
		{"__complete to", "topic"},
	} {
		args := strings.Split(c.line, " ")
		if out, err := run(args...); err != nil || !strings.Contains(out, c.want) {
			t.Errorf("%s: %q %v", c.line, out, err)
		}
	}
}
