package api

import (
	"sync/atomic"
	"time"

	"github.com/gregor-broker/gregor/broker/quota"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// anonymous is the user of a connection that has not said who it is, which is every one until there is authentication.
const anonymous = "ANONYMOUS"

// User is who sent the request.
func (c *Call) User() string { return anonymous }

// usage is what a request takes of its client's quotas. Touched by its handler, and then by whoever replies.
type usage struct {
	wait   time.Duration // that its handler found
	told   time.Duration // that the client is told
	exempt bool          // its time does not count
	quotas *quota.Clients
	clock  clock.Clock
	began  time.Duration
	spent  atomic.Int64 // time of the first stage, once it is over
}

// meter begins to measure a request's time, if anybody has a quota of it. Orders among brokers are exempt.
func (s *Services) meter(c *Call, e *Entry) {
	if s.Quotas.Enabled(quota.Request) {
		c.usage.quotas, c.usage.clock, c.usage.began = s.Quotas, s.Clock, s.Clock.Monotonic()
		c.usage.exempt = e.Access == on(kmsg.ACLResourceTypeCluster, kmsg.ACLOperationClusterAction)
	}
}

// served ends the first stage.
func (u *usage) served() {
	if u.quotas != nil {
		u.spent.Store(int64(u.clock.Monotonic() - u.began))
	}
}

// throttle has the client wait after the answer that is to come.
func (c *Call) throttle(d time.Duration) { c.usage.wait = max(c.usage.wait, d) }

// throttled returns how long the client is to wait, the quota of requests' time included, which it counts. To be called once.
func (c *Call) throttled() time.Duration {
	u := &c.usage
	u.told = u.wait
	if u.quotas == nil || u.exempt {
		return u.told
	}
	spent := time.Duration(u.spent.Load())
	if spent == 0 {
		spent = u.clock.Monotonic() - u.began // it answers within its first stage
	}
	u.told = max(u.wait, u.quotas.Record(quota.Request, c.User(), c.ClientID, 100*spent.Seconds()))
	return u.told
}
