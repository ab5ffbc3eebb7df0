package harness

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ClusterOptions says what a cluster is made of.
type ClusterOptions struct {
	Kinds   []Kind            // of the brokers 1, 2 and so on; empty = three of Peer()
	Props   map[string]string // of every broker; they win over the harness's
	PropsOf func(id int) map[string]string
	EnvOf   func(id int) []string
	// Place says where a broker is to run: on which address, and the words of a command that runs another one there. nil = all here.
	Place     func(id int) (host string, wrapper []string)
	ZooKeeper map[string]string // settings of ZooKeeper
	// ZooKeeperHost is where brokers elsewhere reach this machine. "" = 127.0.0.1.
	ZooKeeperHost string
	// Requests, if it is set, is told of each request that comes to a broker of a proxied cluster from its peers. It is called from
	// several goroutines.
	Requests func(to int, asked Asked)
	Proxied  bool // each broker is reached by the others, and reaches ZooKeeper, through proxies of its own
}

// Cluster is a real ZooKeeper and the brokers 1 to n that it coordinates. Its methods are for one goroutine, save where they
// say otherwise. A method that is given a test fails it.
type Cluster struct {
	ZooKeeper *Ensemble
	Brokers   []*Broker // broker i+1

	peerProxies, zkProxies []*Proxy // of broker i+1, if Proxied
	paused                 []bool
	dir                    string
}

// clusterProps are the settings of every broker: three replicas of which two must be in sync, times that suit a test, and
// nothing that moves leaders by itself.
var clusterProps = map[string]string{
	"zookeeper.session.timeout.ms":             "4000",
	"zookeeper.connection.timeout.ms":          "30000",
	"default.replication.factor":               "3",
	"min.insync.replicas":                      "2",
	"offsets.topic.replication.factor":         "3",
	"offsets.topic.num.partitions":             "5",
	"transaction.state.log.replication.factor": "3",
	"transaction.state.log.min.isr":            "2",
	"transaction.state.log.num.partitions":     "5",
	"group.initial.rebalance.delay.ms":         "0",
	"replica.lag.time.max.ms":                  "5000",
	"auto.leader.rebalance.enable":             "false",
	"controlled.shutdown.retry.backoff.ms":     "500",
	"controller.socket.timeout.ms":             "3000", // a leader waits that long for a controller that stands still
	"replica.socket.timeout.ms":                "3000",
}

// kafkaProps keep a JVM small, and patient.
var kafkaProps = map[string]string{
	"num.network.threads":               "2",
	"num.io.threads":                    "4",
	"background.threads":                "4",
	"log.cleaner.dedupe.buffer.size":    "8388608",
	"log.cleaner.io.buffer.size":        "65536",
	"num.recovery.threads.per.data.dir": "1",
	// While it starts on a busy machine it stands still for seconds, and if its session runs out then, it ends or is never ready.
	"zookeeper.session.timeout.ms": "12000",
}

