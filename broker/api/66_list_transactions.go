package api

import "github.com/twmb/franz-go/pkg/kmsg"

// ListTransactions lists the transactional ids that this broker coordinates (KIP-664).
// v1 those open for longer than (KIP-994) · v2 those whose id fits a regular expression (KIP-1152).
// Errors: COORDINATOR_LOAD_IN_PROGRESS, INVALID_REGULAR_EXPRESSION.
var listTransactions = Entry{
	Key: kmsg.ListTransactions, ZooKeeper: v(0, 1), Kafka4: v(0, 2),
	Access: anyone, Cost: 8, Runs: onProcessor,
	Serve: func(s *Services, c *Call, r kmsg.Request) {
		s.Transactions.List(r.(*kmsg.ListTransactionsRequest), func(response kmsg.Response) { c.Reply(response) })
	},
}
