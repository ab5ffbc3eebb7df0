package broker

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/gregor-broker/gregor/broker/api"
	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/broker/fetchsession"
	"github.com/gregor-broker/gregor/broker/loglevel"
	"github.com/gregor-broker/gregor/broker/metadata"
	"github.com/gregor-broker/gregor/broker/meter"
	"github.com/gregor-broker/gregor/broker/oldoffsets"
	"github.com/gregor-broker/gregor/broker/peer"
	"github.com/gregor-broker/gregor/broker/replica"
	"github.com/gregor-broker/gregor/broker/replica/fetcher"
	"github.com/gregor-broker/gregor/broker/telemetry"
	"github.com/gregor-broker/gregor/controller"
	"github.com/gregor-broker/gregor/controller/store/embedded"
	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/gregor-broker/gregor/groupcoord"
	"github.com/gregor-broker/gregor/groupcoord/consumer"
	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/cleaner"
	"github.com/gregor-broker/gregor/wire"
	"go.uber.org/zap"
)

// StoreFile is the name of the embedded metadata store, in one of log.dirs. Kafka ignores files there.
const StoreFile = "gregor-metadata.db"

// startStages bring a broker up, in this order: directories are locked before anything is bound, everything is bound
// before the broker registers, and it registers before it accepts.
var startStages = []struct {
	name string
	run  func(*Broker, context.Context) error
}{
	{"HTTP", (*Broker).showItself}, // at once, so that nobody takes a long recovery for death
	{"ZooKeeper", (*Broker).connectStore},
	{"log directories", (*Broker).openLogs},
	{"listeners", (*Broker).bindListeners},
	{"metadata store", (*Broker).openStore},
	{"services", (*Broker).buildServices},
	{"controller", (*Broker).startController},
	{"cleaner", (*Broker).startCleaner},
	{"network", (*Broker).accept},
	{"metadata", (*Broker).awaitMetadata},
	{"ready file", (*Broker).writeReadyFile},
}

// defaultBrokerID is the id of a single broker whose configuration and data name none.
const defaultBrokerID = 1

func (b *Broker) openLogs(ctx context.Context) error {
	id, err := b.brokerID(ctx)
	if err != nil {
		return err
	}
	b.config = b.config.WithBrokerID(id)
	b.live = config.NewLive(b.config)
	b.throttles = newThrottles(b.config, b.clock)
	b.quotas = newClientQuotas(b.config, b.clock, b.logger)
	b.topics = newTopicConfigs(b.live, b.throttles, id)
	o := logSettings(b.config)
	o.Clock, o.Logger, o.BrokerID, o.ClusterID, o.Defaults = b.clock, b.named(loglevel.Logs), id, b.clusterID, b.topics.of("").log
	o.VerifyTransactions, o.Flushed = b.verifyTransactions, func(took time.Duration) { b.meter.Took(meter.Flush, took) }
	logs, err := log.OpenManager(ctx, o)
	if err != nil {
		return err
	}
	b.services = &api.Services{
		BrokerID: id, ClusterID: logs.ClusterID(), Embedded: b.config.Embedded(),
		Config: b.live, Levels: b.options.Levels, Quotas: b.quotas.clients, Metadata: metadata.NewCache(), Logs: logs, Clock: b.clock, Logger: b.named(loglevel.APIs),
		Intercept: b.options.Intercept, Meter: b.meter,
	}
	return nil
}

func (b *Broker) bindListeners(context.Context) error {
	c := b.config
	o := networkSettings(c)
	o.TooFast, o.Pace = b.quotas.connections.Admit, b.quotas.connections.Pace
	o.Clock, o.Logger, o.Engine, o.Waiting = b.clock, b.named(loglevel.Network), b.engine(), &b.waiting
	server, err := wire.New(o, api.NewDispatcher(b.services))
	if err != nil {
		return err
	}
	b.network = server
	for _, l := range c.Listeners() {
		bound, err := b.bind(l)
		if err != nil {
			return fmt.Errorf("listener %s: %w", l.Name, err)
		}
		b.bound = append(b.bound, bound)
	}
	b.pipes.Store(&b.bound)
	b.services.Listeners = b.advertised()
	b.services.LogRequests = b.options.LogRequests
	return nil
}

// engine is the network engine to use; only one of them has pipes.
func (b *Broker) engine() string {
	if b.options.Pipes {
		return wire.EngineNetloop
	}
	return b.options.Engine
}

// handlers is how many goroutines work on requests that do not run where they were read. More than there are cores only
// compete with the processors, and small requests wait behind large ones (measured in docs/performance.md); so Kafka's
// default of 8 is taken for what it is good for, a machine with as many cores. Who names a number gets it.
func handlers(c *config.Snapshot) int {
	n := config.NumIOThreads.Of(c)
	if config.NumIOThreads.Given(c) {
		return n
	}
	return min(n, max(2, runtime.NumCPU()))
}

