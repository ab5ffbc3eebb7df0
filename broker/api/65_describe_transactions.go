package api

import "github.com/twmb/franz-go/pkg/kmsg"

// DescribeTransactions tells the state of transactional ids, asked from their coordinator (KIP-664).
// Errors, for each: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, INVALID_REQUEST, TRANSACTIONAL_ID_NOT_FOUND.
var describeTransactions = Entry{
	Key: kmsg.DescribeTransactions, ZooKeeper: v(0, 0), Kafka4: v(0, 0),
	Access: on(kmsg.ACLResourceTypeTransactionalId, kmsg.ACLOperationDescribe), Cost: 64, Runs: onProcessor,
	Serve: func(s *Services, c *Call, r kmsg.Request) {
		s.Transactions.Describe(r.(*kmsg.DescribeTransactionsRequest), func(response kmsg.Response) { c.Reply(response) })
	},
}
