package api

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// orderGate lets the orders of the newest controller in, and no older one's. Of three fences (the store's, which keeps a deposed
// controller from deciding anything; this; the broker epoch) it is the one that keeps late orders out.
type orderGate struct {
	sync.Mutex
	epoch int32 // largest controller epoch seen
}

// pass says whether an order of a controller epoch may be carried out.
func (g *orderGate) pass(epoch int32) bool {
	g.Lock()
	defer g.Unlock()
	return g.newest(epoch)
}

func (g *orderGate) newest(epoch int32) bool {
	if epoch < g.epoch {
		return false
	}
	g.epoch = epoch
	return true
}

// order is what the three control requests have in common.
type order struct {
	controller int32
	epoch      int32
	broker     int64 // broker epoch of the addressee, -1 unknown
	kraft      bool
}

// refused returns the code of an order that must not be carried out, 0 for others.
func (s *Services) refused(o order) int16 {
	switch {
	case o.kraft:
		s.Logger.Error("an order of a KRaft controller is refused: this broker takes no part in a migration", zap.Int32("broker", o.controller))
		return kerr.StaleControllerEpoch.Code
	case o.broker != -1 && o.broker < s.Controller.BrokerEpoch(): // meant for this broker before it was registered again
		return kerr.StaleBrokerEpoch.Code
	case !s.orders.pass(o.epoch):
		s.Logger.Warn("an order of an old controller is ignored", zap.Int32("broker", o.controller), zap.Int32("controller_epoch", o.epoch))
		return kerr.StaleControllerEpoch.Code
	}
	return 0
}

// UpdateMetadata carries out an order of any controller, this broker's own included: an older one's is refused, and two never
// happen at the same time.
func (s *Services) UpdateMetadata(r *kmsg.UpdateMetadataRequest) *kmsg.UpdateMetadataResponse {
	response := r.ResponseKind().(*kmsg.UpdateMetadataResponse)
	s.orders.Lock()
	defer s.orders.Unlock()
	if !s.orders.newest(r.ControllerEpoch) {
		response.ErrorCode = kerr.StaleControllerEpoch.Code
		return response
	}
	s.ApplyMetadata(r)
	return response
}