func (b *Broker) bind(l config.Listener) (boundListener, error) {
	if b.options.Pipes {
		return boundListener{Listener: l, addr: &net.UnixAddr{Name: l.Name, Net: "pipe"}, dial: b.network.BindPipe(l.Name)}, nil
	}
	addr, err := b.network.Bind(wire.Listener{Name: l.Name, Address: net.JoinHostPort(l.Host, strconv.Itoa(l.Port))})
	return boundListener{Listener: l, addr: addr}, err
}

// openStore opens the embedded store, which lies in a data directory that is locked by now.
func (b *Broker) openStore(context.Context) error {
	if b.store != nil {
		return nil
	}
	path, err := StorePath(b.config.LogDirs())
	if err != nil {
		return err
	}
	s, err := embedded.Open(path, embedded.Options{Clock: b.clock})
	if err != nil {
		return err
	}
	b.store = s
	b.services.MetadataOffset = s.Commits
	return nil
}

func (b *Broker) buildServices(context.Context) error {
	s := b.services
	b.peers = newPeers(b, b.options.DialPeer)
	b.proposals = newProposals(b, b.askController)
	s.Pool = b.network.Go
	s.Telemetry = telemetry.New(telemetry.Options{
		Clock: b.clock, Logger: b.logger, MaxBytes: func() int { return config.TelemetryMaxBytes.Of(b.live.Now()) },
	})
	s.Sessions = fetchsession.NewCache(config.FetchSessionCacheSlots.Of(b.config), b.clock)
	s.ProducerIDs = api.NewProducerIDs(func(done func(first, count int64, err error)) {
		s.Controller.AllocateProducerIDs(done)
	})
	s.Features = func() *controller.Finalised { return s.Controller.Features() }
	s.Downconvert = func(topic string) bool {
		return config.TopicDownconversion(b.live.Now(), s.Controller.TopicConfigs(topic))
	}
	b.joiner = b.newJoiner()
	s.Replicas = b.newReplicas()
	b.topics.changed, b.topics.changedAll = s.Replicas.ConfigChanged, s.Replicas.DefaultsChanged
	topics := groupMetadata{s.Metadata, b.clock.Now().UnixMilli()}
	s.Groups = groupcoord.New(groupcoord.Options{
		Log: s.Replicas.InternalLog(metadata.ConsumerOffsets), Metadata: topics,
		Clock: b.clock, Logger: b.named(loglevel.Groups), Config: groupSettings(b.config), Waiting: &b.waiting,
		Partitions: func() int32 { return topics.PartitionCount(metadata.ConsumerOffsets) },
		Times: func(group string) consumer.Times {
			return consumer.Times(config.GroupTimesOf(b.live.Now(), s.Controller.Configs(znode.Groups, group)))
		},
	})
	s.Transactions = b.newTransactions()
	if !b.config.Embedded() {
		s.OldOffsets = oldoffsets.New(oldoffsets.Options{
			Store: b.store, Partitions: topics.PartitionCount, Timeout: b.peerTimeout(), Logger: b.logger,
			Fits: func(text string) bool {
				return groupcoord.JavaLength(text) <= config.OffsetMetadataMaxBytes.Of(b.config)
			},
		})
	}
	return nil
}

// newReplicas makes the partitions.
func (b *Broker) newReplicas() *replica.Manager {
	s, o := b.services, replicaSettings(b.config, b.protocol)
	o.BrokerID, o.Logs, o.Clock, o.Logger, o.Pool = s.BrokerID, s.Logs, b.clock, b.named(loglevel.Replicas), b.network.Go
	o.ConfigFor = func(topic string) *log.Config { return b.topics.of(topic).log }
	o.MinISR = func(topic string) int { return b.topics.of(topic).minISR }
	o.Known = func(topic string, partition int32) bool { return s.Metadata.Image().Partition(topic, partition) != nil }
	o.Online = func(id int32, tp log.TopicPartition) bool {
		return s.Metadata.Image().Online(id, tp.Topic, tp.Partition)
	}
	o.BrokerEpoch = func() int64 { return s.Controller.BrokerEpoch() }
	o.OnLeader = b.leadershipChanged
	o.OnISR = func(before, after int) { s.Meter.ISRChanged(before, after) }
	o.OnISRRefused = func() { s.Meter.ISRRefused() }
	o.OnAppend = func(topic string, bytes int, messages int64) { s.Meter.Appended(topic, bytes, messages) }
	o.OnReplicated = func(bytes int, added bool) { s.Meter.Replicated(bytes, added) }
	o.Join, o.VerifyTransactions = b.joiner.Join, b.verifyTransactions
	o.Peers = func(id int32, clientID string) fetcher.Client { return b.peers.Client(id, clientID, b.leaderTimeout()) }
	o.NearReplica, o.SendThrottle, o.FetchThrottle = b.nearReplica(), b.throttles.send, b.throttles.fetch
	o.AlterPartition, o.DirFailed = b.proposals.propose, b.dirFailed()
	return replica.New(o)
}

