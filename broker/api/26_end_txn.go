package api

import "github.com/twmb/franz-go/pkg/kmsg"

// EndTxn commits or aborts a transaction. See txn.Coordinator.EndTxn.
// v2 PRODUCER_FENCED · v3 flexible · v4 TRANSACTION_ABORTABLE · v5 the second protocol (KIP-890).
var endTxnAPI = Entry{
	Key: kmsg.EndTxn, ZooKeeper: v(0, 4), Kafka4: v(0, 5),
	Access: on(kmsg.ACLResourceTypeTransactionalId, kmsg.ACLOperationWrite), Cost: 8, Runs: onProcessor,
	Serve: func(s *Services, c *Call, r kmsg.Request) {
		s.Transactions.EndTxn(r.(*kmsg.EndTxnRequest), func(response kmsg.Response) { c.Reply(response) })
	},
}
