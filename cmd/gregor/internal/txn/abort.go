package txn

import (
	"fmt"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

// hanging says which transaction is to be aborted: the one of a partition that begins at an offset, or that of a producer.
type hanging struct {
	topic     string
	partition int32
	start     int64
	producer  int64
}

func abortCommand(c *cli.Connection) *cobra.Command {
	h := hanging{}
	cmd := &cobra.Command{
		Use:   "abort --topic TOPIC --partition N (--start-offset OFFSET | --producer ID)",
		Short: "Abort a transaction that hangs in a partition",
		Long: `Abort a transaction that hangs: readers of committed records wait for its end, but its coordinator does not know of it any more.
The partition's leader is told to end it, past the coordinator. A transaction that its coordinator knows (gregor txn list) ends by
itself after its timeout; do not abort it here unless you know that its producer is dead.`,
		Example:           `  gregor txn abort --topic orders --partition 3 --start-offset 1207`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if h.topic == "" || (h.start < 0) == (h.producer < 0) {
				return cli.Usagef("name the transaction by --topic, --partition and either --start-offset or --producer")
			}
			admin, err := c.Admin(cmd.Context())
			if err != nil {
				return err
			}
			defer admin.Close()
			var of kadm.TopicsSet
			of.Add(h.topic, h.partition)
			described, err := admin.DescribeProducers(cmd.Context(), of)
			if err != nil {
				return err
			}
			p := described[h.topic].Partitions[h.partition]
			if p.Err != nil {
				return cli.Explain(p.Err, p.ErrMessage)
			}
			producer, err := h.find(p.ActiveProducers)
			if err != nil {
				return err
			}
			responses, err := admin.WriteTxnMarkers(cmd.Context(), kadm.TxnMarkers{
				ProducerID: producer.ProducerID, ProducerEpoch: producer.ProducerEpoch,
				CoordinatorEpoch: max(producer.CoordinatorEpoch, 0), Topics: of, // -1: no coordinator has ended a transaction there yet
			})
			if err != nil {
				return err
			}
			var failures cli.Failures
			for _, r := range responses.SortedPartitions() {
				failures.Report(cmd.OutOrStdout(), cmd.ErrOrStderr(), fmt.Sprintf("%s-%d", r.Topic, r.Partition),
					fmt.Sprintf("the transaction of producer %d is aborted", r.ProducerID), cli.Explain(r.Err, ""))
			}
			return failures.Err()
		},
	}
	cmd.Flags().StringVar(&h.topic, "topic", "", "`topic` that it hangs in")
	cmd.Flags().Int32Var(&h.partition, "partition", 0, "partition `number`")
	cmd.Flags().Int64Var(&h.start, "start-offset", -1, "`offset` of its first record")
	cmd.Flags().Int64Var(&h.producer, "producer", -1, "producer `id`")
	return cmd
}

// find returns the producer with the transaction.
func (h *hanging) find(producers kadm.DescribedProducers) (kadm.DescribedProducer, error) {
	for _, p := range producers.Sorted() {
		switch {
		case p.CurrentTxnStartOffset < 0:
		case p.CurrentTxnStartOffset == h.start, p.ProducerID == h.producer:
			return p, nil
		}
	}
	return kadm.DescribedProducer{}, fmt.Errorf("%s-%d: no open transaction there", h.topic, h.partition)
}
