package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/gregor-broker/gregor/wire/ibp"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// Options is what a Controller needs; every field must be set, except Forward on a single node and Measure, and that a zero
// Settings.Seed means a random one.
type Options struct {
	Store     store.Store
	Broker    znode.Broker // this broker's registration: id, endpoints as advertised, rack
	ClusterID string       // written to the store if it has none, else it must be equal
	Transport Transport
	// Forward sends a request to the active controller, another broker, and calls done once, on any goroutine. It must not block.
	Forward  func(req kmsg.Request, done func(kmsg.Response, error))
	Observer Observer
	Configs  TopicConfigs
	Clock    clock.Clock
	Logger   *zap.Logger
	Settings Settings
	Measure  Measure
}

// Settings are the broker's configuration as far as the controller is concerned; names follow Kafka's keys.
type Settings struct {
	DeleteTopicEnable        bool
	NumPartitions            int32
	DefaultReplicationFactor int16
	InterBrokerListener      string                   // name of the listener whose address followers use
	InternalTopics           map[string]InternalTopic // what auto-creation makes of these names
	// SessionTimeout is that of the store: so long the registration of a process that died may be in the way of its successor.
	// 0: whatever is registered with our id belongs to a living broker.
	SessionTimeout               time.Duration
	AutoLeaderRebalance          bool // auto.leader.rebalance.enable
	LeaderImbalanceCheckInterval time.Duration
	LeaderImbalancePercent       int // leader.imbalance.per.broker.percentage
	// Protocol is what brokers send each other; zero: what 3.9 does.
	Protocol ibp.Protocol
	Embedded bool      // the store is this broker's alone, and the cluster has features
	Features []Feature // those that this broker can serve
	// Extensions are the features that the setting of that name brings to a cluster on ZooKeeper, at their initial levels.
	Extensions []Feature
	// RefuseUnknownReplicas is for what 4.4 refuses and 3.9 does not, or in another order: unregistered brokers, too many
	// partitions at once, a topic twice in one DeleteTopics; and what is named twice in CreateTopics is answered once.
	RefuseUnknownReplicas bool

	Seed uint64 // of placement and topic ids; for tests
}

// protocol is what brokers send each other.
func (s *Settings) protocol() ibp.Protocol {
	if s.Protocol == (ibp.Protocol{}) {
		return ibp.Latest
	}
	return s.Protocol
}

// InternalTopic is how an internal topic is created. See OffsetsTopic and TransactionsTopic.
type InternalTopic struct {
	Partitions        int32
	ReplicationFactor int16
	Configs           map[string]string
}

// Transport carries the controller's orders to the brokers: LeaderAndISR, UpdateMetadata, StopReplica; and its questions what they
// have, DescribeLogDirs, and which groups they coordinate, ListGroups. Send blocks
// until the broker has answered; the controller calls it once at a time per broker, in the order in which the orders must
// take effect. It retries after an error until the broker's registration vanishes or its own leadership ends. The
// request and what it refers to must not be changed; the receiver may keep them.
type Transport interface {
	Send(ctx context.Context, broker int32, req kmsg.Request) (kmsg.Response, error)
}

// Observer learns what every broker must know from the store. It is called in order from one goroutine and must not block for
// long; it may call TopicConfigs and BrokerConfigs, which have the new values already.
type Observer interface {
	// ConfigChanged: kind is topics, brokers, clients, users, ips, groups or client-metrics; name is "<default>" for defaults,
	// otherwise as a person writes it, but of users and client ids it is encoded, see EntityName. Called once for every existing node at start, then for each change.
	// values must not be modified; nil means that the node is gone. For a new topic it is called before the order that creates
	// the log.
	ConfigChanged(kind, name string, values map[string]string)
	// ControllerChanged: the broker with this id is the active controller; -1 none.
	ControllerChanged(id int32)
}

