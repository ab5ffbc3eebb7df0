// Package cluster is the command group for the brokers of a cluster together: who leads what, moving replicas, electing
// leaders, the setting of the whole cluster.
package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Command returns "gregor cluster".
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Describe a cluster, move replicas, elect leaders",
		Example: `  gregor cluster describe
  gregor cluster reassign --drain 4 --execute
  gregor cluster elect`,
	}
	var c cli.Connection
	c.AddFlags(cmd)
	cmd.AddCommand(describeCommand(&c), reassignCommand(&c), electCommand(&c), extensionsCommand(&c))
	return cli.Group(cmd)
}

// session is a connection for administration, and for the requests that kadm does not have.
type session struct {
	*kadm.Client
	raw *kgo.Client
}

// A broker that stands still takes this long of a command's time before another is asked.
const (
	answerWithin = 4 * time.Second
	retryWithin  = time.Minute
)

// Patiently are options of a client that gets its answers also while a broker stands still.
func Patiently() []kgo.Opt {
	return []kgo.Opt{kgo.RequestTimeoutOverhead(answerWithin), kgo.RetryTimeout(retryWithin)}
}

func connect(ctx context.Context, c *cli.Connection) (session, error) {
	raw, err := c.Client(ctx, Patiently()...)
	if err != nil {
		return session{}, err
	}
	return session{kadm.NewClient(raw), raw}, nil
}

// partition names one.
type partition struct {
	topic string
	id    int32
}

func (p partition) String() string { return fmt.Sprintf("%s-%d", p.topic, p.id) }

// underWay is the reassignments that the controller works on, of all topics.
func (s session) underWay(ctx context.Context) (map[partition]kmsg.ListPartitionReassignmentsResponseTopicPartition, error) {
	r := kmsg.NewPtrListPartitionReassignmentsRequest()
	r.TimeoutMillis = 30_000
	answer, err := r.RequestWith(ctx, s.raw)
	if err != nil {
		return nil, err
	}
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
		message := ""
		if answer.ErrorMessage != nil {
			message = *answer.ErrorMessage
		}
		return nil, cli.Explain(err, message)
	}
	all := map[partition]kmsg.ListPartitionReassignmentsResponseTopicPartition{}
	for _, t := range answer.Topics {
		for _, p := range t.Partitions {
			all[partition{t.Topic, p.Partition}] = p
		}
	}
	return all, nil
}

// sizesWithin is how long brokers may take to tell the sizes of their replicas. One that stands still is left out.
const sizesWithin = 5 * time.Second

// replicas is what the log directories hold, of all topics if none is named. Brokers that do not answer are missing.
func (s session) replicas(ctx context.Context, topics kadm.TopicsSet) kadm.DescribedAllLogDirs {
	ctx, cancel := context.WithTimeout(ctx, sizesWithin)
	defer cancel()
	dirs, _ := s.DescribeAllLogDirs(ctx, topics) // the error is of those that are missing
	return dirs
}

// minInSync is min.insync.replicas of topics. Those that may not be asked are left out.
func (s session) minInSync(ctx context.Context, topics []string) (map[string]int, error) {
	if len(topics) == 0 {
		return nil, nil
	}
	r := kmsg.NewPtrDescribeConfigsRequest()
	for _, topic := range topics {
		resource := kmsg.NewDescribeConfigsRequestResource()
		resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, topic
		resource.ConfigNames = []string{"min.insync.replicas"}
		r.Resources = append(r.Resources, resource)
	}
	answer, err := r.RequestWith(ctx, s.raw)
	if err != nil {
		return nil, err
	}
	all := map[string]int{}
	for _, resource := range answer.Resources {
		for _, k := range resource.Configs {
			n := 0
			if k.Value == nil {
				continue
			}
			if _, err := fmt.Sscan(*k.Value, &n); err == nil {
				all[resource.ResourceName] = n
			}
		}
	}
	return all, nil
}
