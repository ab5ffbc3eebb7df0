package group

import (
	"context"
	"errors"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Describe tells members, offsets and lag. It describes groups of both protocols. The API for classic groups does not know those of the consumer protocol (KIP-848).
func Describe(ctx context.Context, admin *kadm.Client, groups []string) (kadm.DescribedGroupLags, error) {
	all, err := cli.AskCoordinator(ctx, func(ctx context.Context) (kadm.DescribedGroupLags, error) { return admin.Lag(ctx, groups...) })
	if err != nil {
		return nil, err
	}
	for _, id := range groups {
		if l := all[id]; !errors.Is(l.Error(), kerr.GroupIDNotFound) {
			continue
		}
		modern, err := modernLag(ctx, admin, id)
		if err == nil {
			all[id] = modern
		} else if !errors.Is(err, kerr.GroupIDNotFound) {
			return nil, err
		}
	}
	return all, nil
}

// modernLag describes a group of the consumer protocol.
func modernLag(ctx context.Context, admin *kadm.Client, id string) (kadm.DescribedGroupLag, error) {
	described, err := admin.DescribeConsumerGroups(ctx, id)
	if err != nil {
		return kadm.DescribedGroupLag{}, err
	}
	g := described[id]
	if g.Err != nil {
		return kadm.DescribedGroupLag{}, g.Err
	}
	committed, err := admin.FetchOffsets(ctx, id)
	if err != nil {
		return kadm.DescribedGroupLag{}, err
	}
	topics := g.AssignedPartitions()
	committed.Each(func(o kadm.OffsetResponse) { topics.Add(o.Topic, o.Partition) })
	ends, err := admin.ListEndOffsets(ctx, topics.Topics()...)
	if err != nil {
		return kadm.DescribedGroupLag{}, err
	}
	l := kadm.DescribedGroupLag{
		Group: id, Coordinator: g.Coordinator, State: g.State, ProtocolType: "consumer", Protocol: g.AssignorName, Lag: kadm.GroupLag{},
	}
	for _, m := range g.Members {
		l.Members = append(l.Members, kadm.DescribedGroupMember{MemberID: m.MemberID, InstanceID: m.InstanceID, ClientID: m.ClientID, ClientHost: m.ClientHost})
	}
	topics.Each(func(topic string, partition int32) {
		row := kadm.GroupMemberLag{Topic: topic, Partition: partition, Commit: kadm.Offset{Topic: topic, Partition: partition, At: -1}}
		if o, ok := committed.Lookup(topic, partition); ok && o.Err == nil {
			row.Commit = o.Offset
		}
		row.End, _ = ends.Lookup(topic, partition)
		row.Lag = row.End.Offset - max(row.Commit.At, 0)
		for i, m := range g.Members {
			if m.Assignment.Lookup(topic, partition) {
				row.Member = &l.Members[i]
			}
		}
		if l.Lag[topic] == nil {
			l.Lag[topic] = map[int32]kadm.GroupMemberLag{}
		}
		l.Lag[topic][partition] = row
	})
	return l, nil
}
