package api

import (
	"slices"

	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/groupcoord"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The APIs of groups and their offsets are served by the group coordinator; what the versions changed and which errors
// there are stands with its methods. Each is a message to the owner of the group's partition, so it may run anywhere.

var joinGroup = Entry{
	Key: kmsg.JoinGroup, ZooKeeper: v(0, 9), Kafka4: v(0, 9),
	Access: on(kmsg.ACLResourceTypeGroup, kmsg.ACLOperationRead), Cost: 8, Runs: onProcessor,
	Serve: func(s *Services, c *Call, r kmsg.Request) {
		s.Groups.JoinGroup(caller(c), r.(*kmsg.JoinGroupRequest), c.Reply)
	},
}

var syncGroup = Entry{
	Key: kmsg.SyncGroup, ZooKeeper: v(0, 5), Kafka4: v(0, 5),
	Access: on(kmsg.ACLResourceTypeGroup, kmsg.ACLOperationRead), Cost: 8, Runs: onProcessor,
	Serve: func(s *Services, c *Call, r kmsg.Request) {
		s.Groups.SyncGroup(caller(c), r.(*kmsg.SyncGroupRequest), c.Reply)
	},
}

var heartbeat = Entry{
	Key: kmsg.Heartbeat, ZooKeeper: v(0, 4), Kafka4: v(0, 4),
	Access: on(kmsg.ACLResourceTypeGroup, kmsg.ACLOperationRead), Cost: 8, Runs: onProcessor,
	Serve: func(s *Services, c *Call, r kmsg.Request) {
		s.Groups.Heartbeat(caller(c), r.(*kmsg.HeartbeatRequest), c.Reply)
	},
}

var leaveGroup = Entry{
	Key: kmsg.LeaveGroup, ZooKeeper: v(0, 5), Kafka4: v(0, 5),
	Access: on(kmsg.ACLResourceTypeGroup, kmsg.ACLOperationRead), Cost: 8, Runs: onProcessor,
	Serve: func(s *Services, c *Call, r kmsg.Request) {
		s.Groups.LeaveGroup(caller(c), r.(*kmsg.LeaveGroupRequest), c.Reply)
	},
}

// Version 0 stores offsets in ZooKeeper, where there is one (broker/oldoffsets). Without ZooKeeper 3.9 answers it with
// UNSUPPORTED_VERSION and 4.4 has dropped it; here the coordinator takes it as it takes version 1, so that such clients work.
var offsetCommit = Entry{
	Key: kmsg.OffsetCommit, ZooKeeper: v(0, 9), Kafka4: v(2, 10),
	Access: on(kmsg.ACLResourceTypeGroup, kmsg.ACLOperationRead), Cost: 16, Runs: onProcessor,
	Serve: func(s *Services, c *Call, request kmsg.Request) {
		r := request.(*kmsg.OffsetCommitRequest)
		if r.Version == 0 && s.OldOffsets != nil {
			s.OldOffsets.Commit(r, c.Reply)
			return
		}
		s.Groups.OffsetCommit(caller(c), r, c.Reply)
	},
}

// Version 0 as for OffsetCommit.
var offsetFetch = Entry{
	Key: kmsg.OffsetFetch, ZooKeeper: v(0, 9), Kafka4: v(1, 10),
	Access: on(kmsg.ACLResourceTypeGroup, kmsg.ACLOperationDescribe), Cost: 16, Runs: onProcessor,
	Serve: func(s *Services, c *Call, request kmsg.Request) {
		r := request.(*kmsg.OffsetFetchRequest)
		if r.Version == 0 && s.OldOffsets != nil {
			s.OldOffsets.Fetch(r, c.Reply)
			return
		}
		s.Groups.OffsetFetch(caller(c), r, c.Reply)
	},
}

var offsetDelete = Entry{
	Key: kmsg.OffsetDelete, ZooKeeper: v(0, 0), Kafka4: v(0, 0),
	Access: on(kmsg.ACLResourceTypeGroup, kmsg.ACLOperationDelete), Cost: 16, Runs: onProcessor,
	Serve: func(s *Services, c *Call, r kmsg.Request) {
		s.Groups.OffsetDelete(caller(c), r.(*kmsg.OffsetDeleteRequest), c.Reply)
	},
}

var describeGroups = Entry{
	Key: kmsg.DescribeGroups, ZooKeeper: v(0, 5), Kafka4: v(0, 6),
	Access: on(kmsg.ACLResourceTypeGroup, kmsg.ACLOperationDescribe), Cost: 8, Runs: onProcessor,
	Serve: serveDescribeGroups,
}

func serveDescribeGroups(s *Services, c *Call, request kmsg.Request) {
	r := request.(*kmsg.DescribeGroupsRequest)
	s.Groups.DescribeGroups(caller(c), r, func(response kmsg.Response) {
		groups := response.(*kmsg.DescribeGroupsResponse).Groups
		for i := range groups {
			groups[i].AuthorizedOperations = notAsked
			if r.IncludeAuthorizedOperations && groups[i].ErrorCode == 0 {
				groups[i].AuthorizedOperations = s.allGroupOperations()
			}
		}
		c.Reply(response)
	})
}

var listGroups = Entry{
	Key: kmsg.ListGroups, ZooKeeper: v(0, 5), Kafka4: v(0, 5),
	Access: on(kmsg.ACLResourceTypeGroup, kmsg.ACLOperationDescribe), Cost: 8, Runs: onProcessor,
	Serve: func(s *Services, c *Call, r kmsg.Request) {
		s.Groups.ListGroups(caller(c), r.(*kmsg.ListGroupsRequest), c.Reply)
	},
}

var deleteGroups = Entry{
	Key: kmsg.DeleteGroups, ZooKeeper: v(0, 2), Kafka4: v(0, 3),
	Access: on(kmsg.ACLResourceTypeGroup, kmsg.ACLOperationDelete), Cost: 8, Runs: onProcessor,
	Serve: func(s *Services, c *Call, r kmsg.Request) {
		s.Groups.DeleteGroups(caller(c), r.(*kmsg.DeleteGroupsRequest), c.Reply)
	},
}

// ConsumerGroupHeartbeat and ConsumerGroupDescribe are the APIs of groups of the consumer protocol (KIP-848). On ZooKeeper they
// are answered with UNSUPPORTED_VERSION, as 3.9 does, which could not read the records, unless gregor.extensions is on.

var consumerGroupHeartbeat = Entry{
	Key: kmsg.ConsumerGroupHeartbeat, ZooKeeper: v(0, 0), Kafka4: v(0, 1),
	Access: on(kmsg.ACLResourceTypeGroup, kmsg.ACLOperationRead), Cost: 16, Runs: onProcessor,
	Serve: func(s *Services, c *Call, request kmsg.Request) {
		r := request.(*kmsg.ConsumerGroupHeartbeatRequest)
		if !s.consumerGroups() {
			response := kmsg.NewPtrConsumerGroupHeartbeatResponse()
			response.ErrorCode = kerr.UnsupportedVersion.Code
			c.Reply(response)
			return
		}
		s.Groups.ConsumerGroupHeartbeat(caller(c), r, c.Reply)
	},
}

var consumerGroupDescribe = Entry{
	Key: kmsg.ConsumerGroupDescribe, ZooKeeper: v(0, 0), Kafka4: v(0, 1),
	Access: on(kmsg.ACLResourceTypeGroup, kmsg.ACLOperationDescribe), Cost: 8, Runs: onProcessor,
	Serve: serveConsumerGroupDescribe,
}

func serveConsumerGroupDescribe(s *Services, c *Call, request kmsg.Request) {
	r := request.(*kmsg.ConsumerGroupDescribeRequest)
	if !s.consumerGroups() {
		response := kmsg.NewPtrConsumerGroupDescribeResponse()
		for _, id := range r.Groups {
			g := kmsg.NewConsumerGroupDescribeResponseGroup()
			g.Group, g.ErrorCode = id, kerr.UnsupportedVersion.Code
			response.Groups = append(response.Groups, g)
		}
		c.Reply(response)
		return
	}
	s.Groups.ConsumerGroupDescribe(caller(c), r, func(response kmsg.Response) {
		groups := response.(*kmsg.ConsumerGroupDescribeResponse).Groups
		for i := range groups {
			groups[i].AuthorizedOperations = notAsked
			if r.IncludeAuthorizedOperations && groups[i].ErrorCode == 0 {
				groups[i].AuthorizedOperations = s.allGroupOperations()
			}
		}
		c.Reply(response)
	})
}

// consumerGroups says whether groups of the consumer protocol are served: the configuration and the cluster's features allow it.
func (s *Services) consumerGroups() bool {
	c := s.Config.Now()
	allowed := slices.Contains(config.GroupProtocols.Of(c), "consumer") || !s.Embedded && !config.GroupProtocols.Given(c) // 3.9's default is classic
	return allowed && s.Features().Level(groupVersion) >= 1
}

// caller tells the coordinator who asks. Kafka writes a client's host with a leading slash, as Java prints addresses.
func caller(c *Call) groupcoord.Caller {
	return groupcoord.Caller{ClientID: c.ClientID, ClientHost: "/" + hostOf(c.Remote())}
}
