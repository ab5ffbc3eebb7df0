package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gregor-broker/gregor/broker/api"
	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/broker/loglevel"
	"github.com/gregor-broker/gregor/broker/metadata"
	"github.com/gregor-broker/gregor/broker/meter"
	"github.com/gregor-broker/gregor/broker/observe"
	"github.com/gregor-broker/gregor/broker/peer"
	"github.com/gregor-broker/gregor/broker/txnjoin"
	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/log/cleaner"
	"github.com/gregor-broker/gregor/wire"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/gregor-broker/gregor/wire/ibp"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Options is what a broker is started with. Config and Logger must be set.
type Options struct {
	Config    *config.Snapshot
	Logger    *zap.Logger
	Levels    *loglevel.Levels // of what is written to Logger; nil: Logger's own, to begin with
	Clock     clock.Clock      // nil: the machine's
	ReadyFile string           // written when the broker serves: a line "LISTENER host:port" for each listener; "" for none
	Engine    string           // of the network layer, see wire.Config
	Pipes     bool             // listeners are in-memory pipes, reached with Dial: a whole broker under virtual time

	LogRequests int64 // every so manieth request is written to the log; 0: none

	Intercept func(c *api.Call, r kmsg.Request, serve func()) // see api.Services

	// For clusters in one process. Store, which the broker closes, takes the place of ZooKeeper; DialPeer connects to
	// another broker's inter-broker listener. nil: as the configuration says.
	Store    store.Store
	DialPeer func(ctx context.Context, broker int32, address string) (net.Conn, error)
}

// Broker is one broker. Its fields are set while it starts and not changed after that.
type Broker struct {
	options   Options
	config    *config.Snapshot // as it was at the start, for what does not change
	live      *config.Live     // owned by dynamicConfig
	base      *zap.Logger      // of all loggers, see named
	logger    *zap.Logger
	clock     clock.Clock
	network   *wire.Server
	bound     []boundListener
	pipes     atomic.Pointer[[]boundListener] // all of bound, for Dial
	store     store.Store
	clusterID string // "": that of the data directories
	protocol  ibp.Protocol
	peers     *peer.Network
	proposals *proposals
	joiner    *txnjoin.Joiner
	waiting   atomic.Int32 // partitions of coordinators with requests that are not taken up yet

	// What runs on goroutines of the broker's own: until running is done, and Stop waits for it.
	running    context.Context
	cancel     context.CancelFunc
	background sync.WaitGroup
	failed     chan error // why the broker must end by itself; the first reason counts
	topics     *topicConfigs
	throttles  *throttles
	quotas     *clientQuotas
	cleaner    atomic.Pointer[cleaner.Cleaner]
	services   *api.Services
	startedAt  time.Duration
	meter      *meter.Meter    // nil: nobody looks
	observed   *observe.Server // likewise
	serving    atomic.Bool     // from the end of the start to the beginning of the stop
	stage      atomic.Pointer[string]
}

// boundListener is a listener with the address that it got, or how to reach it in memory.
type boundListener struct {
	config.Listener
	addr net.Addr
	dial func() net.Conn // nil for a socket
}

// New returns a broker that has not started.
func New(o Options) *Broker {
	if o.Clock == nil {
		o.Clock = clock.System
	}
	if o.Levels == nil {
		o.Levels = loglevel.New(zapcore.LevelOf(o.Logger.Core()))
	}
	base := o.Levels.Logger(o.Logger)
	b := &Broker{options: o, config: o.Config, base: base, logger: base.Named(loglevel.Server), clock: o.Clock, protocol: ibp.Latest,
		failed: make(chan error, 1)}
	if config.HTTPListener.Of(o.Config) != "" {
		b.meter = meter.New(b.clock)
	}
	b.running, b.cancel = context.WithCancel(context.Background())
	return b
}

// named is the logger of a part of the broker.
func (b *Broker) named(name string) *zap.Logger { return b.base.Named(name) }

// Run starts the broker, serves until ctx is done and stops it in an orderly way; hurry cuts the orderly way short. It
// returns nil after an orderly stop, and otherwise says in a line what went wrong.
func (b *Broker) Run(ctx context.Context, hurry <-chan struct{}) error {
	if err := b.Start(ctx); err != nil {
		return err
	}
	var failure error
	select {
	case <-ctx.Done():
	case failure = <-b.failed:
		b.logger.Error("the broker cannot go on", zap.Error(failure))
	}
	return errors.Join(failure, b.Stop(hurry))
}

