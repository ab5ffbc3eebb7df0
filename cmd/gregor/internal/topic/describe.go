package topic

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func describeCommand(c *cli.Connection) *cobra.Command {
	var allConfigs bool
	cmd := &cobra.Command{
		Use:   "describe TOPIC...",
		Short: "Show partitions, offsets and settings of topics",
		Example: `  gregor topic describe orders
  gregor topic describe orders --all-configs`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: c.CompleteTopics(0),
		RunE: func(cmd *cobra.Command, topics []string) error {
			admin, err := c.Admin(cmd.Context())
			if err != nil {
				return err
			}
			defer admin.Close()
			described, err := describe(cmd.Context(), admin, topics)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			var failures cli.Failures
			for i, d := range described {
				if failures.Check(cmd.ErrOrStderr(), d.name, d.err) {
					continue
				}
				if i > 0 {
					fmt.Fprintln(out)
				}
				if err := d.write(out, allConfigs); err != nil {
					return err
				}
			}
			return failures.Err()
		},
	}
	cmd.Flags().BoolVarP(&allConfigs, "all-configs", "a", false, "show every setting, not only those of the topic itself")
	return cmd
}

// description is what is known of one topic.
type description struct {
	name       string
	detail     kadm.TopicDetail
	start, end kadm.ListedOffsets
	configs    []kadm.Config
	err        error
}

func describe(ctx context.Context, admin *kadm.Client, topics []string) ([]description, error) {
	details, err := admin.ListTopics(ctx, topics...)
	if err != nil {
		return nil, err
	}
	start, err := admin.ListStartOffsets(ctx, topics...)
	if err != nil {
		return nil, err
	}
	end, err := admin.ListEndOffsets(ctx, topics...)
	if err != nil {
		return nil, err
	}
	configs, err := admin.DescribeTopicConfigs(ctx, topics...)
	if err != nil {
		return nil, err
	}
	var all []description
	for _, name := range topics {
		d := description{name: name, detail: details[name], start: start, end: end}
		d.err = cli.Explain(details[name].Err, "")
		if r, err := configs.On(name, nil); err == nil {
			d.configs = r.Configs
			if d.err == nil {
				d.err = cli.Explain(r.Err, r.ErrMessage)
			}
		}
		all = append(all, d)
	}
	return all, nil
}

func (d description) write(w io.Writer, allConfigs bool) error {
	fmt.Fprintf(w, "topic       %s\n", d.name)
	if d.detail.ID != (kadm.TopicID{}) {
		fmt.Fprintf(w, "id          %s\n", base64.RawURLEncoding.EncodeToString(d.detail.ID[:]))
	}
	fmt.Fprintf(w, "partitions  %d\nreplicas    %d\n", len(d.detail.Partitions), d.detail.Partitions.NumReplicas())
	if err := d.writeConfigs(w, allConfigs); err != nil {
		return err
	}
	fmt.Fprintln(w)
	rows := [][]string{{"PARTITION", "LEADER", "REPLICAS", "IN SYNC", "START", "END"}}
	for _, p := range d.detail.Partitions.Sorted() {
		rows = append(rows, []string{
			strconv.Itoa(int(p.Partition)), strconv.Itoa(int(p.Leader)), cli.IDs(p.Replicas), cli.IDs(p.ISR),
			offsetText(d.start, d.name, p.Partition), offsetText(d.end, d.name, p.Partition),
		})
	}
	return cli.Table(w, rows)
}

// writeConfigs shows the topic's own settings, or all with where each comes from.
func (d description) writeConfigs(w io.Writer, all bool) error {
	var rows [][]string
	for _, k := range d.configs {
		own := k.Source == kmsg.ConfigSourceDynamicTopicConfig
		switch {
		case all:
			rows = append(rows, []string{"", k.Key, value(k), "(" + strings.ToLower(strings.ReplaceAll(k.Source.String(), "_", " ")) + ")"})
		case own:
			rows = append(rows, []string{"", k.Key, value(k)})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	slices.SortFunc(rows, func(a, b []string) int { return strings.Compare(a[1], b[1]) })
	fmt.Fprintln(w, "settings")
	return cli.Table(w, rows)
}

func value(k kadm.Config) string {
	switch {
	case k.Sensitive:
		return "[hidden]"
	case k.Value == nil:
		return "-"
	}
	return *k.Value
}

func offsetText(offsets kadm.ListedOffsets, topic string, partition int32) string {
	o, ok := offsets.Lookup(topic, partition)
	if !ok || o.Err != nil {
		return "-"
	}
	return strconv.FormatInt(o.Offset, 10)
}
