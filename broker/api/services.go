package api

import (
	"sync/atomic"
	"time"

	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/broker/fetchsession"
	"github.com/gregor-broker/gregor/broker/loglevel"
	"github.com/gregor-broker/gregor/broker/metadata"
	"github.com/gregor-broker/gregor/broker/meter"
	"github.com/gregor-broker/gregor/broker/oldoffsets"
	"github.com/gregor-broker/gregor/broker/quota"
	"github.com/gregor-broker/gregor/broker/replica"
	"github.com/gregor-broker/gregor/broker/telemetry"
	"github.com/gregor-broker/gregor/controller"
	"github.com/gregor-broker/gregor/groupcoord"
	"github.com/gregor-broker/gregor/groupcoord/txn"
	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// Services is what handlers work with. Each part is safe for concurrent use; the struct itself never changes once the
// broker serves.
type Services struct {
	BrokerID    int32
	ClusterID   string
	Embedded    bool
	Config      *config.Live
	Levels      *loglevel.Levels
	Quotas      *quota.Clients // nil: nobody has one
	Listeners   Listeners
	Metadata    *metadata.Cache
	Controller  *controller.Controller
	Replicas    *replica.Manager
	Logs        *log.Manager
	Telemetry   *telemetry.Manager
	Sessions    *fetchsession.Cache
	Groups      *groupcoord.Coordinator
	OldOffsets  *oldoffsets.Keeper // nil without ZooKeeper
	ProducerIDs *ProducerIDs

	Transactions *txn.Coordinator

	Pool func(func()) // runs a function on a handler goroutine, never on the caller's
	// MetadataOffset is the number of commits to the embedded store; nil on ZooKeeper.
	MetadataOffset func() int64
	Downconvert    func(topic string) bool // message.downconversion.enable
	Features       func() *controller.Finalised
	Clock          clock.Clock
	Logger         *zap.Logger
	// Meter counts what is asked and answered; nil where nobody looks.
	Meter *meter.Meter
	// LogRequests has every so manieth request written to the log; 0: none.
	LogRequests int64

	// Intercept, if there is one, gets every request and either answers it or has it served, with or without changing it
	// before: how tests make a broker fail (compat/testbroker).
	Intercept func(c *Call, r kmsg.Request, serve func())

	Clients   Clients      // that are connected
	requests  atomic.Int64 // for LogRequests
	uncreated clock.Seldom // bounds lines about internal topics that cannot be created
	door      door
	shared    sharedAnswers // to Metadata
}

// toldEverything is how long after its registration a broker has certainly been told of every topic.
const toldEverything = 10 * time.Second

// ApplyMetadata carries an UpdateMetadata order out: the image changes, and the coordinator forgets topics that went
// before anyone can commit to others of the same name.
func (s *Services) ApplyMetadata(r *kmsg.UpdateMetadataRequest) {
	if epoch := r.BrokerEpoch; s.Metadata.Registered(epoch) {
		s.Clock.AfterFunc(toldEverything, func() {
			if gone := s.Metadata.Sweep(epoch); len(gone) > 0 {
				s.Logger.Info("topics were deleted while this broker was not in the cluster", zap.Strings("topics", gone))
			}
		})
	}
	deleted := s.Metadata.Apply(r)
	if len(deleted) == 0 {
		return
	}
	names := make([]string, len(deleted))
	for i, t := range deleted {
		names[i] = t.Name
		s.Meter.Forget(t.Name)
	}
	s.Groups.TopicsDeleted(names)
}
