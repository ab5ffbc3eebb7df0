package controller

import (
	"context"
	"sync"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// Options is what a Controller needs; every field must be set, except that a zero Settings.Seed means a random one.
type Options struct {
	Store     store.Store
	Broker    znode.Broker // this broker's registration: id, endpoints as advertised, rack
	ClusterID string       // written to the store if it has none, else it must be equal
	Transport Transport
	Observer  Observer
	Configs   TopicConfigs
	Clock     clock.Clock
	Logger    *zap.Logger
	Settings  Settings
}

// Settings are the broker's configuration as far as the controller is concerned; names follow Kafka's keys.
type Settings struct {
	DeleteTopicEnable        bool
	NumPartitions            int32
	DefaultReplicationFactor int16
	UncleanLeaderElection    bool                     // cluster default; a topic's own setting goes before it
	InterBrokerListener      string                   // name of the listener whose address followers use
	InternalTopics           map[string]InternalTopic // what auto-creation makes of these names
	RequestTimeoutMs         int32                    // how long an auto-creation may take
	Seed                     uint64                   // of placement and topic ids; for tests
}

// InternalTopic is how an internal topic is created. See OffsetsTopic and TransactionsTopic.
type InternalTopic struct {
	Partitions        int32
	ReplicationFactor int16
	Configs           map[string]string
}

// Transport carries the controller's orders to the brokers: LeaderAndISR v7, UpdateMetadata v8, StopReplica v4. Send blocks
// until the broker has answered; the controller calls it once at a time per broker, in the order in which the orders must
// take effect. It retries after an error until the broker's registration vanishes or its own leadership ends. The
// request and what it refers to must not be changed; the receiver may keep them.
type Transport interface {
	Send(ctx context.Context, broker int32, req kmsg.Request) (kmsg.Response, error)
}

// Observer learns what every broker must know from the store. It is called in order from one goroutine and must not block for
// long; it may call TopicConfigs and BrokerConfigs, which have the new values already.
type Observer interface {
	// ConfigChanged: kind is topics, brokers, clients, users or ips; name as a person writes it (not encoded), "<default>"
	// for defaults, "U/clients/C" for a client of a user. Called once for every existing node at start, then for each change.
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
	mu struct {
		sync.Mutex
	}
}

// Start registers the broker, takes part in the election and loads what is there. It returns when another broker is the active
// controller, or this one is and has carried out its first orders.
func Start(ctx context.Context, o Options) (*Controller, error) { panic("being built") }

// Stop gives up leadership and registration and waits for the controller's goroutines. The store stays open.
func (c *Controller) Stop(ctx context.Context) error { panic("being built") }

// ActiveID returns the id of the active controller, -1 if none is known.
func (c *Controller) ActiveID() int32 { panic("being built") }

// BrokerEpoch returns the epoch of this broker's registration, -1 while it has none.
func (c *Controller) BrokerEpoch() int64 { panic("being built") }

// CreateTopics creates topics and answers when every one is on disk and its leaders serve, or when the request's timeout
// has passed (REQUEST_TIMED_OUT; the creation goes on). done is called once, on any goroutine.
func (c *Controller) CreateTopics(r *kmsg.CreateTopicsRequest, done func(*kmsg.CreateTopicsResponse)) {
	panic("being built")
}

// DeleteTopics deletes topics by name or id and answers when they are gone, or when the request's timeout has passed.
func (c *Controller) DeleteTopics(r *kmsg.DeleteTopicsRequest, done func(*kmsg.DeleteTopicsResponse)) {
	panic("being built")
}

// CreatePartitions adds partitions to topics and answers as CreateTopics does.
func (c *Controller) CreatePartitions(r *kmsg.CreatePartitionsRequest, done func(*kmsg.CreatePartitionsResponse)) {
	panic("being built")
}

// AlterConfigs replaces the configuration of (kind, name), see Observer for both, by what change makes of the present one
// (not to be modified; nil when there is none) and announces it. Works on every broker. change must be quick, may be called
// again when somebody else was faster, and its error is handed to done. An empty result deletes a quota's node.
func (c *Controller) AlterConfigs(kind, name string, change func(old map[string]string) (map[string]string, error), validateOnly bool, done func(error)) {
	panic("being built")
}

// AllocateProducerIDs takes the next block of producer ids for this broker.
func (c *Controller) AllocateProducerIDs(done func(first, count int64, err error)) {
	panic("being built")
}

// AutoCreated is what became of one name given to AutoCreate: the error code for its Metadata row.
type AutoCreated struct {
	Topic string
	Code  int16
}

// AutoCreate creates topics that a client asked Metadata about, with the broker's defaults or as Settings.InternalTopics says.
// The codes are those that Metadata must answer now: LEADER_NOT_AVAILABLE for a topic that was just created,
// UNKNOWN_TOPIC_OR_PARTITION where the active controller is another broker or a creation is under way already,
// INVALID_TOPIC_EXCEPTION or what else kept it from being created.
func (c *Controller) AutoCreate(topics []string, done func([]AutoCreated)) { panic("being built") }

// TopicConfigs returns the overrides of a topic, nil when it has none. Not to be modified.
func (c *Controller) TopicConfigs(topic string) map[string]string { panic("being built") }

// BrokerConfigs returns the dynamic configuration of a broker id as text, or of "<default>". Not to be modified.
func (c *Controller) BrokerConfigs(name string) map[string]string { panic("being built") }

// ImportTopic is a topic found in an adopted data directory. Replicas[p] are the brokers of partition p.
type ImportTopic struct {
	Name     string
	ID       [16]byte // zero: a new one is made
	Replicas [][]int32
	Configs  map[string]string
}

// Import writes the nodes of topics whose data is there already, before any broker runs on the store. Leader epochs go on
// after epoch, so that they are larger than those in the data. A topic that exists with the same id is left alone; with another
// id, nothing is written and the error says so.
func Import(ctx context.Context, s store.Store, topics []ImportTopic) error { panic("being built") }