// Start brings the broker up and returns when it serves. After an error nothing is left running.
func (b *Broker) Start(ctx context.Context) error {
	b.startedAt = b.clock.Monotonic()
	for _, s := range startStages {
		b.atStage(s.name)
		if err := s.run(b, ctx); err != nil {
			_ = b.Stop(closedChannel())
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	b.serving.Store(true)
	b.logger.Info("serving", zap.Int32("broker", b.services.BrokerID), zap.String("cluster", b.services.ClusterID),
		zap.Duration("dur", b.clock.Monotonic()-b.startedAt))
	return nil
}

// Addr returns the bound address of a listener, nil if there is none of that name.
func (b *Broker) Addr(listener string) net.Addr {
	for _, l := range b.bound {
		if l.Name == listener {
			return l.addr
		}
	}
	return nil
}

// TopicName returns the name of the topic with an id, "" if there is none.
func (b *Broker) TopicName(id [16]byte) string {
	name, _ := groupMetadata{cache: b.services.Metadata}.TopicName(id)
	return name
}

// Dial connects to a listener in memory. Options.Pipes must be set. Safe for concurrent use, also while the broker starts.
func (b *Broker) Dial(listener string) (net.Conn, error) {
	if bound := b.pipes.Load(); bound != nil {
		for _, l := range *bound {
			if l.Name == listener && l.dial != nil {
				return l.dial(), nil
			}
		}
	}
	return nil, fmt.Errorf("no listener in memory is named %q", listener)
}

// writeReadyFile tells others where the broker is reached, atomically: the file is either absent or complete.
func (b *Broker) writeReadyFile(context.Context) error {
	if b.options.ReadyFile == "" {
		return nil
	}
	var text []byte
	for _, l := range b.bound {
		text = fmt.Appendf(text, "%s %s\n", l.Name, l.addr)
	}
	dir, name := filepath.Split(b.options.ReadyFile)
	temporary, err := os.CreateTemp(dir, name+".*")
	if err != nil {
		return err
	}
	_, err = temporary.Write(text)
	if closeErr := temporary.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(temporary.Name(), b.options.ReadyFile)
	}
	if err != nil {
		_ = os.Remove(temporary.Name())
	}
	return err
}

// advertised is what clients of each listener are told.
func (b *Broker) advertised() api.Listeners {
	told := api.Listeners{}
	for _, l := range b.bound {
		port := l.AdvertisedPort
		if port == 0 {
			port = portOf(l.addr)
		}
		told[l.Name] = api.Advertised{Host: l.AdvertisedHost, Port: int32(port)}
	}
	return told
}

func portOf(addr net.Addr) int {
	if tcp, ok := addr.(*net.TCPAddr); ok {
		return tcp.Port
	}
	return 0
}

func closedChannel() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// groupMetadata is what the group coordinator asks about topics.
type groupMetadata struct {
	cache *metadata.Cache
	start int64 // milliseconds since 1970: versions rise from one start of the process to the next
}

func (m groupMetadata) PartitionCount(topic string) int32 {
	t := m.cache.Image().Topic(topic)
	if t == nil {
		return 0
	}
	return int32(len(t.Partitions))
}

func (m groupMetadata) TopicID(topic string) (id [16]byte, ok bool) {
	t := m.cache.Image().Topic(topic)
	if t == nil {
		return id, false
	}
	return t.ID, true
}

func (m groupMetadata) TopicName(id [16]byte) (topic string, ok bool) {
	t := m.cache.Image().TopicByID(id)
	if t == nil {
		return "", false
	}
	return t.Name, true
}

func (m groupMetadata) TopicNames() []string { return m.cache.Image().TopicNames() }

// Racks returns the racks of the brokers that have a replica of the partition, in order.
func (m groupMetadata) Racks(topic string, partition int32) []string {
	image := m.cache.Image()
	var racks []string
	if p := image.Partition(topic, partition); p != nil {
		for _, id := range p.Replicas {
			if b := image.Broker(id); b != nil && b.Rack != nil {
				racks = append(racks, *b.Rack)
			}
		}
	}
	slices.Sort(racks)
	return racks
}

func (m groupMetadata) TopicsVersion() int64 { return m.start + m.cache.Image().Changes }