// StartCluster starts a cluster that ends with the test.
func StartCluster(t testing.TB, o ClusterOptions) *Cluster {
	t.Helper()
	c, err := newCluster(t.TempDir(), o)
	t.Cleanup(func() {
		if t.Failed() {
			c.logTails(t)
		}
		c.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// newCluster starts ZooKeeper and all brokers at once. What it returns is to be closed, also after an error.
func newCluster(dir string, o ClusterOptions) (*Cluster, error) {
	if len(o.Kinds) == 0 {
		o.Kinds = []Kind{Peer(), Peer(), Peer()}
	}
	c := &Cluster{dir: dir, paused: make([]bool, len(o.Kinds))}
	if err := os.MkdirAll(filepath.Join(dir, "zookeeper"), 0o755); err != nil {
		return c, err
	}
	var err error
	settings := map[string]string{}
	maps.Copy(settings, o.ZooKeeper)
	if o.ZooKeeperHost != "" {
		settings["clientPortAddress"] = "0.0.0.0"
	}
	if c.ZooKeeper, err = NewEnsemble(filepath.Join(dir, "zookeeper"), settings); err != nil {
		return c, err
	}
	for i, kind := range o.Kinds {
		if err := c.add(i+1, kind, o); err != nil {
			return c, err
		}
	}
	errs := make([]error, len(c.Brokers))
	var all sync.WaitGroup
	for i, b := range c.Brokers {
		all.Go(func() { errs[i] = b.startPatiently() })
	}
	all.Wait()
	return c, errors.Join(errs...)
}

// add makes a broker that is not started yet.
func (c *Cluster) add(id int, kind Kind, o ClusterOptions) error {
	if kind == Kafka44 {
		return errors.New("a cluster on ZooKeeper has no Kafka 4.4")
	}
	b, err := newBroker(Options{Kind: kind, Dir: filepath.Join(c.dir, fmt.Sprint("broker-", id)), HeapMB: 256}, nil)
	if err != nil {
		return err
	}
	if err := b.keepPort(); err != nil {
		return err
	}
	props := maps.Clone(clusterProps)
	if kind == Kafka39 {
		maps.Copy(props, kafkaProps)
	}
	if o.Place != nil {
		var host string
		host, b.wrapper = o.Place(id)
		_, port, err := net.SplitHostPort(b.Addr)
		if err != nil {
			return err
		}
		b.Addr = net.JoinHostPort(host, port)
	}
	props["broker.id"] = strconv.Itoa(id)
	props["zookeeper.connect"] = c.ZooKeeper.Addr
	if o.ZooKeeperHost != "" {
		props["zookeeper.connect"] = strings.Replace(c.ZooKeeper.Addr, "127.0.0.1", o.ZooKeeperHost, 1)
	}
	if o.Proxied {
		if err := c.addProxies(b, props, o.Requests); err != nil {
			return err
		}
	}
	maps.Copy(props, o.Props)
	if o.PropsOf != nil {
		maps.Copy(props, o.PropsOf(id))
	}
	if o.EnvOf != nil {
		b.options.Env = o.EnvOf(id)
	}
	if dirs := props["log.dirs"]; dirs != "" {
		b.DataDirs = strings.Split(dirs, ",")
	}
	b.options.Props = props
	c.Brokers = append(c.Brokers, b)
	return nil
}

// addProxies gives a broker a listener for its peers that they know by the address of a proxy, and a proxy to ZooKeeper.
func (c *Cluster) addProxies(b *Broker, props map[string]string, tell func(int, Asked)) error {
	port, err := FreePort()
	if err != nil {
		return err
	}
	inside := fmt.Sprintf("127.0.0.1:%d", port)
	var requests func(Asked)
	if id := len(c.peerProxies) + 1; tell != nil {
		requests = func(a Asked) { tell(id, a) }
	}
	peers, err := newProxy(inside, requests)
	if err != nil {
		return err
	}
	c.peerProxies = append(c.peerProxies, peers)
	zk, err := NewProxy(c.ZooKeeper.Addr)
	if err != nil {
		return err
	}
	c.zkProxies = append(c.zkProxies, zk)
	maps.Copy(props, map[string]string{
		"zookeeper.connect":              zk.Addr,
		"listeners":                      "PLAINTEXT://" + b.Addr + ",PEER://" + inside,
		"advertised.listeners":           "PLAINTEXT://" + b.Addr + ",PEER://" + peers.Addr,
		"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PEER:PLAINTEXT",
		"inter.broker.listener.name":     "PEER",
	})
	return nil
}

// Close ends all of it without ceremony.
func (c *Cluster) Close() {
	for _, b := range c.Brokers {
		if b.process != nil {
			b.process.kill()
		}
	}
	for _, p := range append(c.peerProxies, c.zkProxies...) {
		p.Close()
	}
	if c.ZooKeeper != nil && c.ZooKeeper.process != nil {
		c.ZooKeeper.Kill()
	}
}

// settingsLine matches the lines in which a JVM broker lists its settings, hundreds of them.
var settingsLine = regexp.MustCompile(`(?m)^\t[A-Za-z0-9.]+ = .*\n`)

func (c *Cluster) logTails(t testing.TB) {
	for i, b := range c.Brokers {
		if b.process != nil {
			text := settingsLine.ReplaceAll(b.process.log(), nil)
			t.Logf("end of the log of broker %d, %s:\n%s", i+1, b.Kind, tail(text, 3000))
		}
	}
}

// Broker returns the broker with that id.
func (c *Cluster) Broker(id int) *Broker { return c.Brokers[id-1] }

// Addrs returns the addresses of all brokers, alive or not.
func (c *Cluster) Addrs() []string {
	var addrs []string
	for _, b := range c.Brokers {
		addrs = append(addrs, b.Addr)
	}
	return addrs
}

// Seeds returns the addresses as the tools want them.
func (c *Cluster) Seeds() string { return strings.Join(c.Addrs(), ",") }

// Alive returns the ids of the brokers whose processes run and are not paused.
func (c *Cluster) Alive() []int {
	var ids []int
	for i, b := range c.Brokers {
		if b.process != nil && !b.process.ended() && !c.paused[i] {
			ids = append(ids, i+1)
		}
	}
	return ids
}

// Kill ends a broker as kill -9 does, also a paused one.
func (c *Cluster) Kill(id int) {
	c.Broker(id).process.kill()
	c.paused[id-1] = false
}

// Stop ends a broker with SIGTERM: it hands its leaderships over first.
func (c *Cluster) Stop(t testing.TB, id int) {
	t.Helper()
	if err := c.TryStop(id); err != nil {
		t.Fatal(err)
	}
}

// TryStop is Stop for a goroutine that is not the test's.
func (c *Cluster) TryStop(id int) error {
	b := c.Broker(id)
	if !b.process.stop(stopLimit) {
		return fmt.Errorf("broker %d did not stop within %v:\n%s", id, stopLimit, tail(b.process.log(), 4000))
	}
	if code := b.process.exitCode(); code != 0 && b.Kind == Gregor {
		return fmt.Errorf("broker %d stopped with exit code %d:\n%s", id, code, tail(b.process.log(), 4000))
	}
	return nil
}

// Pause stops a broker's process (SIGSTOP), as if its machine stood still, until Resume or Kill.
func (c *Cluster) Pause(id int) {
	c.Broker(id).process.pause()
	c.paused[id-1] = true
}

// Resume ends a Pause.
func (c *Cluster) Resume(id int) {
	c.Broker(id).process.resume()
	c.paused[id-1] = false
}

// Restart starts brokers again that were killed or stopped, all at once, and returns when they serve.
func (c *Cluster) Restart(t testing.TB, ids ...int) {
	t.Helper()
	if err := c.TryRestart(ids...); err != nil {
		t.Fatal(err)
	}
}

// TryRestart is Restart for a goroutine that is not the test's.
func (c *Cluster) TryRestart(ids ...int) error {
	errs := make([]error, len(ids))
	var all sync.WaitGroup
	for i, id := range ids {
		all.Go(func() {
			errs[i] = c.Broker(id).startPatiently()
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// SetProps changes settings of a broker from its next start on.
func (c *Cluster) SetProps(id int, props map[string]string) {
	maps.Copy(c.Broker(id).options.Props, props)
}

// Peers is the proxy through which the others reach a broker of a proxied cluster.
func (c *Cluster) Peers(id int) *Proxy { return c.peerProxies[id-1] }

// ToZooKeeper is the proxy through which a broker of a proxied cluster reaches ZooKeeper.
func (c *Cluster) ToZooKeeper(id int) *Proxy { return c.zkProxies[id-1] }

// Mend undoes every fault: cuts end, ZooKeeper and all brokers run.
func (c *Cluster) Mend() error {
	for _, p := range append(append([]*Proxy(nil), c.peerProxies...), c.zkProxies...) {
		p.Set(Fault{})
	}
	c.ZooKeeper.Resume()
	if c.ZooKeeper.process.ended() {
		if err := c.ZooKeeper.start(); err != nil {
			return err
		}
	}
	var ended []int
	for i, b := range c.Brokers {
		switch {
		case c.paused[i]:
			c.Resume(i + 1)
		case b.process == nil || b.process.ended():
			ended = append(ended, i+1)
		}
	}
	return c.TryRestart(ended...)
}

// deleteTopics removes what a test of a shared cluster leaves, as far as that is possible: the next test waits for all that there is.
func (c *Cluster) deleteTopics() {
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Addrs()...))
	if err != nil {
		return
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	admin := kadm.NewClient(client)
	topics, err := admin.ListTopics(ctx)
	if err == nil {
		_, _ = admin.DeleteTopics(ctx, topics.Names()...)
	}
}

// sharing is a cluster that the tests of one package use together, once one of them wants it.
type sharing struct {
	sync.Mutex
	cluster *Cluster
	err     error
}

// start returns the cluster; the first call starts it, and the package's end ends it.
func (s *sharing) start(t testing.TB, o ClusterOptions) *Cluster {
	t.Helper()
	s.Lock()
	defer s.Unlock()
	if s.cluster == nil && s.err == nil {
		var dir string
		if dir, s.err = os.MkdirTemp("", "gregor-compat-"); s.err == nil {
			atEnd.add(func() { _ = os.RemoveAll(dir) })
			s.cluster, s.err = newCluster(dir, o)
			atEnd.add(s.cluster.Close)
		}
	}
	if s.err != nil {
		t.Fatalf("the shared cluster did not start: %v", s.err)
	}
	return s.cluster
}

var sharedCluster sharing

// SharedCluster returns a cluster of three brokers of kind Peer() for all tests of a package, each with topics and groups of its own
// names. When the test ends, whatever it stopped is brought back, and the next one finds all replicas in sync.
func SharedCluster(t testing.TB) *Cluster {
	t.Helper()
	c := sharedCluster.start(t, ClusterOptions{})
	t.Cleanup(func() {
		if t.Failed() {
			c.logTails(t)
		}
		if err := c.Mend(); err != nil {
			t.Errorf("bring the cluster back: %v", err)
			_ = poll(time.Minute, c.Mend) // so that the next test fails for reasons of its own only
		}
		c.deleteTopics()
	})
	c.AwaitInSync(t, time.Minute)
	return c
}
