package broker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/broker/loglevel"
	"github.com/gregor-broker/gregor/broker/meter"
	"github.com/gregor-broker/gregor/controller"
	"github.com/gregor-broker/gregor/controller/store/zk"
	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/wire/ibp"
	"go.uber.org/zap"
)

// connectStore opens the session with ZooKeeper and learns the cluster's id there, before any data directory is
// touched: a directory of another cluster must be refused. Without ZooKeeper there is nothing to connect to.
func (b *Broker) connectStore(ctx context.Context) error {
	if b.config.Embedded() {
		b.clusterID = b.newClusterID()
		return nil
	}
	if err := b.checkProtocol(); err != nil {
		return err
	}
	if b.store = b.options.Store; b.store == nil {
		if err := b.openSession(ctx); err != nil {
			return err
		}
	}
	proposed := b.config.ClusterID()
	if proposed == "" {
		proposed = log.NewClusterID()
	}
	var err error
	if b.clusterID, err = controller.ClusterID(ctx, b.store, proposed); err != nil {
		return fmt.Errorf("cluster id: %w", err)
	}
	return nil
}

func (b *Broker) openSession(ctx context.Context) error {
	b.named(loglevel.ZooKeeper).Info("connecting to ZooKeeper", zap.String("zookeeper.connect", config.ZooKeeperConnect.Of(b.config)),
		zap.Duration("for_at_most", config.ZooKeeperConnection.Of(b.config)))
	o := sessionSettings(b.config)
	o.Answered = func(took time.Duration) { b.meter.Took(meter.StoreRequest, took) }
	o.Changed = func(s zk.State) { b.meter.Happened(storeEvents[s], 1) }
	o.Clock, o.Logger = b.clock, b.named(loglevel.ZooKeeper)
	session, err := zk.Open(ctx, o)
	if err != nil {
		return err
	}
	b.store = session
	return nil
}

// sessionSettings are the values that the session with ZooKeeper honours.
func sessionSettings(c *config.Snapshot) zk.Options {
	return zk.Options{
		Connect:           config.ZooKeeperConnect.Of(c),
		SessionTimeout:    config.ZooKeeperSession.Of(c),
		ConnectionTimeout: config.ZooKeeperConnection.Of(c),
		MaxInFlight:       config.ZooKeeperMaxInFlight.Of(c),
		SetACL:            config.ZooKeeperSetACL.Of(c),
		TLS:               zooKeeperTLS(c),
	}
}

// zooKeeperTLS is how to speak to ZooKeeper over TLS, nil for a connection in the clear.
func zooKeeperTLS(c *config.Snapshot) *zk.TLS {
	if !config.ZooKeeperTLS.Of(c) {
		return nil
	}
	versions := config.ZooKeeperTLSVersions.Of(c)
	if len(versions) == 0 {
		versions = []string{config.ZooKeeperTLSVersion.Of(c)}
	}
	return &zk.TLS{
		Keystore: config.ZooKeeperKeystore.Of(c), KeystoreType: config.ZooKeeperKeystoreType.Of(c),
		Truststore: config.ZooKeeperTruststore.Of(c), TruststoreType: config.ZooKeeperTruststoreType.Of(c),
		Protocols: versions, CipherSuites: config.ZooKeeperCiphers.Of(c),
		VerifyHostname: config.ZooKeeperVerifyHost.Of(c) == "HTTPS",
	}
}

// generatedID is the id that ZooKeeper gives a broker that has none (broker.id.generation.enable).
func (b *Broker) generatedID(ctx context.Context) (int32, error) {
	if !config.BrokerIDGeneration.Of(b.config) {
		return -1, errors.New("broker.id is not set, and broker.id.generation.enable is false")
	}
	return controller.GenerateBrokerID(ctx, b.store, int32(config.ReservedBrokerMaxID.Of(b.config)))
}

// checkProtocol learns what brokers send each other, and refuses what this one does not speak. Below 3.0 3.9 would also store records
// in an older format where that is configured.
func (b *Broker) checkProtocol() error {
	version := config.InterBrokerProtocol.Of(b.config)
	var err error
	if b.protocol, err = ibp.Of(version); err != nil {
		return fmt.Errorf("inter.broker.protocol.version: %w", err)
	}
	format := config.LogMessageFormat.Of(b.config)
	if major, minor := release(format); major == 0 && minor < 11 {
		if own, _ := release(version); own < 3 {
			return fmt.Errorf("log.message.format.version: %q given; allowed with inter.broker.protocol.version %s: 0.11.0 and later", format, version)
		}
	}
	return nil
}

// release reads the first two numbers of a version like 3.9-IV0.
func release(version string) (major, minor int) {
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return 0, 0
	}
	return major, minor
}

// brokerID returns the id that the configuration names, or the one that the data was written under, or a new one.
func (b *Broker) brokerID(ctx context.Context) (int32, error) {
	if id, set := b.config.BrokerID(); set {
		return id, nil
	}
	id, err := writtenID(b.config.LogDirs())
	switch {
	case err != nil || id >= 0:
		return id, err
	case b.config.Embedded():
		return defaultBrokerID, nil
	}
	return b.generatedID(ctx)
}

// writtenID is the broker id that the data directories name, -1 if none does. One that cannot be read may have named it.
func writtenID(dirs []string) (int32, error) {
	var unread error
	for _, dir := range dirs {
		found, err := log.Inspect(dir)
		if found.BrokerID >= 0 {
			return found.BrokerID, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			unread = err
		}
	}
	return -1, unread
}

// clientID is what this broker calls itself towards others: its id, as Kafka's brokers do.
func (b *Broker) clientID() string { return strconv.Itoa(int(b.services.BrokerID)) }
