package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// refusesZooKeeper says once whether the binary under test knows nothing of ZooKeeper.
var refusesZooKeeper = sync.OnceValues(func() (bool, error) {
	dir, err := os.MkdirTemp("", "gregor-compat-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, Binary(), "serve",
		"--override", "zookeeper.connect=127.0.0.1:1", "--override", "zookeeper.connection.timeout.ms=200",
		"--override", "listeners=PLAINTEXT://127.0.0.1:0", "--override", "log.dirs="+filepath.Join(dir, "data"),
	).CombinedOutput()
	if err == nil {
		return false, fmt.Errorf("%s serves without its ZooKeeper:\n%s", Binary(), out)
	}
	return strings.Contains(string(out), `zookeeper.connect: "127.0.0.1:1" given; allowed: nothing`), nil
})

// NeedCluster skips a test of clusters where the broker under test cannot be a member of one.
func NeedCluster(t testing.TB) {
	t.Helper()
	Need(t, "java")
	switch Peer() {
	case Kafka44:
		t.Skip("Kafka 4.4 knows no ZooKeeper")
	case Gregor:
		refuses, err := refusesZooKeeper()
		if err != nil {
			t.Fatal(err)
		}
		if refuses {
			t.Skip("the binary under test refuses zookeeper.connect")
		}
	}
}

// Client returns a client of the cluster that is closed at the end of the test.
func (c *Cluster) Client(t testing.TB, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(c.Addrs()...), kgo.MetadataMinAge(50 * time.Millisecond), RetryEOF(),
	}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseAllowingRebalance)
	return client
}

// Admin returns an administrator's client of the cluster.
func (c *Cluster) Admin(t testing.TB) *kadm.Client { return kadm.NewClient(c.Client(t)) }

// ask sends a request to a broker of its own connection and returns the answer. Brokers that do not answer cost ten seconds.
func (c *Cluster) ask(ctx context.Context, id int, r kmsg.Request) (kmsg.Response, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Broker(id).Addr), kgo.RequestRetries(0))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return client.SeedBrokers()[0].Request(ctx, r)
}

// MetadataOf returns what one broker knows, of all topics if none is named.
func (c *Cluster) MetadataOf(ctx context.Context, id int, topics ...string) (*kmsg.MetadataResponse, error) {
	r := kmsg.NewPtrMetadataRequest()
	for _, topic := range topics {
		asked := kmsg.NewMetadataRequestTopic()
		asked.Topic = kmsg.StringPtr(topic)
		r.Topics = append(r.Topics, asked)
	}
	answer, err := c.ask(ctx, id, r)
	if err != nil {
		return nil, err
	}
	return answer.(*kmsg.MetadataResponse), nil
}

// Partition is the state of a partition as a broker tells it.
type Partition struct {
	Leader        int // 0 = none
	LeaderEpoch   int32
	Replicas, ISR []int
}

// Partitions returns the partitions of a topic, as all living brokers tell it alike.
func (c *Cluster) Partitions(t testing.TB, topic string) []Partition {
	t.Helper()
	var agreed []Partition
	Eventually(t, time.Minute, func() error {
		agreed = nil
		for _, id := range c.Alive() {
			answer, err := c.MetadataOf(t.Context(), id, topic)
			if err != nil {
				return fmt.Errorf("broker %d: %w", id, err)
			}
			told, err := partitions(answer)
			if err != nil {
				return fmt.Errorf("broker %d: %w", id, err)
			}
			if agreed != nil && fmt.Sprint(agreed) != fmt.Sprint(told) {
				return fmt.Errorf("broker %d says %v of %s, not %v", id, told, topic, agreed)
			}
			agreed = told
		}
		return nil
	})
	return agreed
}

func partitions(answer *kmsg.MetadataResponse) ([]Partition, error) {
	topic := answer.Topics[0]
	if err := kerr.ErrorForCode(topic.ErrorCode); err != nil {
		return nil, err
	}
	list := make([]Partition, len(topic.Partitions))
	for _, p := range topic.Partitions {
		state := Partition{Leader: max(0, int(p.Leader)), LeaderEpoch: p.LeaderEpoch}
		for _, id := range p.Replicas {
			state.Replicas = append(state.Replicas, int(id))
		}
		for _, id := range p.ISR {
			state.ISR = append(state.ISR, int(id))
		}
		slices.Sort(state.ISR)
		list[p.Partition] = state
	}
	return list, nil
}