// TopicConfigs is what the broker knows of topic configuration.
type TopicConfigs interface {
	Validate(values map[string]string) error                                  // errcode INVALID_CONFIG
	Describe(values map[string]string) []kmsg.CreateTopicsResponseTopicConfig // effective values, for CreateTopics v5+
	UncleanElection(values map[string]string) bool                            // effective unclean.leader.election.enable
}

// Controller is this broker's part in the cluster's metadata: its registration, the election, configuration changes, and,
// while it is elected, the machine that gives orders. It is safe for concurrent use.
type Controller struct {
	o           Options
	driver      *driver
	activeID    atomic.Int32
	brokerEpoch atomic.Int64
	features    atomic.Pointer[Finalised]
	started     chan error // the first Ready or Failed
	stopped     chan struct{}
	stop        sync.Once

	mu struct {
		sync.RWMutex
		configs map[string]map[string]map[string]string // kind, name, values
	}
}

// New returns a controller that Start puts to work. They are apart because its first orders may be carried out by this very
// broker, which then asks it for its epoch.
func New(o Options) *Controller {
	c := &Controller{o: o, started: make(chan error, 1), stopped: make(chan struct{})}
	c.activeID.Store(-1)
	c.brokerEpoch.Store(-1)
	c.features.Store(&Finalised{Epoch: -1})
	c.mu.configs = map[string]map[string]map[string]string{}
	for _, kind := range slices.Concat(znode.ConfigKinds, znode.EmbeddedConfigKinds) {
		c.mu.configs[kind] = map[string]map[string]string{}
	}
	o.Measure.fill()
	c.driver = newDriver(o, NewMachine(MachineOptions{o.Broker, o.ClusterID, o.Configs, o.Logger, o.Settings}), c.told)
	c.driver.machine.elected = o.Measure.Elected
	return c
}

// Start registers the broker, takes part in the election and loads what is there. It returns when another broker is the active
// controller, or this one is and has carried out its first orders. After an error the controller is stopped.
func (c *Controller) Start(ctx context.Context) error {
	go func() {
		defer close(c.stopped)
		c.driver.run()
	}()
	var err error
	select {
	case err = <-c.started:
	case <-ctx.Done():
		err = fmt.Errorf("the controller did not start in time: %w", ctx.Err())
	}
	if err != nil {
		return errors.Join(err, c.Stop(context.WithoutCancel(ctx)))
	}
	return nil
}

// told keeps what the machine says. It runs on the driver's goroutine.
func (c *Controller) told(a Action) {
	switch a := a.(type) {
	case NotifyConfig:
		c.mu.Lock()
		if a.Values == nil {
			delete(c.mu.configs[a.Kind], a.Name)
		} else if names := c.mu.configs[a.Kind]; names != nil {
			names[a.Name] = a.Values
		}
		c.mu.Unlock()
		c.o.Observer.ConfigChanged(a.Kind, a.Name, a.Values)
	case NotifyController:
		c.activeID.Store(a.ID)
		c.o.Observer.ControllerChanged(a.ID)
	case NotifyFeatures:
		c.features.Store(a.Finalised)
	case Registered:
		c.brokerEpoch.Store(a.Epoch)
	case Ready:
		c.started <- nil
	case Failed:
		c.started <- a.Err
	}
}

// Stop gives up leadership and registration and waits for the controller's goroutines. The store stays open.
func (c *Controller) Stop(ctx context.Context) error {
	c.stop.Do(c.driver.cancel)
	done := make(chan struct{})
	go func() {
		<-c.stopped
		c.driver.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		return fmt.Errorf("the controller did not stop in time: %w", ctx.Err())
	}
	return c.unregister(ctx)
}

// unregister removes the ephemeral nodes at once instead of at the end of the session.
func (c *Controller) unregister(ctx context.Context) error {
	s := c.o.Store
	nodes, err := s.Read(ctx, datas(znode.ControllerPath, znode.BrokerPath(c.o.Broker.ID))...)
	if errors.Is(err, store.ErrClosed) {
		return nil // then they are gone
	}
	var txns []store.Txn
	for _, n := range nodes {
		if n.Exists && n.Stat.EphemeralOwner == s.Session() {
			txns = append(txns, store.Txn{store.Delete(n.Path, n.Stat.Version)})
		}
	}
	for _, o := range s.CommitEach(ctx, txns) {
		err = errors.Join(err, o.Err)
	}
	return err
}

