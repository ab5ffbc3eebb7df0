// Package docs holds the commands that show what is served: of a running broker, and of this build for the
// documentation.
package docs

import (
	"fmt"
	"io"
	"strconv"

	"github.com/gregor-broker/gregor/broker/api"
	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// APIVersions returns "gregor api-versions".
func APIVersions() *cobra.Command {
	var c cli.Connection
	cmd := &cobra.Command{
		Use:               "api-versions",
		Short:             "Show which APIs in which versions the brokers serve",
		Example:           `  gregor api-versions -b broker:9092`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			admin, err := c.Admin(cmd.Context())
			if err != nil {
				return err
			}
			defer admin.Close()
			brokers, err := admin.ApiVersions(cmd.Context())
			if err != nil {
				return err
			}
			for i, b := range brokers.Sorted() {
				if i > 0 {
					fmt.Fprintln(cmd.OutOrStdout())
				}
				if b.Err != nil {
					return fmt.Errorf("broker %d: %w", b.NodeID, b.Err)
				}
				if err := writeVersions(cmd.OutOrStdout(), b); err != nil {
					return err
				}
			}
			return nil
		},
	}
	c.AddFlags(cmd)
	return cmd
}

func writeVersions(w io.Writer, b kadm.BrokerApiVersions) error {
	fmt.Fprintf(w, "broker %d\n", b.NodeID)
	rows := [][]string{{"KEY", "API", "VERSIONS"}}
	b.EachKeySorted(func(key, low, high int16) {
		name := kmsg.NameForKey(key)
		if name == "" {
			name = "?"
		}
		rows = append(rows, []string{strconv.Itoa(int(key)), name, fmt.Sprintf("%d-%d", low, high)})
	})
	return cli.Table(w, rows)
}

// Command returns "gregor docs", which writes the generated pages of the documentation.
func Command() *cobra.Command {
	cmd := &cobra.Command{Use: "docs", Short: "Write generated pages of the documentation", Hidden: true}
	cmd.AddCommand(&cobra.Command{
		Use:   "compatibility",
		Short: "Write docs/compatibility.md to standard output",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return compatibility(cmd.OutOrStdout()) },
	})
	return cli.Group(cmd)
}

const compatibilityHead = `# Compatibility

This page is generated from tables beside the code: go run ./cmd/gregor docs compatibility >docs/compatibility.md

## APIs

The versions that are served, beside those of Apache Kafka 3.9 (ZooKeeper mode) and 4.4. Without ZooKeeper a broker serves
both ranges, on ZooKeeper exactly those of 3.9, and with gregor.extensions ([operations.md](operations.md)) those of 4.4 too.

`

const compatibilityTools = `
## Kafka's tools

What the command-line tools of Apache Kafka, of both versions, do with a broker that runs alone, and with a cluster of three on
ZooKeeper. "Works" is tested with the tools themselves, by what they print: the tests are those of ` + "`compat/tools`" + `, and where it says so
of ` + "`compat/cluster` and `compat/txn`" + `. "Refused" and "later" are tested too, by the words in quotes, one of which the tool prints; what is refused
on ZooKeeper Kafka 3.9 refuses there as well, for the tools of 4.4 likewise. Tools that work on KRaft's
files, on ZooKeeper or on Java processes (kafka-storage, kafka-metadata-shell, zookeeper-shell, zookeeper-security-migration,
kafka-jmx, trogdor, the scripts that start and stop servers) have nothing to do with this broker, nor have
kafka-dump-log's decoders of topics that do not exist here (cluster metadata, remote log metadata, states of share groups); Connect,
MirrorMaker and Streams are clients as others are. The option --bootstrap-controller, where a tool has it, needs KRaft controllers. Every other tool of both
distributions has a row.

`

const compatibilitySuites = `
## Test suites of other clients

Tests that clients' authors wrote, run unchanged against the built binary, but for addresses. ` + "`make test`" + ` runs them without
those that take long, ` + "`make suites`" + ` runs them whole; librdkafka's are C programs of its source tree, run by hand. What they say is held
against these tables.

"Fails" is what fails on Apache Kafka too, "broken" what fails by itself whatever the broker. "Needs" is what needs something that is
not there. A test that fails is run once more by itself, since many have deadlines of their own that a busy machine misses.

`

const compatibilityKeys = `
## Configuration

Every key of Kafka's server.properties and of topics, of 3.9 and 4.4. Keys that are not honoured say why: "no effect" is told
at the start with one line, a refused value stops the start.

`

func compatibility(w io.Writer) error {
	if _, err := io.WriteString(w, compatibilityHead); err != nil {
		return err
	}
	if err := api.WriteDocs(w); err != nil {
		return err
	}
	if _, err := io.WriteString(w, compatibilityTools); err != nil {
		return err
	}
	if err := writeTools(w); err != nil {
		return err
	}
	if _, err := io.WriteString(w, compatibilitySuites); err != nil {
		return err
	}
	if err := writeSuites(w); err != nil {
		return err
	}
	if _, err := io.WriteString(w, compatibilityKeys); err != nil {
		return err
	}
	return config.Docs(w)
}
