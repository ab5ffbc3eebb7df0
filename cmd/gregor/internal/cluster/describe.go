package cluster

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

func describeCommand(c *cli.Connection) *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use:   "describe",
		Short: "Show the brokers, what each leads and holds, and which partitions are not well",
		Long: `Show the brokers of a cluster with what each leads and holds, and the partitions that are not well: without a leader, with
replicas that are not in sync, with fewer in sync than min.insync.replicas.

LEADS is partitions led now, PREFERRED those that it would lead after "gregor cluster elect".`,
		Example: `  gregor cluster describe
  until gregor cluster describe --check; do sleep 1; done`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := connect(cmd.Context(), c)
			if err != nil {
				return err
			}
			defer s.Close()
			now, err := s.look(cmd.Context())
			if err != nil {
				return err
			}
			if err := now.write(cmd.OutOrStdout()); err != nil {
				return err
			}
			if n := len(now.unwell()); check && n > 0 {
				return fmt.Errorf("%s not well", cli.Count(n, "partition"))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "end with exit code 1 if a partition is not well")
	return cmd
}

// state is a cluster at one moment, as its brokers tell it.
type state struct {
	kadm.Metadata
	sizes  map[int32]int64 // broker → bytes of its replicas; one that did not answer is missing
	minISR map[string]int
	moving int // partitions under reassignment
}

func (s session) look(ctx context.Context) (state, error) {
	m, err := s.Client.Metadata(ctx)
	if err != nil {
		return state{}, err
	}
	now := state{Metadata: m, sizes: map[int32]int64{}}
	if now.minISR, err = s.minInSync(ctx, m.Topics.Names()); err != nil {
		return state{}, err
	}
	moves, err := s.underWay(ctx)
	if err != nil {
		return state{}, fmt.Errorf("ask the controller: %w", err)
	}
	now.moving = len(moves)
	for id, d := range s.replicas(ctx, nil) {
		now.sizes[id] = d.Size()
	}
	return now, nil
}

// unwell is a partition that needs a look, and why.
type unwell struct {
	kadm.PartitionDetail
	why string
}

// unwell lists the partitions that are not well, by topic and number.
func (s state) unwell() []unwell {
	var all []unwell
	for _, t := range s.Topics.Sorted() {
		for _, p := range t.Partitions.Sorted() {
			if why := s.why(p); why != "" {
				all = append(all, unwell{p, why})
			}
		}
	}
	return all
}

// why says what is the matter with a partition, the worst of it; "" = nothing.
func (s state) why(p kadm.PartitionDetail) string {
	required := min(s.minISR[p.Topic], len(p.Replicas))
	switch {
	case p.Leader < 0:
		return "no leader"
	case len(p.ISR) < required:
		return fmt.Sprintf("below min.insync.replicas (%d)", required)
	case len(p.ISR) < len(p.Replicas):
		return "under-replicated"
	}
	return ""
}

func (s state) write(w io.Writer) error {
	partitions, replicas := 0, 0
	s.Topics.EachPartition(func(p kadm.PartitionDetail) {
		partitions++
		replicas += len(p.Replicas)
	})
	fmt.Fprintf(w, "cluster     %s\ncontroller  %s\nbrokers     %d\ntopics      %d with %s and %s\n", s.Cluster, id(s.Controller),
		len(s.Brokers), len(s.Topics), cli.Count(partitions, "partition"), cli.Count(replicas, "replica"))
	if s.moving > 0 {
		fmt.Fprintf(w, "moving      %s; gregor cluster reassign --watch shows how far\n", cli.Count(s.moving, "partition"))
	}
	fmt.Fprintln(w)
	if err := cli.Table(w, s.brokerRows()); err != nil {
		return err
	}
	bad := s.unwell()
	if len(bad) == 0 {
		fmt.Fprintln(w, "\nevery partition has a leader and all its replicas in sync")
		return nil
	}
	fmt.Fprintf(w, "\n%s not well\n", cli.Count(len(bad), "partition"))
	rows := [][]string{{"PARTITION", "LEADER", "REPLICAS", "IN SYNC", "WHAT"}}
	for _, p := range bad {
		rows = append(rows, []string{partition{p.Topic, p.Partition}.String(), id(p.Leader), cli.IDs(p.Replicas), cli.IDs(p.ISR), p.why})
	}
	return cli.Table(w, rows)
}

// holding is what one broker has.
type holding struct{ leads, preferred, replicas, behind int }

// holdings count what each broker has, also those that are away.
func holdings(topics kadm.TopicDetails) map[int32]*holding {
	all := map[int32]*holding{}
	of := func(broker int32) *holding {
		if all[broker] == nil {
			all[broker] = &holding{}
		}
		return all[broker]
	}
	topics.EachPartition(func(p kadm.PartitionDetail) {
		if p.Leader >= 0 {
			of(p.Leader).leads++
		}
		for i, broker := range p.Replicas {
			h := of(broker)
			h.replicas++
			if i == 0 {
				h.preferred++
			}
			if !slices.Contains(p.ISR, broker) {
				h.behind++
			}
		}
	})
	return all
}

func (s state) brokerRows() [][]string {
	rows := [][]string{{"BROKER", "ADDRESS", "RACK", "LEADS", "PREFERRED", "REPLICAS", "NOT IN SYNC", "SIZE", ""}}
	held := holdings(s.Topics)
	for _, b := range s.Brokers {
		rack, size, note := "-", "-", ""
		if b.Rack != nil {
			rack = *b.Rack
		}
		if b.NodeID == s.Controller {
			note = "controller"
		}
		if n, ok := s.sizes[b.NodeID]; ok {
			size = cli.Size(n)
		} else {
			note = strings.TrimPrefix(note+", does not answer", ", ")
		}
		h := held[b.NodeID]
		if h == nil {
			h = &holding{}
		}
		delete(held, b.NodeID)
		rows = append(rows, h.row(b.NodeID, net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))), rack, size, note))
	}
	for broker, h := range held {
		rows = append(rows, h.row(broker, "-", "-", "-", "away"))
	}
	slices.SortStableFunc(rows[1:], func(a, b []string) int {
		x, _ := strconv.Atoi(a[0])
		y, _ := strconv.Atoi(b[0])
		return x - y
	})
	return rows
}

func (h *holding) row(broker int32, address, rack, size, note string) []string {
	return []string{id(broker), address, rack, strconv.Itoa(h.leads), strconv.Itoa(h.preferred), strconv.Itoa(h.replicas),
		strconv.Itoa(h.behind), size, note}
}

func id(broker int32) string {
	if broker < 0 {
		return "-"
	}
	return strconv.Itoa(int(broker))
}
