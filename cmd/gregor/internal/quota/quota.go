// Package quota is the command group for what clients may use of a broker.
package quota

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

// keys are the quotas that there are, in Kafka's words, with what they bound.
var keys = [][2]string{
	{"producer_byte_rate", "bytes a second that a client produces to each broker"},
	{"consumer_byte_rate", "bytes a second that a client fetches from each broker"},
	{"request_percentage", "share of the time of a broker's threads, in percent of one thread"},
	{"controller_mutation_rate", "partitions a second that a client creates or deletes"},
	{"connection_creation_rate", "connections a second from an address (--ip)"},
}

// Command returns "gregor quota".
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "quota",
		Short: "Show and change what users, client ids and addresses may use",
		Example: `  gregor quota list
  gregor quota set --client-id reports consumer_byte_rate=1000000
  gregor quota remove --client-id reports consumer_byte_rate`,
	}
	var c cli.Connection
	c.AddFlags(cmd)
	cmd.AddCommand(listCommand(&c), setCommand(&c), removeCommand(&c))
	return cli.Group(cmd)
}

func listCommand(c *cli.Connection) *cobra.Command {
	return &cobra.Command{
		Use:               "list",
		Short:             "List all quotas",
		Example:           `  gregor quota list`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			admin, err := c.Admin(cmd.Context())
			if err != nil {
				return err
			}
			defer admin.Close()
			all, err := admin.DescribeClientQuotas(cmd.Context(), false, nil)
			if err != nil {
				return cli.Explain(err, "")
			}
			return cli.Table(cmd.OutOrStdout(), rows(all))
		},
	}
}

// rows has a line for each quota.
func rows(all kadm.DescribedClientQuotas) [][]string {
	var lines [][]string
	for _, q := range all {
		for _, v := range q.Values {
			lines = append(lines, []string{entityText(q.Entity), v.Key, strconv.FormatFloat(v.Value, 'f', -1, 64)})
		}
	}
	slices.SortFunc(lines, slices.Compare)
	return slices.Insert(lines, 0, []string{"WHO", "QUOTA", "VALUE"})
}

func entityText(entity kadm.ClientQuotaEntity) string {
	var parts []string
	for _, e := range entity {
		name := "(default)"
		if e.Name != nil {
			name = *e.Name
		}
		parts = append(parts, e.Type+" "+name)
	}
	slices.SortFunc(parts, func(a, b string) int { return strings.Compare(b, a) }) // the user before the client id
	return strings.Join(parts, ", ")
}

// who are flags that say whose quotas are meant: for each type of entity a name, or its default.
type who struct {
	names    [3]string
	defaults [3]bool
}

var types = [3]string{"user", "client-id", "ip"}

func (w *who) addFlags(cmd *cobra.Command) {
	for i, of := range [3]string{"of this user", "of this client id", "of this address"} {
		cmd.Flags().StringVar(&w.names[i], types[i], "", of+"; with --user and --client-id, of the two together")
		cmd.Flags().BoolVar(&w.defaults[i], types[i]+"-default", false, "of each that has none of its own")
	}
}

func (w *who) entity() (kadm.ClientQuotaEntity, error) {
	var entity kadm.ClientQuotaEntity
	for i, of := range types {
		switch {
		case w.names[i] != "" && w.defaults[i]:
			return nil, cli.Usagef("give --%s or --%s-default", of, of)
		case w.names[i] != "":
			entity = append(entity, kadm.ClientQuotaEntityComponent{Type: of, Name: &w.names[i]})
		case w.defaults[i]:
			entity = append(entity, kadm.ClientQuotaEntityComponent{Type: of})
		}
	}
	if len(entity) == 0 {
		return nil, cli.Usagef("say with --user, --client-id or --ip, or their -default, whose quotas are meant")
	}
	return entity, nil
}

func setCommand(c *cli.Connection) *cobra.Command {
	var w who
	cmd := alteration(c, &w, &cobra.Command{
		Use:   "set QUOTA=VALUE...",
		Short: "Set quotas",
		Long:  "Set quotas. What there are:\n\n" + describeKeys(),
		Example: `  gregor quota set --client-id reports consumer_byte_rate=1000000
  gregor quota set --user-default producer_byte_rate=5000000 request_percentage=200
  gregor quota set --ip 10.0.0.7 connection_creation_rate=10`,
	}, func(text string) (kadm.AlterClientQuotaOp, error) {
		key, number, ok := strings.Cut(text, "=")
		value, err := strconv.ParseFloat(number, 64)
		if !ok || err != nil {
			return kadm.AlterClientQuotaOp{}, cli.Usagef("%s: want QUOTA=VALUE, as in producer_byte_rate=1000000", text)
		}
		return kadm.AlterClientQuotaOp{Key: key, Value: value}, nil
	})
	return cmd
}

func removeCommand(c *cli.Connection) *cobra.Command {
	var w who
	return alteration(c, &w, &cobra.Command{
		Use:     "remove QUOTA...",
		Short:   "Take quotas back",
		Example: `  gregor quota remove --client-id reports consumer_byte_rate`,
	}, func(key string) (kadm.AlterClientQuotaOp, error) {
		return kadm.AlterClientQuotaOp{Key: key, Remove: true}, nil
	})
}

// alteration completes a command that changes quotas, one for each argument.
func alteration(c *cli.Connection, w *who, cmd *cobra.Command, parse func(string) (kadm.AlterClientQuotaOp, error)) *cobra.Command {
	cmd.Args = cobra.MinimumNArgs(1)
	cmd.ValidArgsFunction = cobra.FixedCompletions(names(), cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		entry := kadm.AlterClientQuotaEntry{}
		var err error
		if entry.Entity, err = w.entity(); err != nil {
			return err
		}
		for _, arg := range args {
			op, err := parse(arg)
			if err != nil {
				return err
			}
			entry.Ops = append(entry.Ops, op)
		}
		admin, err := c.Admin(cmd.Context())
		if err != nil {
			return err
		}
		defer admin.Close()
		answers, err := admin.AlterClientQuotas(cmd.Context(), []kadm.AlterClientQuotaEntry{entry})
		if err != nil {
			return cli.Explain(err, "")
		}
		var failures cli.Failures
		for _, a := range answers {
			failures.Report(cmd.OutOrStdout(), cmd.ErrOrStderr(), entityText(a.Entity), "quotas changed", cli.Explain(a.Err, a.ErrMessage))
		}
		return failures.Err()
	}
	w.addFlags(cmd)
	return cmd
}

func names() []string {
	all := make([]string, len(keys))
	for i, k := range keys {
		all[i] = k[0]
	}
	return all
}

func describeKeys() string {
	var text strings.Builder
	for _, k := range keys {
		fmt.Fprintf(&text, "  %-25s %s\n", k[0], k[1])
	}
	return strings.TrimRight(text.String(), "\n")
}
