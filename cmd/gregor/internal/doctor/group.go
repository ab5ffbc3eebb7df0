package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func groupCommand(c *cli.Connection) *cobra.Command {
	return &cobra.Command{
		Use:               "group GROUP",
		Short:             "Say why a group rebalances, stands still or falls behind",
		Example:           `  gregor doctor group billing`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.CompleteGroups(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			admin, err := c.Admin(cmd.Context())
			if err != nil {
				return err
			}
			defer admin.Close()
			g, err := lookAtGroup(cmd.Context(), admin, args[0])
			if err != nil {
				return err
			}
			return report(cmd.OutOrStdout(), g.judge())
		},
	}
}

// groupState is a group as two looks at it show it, and what it has to read.
type groupState struct {
	name        string
	err         error // instead of all else
	was, is     kadm.DescribedGroup
	lag         kadm.DescribedGroupLag
	offsetsGone bool // __consumer_offsets does not exist
}

func lookAtGroup(ctx context.Context, admin *kadm.Client, name string) (*groupState, error) {
	g := &groupState{name: name}
	look := func() (kadm.DescribedGroup, error) {
		all, err := admin.DescribeGroups(ctx, name)
		if err != nil {
			return kadm.DescribedGroup{}, err
		}
		return all[name], all[name].Err
	}
	var err error
	if g.was, err = look(); err == nil {
		var lags kadm.DescribedGroupLags
		if lags, err = admin.Lag(ctx, name); err == nil {
			g.lag = lags[name]
			g.is, err = look()
		}
	}
	g.err = err
	if err != nil {
		topics, terr := admin.ListTopicsWithInternal(ctx, "__consumer_offsets")
		if terr != nil {
			return nil, terr
		}
		detail, ok := topics["__consumer_offsets"]
		g.offsetsGone = !ok || detail.Err != nil
	}
	return g, nil
}

// judge says in words how the group does.
func (g *groupState) judge() []finding {
	about := "group " + g.name
	if errors.Is(g.err, kerr.GroupIDNotFound) {
		return []finding{g.judgeState(about)}
	}
	if g.err != nil {
		return []finding{g.judgeError(about)}
	}
	findings := []finding{g.judgeState(about)}
	if f, ok := g.judgeIdle(); ok {
		findings = append(findings, f)
	}
	return append(findings, g.judgeLag())
}

func (g *groupState) judgeError(about string) finding {
	f := finding{about: about, wrong: cli.Explain(g.err, "").Error()}
	if g.offsetsGone {
		f.wrong = "groups have nowhere to be: the topic __consumer_offsets does not exist"
		f.todo = "It is created when a group is first asked for. If that fails, the broker's log says why; most often offsets.topic.replication.factor " +
			"is larger than the number of brokers."
	}
	return f
}

func (g *groupState) judgeState(about string) finding {
	f := finding{about: about}
	switch g.is.State {
	case "Stable":
		f.note = fmt.Sprintf("stable, %s, assignor %s", cli.Count(len(g.is.Members), "member"), g.is.Protocol)
		if changed := g.changes(); changed != "" {
			f.wrong = "its members change while one looks: " + changed
			f.todo = "Members that leave and come back make everybody rebalance: do they take longer than max.poll.interval.ms for a batch, or are they " +
				"restarted? A group.instance.id keeps a restarted member's place."
		}
	case "PreparingRebalance":
		f.wrong = "it waits for members to join again, at most as long as the slowest one's max.poll.interval.ms (rebalance timeout)"
		f.todo = "Somebody joined, left, or missed heartbeats for session.timeout.ms; those who still work on a batch hold everybody up. " + g.who()
	case "CompletingRebalance":
		f.wrong = "everybody has joined; it waits for the member that leads to hand out partitions"
		f.todo = "If this lasts, that member hangs in its assignor. " + g.who()
	case "Assigning", "Reconciling":
		f.wrong = "it moves to a new assignment: members give up partitions before others get them"
		f.todo = "If this lasts, a member does not give up what it should: look for one that does not poll. " + g.who()
	case "Empty":
		f.wrong = "nobody is in it"
		f.todo = "Do its consumers run, with this group.id, and do they reach the brokers (gregor doctor connect)?"
	default:
		f.wrong = "it does not exist"
		f.todo = "No consumer has ever joined under this name here, or it was deleted, or its offsets have expired."
	}
	return f
}

// changes says how the members of the two looks differ.
func (g *groupState) changes() string {
	before := map[string]bool{}
	for _, m := range g.was.Members {
		before[m.MemberID] = true
	}
	joined := 0
	for _, m := range g.is.Members {
		if !before[m.MemberID] {
			joined++
		}
		delete(before, m.MemberID)
	}
	if joined == 0 && len(before) == 0 {
		return ""
	}
	return fmt.Sprintf("%d came, %d went", joined, len(before))
}

// who lists the members.
func (g *groupState) who() string {
	const most = 10
	var list []string
	for i, m := range g.is.Members {
		if i == most {
			list = append(list, fmt.Sprintf("and %d more", len(g.is.Members)-most))
			break
		}
		list = append(list, m.ClientID+" at "+m.ClientHost)
	}
	if list == nil {
		return ""
	}
	return "Members: " + strings.Join(list, ", ") + "."
}

// judgeIdle tells of members that have nothing to do.
func (g *groupState) judgeIdle() (finding, bool) {
	idle, partitions := 0, 0
	for _, m := range g.is.Members {
		assigned, ok := m.Assigned.AsConsumer()
		if !ok {
			return finding{}, false
		}
		n := 0
		for _, t := range assigned.Topics {
			n += len(t.Partitions)
		}
		if n == 0 {
			idle++
		}
		partitions += n
	}
	f := finding{about: "work"}
	if g.is.State != "Stable" || len(g.is.Members) == 0 {
		return f, false
	}
	f.note = fmt.Sprintf("%s among %s", cli.Count(partitions, "partition"), cli.Count(len(g.is.Members), "member"))
	if idle > 0 {
		f.wrong = fmt.Sprintf("%d of %s have no partition", idle, cli.Count(len(g.is.Members), "member"))
		f.todo = "There are more members than partitions: add partitions, or run fewer."
	}
	return f, true
}

// judgeLag tells how far the group is behind, and of offsets that are not there any more.
func (g *groupState) judgeLag() finding {
	f := finding{about: "offsets"}
	total, lost := int64(0), []string{}
	for _, topic := range g.lag.Lag.Sorted() {
		if topic.Err != nil {
			continue
		}
		total += max(topic.Lag, 0)
		if at := topic.Commit.At; at >= 0 && at < topic.Start.Offset {
			lost = append(lost, fmt.Sprintf("%s-%d (committed %d, the log starts at %d)", topic.Topic, topic.Partition, at, topic.Start.Offset))
		}
	}
	f.note = cli.Count(int(total), "record") + " behind"
	if len(lost) > 0 {
		f.wrong = "records were deleted before they were read: " + strings.Join(lost, ", ")
		f.todo = "The group goes on where auto.offset.reset says. It is too slow for the topic's retention, or was away for too long."
	}
	return f
}