// newPeers makes the connections to other brokers.
func newPeers(b *Broker, dial func(ctx context.Context, broker int32, address string) (net.Conn, error)) *peer.Network {
	return peer.NewNetwork(peer.NetworkOptions{
		Address: b.addressOf, Dial: dial, RequestTimeout: max(b.peerTimeout(), b.controllerTimeout()), Clock: b.clock,
	})
}

// leadershipChanged moves a coordinator with the leadership of its partition.
func (b *Broker) leadershipChanged(tp log.TopicPartition, epoch int32, leader bool) {
	var coordinator interface {
		Elected(partition, leaderEpoch int32)
		Resigned(partition, leaderEpoch int32)
	}
	switch tp.Topic {
	case metadata.ConsumerOffsets:
		coordinator = b.services.Groups
	case metadata.TransactionState:
		coordinator = b.services.Transactions
	default:
		return
	}
	if leader {
		coordinator.Elected(tp.Partition, epoch)
		return
	}
	coordinator.Resigned(tp.Partition, epoch)
}

func (b *Broker) startController(ctx context.Context) error {
	if !b.config.Embedded() {
		if err := controller.CheckEndpoints(ctx, b.store, b.registration()); err != nil {
			return err
		}
	}
	b.services.Controller = controller.New(controller.Options{
		Store: b.store, Broker: b.registration(), ClusterID: b.services.ClusterID,
		Transport: transport{b}, Forward: b.forward, Observer: newObserver(b), Configs: b.topics,
		Clock: b.clock, Logger: b.named(loglevel.Controller), Settings: controllerSettings(b.config, b.protocol),
		Measure: b.measureController(),
	})
	if err := b.services.Controller.Start(ctx); err != nil {
		return err
	}
	if b.config.Embedded() {
		b.warnOfStrays()
	}
	return nil
}

// startCleaner begins to compact logs.
func (b *Broker) startCleaner(context.Context) error {
	if !config.CleanerEnable.Of(b.config) {
		return nil
	}
	started, err := cleaner.Start(cleaner.Options{
		Logs: b.services.Logs, Clock: b.clock, Logger: b.named(loglevel.Cleaner), Settings: cleanerSettings(b.live.Now()),
	})
	if err == nil {
		b.cleaner.Store(started)
		started.Reconfigure(cleanerSettings(b.live.Now())) // it may have changed meanwhile
	}
	return err
}

// registration is what the cluster is told of this broker. Where the configuration names no host, it is the machine's
// name; on a single node nobody reads it.
func (b *Broker) registration() znode.Broker {
	r := znode.Broker{
		ID: b.services.BrokerID, Rack: config.BrokerRack.Of(b.config), JMXPort: -1, TimestampMs: b.clock.Now().UnixMilli(),
	}
	if !b.config.Embedded() {
		r.Extensions = controller.ExtensionsLevel
	}
	told := b.services.Listeners
	for _, l := range b.bound {
		host := told[l.Name].Host
		if host == "" {
			host = l.Host
		}
		if host == "" {
			host = machineName()
		}
		r.Endpoints = append(r.Endpoints, znode.Endpoint{
			Listener: l.Name, Protocol: l.Protocol, Host: host, Port: told[l.Name].Port,
		})
	}
	return r
}

// machineName is what this machine is called, as far as it can tell.
func machineName() string {
	if name, err := os.Hostname(); err == nil {
		return name
	}
	return "localhost"
}

// peerTimeout is how long another broker may take to answer.
func (b *Broker) peerTimeout() time.Duration { return config.RequestTimeout.Of(b.config) }

// leaderTimeout is how long a leader may take to answer a follower.
func (b *Broker) leaderTimeout() time.Duration { return config.ReplicaSocketTimeout.Of(b.config) }

// controllerTimeout is how long a broker may take to answer the controller, and the controller a broker.
func (b *Broker) controllerTimeout() time.Duration {
	return config.ControllerSocketTimeout.Of(b.config)
}

// accept opens the doors and says where each leads. Clients wait inside until the broker knows its cluster.
func (b *Broker) accept(context.Context) error {
	b.services.HoldClients()
	if err := b.network.Start(); err != nil {
		return err
	}
	for _, l := range b.bound {
		if l.AdvertisedHost == "" {
			b.logger.Info("listening; clients are told the address that they connected to. If it is translated on the way "+
				"(-p 19092:9092), set advertised.listeners="+l.Name+"://HOST:PORT to what they can reach",
				zap.String("listener", l.Name), zap.Stringer("address", l.addr))
			continue
		}
		told := b.services.Listeners[l.Name]
		b.logger.Info("listening", zap.String("listener", l.Name), zap.Stringer("address", l.addr),
			zap.String("advertised", net.JoinHostPort(told.Host, strconv.Itoa(int(told.Port)))))
	}
	return nil
}
