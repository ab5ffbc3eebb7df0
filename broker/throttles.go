package broker

import (
	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/broker/quota"
	"github.com/gregor-broker/gregor/wire/clock"
)

// throttles are the limits of replication, both ways. Their settings change with the configuration, on the goroutine of the
// controller's observer; the partitions ask them.
type throttles struct {
	send  *quota.Replication // to followers
	fetch *quota.Replication // from leaders
}

func newThrottles(c *config.Snapshot, clk clock.Clock) *throttles {
	w := replicationWindows(c)
	return &throttles{send: quota.NewReplication(clk, w), fetch: quota.NewReplication(clk, w)}
}

func replicationWindows(c *config.Snapshot) quota.Windows {
	return quota.Windows{Num: config.ReplicationQuotaWindows.Of(c), Size: config.ReplicationQuotaWindow.Of(c)}
}

// limits takes the rates over.
func (t *throttles) limits(c *config.Snapshot) {
	t.send.SetLimit(config.LeaderThrottle.Of(c))
	t.fetch.SetLimit(config.FollowerThrottle.Of(c))
}

// topic takes over which of a topic's replicas are throttled.
func (t *throttles) topic(name string, c *config.Snapshot, overrides map[string]string, broker int32) {
	sent, fetched := config.TopicThrottled(c, overrides, broker)
	t.send.Throttle(name, quota.Replicas(sent))
	t.fetch.Throttle(name, quota.Replicas(fetched))
}
