package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/gregor-broker/gregor/cmd/gregor/internal/cluster"
	"github.com/gregor-broker/gregor/controller"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func clusterCommand(c *cli.Connection) *cobra.Command {
	return &cobra.Command{
		Use:   "cluster",
		Short: "Say which broker does not fit into its cluster, or is missing in it",
		Long: `Ask every broker what it speaks, and say which one does not answer, has lost ZooKeeper, or has replicas and is away, and which
one cannot read what the others store: one that does not know gregor.extensions in a cluster where that is on.`,
		Example:           `  gregor doctor cluster`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cl, err := c.Client(cmd.Context(), cluster.Patiently()...)
			if err != nil {
				return err
			}
			defer cl.Close()
			s, err := lookAtCluster(cmd.Context(), cl)
			if err != nil {
				return err
			}
			return report(cmd.OutOrStdout(), s.judge())
		},
	}
}

// clusterState is what the brokers of a cluster say, and what is known of those that say nothing.
type clusterState struct {
	extended map[int32]bool  // of those that answer: whether they go by gregor.extensions
	silent   map[int32]error // registered, and do not answer
	away     map[int32]int   // not registered: how many partitions have replicas there
	cutOff   map[int32]bool  // of those that answer: they cannot ask what keeps the cluster's metadata
}

func lookAtCluster(ctx context.Context, cl *kgo.Client) (*clusterState, error) {
	s := &clusterState{away: map[int32]int{}}
	var err error
	if s.extended, s.silent, err = cluster.Extended(ctx, cl); err != nil {
		return nil, err
	}
	s.cutOff = cutOff(ctx, cl, slices.Collect(maps.Keys(s.extended)))
	topics, err := kadm.NewClient(cl).ListTopicsWithInternal(ctx)
	if err != nil {
		return nil, err
	}
	topics.EachPartition(func(p kadm.PartitionDetail) {
		for _, r := range p.Replicas {
			_, answers := s.extended[r]
			if _, registered := s.silent[r]; !answers && !registered {
				s.away[r]++
			}
		}
	})
	return s, nil
}

// cutOff asks brokers for what they cannot say without ZooKeeper (or KRaft's quorum): whether they would change nothing in the
// configuration of all brokers. Those that do not answer in time have lost it.
func cutOff(ctx context.Context, cl *kgo.Client, brokers []int32) map[int32]bool {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	var asked sync.WaitGroup
	var mu sync.Mutex
	mute := map[int32]bool{}
	for _, id := range brokers {
		asked.Go(func() {
			r := kmsg.NewPtrIncrementalAlterConfigsRequest()
			r.ValidateOnly = true
			all := kmsg.NewIncrementalAlterConfigsRequestResource()
			all.ResourceType = kmsg.ConfigResourceTypeBroker
			r.Resources = append(r.Resources, all)
			_, err := r.RequestWith(ctx, cl.Broker(int(id)))
			mu.Lock()
			defer mu.Unlock()
			mute[id] = isTimeout(err) || errors.Is(err, context.DeadlineExceeded)
		})
	}
	asked.Wait()
	return mute
}

// judge says which brokers are not there, and which do not know the setting where others go by it.
func (s *clusterState) judge() []finding {
	all := map[int32]int{}
	maps.Copy(all, s.away)
	for id := range s.extended {
		all[id] = 0
	}
	for id := range s.silent {
		all[id] = 0
	}
	on := slices.Contains(slices.Collect(maps.Values(s.extended)), true)
	var findings []finding
	for _, id := range slices.Sorted(maps.Keys(all)) {
		f := finding{about: fmt.Sprintf("broker %d", id)}
		switch err, silent := s.silent[id]; {
		case s.away[id] > 0:
			f.wrong = fmt.Sprintf("it is not in the cluster, and %s replicas on it", cli.Count(s.away[id], "partition")+has(s.away[id]))
			f.todo = fmt.Sprintf("Start it, or if it is lost, another one with this broker.id and an empty disk; or move its replicas away "+
				"(gregor cluster reassign --drain %d).", id)
		case silent:
			f.wrong = "it is registered and does not answer: " + silence(err)
			f.todo = "gregor doctor connect says how far a client gets with it."
		case s.cutOff[id]:
			f.wrong = "it serves clients, but ZooKeeper does not answer it: until it does, nothing is created or changed and no leader is elected"
			f.todo = "Does ZooKeeper run, has it a majority of its servers, and does zookeeper.connect lead there? The broker's log says since when it is away."
		case s.extended[id]:
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

func has(n int) string {
	if n == 1 {
		return " has"
	}
	return " have"
}

// silence is an error of a broker in words.
func silence(err error) string {
	if isTimeout(err) || errors.Is(err, context.DeadlineExceeded) {
		return "it takes connections and says nothing"
	}
	return err.Error()
}
