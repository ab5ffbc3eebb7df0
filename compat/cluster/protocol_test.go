package cluster

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
)

// spoken is the versions of requests that brokers were seen to send each other, by the kind of the sender. Safe for concurrent use.
type spoken struct {
	sync.Mutex
	kinds    []harness.Kind // of the brokers 1, 2 …
	versions map[harness.Kind]map[int16][]int16
}

var clientIDForm = regexp.MustCompile(`^(?:broker-)?(\d)(?:-fetcher-\d+)?$`)

func (s *spoken) hear(_ int, asked harness.Asked) {
	form := clientIDForm.FindStringSubmatch(asked.ClientID)
	if form == nil {
		return
	}
	id, _ := strconv.Atoi(form[1])
	s.Lock()
	defer s.Unlock()
	by := s.versions[s.kinds[id-1]]
	if !slices.Contains(by[asked.Key], asked.Version) {
		by[asked.Key] = append(by[asked.Key], asked.Version)
	}
}

// forget begins anew.
func (s *spoken) forget() {
	s.Lock()
	defer s.Unlock()
	s.versions = map[harness.Kind]map[int16][]int16{harness.Kafka39: {}, harness.Gregor: {}}
}

// of shows the versions that a kind sent of some requests.
func (s *spoken) of(kind harness.Kind, keys ...kmsg.Key) string {
	s.Lock()
	defer s.Unlock()
	var list []string
	for _, key := range keys {
		list = append(list, fmt.Sprintf("%s %v", key.Name(), s.versions[kind][key.Int16()]))
	}
	return strings.Join(list, ", ")
}

// appoint has a broker of a proxied cluster become the controller: the others do not hear that the office is free until it is taken.
func appoint(t *testing.T, c *harness.Cluster, client *zk.Conn, id int) {
	t.Helper()
	holds := fmt.Sprintf(`"brokerid":%d,`, id)
	harness.Eventually(t, limit, func() error {
		now, _, err := client.Get("/controller")
		if err != nil || strings.Contains(string(now), holds) {
			return err
		}
		for other := range c.Brokers {
			if other+1 != id {
				c.ToZooKeeper(other + 1).Set(harness.Fault{HoldReplies: true})
				defer c.ToZooKeeper(other + 1).Set(harness.Fault{})
			}
		}
		if err := client.Delete("/controller", -1); err != nil {
			return err
		}
		_, _, taken, err := client.ExistsW("/controller")
		select {
		case <-taken:
		case <-time.After(time.Second): // or taken already
		}
		return errors.Join(errTryAgain, err)
	})
	harness.Eventually(t, limit, func() error {
		if now := c.Controller(t); now != id {
			return fmt.Errorf("the controller is %d, not %d", now, id)
		}
		return nil
	})
}

// exercise lets each kind of broker be controller, leader and follower.
func exercise(t *testing.T, c *harness.Cluster, tools *tools, client *zk.Conn) {
	t.Helper()
	for _, controller := range []int{1, 2} {
		appoint(t, c, client, controller)
		topic := name("exercise")
		createAt(t, c, tools, topic, "1:2,2:1")
		fill(t, c, topic, 2, 10, 100)
		mustGregor(t, c, "cluster", "reassign", "--plan", reassign(t, topic, []int{1, 2, 3}, []int{2, 1, 3}), "--execute")
		c.AwaitInSync(t, limit, topic)
		if n := count(t, c, topic, 20); n != 20 {
			t.Errorf("%d records", n)
		}
		tools.run(t, "kafka-topics", "--delete", "--topic", topic)
		harness.Eventually(t, limit, func() error {
			if exists, _, err := client.Exists("/brokers/topics/" + topic); err != nil || exists {
				return errors.Join(errTryAgain, err)
			}
			return nil
		})
		c.AwaitInSync(t, limit)
	}
}

// TestOlderProtocol: with an older inter.broker.protocol.version, request by request, gregor sends its peers what Kafka 3.9 sends them; and
// a cluster of both is brought to a newer one by a rolling restart under load.
func TestOlderProtocol(t *testing.T) {
	harness.NeedCluster(t)
	if harness.Peer() != harness.Gregor {
		return // which is one kind only
	}
	seen := &spoken{kinds: []harness.Kind{harness.Kafka39, harness.Gregor, harness.Gregor}}
	seen.forget()
	c := harness.StartCluster(t, harness.ClusterOptions{
		Kinds: seen.kinds, Proxied: true, Requests: seen.hear, Props: map[string]string{"inter.broker.protocol.version": "2.8"},
	})
	tools := &tools{harness.JavaTools(t, harness.V39), c}
	client, _, err := zk.Connect([]string{c.ZooKeeper.Addr}, limit, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	orders := []kmsg.Key{kmsg.LeaderAndISR, kmsg.UpdateMetadata, kmsg.StopReplica, kmsg.Fetch}
	look := func(version, want, wantISR, feature string) {
		t.Helper()
		for _, kind := range []harness.Kind{harness.Kafka39, harness.Gregor} {
			if got := seen.of(kind, orders...); got != want {
				t.Errorf("%s: %s sends %s, want %s", version, kind, got, want)
			}
		}
		// Kafka asks the controller which versions it has, gregor sends what each broker of that age has.
		if got := seen.of(harness.Gregor, kmsg.AlterPartition); got != wantISR {
			t.Errorf("%s: gregor sends %s, want %s", version, got, wantISR)
		}
		if got := tools.zookeeper(t, "get", "/feature"); got != feature {
			t.Errorf("%s: /feature is %s, want %s", version, got, feature)
		}
	}
	exercise(t, c, tools, client)
	look("2.8", "LeaderAndISR [5], UpdateMetadata [7], StopReplica [3], Fetch [12]", "AlterPartition [0]", `{"features":{},"version":1,"status":1}`)

	topic := name("upgraded")
	createAt(t, c, tools, topic, "1:2:3,2:3:1,3:1:2")
	load := startLoad(t, c, topic, 3)
	for id := 1; id <= 3; id++ {
		c.SetProps(id, map[string]string{"inter.broker.protocol.version": "3.4"})
		if id == 2 {
			appoint(t, c, client, 1)
		}
		c.Stop(t, id) // which asks a controller of the other kind
		load.more(t, 50)
		c.Restart(t, id)
		c.AwaitInSync(t, limit)
	}
	for _, kind := range []harness.Kind{harness.Kafka39, harness.Gregor} {
		if got := seen.of(kind, kmsg.ControlledShutdown); got != "ControlledShutdown [3]" {
			t.Errorf("%s sends %s", kind, got)
		}
	}
	seen.forget()
	exercise(t, c, tools, client)
	look("3.4", "LeaderAndISR [7], UpdateMetadata [8], StopReplica [4], Fetch [13]", "AlterPartition [2]", `{"features":{},"version":2,"status":1}`)
	load.finish(t)
}
