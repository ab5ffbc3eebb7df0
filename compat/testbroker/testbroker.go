// Package testbroker starts a whole gregor broker inside a test: real protocol, real log files in a temporary folder, any
// client. It is ready in milliseconds, leaves nothing behind, and fails on demand (Broker.Inject).
//
//	b := testbroker.Start(t, testbroker.Topic("orders", 3))
//	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()))
//
// With InMemory there are no sockets: give Broker.Dial to the client as its dialer, and the whole of it runs under
// testing/synctest, where an hour of retention passes in no time.
//
// A program meets an absent broker between Broker.Stop and Broker.Restart, which keep address, data and faults. Tests that share one
// broker make it with New in TestMain. It is always one broker: a cluster needs ZooKeeper.
package testbroker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/broker"
	"github.com/gregor-broker/gregor/broker/config"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// listener is the name of the broker's only listener.
const listener = "PLAINTEXT"

// inMemoryAddr is where clients believe a broker without sockets to be.
const inMemoryAddr = "testbroker:9092"

// Broker is a running broker. Safe for concurrent use.
type Broker struct {
	options options
	dir     string
	faults  *faults
	addr    string // from the first start on

	mu      sync.Mutex // held while it starts or stops
	running atomic.Pointer[broker.Broker]
}

// Option changes how a broker starts.
type Option func(*options)

type options struct {
	overrides []string
	topics    []kmsg.CreateTopicsRequestTopic
	inMemory  bool
	logger    *zap.Logger
	warn      func(text string) // of a property that has no effect
	err       error             // of an option
}

// Topic has a topic created before Start returns. configs are keys and values in turn: "cleanup.policy", "compact".
func Topic(name string, partitions int32, configs ...string) Option {
	return func(o *options) {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, 1
		if len(configs)%2 != 0 {
			o.err = errors.Join(o.err, fmt.Errorf("topic %s: %s has no value", name, configs[len(configs)-1]))
			return
		}
		for i := 0; i < len(configs); i += 2 {
			c := kmsg.NewCreateTopicsRequestTopicConfig()
			c.Name, c.Value = configs[i], &configs[i+1]
			t.Configs = append(t.Configs, c)
		}
		o.topics = append(o.topics, t)
	}
}

// Property sets a key of server.properties.
func Property(key, value string) Option {
	return func(o *options) { o.overrides = append(o.overrides, key+"="+value) }
}

// InMemory has the broker reached through Dial only.
func InMemory() Option { return func(o *options) { o.inMemory = true } }

// Logger takes what the broker has to say, which is otherwise dropped: zaptest.NewLogger(t) shows it with the test.
func Logger(l *zap.Logger) Option { return func(o *options) { o.logger = l } }

// Start runs a broker until the test ends: on a free port of 127.0.0.1, with its data in the test's temporary folder. It
// fails the test if the broker cannot start, and logs properties that have no effect.
func Start(t testing.TB, opts ...Option) *Broker {
	t.Helper()
	warn := func(o *options) { o.warn = func(text string) { t.Log("testbroker: " + text) } }
	b, err := New(t.TempDir(), append([]Option{warn}, opts...)...)
	if err != nil {
		t.Fatalf("testbroker: %v", err)
	}
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Errorf("testbroker: %v", err)
		}
	})
	return b
}

// New starts a broker without a test, on data in a folder, new or left by another. The caller ends it with Stop.
func New(dir string, opts ...Option) (*Broker, error) {
	b := &Broker{dir: dir, options: options{logger: zap.NewNop(), warn: func(string) {}}}
	for _, f := range opts {
		f(&b.options)
	}
	b.faults = newFaults(func(id [16]byte) string { return b.running.Load().TopicName(id) })
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.options.err
	if err == nil {
		err = b.start()
	}
	if err == nil {
		err = b.create(b.options.topics)
	}
	if err != nil {
		return nil, errors.Join(err, b.stop())
	}
	return b, nil
}

