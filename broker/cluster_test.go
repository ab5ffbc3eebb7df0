package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/gregor-broker/gregor/broker/api"
	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/controller/store/storetest"
	"github.com/gregor-broker/gregor/wire/clock"
)

// cluster is brokers in one process, over a metadata tree in memory and pipes.
type cluster struct {
	t       *testing.T
	tree    *storetest.Fake
	dir     string
	mu      sync.Mutex // of brokers, which those who dial read
	brokers map[int32]*Broker

	intercept func(c *api.Call, r kmsg.Request, serve func()) // of the brokers that are started with it
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, tree: storetest.NewFake(clock.System), dir: t.TempDir(), brokers: map[int32]*Broker{}}
	t.Cleanup(func() {
		for len(c.brokers) > 0 {
			for id := range c.brokers {
				c.stop(id)
				break
			}
		}
	})
	return c
}

// errNoBroker is what clients take for a broker that is down.
var errNoBroker = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("no broker answers at that address")}

// dial connects to the broker whose id is the port: registrations say so.
func (c *cluster) dial(_ context.Context, address string) (net.Conn, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	id, err := strconv.Atoi(port)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	b := c.brokers[int32(id)]
	c.mu.Unlock()
	if b == nil {
		return nil, errNoBroker
	}
	return b.Dial("PLAINTEXT")
}

func (c *cluster) start(id int32, overrides ...string) *Broker {
	c.t.Helper()
	snapshot, _, err := config.Load(config.Sources{Overrides: append([]string{
		"zookeeper.connect=in-memory:1", fmt.Sprint("broker.id=", id), fmt.Sprintf("log.dirs=%s/%d", c.dir, id),
		"listeners=PLAINTEXT://127.0.0.1:0", fmt.Sprint("advertised.listeners=PLAINTEXT://localhost:", id),
		"offsets.topic.num.partitions=3", "group.initial.rebalance.delay.ms=0",
	}, overrides...)})
	if err != nil {
		c.t.Fatal(err)
	}
	b := New(Options{
		Config: snapshot, Logger: zaptest.NewLogger(c.t, zaptest.Level(zap.WarnLevel)), Pipes: true, Store: c.tree.Client(), Intercept: c.intercept,
		DialPeer: func(ctx context.Context, _ int32, address string) (net.Conn, error) { return c.dial(ctx, address) },
	})
	c.mu.Lock()
	c.brokers[id] = b
	c.mu.Unlock()
	if err := b.Start(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	return b
}

func (c *cluster) stop(id int32) {
	c.t.Helper()
	b := c.brokers[id]
	if err := b.Stop(nil); err != nil {
		c.t.Error(err)
	}
	c.mu.Lock()
	delete(c.brokers, id)
	c.mu.Unlock()
}

func (c *cluster) client(opts ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	var seeds []string
	for id := range c.brokers {
		seeds = append(seeds, fmt.Sprint("localhost:", id))
	}
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(seeds...),
		kgo.Dialer(func(ctx context.Context, _, address string) (net.Conn, error) {
			conn, err := c.dial(ctx, address)
			if err != nil {
				time.Sleep(10 * time.Millisecond) // a client that tries again at once would keep virtual time from passing
			}
			return conn, err
		}),
	}, opts...)...)
	if err != nil {
		c.t.Fatal(err)
	}
	return cl
}

// TestOneBrokerOnZooKeeper: the cluster's path with one broker: 3.9's znodes, records, groups, a restart.
func TestOneBrokerOnZooKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.start(7, "offsets.topic.replication.factor=1")
		cl := c.client()
		createTopic(t, cl, "t", 2, nil)
		produce(t, cl, "t", 0, 30)
		group := c.client(kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.DisableAutoCommit())
		consume(t, group, 30)
		if err := group.CommitUncommittedOffsets(t.Context()); err != nil {
			t.Fatal(err)
		}
		group.Close()
		cl.Close()
		c.stop(7)
		nodes := c.tree.Dump()
		if nodes["/brokers/topics/t/partitions/1/state"] == "" || nodes["/config/topics/t"] == "" || nodes["/brokers/ids/7"] != "" {
			t.Errorf("the tree after the stop: %v", nodes)
		}
		c.start(7)
		reader := c.client(kgo.ConsumeTopics("t"))
		defer reader.Close()
		consume(t, reader, 30)
	})
}

// eventually polls until ok, in virtual time.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 600 {
		if ok() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("after a minute still not: %s", what)
}

// inSync says whether every partition of a topic has n in-sync replicas in every broker's image.
func (c *cluster) inSync(topic string, n int) bool {
	for _, b := range c.brokers {
		at := b.services.Metadata.Image().Topic(topic)
		if at == nil {
			return false
		}
		for _, p := range at.Partitions {
			if len(p.ISR) != n || p.Leader < 0 {
				return false
			}
		}
	}
	return true
}

// TestThreeBrokers: records with acks=all outlive the broker that took them; it comes back, catches up and is in sync.
func TestThreeBrokers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		for id := int32(1); id <= 3; id++ {
			c.start(id, "min.insync.replicas=2", "default.replication.factor=3")
		}
		cl := c.client(kgo.RequiredAcks(kgo.AllISRAcks()))
		defer cl.Close()
		createTopic(t, cl, "t", 6, nil)
		produce(t, cl, "t", 0, 100)
		eventually(t, "all in sync", func() bool { return c.inSync("t", 3) })
		c.stop(2)
		produce(t, cl, "t", 100, 200)
		eventually(t, "two in sync", func() bool { return c.inSync("t", 2) })
		c.start(2, "min.insync.replicas=2", "default.replication.factor=3")
		produce(t, cl, "t", 200, 300)
		eventually(t, "all in sync again", func() bool { return c.inSync("t", 3) })
		c.stop(1)
		produce(t, cl, "t", 300, 350)
		reader := c.client(kgo.ConsumeTopics("t"))
		defer reader.Close()
		consume(t, reader, 350)
	})
}
