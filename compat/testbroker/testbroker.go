// Package testbroker starts a whole gregor broker inside a test: real protocol, real log files in a temporary folder, any
// client. It is ready in milliseconds, leaves nothing behind, and fails on demand (Broker.Inject).
//
//	b := testbroker.Start(t, testbroker.Topic("orders", 3))
//	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()))
//
// With InMemory there are no sockets: give Broker.Dial to the client as its dialer, and the whole of it runs under
// testing/synctest, where an hour of retention passes in no time.
package testbroker

import (
	"context"
	"fmt"
	"net"
	"testing"

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
	broker   *broker.Broker
	inMemory bool
	faults   *faults
}

// Option changes how a broker starts.
type Option func(*options)

type options struct {
	overrides []string
	topics    []kmsg.CreateTopicsRequestTopic
	inMemory  bool
	logger    *zap.Logger
}

// Topic has a topic created before Start returns. configs are keys and values in turn: "cleanup.policy", "compact".
func Topic(name string, partitions int32, configs ...string) Option {
	return func(o *options) {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, 1
		for i := 0; i+1 < len(configs); i += 2 {
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

// Logger takes what the broker has to say, which is otherwise dropped.
func Logger(l *zap.Logger) Option { return func(o *options) { o.logger = l } }

// Start runs a broker until the test ends: on a free port of 127.0.0.1, with its data in the test's temporary folder. It
// fails the test if the broker cannot start.
func Start(t testing.TB, opts ...Option) *Broker {
	t.Helper()
	o := options{logger: zap.NewNop()}
	for _, f := range opts {
		f(&o)
	}
	snapshot, _, err := config.Load(config.Sources{Overrides: append([]string{
		"log.dirs=" + t.TempDir(), "listeners=" + listener + "://127.0.0.1:0", "offsets.topic.num.partitions=1",
		"transaction.state.log.num.partitions=1",
	}, o.overrides...)})
	if err != nil {
		t.Fatalf("testbroker: %v", err)
	}
	b := &Broker{inMemory: o.inMemory}
	b.faults = newFaults(func(id [16]byte) string { return b.broker.TopicName(id) })
	b.broker = broker.New(broker.Options{Config: snapshot, Logger: o.logger, Pipes: o.inMemory, Intercept: b.faults.intercept})
	if err := b.broker.Start(context.Background()); err != nil {
		t.Fatalf("testbroker: %v", err)
	}
	t.Cleanup(func() {
		b.faults.close()
		if err := b.broker.Stop(nil); err != nil {
			t.Errorf("testbroker: %v", err)
		}
	})
	if err := b.create(o.topics); err != nil {
		t.Fatalf("testbroker: %v", err)
	}
	return b
}

// Addr is the host:port to give to a client.
func (b *Broker) Addr() string {
	if b.inMemory {
		return inMemoryAddr
	}
	return b.broker.Addr(listener).String()
}

// Dial connects to the broker, whatever the address: a dialer for clients.
func (b *Broker) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if b.inMemory {
		return b.broker.Dial(listener)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", b.Addr())
}

// create makes topics, which serve when it returns.
func (b *Broker) create(topics []kmsg.CreateTopicsRequestTopic) error {
	if len(topics) == 0 {
		return nil
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.Dialer(b.Dial))
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
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
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
