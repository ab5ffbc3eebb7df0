// Package configs is the command group that shows and changes settings that a cluster keeps: of brokers, their loggers, topics, groups
// and client metrics.
package configs

import (
	"slices"
	"strings"

	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// kinds are what can have settings, in the words of the command line.
var kinds = []struct {
	name     string
	resource kmsg.ConfigResourceType
	own      []kmsg.ConfigSource // where a setting comes from that somebody has set
	keys     func(prefix, suffix string) []string
}{
	{"broker", kmsg.ConfigResourceTypeBroker, []kmsg.ConfigSource{
		kmsg.ConfigSourceDynamicBrokerConfig, kmsg.ConfigSourceDynamicDefaultBrokerConfig, kmsg.ConfigSourceStaticBrokerConfig,
	}, config.BrokerKeys},
	{"topic", kmsg.ConfigResourceTypeTopic, []kmsg.ConfigSource{kmsg.ConfigSourceDynamicTopicConfig}, config.TopicKeys},
	{"group", kmsg.ConfigResourceTypeGroupConfig, []kmsg.ConfigSource{kmsg.ConfigSourceGroupConfig}, nil},
	{"logger", kmsg.ConfigResourceTypeBrokerLogger, []kmsg.ConfigSource{kmsg.ConfigSourceDynamicBrokerLoggerConfig}, nil},
	{"client-metrics", kmsg.ConfigResourceTypeClientMetrics, []kmsg.ConfigSource{kmsg.ConfigSourceClientMetricsConfig}, nil},
}

// allBrokers is the name for the settings of all brokers together, which the protocol calls by an empty one.
const allBrokers = "all"

func kindNames() []string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.name
	}
	return names
}

// target is what settings belong to.
type target struct {
	kind int // of kinds
	name string
}

func parseTarget(kind, name string) (target, error) {
	i := slices.Index(kindNames(), kind)
	if i < 0 {
		return target{}, cli.Usagef("%s: want %s", kind, strings.Join(kindNames(), ", "))
	}
	return target{i, name}, nil
}

func (t target) String() string { return kinds[t.kind].name + " " + t.name }

// resource is the name that the protocol has for it.
func (t target) resource() string {
	if kinds[t.kind].resource == kmsg.ConfigResourceTypeBroker && t.name == allBrokers {
		return ""
	}
	return t.name
}

// Command returns "gregor config".
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show and change settings of brokers, loggers, topics, groups and client metrics while they run",
		Example: `  gregor config describe broker 1
  gregor config alter broker all --config log.cleaner.threads=2
  gregor config alter logger 1 --config kafka.log.LogCleaner=DEBUG
  gregor config describe group billing --all`,
	}
	var c cli.Connection
	c.AddFlags(cmd)
	cmd.AddCommand(describeCommand(&c), alterCommand(&c))
	return cli.Group(cmd)
}

// complete proposes kinds, then names.
func complete(c *cli.Connection) cli.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		switch {
		case len(args) == 0:
			return kindNames(), cobra.ShellCompDirectiveNoFileComp
		case len(args) == 1 && args[0] == "topic":
			return c.CompleteTopics(0)(cmd, nil, typed)
		case len(args) == 1 && args[0] == "group":
			return c.CompleteGroups(0)(cmd, nil, typed)
		case len(args) == 1 && args[0] == "broker":
			return []string{allBrokers}, cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}