// request hands a request to the machine. After the controller has stopped a machine without a reign answers it.
func (c *Controller) request(run func(*Machine)) {
	if c.driver.post(Request{run}) {
		return
	}
	m := NewMachine(MachineOptions{Logger: c.o.Logger})
	run(m)
	m.quit()
	answerAll(m.Step(c.o.Clock.Now()))
}

// Ask hands over a request that Asking knows, and says whether it does. done is called once, on any goroutine.
func (c *Controller) Ask(request kmsg.Request, done func(kmsg.Response)) bool {
	e, ok := Asking(request, done).(Request)
	if ok {
		c.request(e.run)
	}
	return ok
}

// ActiveID returns the id of the active controller, -1 if none is known.
func (c *Controller) ActiveID() int32 { return c.activeID.Load() }

// BrokerEpoch returns the epoch of this broker's registration, -1 while it has none.
func (c *Controller) BrokerEpoch() int64 { return c.brokerEpoch.Load() }

// Features returns the features that are in force.
func (c *Controller) Features() *Finalised { return c.features.Load() }

// UpdateFeatures finalises features at other levels (KIP-584).
func (c *Controller) UpdateFeatures(r *kmsg.UpdateFeaturesRequest, done func(*kmsg.UpdateFeaturesResponse)) {
	c.request(func(m *Machine) { m.reigning(func() { m.updateFeatures(r, done) }) })
}

// CreateTopics creates topics and answers when every one is on disk and its leaders serve, or when the request's timeout
// has passed (REQUEST_TIMED_OUT; the creation goes on). done is called once, on any goroutine; the request must not be changed
// before.
func (c *Controller) CreateTopics(r *kmsg.CreateTopicsRequest, done func(*kmsg.CreateTopicsResponse)) {
	c.Metered(nil).CreateTopics(r, done)
}

// DeleteTopics deletes topics by name or id and answers when they are gone, or when the request's timeout has passed.
func (c *Controller) DeleteTopics(r *kmsg.DeleteTopicsRequest, done func(*kmsg.DeleteTopicsResponse)) {
	c.Metered(nil).DeleteTopics(r, done)
}

// CreatePartitions adds partitions to topics and answers as CreateTopics does.
func (c *Controller) CreatePartitions(r *kmsg.CreatePartitionsRequest, done func(*kmsg.CreatePartitionsResponse)) {
	c.Metered(nil).CreatePartitions(r, done)
}

// AlterConfigs replaces the configuration of (kind, name), see Observer for both, by what change makes of the present one
// (not to be modified; nil when there is none) and announces it. Works on every broker. change must be quick, may be called
// again when somebody else was faster, and its error is handed to done. An empty result deletes a quota's node.
func (c *Controller) AlterConfigs(kind, name string, change func(old map[string]string) (map[string]string, error), validateOnly bool, done func(error)) {
	c.request(func(m *Machine) {
		m.beginAlteration(&alteration{kind: kind, entity: znode.ConfigEntity(kind, name), change: change, validateOnly: validateOnly, done: done})
	})
}

// AllocateProducerIDs takes the next block of producer ids for this broker.
func (c *Controller) AllocateProducerIDs(done func(first, count int64, err error)) {
	c.request(func(m *Machine) { m.allocateProducerIDs(m.id, done) })
}

// AlterPartition changes the in-sync replicas of partitions for the leader of them, which a broker is.
func (c *Controller) AlterPartition(r *kmsg.AlterPartitionRequest, done func(*kmsg.AlterPartitionResponse)) {
	c.request(func(m *Machine) { m.reigning(func() { m.alterPartition(r, done) }) })
}

