package doctor

import (
	"context"
	"fmt"
	"slices"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/gregor-broker/gregor/cmd/gregor/internal/cluster"
	"github.com/twmb/franz-go/pkg/kadm"
)

// mostPartitions is how many partitions that are not well are told of one by one.
const mostPartitions = 3

// examine looks at everything: the way to the brokers, the brokers, all partitions, all groups.
func examine(ctx context.Context, c *cli.Connection) ([]finding, error) {
	servers, err := c.Servers()
	if err != nil {
		return nil, err
	}
	findings := connect(ctx, servers)
	if !slices.ContainsFunc(findings, func(f finding) bool { return f.wrong == "" }) {
		return findings, nil // nobody to ask
	}
	cl, err := c.Client(ctx, cluster.Patiently()...)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	brokers, err := lookAtCluster(ctx, cl)
	if err != nil {
		return nil, err
	}
	for _, f := range brokers.judge() {
		if f.wrong != "" { // connect tells of those that are well
			findings = append(findings, f)
		}
	}
	admin := kadm.NewClient(cl)
	partitions, err := examinePartitions(ctx, admin)
	if err != nil {
		return nil, err
	}
	groups, err := admin.ListGroups(ctx)
	return append(append(findings, partitions...), judgeGroups(groups, err)...), nil
}

// examinePartitions tells of partitions that are not well, the first ones with the reason.
func examinePartitions(ctx context.Context, admin *kadm.Client) ([]finding, error) {
	topics, err := admin.ListTopicsWithInternal(ctx)
	if err != nil {
		return nil, err
	}
	var findings []finding
	all, unwell := 0, 0
	for _, topic := range topics.Sorted() {
		var some []int32
		for _, p := range topic.Partitions.Sorted() {
			all++
			if p.Leader < 0 || len(p.ISR) < len(p.Replicas) {
				unwell++
				some = append(some, p.Partition)
			}
		}
		if len(some) == 0 || len(findings) >= mostPartitions {
			continue
		}
		t, err := lookAtTopic(ctx, admin, topic.Topic)
		if err != nil {
			return nil, err
		}
		findings = append(findings, t.judge(some[:min(len(some), mostPartitions-len(findings))])...)
	}
	if unwell == 0 {
		return []finding{{about: "partitions", note: fmt.Sprintf("all %d have a leader and their replicas in sync", all)}}, nil
	}
	if more := unwell - len(findings); more > 0 {
		findings = append(findings, finding{about: "partitions", wrong: fmt.Sprintf("%d more are not well", more), todo: "gregor cluster describe lists them."})
	}
	return findings, nil
}

// judgeGroups tells of groups that are on their way to another assignment. err is of brokers that could not be asked.
func judgeGroups(groups kadm.ListedGroups, err error) []finding {
	var findings []finding
	for _, g := range groups.Sorted() {
		switch g.State {
		case "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling":
			findings = append(findings, finding{about: "group " + g.Group, wrong: "it rebalances (" + g.State + ")",
				todo: "If that lasts: gregor doctor group " + g.Group})
		}
	}
	if err != nil {
		return append(findings, finding{about: "groups", wrong: "not all brokers say which they have: " + cli.Explain(err, "").Error()})
	}
	if len(findings) == 0 {
		findings = append(findings, finding{about: "groups", note: fmt.Sprintf("none of %d rebalances", len(groups))})
	}
	return findings
}
