package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/gregor-broker/gregor/cmd/gregor/internal/cluster"
	"github.com/gregor-broker/gregor/cmd/gregor/internal/group"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// lookEvery is how often a group is looked at, lookFor for how long unless told otherwise: members that commit automatically do so every
// five seconds.
const (
	lookEvery = 500 * time.Millisecond
	lookFor   = 6 * time.Second
)

func groupCommand(c *cli.Connection) *cobra.Command {
	var long time.Duration
	cmd := &cobra.Command{
		Use:   "group GROUP",
		Short: "Say why a group rebalances, stands still or falls behind",
		Long: `Watch a group for a few seconds and say whether it rebalances, and who holds that up, whether members come and go, who has nothing
to do, and whether it commits while records wait.`,
		Example: `  gregor doctor group billing
  gregor doctor group billing --for 1m`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.CompleteGroups(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			admin, err := c.Admin(cmd.Context(), cluster.Patiently()...)
			if err != nil {
				return err
			}
			defer admin.Close()
			g, err := lookAtGroup(cmd.Context(), admin, args[0], long)
			if err != nil {
				return err
			}
			return report(cmd.OutOrStdout(), g.judge())
		},
	}
	cmd.Flags().DurationVar(&long, "for", lookFor, "how long to watch a group that has members")
	return cmd
}

// groupState is a group as several looks at it show it, and what it has to read.
type groupState struct {
	name        string
	err         error // instead of all else
	was, is     kadm.DescribedGroupLag
	watched     time.Duration // between the two
	restless    bool          // it was seen in another state than Stable
	came, went  int           // members meanwhile
	holders     []string      // who has what it is to give up (consumer protocol)
	offsetsGone bool          // __consumer_offsets does not exist
}

func lookAtGroup(ctx context.Context, admin *kadm.Client, name string, long time.Duration) (*groupState, error) {
	g := &groupState{name: name}
	if g.err = g.watch(ctx, admin, long); g.err == nil {
		return g, nil
	}
	topics, err := admin.ListTopicsWithInternal(ctx, "__consumer_offsets")
	if err != nil {
		return nil, err
	}
	detail, ok := topics["__consumer_offsets"]
	g.offsetsGone = !ok || detail.Err != nil
	return g, nil
}

// watch looks at the group again and again, once if nobody is in it.
func (g *groupState) watch(ctx context.Context, admin *kadm.Client, long time.Duration) (err error) {
	look := func() (kadm.DescribedGroupLag, error) {
		all, err := group.Describe(ctx, admin, []string{g.name})
		if err != nil {
			return kadm.DescribedGroupLag{}, err
		}
		l := all[g.name]
		return l, l.Error()
	}
	if g.was, err = look(); err != nil {
		return err
	}
	g.see(g.was)
	began := time.Now()
	for g.watched = 0; len(g.is.Members) > 0 && g.watched < long; g.watched = time.Since(began) {
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
		next, err := look()
		if err != nil {
			return err
		}
		g.see(next)
	}
	if g.is.State == "Reconciling" || g.is.State == "Assigning" {
		g.holders, err = holders(ctx, admin, g.name)
	}
	return err
}

// see takes the next look in.
func (g *groupState) see(next kadm.DescribedGroupLag) {
	if g.is.Group != "" {
		came, went := changes(g.is.Members, next.Members)
		g.came, g.went = g.came+came, g.went+went
	}
	g.restless = g.restless || next.State != "Stable"
	g.is = next
}

// holders says which members have partitions that others are to get.
func holders(ctx context.Context, admin *kadm.Client, name string) (list []string, err error) {
	described, err := admin.DescribeConsumerGroups(ctx, name)
	if err != nil {
		return nil, err
	}
	for _, m := range described[name].Members {
		var held []string
		m.Assignment.Each(func(topic string, partition int32) {
			if !m.TargetAssignment.Lookup(topic, partition) {
				held = append(held, fmt.Sprintf("%s-%d", topic, partition))
			}
		})
		if slices.Sort(held); len(held) > 0 {
			list = append(list, fmt.Sprintf("%s at %s has yet to give up %s", m.ClientID, m.ClientHost, strings.Join(held, ", ")))
		}
	}
	return list, nil
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
		if g.came+g.went > 0 || g.restless {
			f.wrong = fmt.Sprintf("it rebalances again and again: in %s %d members came and %d went", g.watched.Round(time.Second), g.came, g.went)
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
		f.todo = "If this lasts, a member does not give up what it should, since it does not poll: it is thrown out after its max.poll.interval.ms. "
		if len(g.holders) > 0 {
			f.todo += strings.Join(g.holders, "; ") + "."
		} else {
			f.todo += g.who()
		}
	case "Empty":
		f.wrong = "nobody is in it"
		f.todo = "Do its consumers run, with this group.id, and do they reach the brokers (gregor doctor connect)?"
	default:
		f.wrong = "it does not exist"
		f.todo = "No consumer has ever joined under this name here, or it was deleted, or its offsets have expired."
	}
	return f
}

// changes says how the members of two looks differ.
func changes(was, is []kadm.DescribedGroupMember) (came, went int) {
	before := map[string]bool{}
	for _, m := range was {
		before[m.MemberID] = true
	}
	for _, m := range is {
		if !before[m.MemberID] {
			came++
		}
		delete(before, m.MemberID)
	}
	return came, len(before)
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
	f := finding{about: "work"}
	if g.is.State != "Stable" || len(g.is.Members) == 0 {
		return f, false
	}
	busy, partitions := map[string]bool{}, 0
	for _, p := range g.is.Lag.Sorted() {
		if p.Member != nil {
			busy[p.Member.MemberID] = true
			partitions++
		}
	}
	members := cli.Count(len(g.is.Members), "member")
	f.note = fmt.Sprintf("%s among %s", cli.Count(partitions, "partition"), members)
	if idle := len(g.is.Members) - len(busy); idle > 0 {
		f.wrong = fmt.Sprintf("%d of %s have no partition", idle, members)
		f.todo = "There are more members than partitions: add partitions, or run fewer. Or their topics do not exist."
	}
	return f, true
}

// judgeLag tells how far the group is behind, whether it goes on, and of offsets that are not there any more.
func (g *groupState) judgeLag() finding {
	f := finding{about: "offsets"}
	total, committed, lost := int64(0), int64(0), []string{}
	for _, p := range g.is.Lag.Sorted() {
		if p.Err != nil {
			continue
		}
		total += max(p.Lag, 0)
		committed += max(p.Commit.At, 0) - max(g.was.Lag[p.Topic][p.Partition].Commit.At, 0)
		if at := p.Commit.At; at >= 0 && at < p.Start.Offset {
			lost = append(lost, fmt.Sprintf("%s-%d (committed %d, the log starts at %d)", p.Topic, p.Partition, at, p.Start.Offset))
		}
	}
	f.note = cli.Count(int(total), "record") + " behind"
	if committed > 0 {
		f.note += fmt.Sprintf(", %s handled in %s", cli.Count(int(committed), "record"), g.watched.Round(time.Second))
	}
	switch {
	case len(lost) > 0:
		f.wrong = "records were deleted before they were read: " + strings.Join(lost, ", ")
		f.todo = "The group goes on where auto.offset.reset says. It is too slow for the topic's retention, or was away for too long."
	case total > 0 && committed <= 0 && g.is.State == "Stable" && g.watched >= lookFor:
		f.wrong = fmt.Sprintf("%s, and nothing was committed in %s", f.note, g.watched.Round(time.Second))
		f.todo = "Its members do not poll, or commit only now and then (--for looks for longer). " + g.who()
	}
	return f
}
