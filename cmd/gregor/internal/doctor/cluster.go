package doctor

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/gregor-broker/gregor/cmd/gregor/internal/cluster"
	"github.com/gregor-broker/gregor/controller"
	"github.com/spf13/cobra"
)

func clusterCommand(c *cli.Connection) *cobra.Command {
	return &cobra.Command{
		Use:   "cluster",
		Short: "Say which broker does not fit into its cluster",
		Long: `Ask every broker what it speaks, and say which one cannot read what the others store: one that does not know gregor.extensions
in a cluster where that is on.`,
		Example:           `  gregor doctor cluster`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cl, err := c.Client(cmd.Context())
			if err != nil {
				return err
			}
			defer cl.Close()
			known, err := cluster.Extended(cmd.Context(), cl)
			if err != nil {
				return err
			}
			return report(cmd.OutOrStdout(), judgeExtensions(known))
		},
	}
}

// judgeExtensions says which brokers do not know the setting where others go by it.
func judgeExtensions(known map[int32]bool) []finding {
	on := slices.Contains(slices.Collect(maps.Values(known)), true)
	var findings []finding
	for _, id := range slices.Sorted(maps.Keys(known)) {
		f := finding{about: fmt.Sprintf("broker %d", id)}
		switch {
		case known[id]:
			f.note = controller.Extensions + " is on"
		case on:
			f.wrong = fmt.Sprintf("it does not go by %s, which is on: it cannot read what is stored of consumer protocol groups, and transactions of "+
				"version 2 fail on it", controller.Extensions)
			f.todo = "If it is a broker of Apache Kafka 3.9, stop it, or switch the setting off (gregor cluster extensions off). If it is gregor, it has " +
				"lost ZooKeeper: look at its log."
		}
		findings = append(findings, f)
	}
	return findings
}
