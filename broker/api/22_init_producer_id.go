package api

import (
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// InitProducerId gives an idempotent producer its id, and a transactional one the id and epoch that fence those before it.
// v2 flexible · v3 the producer's former id and epoch (KIP-360) · v4 PRODUCER_FENCED · v5 TRANSACTION_ABORTABLE.
// Errors: INVALID_REQUEST; for a transactional id see txn.Coordinator.InitProducerID. After KafkaApis.handleInitProducerIdRequest.
var initProducerID = Entry{
	Key: kmsg.InitProducerID, ZooKeeper: v(0, 5), Kafka4: v(0, 5),
	Access: on(kmsg.ACLResourceTypeCluster, kmsg.ACLOperationIdempotentWrite), Cost: 8, Runs: onProcessor,
	Serve: serveInitProducerID,
}

var errProducerIDAndEpoch = errcode.New(kerr.InvalidRequest, "producer id and epoch must both be given, or neither")

func serveInitProducerID(s *Services, c *Call, request kmsg.Request) {
	r := request.(*kmsg.InitProducerIDRequest)
	answer := func(id int64, epoch int16, err error) {
		response := kmsg.NewPtrInitProducerIDResponse()
		response.ProducerID, response.ProducerEpoch, response.ErrorCode = id, epoch, c.Code(err)
		c.Reply(response)
	}
	switch {
	case (r.ProducerID == -1) != (r.ProducerEpoch == -1):
		answer(-1, -1, errProducerIDAndEpoch)
	case r.TransactionalID != nil:
		s.Transactions.InitProducerID(r, func(response kmsg.Response) { c.Reply(response) })
	default: // a former id is not looked at: the producer gets another (TransactionCoordinator.handleInitProducerId)
		s.ProducerIDs.Next(func(id int64, err error) {
			if err != nil {
				answer(-1, -1, err)
				return
			}
			answer(id, 0, nil)
		})
	}
}
