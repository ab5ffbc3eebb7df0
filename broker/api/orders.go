package api

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// order is what every controller order says of where it comes from and whom it is for.
type order struct {
	controller int32
	broker     int64 // broker epoch of the addressee, -1 unknown
	kraft      bool
}

// refused returns the error code for an order that is not meant for this broker as it is, 0 if it is. Orders of a deposed
// controller are the replica manager's to refuse.
func (s *Services) refused(o order) int16 {
	switch {
	case o.kraft:
		s.Logger.Error("an order of a KRaft controller is refused: this broker takes no part in a migration", zap.Int32("broker", o.controller))
		return kerr.StaleControllerEpoch.Code
	case o.broker != -1 && o.broker < s.Controller.BrokerEpoch(): // meant for this broker before it was registered again
		return kerr.StaleBrokerEpoch.Code
	}
	return 0
}

// UpdateMetadata carries out an order that may come from this broker's own controller, too; see replica.Manager.LeaderAndISR for
// connection and for nil.
func (s *Services) UpdateMetadata(r *kmsg.UpdateMetadataRequest, connection uint64) *kmsg.UpdateMetadataResponse {
	return s.Replicas.UpdateMetadata(r, connection, func() { s.ApplyMetadata(r) })
}

// ordered answers an order that came on a connection with a number, or ends that connection if the controller has given the order up.
func ordered[R any, P interface {
	*R
	kmsg.Response
}](c *Call, response P) {
	if response == nil {
		c.Close("the controller has repeated this order on another connection")
		return
	}
	c.Reply(response)
}
