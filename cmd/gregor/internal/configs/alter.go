package configs

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// changes are what the flags of "gregor config alter" say.
type changes struct{ set, remove, add, subtract []string }

func alterCommand(c *cli.Connection) *cobra.Command {
	var wanted changes
	var dry bool
	cmd := &cobra.Command{
		Use:   "alter KIND NAME",
		Short: "Change settings while everything runs",
		Long: `Change settings of a broker (by its id, or "all" for all brokers together), a topic, a group, the loggers of a broker or client metrics.
What is not named stays as it is; --delete-config takes a setting back. The cluster keeps what is changed, over restarts, but for the
levels of loggers.`,
		Example: `  gregor config alter broker all --config log.retention.ms=86400000
  gregor config alter broker 1 --delete-config log.retention.ms
  gregor config alter group billing --config consumer.session.timeout.ms=60000
  gregor config alter logger 1 --config kafka.log.LogCleaner=DEBUG`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: complete(c),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := parseTarget(args[0], args[1])
			if err != nil {
				return err
			}
			r, err := wanted.request(t, dry)
			if err != nil {
				return err
			}
			client, err := c.Client(cmd.Context())
			if err != nil {
				return err
			}
			defer client.Close()
			answer, err := r.RequestWith(cmd.Context(), client)
			if err != nil {
				return fmt.Errorf("%s: %w", t, cli.Explain(err, ""))
			}
			for _, got := range answer.Resources {
				if err := kerr.ErrorForCode(got.ErrorCode); err != nil {
					return fmt.Errorf("%s: %w", t, cli.Explain(err, deref(got.ErrorMessage)))
				}
			}
			done := "settings changed"
			if dry {
				done = "the settings would be changed"
			}
			wanted.warn(cmd.ErrOrStderr(), t)
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", t, done)
			return err
		},
	}
	f := cmd.Flags()
	f.StringArrayVarP(&wanted.set, "config", "c", nil, "set `key=value` (repeatable)")
	f.StringArrayVarP(&wanted.remove, "delete-config", "d", nil, "take back `key` (repeatable)")
	f.StringArrayVar(&wanted.add, "append", nil, "append to a list, `key=value` (repeatable)")
	f.StringArrayVar(&wanted.subtract, "subtract", nil, "take from a list, `key=value` (repeatable)")
	f.BoolVar(&dry, "validate-only", false, "only say whether it would be done")
	for flag, suffix := range map[string]string{"config": "=", "delete-config": "", "append": "=", "subtract": "="} {
		_ = cmd.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			for _, k := range kinds {
				if len(args) > 0 && args[0] == k.name && k.keys != nil {
					return k.keys(typed, suffix), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
				}
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		})
	}
	return cmd
}

// warn tells of keys that no broker knows: Kafka keeps them without a word, for plug-ins.
func (c changes) warn(w io.Writer, t target) {
	if kinds[t.kind].resource != kmsg.ConfigResourceTypeBroker {
		return
	}
	for _, pair := range slices.Concat(c.set, c.add) {
		key, _, _ := strings.Cut(pair, "=")
		if text, unknown := config.UnknownKey(key, "--config"); unknown {
			fmt.Fprintln(w, text)
		}
	}
}

// request is what the changes are in the protocol.
func (c changes) request(t target, dry bool) (*kmsg.IncrementalAlterConfigsRequest, error) {
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kinds[t.kind].resource, t.resource()
	for _, part := range []struct {
		flag string
		list []string
		op   kmsg.IncrementalAlterConfigOp
	}{
		{"config", c.set, kmsg.IncrementalAlterConfigOpSet}, {"append", c.add, kmsg.IncrementalAlterConfigOpAppend},
		{"subtract", c.subtract, kmsg.IncrementalAlterConfigOpSubtract},
	} {
		pairs, err := cli.KeyValues(part.flag, part.list)
		if err != nil {
			return nil, err
		}
		for _, p := range pairs {
			resource.Configs = append(resource.Configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: p[0], Op: part.op, Value: &p[1]})
		}
	}
	for _, key := range c.remove {
		resource.Configs = append(resource.Configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: key, Op: kmsg.IncrementalAlterConfigOpDelete})
	}
	if len(resource.Configs) == 0 {
		return nil, cli.Usagef("nothing to change: give --config, --delete-config, --append or --subtract")
	}
	r := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r.Resources, r.ValidateOnly = append(r.Resources, resource), dry
	return r, nil
}