// Leader returns the leader of a partition, once it has one that is alive.
func (c *Cluster) Leader(t testing.TB, topic string, partition int) int {
	t.Helper()
	leader := 0
	Eventually(t, time.Minute, func() error {
		leader = c.Partitions(t, topic)[partition].Leader
		if !slices.Contains(c.Alive(), leader) {
			return fmt.Errorf("the leader of %s-%d is %d", topic, partition, leader)
		}
		return nil
	})
	return leader
}

// Controller returns the id of the active controller, once there is one that is alive.
func (c *Cluster) Controller(t testing.TB) int {
	t.Helper()
	controller := 0
	Eventually(t, time.Minute, func() error {
		answer, err := c.MetadataOf(t.Context(), c.Alive()[0])
		if err != nil {
			return err
		}
		controller = int(answer.ControllerID)
		if !slices.Contains(c.Alive(), controller) {
			return fmt.Errorf("the controller is %d", controller)
		}
		return nil
	})
	return controller
}

// Coordinator returns the id of a group's coordinator, once it is alive.
func (c *Cluster) Coordinator(t testing.TB, group string) int {
	t.Helper()
	coordinator := 0
	Eventually(t, time.Minute, func() error {
		r := kmsg.NewPtrFindCoordinatorRequest()
		r.CoordinatorKey, r.CoordinatorKeys = group, []string{group}
		answer, err := c.ask(t.Context(), c.Alive()[0], r)
		if err != nil {
			return err
		}
		found := answer.(*kmsg.FindCoordinatorResponse)
		code, id := found.ErrorCode, found.NodeID
		if len(found.Coordinators) > 0 {
			code, id = found.Coordinators[0].ErrorCode, found.Coordinators[0].NodeID
		}
		coordinator = int(id)
		if err := kerr.ErrorForCode(code); err != nil {
			return err
		}
		if !slices.Contains(c.Alive(), coordinator) {
			return fmt.Errorf("the coordinator of %s is %d", group, coordinator)
		}
		return nil
	})
	return coordinator
}

// AwaitInSync waits until every broker knows all brokers and all topics, and of every partition (of the named topics, or all) that all its
// replicas are in sync.
func (c *Cluster) AwaitInSync(t testing.TB, limit time.Duration, topics ...string) {
	t.Helper()
	Eventually(t, limit, func() error {
		most, counts := 0, make([]int, len(c.Brokers))
		for i := range c.Brokers {
			n, err := c.inSync(t.Context(), i+1, topics...)
			if err != nil {
				return fmt.Errorf("broker %d says: %w", i+1, err)
			}
			counts[i], most = n, max(most, n)
		}
		for i, n := range counts {
			if n < most { // a 3.9 that has just started knows none, and says so
				return fmt.Errorf("broker %d knows %d of %d topics", i+1, n, most)
			}
		}
		return nil
	})
}

// inSync returns how many topics a broker tells of.
func (c *Cluster) inSync(ctx context.Context, id int, topics ...string) (int, error) {
	answer, err := c.MetadataOf(ctx, id, topics...)
	if err != nil {
		return 0, err
	}
	if len(answer.Brokers) != len(c.Brokers) {
		return 0, fmt.Errorf("%d brokers", len(answer.Brokers))
	}
	for _, topic := range answer.Topics {
		if err := kerr.ErrorForCode(topic.ErrorCode); err != nil {
			return 0, fmt.Errorf("%s: %w", *topic.Topic, err)
		}
		for _, p := range topic.Partitions {
			if p.Leader < 0 || len(p.ISR) != len(p.Replicas) || p.ErrorCode != 0 {
				return 0, fmt.Errorf("%s-%d has leader %d and %v of %v in sync, error %d", *topic.Topic, p.Partition, p.Leader,
					p.ISR, p.Replicas, p.ErrorCode)
			}
		}
	}
	return len(answer.Topics), nil
}

// CreateTopic creates a topic with computed assignments, given key and value pairs of its configuration, and returns once all its
// replicas are in sync.
func (c *Cluster) CreateTopic(t testing.TB, name string, partitions, replicas int, pairs ...string) {
	t.Helper()
	configs := map[string]*string{}
	for i := 0; i < len(pairs); i += 2 {
		configs[pairs[i]] = &pairs[i+1]
	}
	if _, err := c.Admin(t).CreateTopic(Context(t, time.Minute), int32(partitions), int16(replicas), configs, name); err != nil {
		t.Fatalf("create topic %s: %v", name, err)
	}
	c.AwaitInSync(t, time.Minute, name)
}