// ControlledShutdown gives a broker's leaderships to others and answers when they serve: what is left in the answer has nobody
// else to go to.
func (c *Controller) ControlledShutdown(r *kmsg.ControlledShutdownRequest, done func(*kmsg.ControlledShutdownResponse)) {
	c.request(func(m *Machine) { m.reigning(func() { m.controlledShutdown(r, done) }) })
}

// UncleanElections returns how often this controller has had a replica lead that was not in sync.
func (c *Controller) UncleanElections() int64 { return c.driver.machine.uncleanElections.Load() }

// ElectLeaders holds elections, preferred or unclean, and answers as CreateTopics does.
func (c *Controller) ElectLeaders(r *kmsg.ElectLeadersRequest, done func(*kmsg.ElectLeadersResponse)) {
	c.request(func(m *Machine) { m.reigning(func() { m.electLeaders(r, done) }) })
}

// AlterPartitionReassignments begins, replaces and cancels reassignments, and answers when that is noted.
func (c *Controller) AlterPartitionReassignments(r *kmsg.AlterPartitionAssignmentsRequest, done func(*kmsg.AlterPartitionAssignmentsResponse)) {
	c.request(func(m *Machine) { m.reigning(func() { m.alterReassignments(r, done) }) })
}

// ListPartitionReassignments lists the reassignments that are under way.
func (c *Controller) ListPartitionReassignments(r *kmsg.ListPartitionReassignmentsRequest, done func(*kmsg.ListPartitionReassignmentsResponse)) {
	c.request(func(m *Machine) { m.reigning(func() { m.listReassignments(r, done) }) })
}

// ServeProducerIDs gives another broker a block of producer ids.
func (c *Controller) ServeProducerIDs(r *kmsg.AllocateProducerIDsRequest, done func(*kmsg.AllocateProducerIDsResponse)) {
	c.request(func(m *Machine) { m.reigning(func() { m.serveProducerIDs(r, done) }) })
}

// AutoCreated is what became of one name given to AutoCreate: the error code for its Metadata row, and in words why it
// cannot be created, "" where it is or may be.
type AutoCreated struct {
	Topic   string
	Code    int16
	Refusal string
}

// AutoCreate creates topics that a client asked Metadata about, with the broker's defaults or as Settings.InternalTopics says.
// The codes are those that Metadata must answer now: LEADER_NOT_AVAILABLE for a topic that was just created,
// UNKNOWN_TOPIC_OR_PARTITION where the active controller is another broker (which is asked to create it) or a creation is under
// way already,
// INVALID_TOPIC_EXCEPTION or what else kept it from being created.
func (c *Controller) AutoCreate(topics []string, done func([]AutoCreated)) {
	c.Metered(nil).AutoCreate(topics, done)
}

// LearnTopics calls done, on any goroutine, when the configurations of the topics of a LeaderAndIsr are known here and the
// Observer has been told: before the order is carried out.
func (c *Controller) LearnTopics(topics []kmsg.LeaderAndISRRequestTopicState, done func()) {
	c.request(func(m *Machine) { m.learnTopics(topics, done) })
}

// ForgetTopics drops what is known of topics that UpdateMetadata said are deleted.
func (c *Controller) ForgetTopics(names []string) {
	c.request(func(m *Machine) { m.forgetTopics(names) })
}

// TopicConfigs returns the overrides of a topic, nil when it has none. Not to be modified.
func (c *Controller) TopicConfigs(topic string) map[string]string {
	return c.config(znode.Topics, topic)
}

// BrokerConfigs returns the dynamic configuration of a broker id as text, or of "<default>". Not to be modified.
func (c *Controller) BrokerConfigs(name string) map[string]string {
	return c.config(znode.Brokers, name)
}

// Configs returns a configuration as text, nil if there is none; kind and name as in Observer. Not to be modified.
func (c *Controller) Configs(kind, name string) map[string]string { return c.config(kind, name) }

// ConfigNames returns the names of a kind that have a configuration, in order.
func (c *Controller) ConfigNames(kind string) []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Sorted(maps.Keys(c.mu.configs[kind]))
}

func (c *Controller) config(kind, name string) map[string]string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.mu.configs[kind][name]
}
