package configs

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func describeCommand(c *cli.Connection) *cobra.Command {
	var all bool
	var keys []string
	cmd := &cobra.Command{
		Use:   "describe KIND NAME",
		Short: "Show settings and where each comes from",
		Long: `Show the settings that somebody has made of a broker (by its id, or "all" for those of all brokers together), a topic, a group, the
loggers of a broker or client metrics. --all shows the defaults too, --key what is known of a setting: its meaning, whether it can be
changed while the broker runs, and what counts if it is taken back.`,
		Example: `  gregor config describe broker 1
  gregor config describe broker 1 --key num.io.threads
  gregor config describe topic orders --all
  gregor config describe logger 1`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: complete(c),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := parseTarget(args[0], args[1])
			if err != nil {
				return err
			}
			client, err := c.Client(cmd.Context())
			if err != nil {
				return err
			}
			defer client.Close()
			settings, err := describe(cmd.Context(), client, t, keys)
			if err != nil {
				return err
			}
			if len(keys) > 0 {
				return explain(cmd.OutOrStdout(), t, settings, keys)
			}
			return list(cmd.OutOrStdout(), t, settings, all)
		},
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "also what nobody has set")
	cmd.Flags().StringSliceVarP(&keys, "key", "k", nil, "what is known of these `settings`")
	return cmd
}

type setting = kmsg.DescribeConfigsResponseResourceConfig

// describe asks for settings, of all keys if none is named.
func describe(ctx context.Context, client kmsg.Requestor, t target, keys []string) ([]setting, error) {
	r := kmsg.NewPtrDescribeConfigsRequest()
	r.IncludeSynonyms, r.IncludeDocumentation = true, len(keys) > 0
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName, resource.ConfigNames = kinds[t.kind].resource, t.resource(), keys
	r.Resources = append(r.Resources, resource)
	answer, err := r.RequestWith(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t, cli.Explain(err, ""))
	}
	for _, got := range answer.Resources {
		if err := kerr.ErrorForCode(got.ErrorCode); err != nil {
			return nil, fmt.Errorf("%s: %w", t, cli.Explain(err, deref(got.ErrorMessage)))
		}
		slices.SortFunc(got.Configs, func(a, b setting) int { return strings.Compare(a.Name, b.Name) })
		return got.Configs, nil
	}
	return nil, fmt.Errorf("%s: the broker says nothing of it", t)
}

// list shows settings in columns.
func list(w io.Writer, t target, settings []setting, all bool) error {
	rows := [][]string{{"KEY", "VALUE", "FROM"}}
	for _, s := range settings {
		if all || slices.Contains(kinds[t.kind].own, s.Source) {
			rows = append(rows, []string{s.Name, value(s.Value, s.IsSensitive), origin(s.Source)})
		}
	}
	if len(rows) == 1 {
		_, err := fmt.Fprintf(w, "nobody has set anything of %s; --all shows the defaults\n", t)
		return err
	}
	return cli.Table(w, rows)
}

// explain shows what is known of single settings.
func explain(w io.Writer, t target, settings []setting, keys []string) error {
	for i, key := range keys {
		at := slices.IndexFunc(settings, func(s setting) bool { return s.Name == key })
		if at < 0 {
			return fmt.Errorf("%s has no setting %s", t, key)
		}
		if i > 0 {
			fmt.Fprintln(w)
		}
		s := settings[at]
		change := "while it runs"
		if s.ReadOnly {
			change = "by a restart"
		}
		fmt.Fprintf(w, "key      %s\nvalue    %s\nfrom     %s\nchanged  %s\n", s.Name, value(s.Value, s.IsSensitive), origin(s.Source), change)
		for _, other := range s.ConfigSynonyms[min(1, len(s.ConfigSynonyms)):] { // the first is the one that counts
			fmt.Fprintf(w, "else     %s (%s, %s)\n", value(other.Value, s.IsSensitive), other.Name, origin(other.Source))
		}
		if doc := deref(s.Documentation); doc != "" {
			fmt.Fprintf(w, "\n%s\n", doc)
		}
	}
	return nil
}

func value(v *string, sensitive bool) string {
	switch {
	case sensitive:
		return "[hidden]"
	case v == nil:
		return "-"
	case *v == "":
		return `""`
	}
	return *v
}

// origins are where settings come from, in words.
var origins = map[kmsg.ConfigSource]string{
	kmsg.ConfigSourceDynamicTopicConfig: "this topic", kmsg.ConfigSourceDynamicBrokerConfig: "this broker, at run time",
	kmsg.ConfigSourceDynamicDefaultBrokerConfig: "all brokers, at run time", kmsg.ConfigSourceStaticBrokerConfig: "this broker's configuration",
	kmsg.ConfigSourceDefaultConfig: "default", kmsg.ConfigSourceDynamicBrokerLoggerConfig: "this logger",
	kmsg.ConfigSourceClientMetricsConfig: "these client metrics", kmsg.ConfigSourceGroupConfig: "this group",
}

func origin(s kmsg.ConfigSource) string {
	if words, ok := origins[s]; ok {
		return words
	}
	return s.String()
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