// start needs mu.
func (b *Broker) start() error {
	overrides := append([]string{
		"log.dirs=" + b.dir, "listeners=" + listener + "://127.0.0.1:0", "offsets.topic.num.partitions=1",
		"transaction.state.log.num.partitions=1",
	}, b.options.overrides...)
	if b.addr != "" && !b.options.inMemory {
		overrides = append(overrides, "listeners="+listener+"://"+b.addr)
	}
	snapshot, notices, err := config.Load(config.Sources{Overrides: overrides})
	if err != nil {
		return err
	}
	for _, n := range notices {
		if n.Warn && b.addr == "" {
			b.options.warn(n.Text)
		}
	}
	next := broker.New(broker.Options{Config: snapshot, Logger: b.options.logger, Pipes: b.options.inMemory, Intercept: b.faults.intercept})
	b.running.Store(next) // before its first request
	b.faults.open()
	if err := next.Start(context.Background()); err != nil {
		b.running.Store(nil)
		return err
	}
	if b.addr != "" {
		return nil
	}
	if b.options.inMemory {
		b.addr = inMemoryAddr
		return nil
	}
	bound := next.Addr(listener)
	if bound == nil {
		return fmt.Errorf("there must be a listener %s", listener)
	}
	b.addr = bound.String()
	return nil
}

// stop needs mu.
func (b *Broker) stop() error {
	running := b.running.Load()
	if running == nil {
		return nil
	}
	b.faults.close()
	err := running.Stop(nil)
	b.running.Store(nil)
	return err
}

// Stop ends the broker before the test does, as a signal would: answers that are due are sent, data is written. Connections are closed
// and no new ones are accepted. What is stopped already stays so.
func (b *Broker) Stop() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stop()
}

// Restart stops the broker if it runs and starts it again, at the same address, with the same data and faults.
func (b *Broker) Restart() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.stop(); err != nil {
		return err
	}
	return b.start()
}

// Addr is the host:port to give to a client.
func (b *Broker) Addr() string { return b.addr }

// Dial connects to the broker, whatever the address: a dialer for clients.
func (b *Broker) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if !b.options.inMemory {
		return new(net.Dialer).DialContext(ctx, "tcp", b.addr)
	}
	running := b.running.Load()
	if running == nil {
		return nil, errors.New("testbroker: the broker is stopped")
	}
	return running.Dial(listener)
}

// Client returns a franz-go client of the broker, which is closed when the test ends. Unless told otherwise it tries again after
// milliseconds, where franz-go waits up to five seconds before it asks anew who leads a partition.
func (b *Broker) Client(t testing.TB, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append(b.clientOptions(), opts...)...)
	if err != nil {
		t.Fatalf("testbroker: %v", err)
	}
	t.Cleanup(client.CloseAllowingRebalance)
	return client
}

func (b *Broker) clientOptions() []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(b.addr), kgo.Dialer(b.Dial), kgo.MetadataMinAge(10 * time.Millisecond),
		kgo.RetryBackoffFn(func(tries int) time.Duration { return min(5*time.Millisecond<<min(tries, 6), 250*time.Millisecond) }),
	}
}

// create makes topics, which serve when it returns. Those that are there already, in an old folder, stay as they are.
func (b *Broker) create(topics []kmsg.CreateTopicsRequestTopic) error {
	if len(topics) == 0 {
		return nil
	}
	client, err := kgo.NewClient(b.clientOptions()...)
	if err != nil {
		return err
	}
	defer client.Close()
	r := kmsg.NewPtrCreateTopicsRequest()
	r.Topics, r.TimeoutMillis = topics, 60_000
	answer, err := r.RequestWith(context.Background(), client)
	if err != nil {
		return err
	}
	for _, t := range answer.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("topic %s: %w (%s)", t.Topic, err, deref(t.ErrorMessage))
		}
	}
	return nil
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
