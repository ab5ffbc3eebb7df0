package broker

import (
	"strconv"
	"strings"
	"time"

	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/gregor-broker/gregor/log/cleaner"
	"github.com/gregor-broker/gregor/wire"
	"go.uber.org/zap"
)

// dynamicConfig follows the dynamic configuration of brokers in the metadata store: it owns the Live configuration, and has
// the parts of the broker take over what changed. Used by the controller's observer only, which is one goroutine.
type dynamicConfig struct {
	b              *Broker
	forAll, forOne map[string]string // as stored
}

// changed takes what the store has for one name: this broker's id, "<default>", or another broker's.
func (d *dynamicConfig) changed(name string, values map[string]string) {
	switch name {
	case znode.Default:
		d.forAll = values
	case strconv.Itoa(int(d.b.services.BrokerID)):
		d.forOne = values
	default:
		return
	}
	old := d.b.live.Now()
	next, notices, err := old.WithDynamic(d.forAll, d.forOne)
	for _, n := range notices {
		d.b.logger.Warn(n.Text)
	}
	if err != nil {
		d.b.logger.Error("the dynamic configuration in the metadata store cannot be applied; what held goes on", zap.Error(err))
		return
	}
	d.b.live.Set(next)
	d.b.logger.Info("dynamic configuration", zap.String("of", name), zap.Int("keys", len(values)))
	d.apply(old, next)
}

// apply has each part take over its settings. What reads Live at each use needs no more.
func (d *dynamicConfig) apply(old, next *config.Snapshot) {
	b := d.b
	b.topics.defaultsChanged(next)
	b.services.Logs.SetProducerIDExpiration(config.ProducerIDExpiration.Of(next))
	b.throttles.limits(next)
	b.quotas.paces(next)
	b.services.Replicas.Resize(config.ReplicaFetchers.Of(next))
	if n := handlers(next); n != handlers(old) {
		b.network.Resize(n)
	}
	if err := b.network.SetLimits(connectionLimits(next)); err != nil {
		b.logger.Error("the limits of connections stay as they were", zap.Error(err))
	}
	if c := b.cleaner.Load(); c != nil {
		c.Reconfigure(cleanerSettings(next))
	}
}

// connectionLimits are the limits of connections. Other brokers come in where the rest of the broker is full, as with Kafka, if they
// have a listener of their own.
func connectionLimits(c *config.Snapshot) wire.ConnectionLimits {
	limits := wire.ConnectionLimits{
		MaxConnections:      config.NoneIfZero(config.MaxConnections.Of(c)),
		MaxConnectionsPerIP: config.NoneIfZero(config.MaxConnectionsPerIP.Of(c)),
		PerIPOverrides:      c.PerIPConnections(),
		PerListener:         map[string]int{},
	}
	if len(c.Listeners()) > 1 {
		limits.Exempt = c.InterBrokerListener()
	}
	own := c.ListenerLimits()
	for _, l := range c.Listeners() {
		limits.PerListener[l.Name] = own[strings.ToLower(l.Name)].MaxConnections
	}
	return limits
}

func cleanerSettings(c *config.Snapshot) cleaner.Settings {
	return cleaner.Settings{
		Backoff:     max(time.Millisecond, config.CleanerBackoff.Of(c)), // 0 would be the default
		DedupeBytes: config.CleanerDedupeBytes.Of(c), LoadFactor: config.CleanerLoadFactor.Of(c),
		BytesPerSecond: config.CleanerBytesPerSecond.Of(c),
	}
}
