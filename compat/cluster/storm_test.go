package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gregor-broker/gregor/compat/cluster/history"
	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/controller/znode"
)

// storm is an operator in a great hurry, beside a campaign: topics come, grow, move and go, controllers lose their office, and one broker
// at a time is killed, stopped or paused, in any order and without waiting for anything.
type storm struct {
	*campaign
	admin *kadm.Client
	tree  *zk.Conn
	down  int           // the broker that is broken, 0 if none is
	since time.Duration // it has been paused, in the history's time; 0 if it does not run
	count map[string]int
}

var stormTopics = []string{"storm-a", "storm-b", "storm-c"}

// TestSoakStorm lets a storm rage for as long as GREGOR_SOAK says ("make soak"). Then all that was begun comes to its end, the history
// is right, and on the disks are the assigned replicas, no others.
func TestSoakStorm(t *testing.T) {
	text := os.Getenv("GREGOR_SOAK")
	if text == "" {
		return
	}
	lasts, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("GREGOR_SOAK: %v", err)
	}
	harness.NeedCluster(t)
	c := harness.StartCluster(t, harness.ClusterOptions{})
	tree, _, err := zk.Connect([]string{c.ZooKeeper.Addr}, limit, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tree.Close)
	s := &storm{campaign: startCampaign(t, c, seed(t)), admin: kadm.NewClient(c.Client(t, kgo.RequestRetries(3))), tree: tree,
		count: map[string]int{}}
	s.admin.SetTimeoutMillis(4000)
	for began := time.Now(); time.Since(began) < lasts; {
		s.blow(t)
		harness.Elapse(t, time.Duration(s.random.IntN(400))*time.Millisecond)
	}
	s.mend(t)
	t.Log(s.count)
	harness.Eventually(t, 2*limit, func() error { return s.settled(t.Context()) })
	s.judge(t)
	harness.Eventually(t, limit, func() error { return s.disks(t.Context()) })
}

// blow does one thing. That it fails is all right: the topic may not be there, or whoever should do it is down.
func (s *storm) blow(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
	defer cancel()
	topic := stormTopics[s.random.IntN(len(stormTopics))]
	what, n := "", s.random.IntN(22)
	var err error
	switch {
	case n < 3:
		what = "create"
		_, err = s.admin.CreateTopic(ctx, int32(1+s.random.IntN(4)), int16(1+s.random.IntN(3)), nil, topic)
	case n < 6:
		what = "delete"
		_, err = s.admin.DeleteTopic(ctx, topic)
	case n < 8:
		what = "grow"
		var all kadm.CreatePartitionsResponses
		if all, err = s.admin.CreatePartitions(ctx, 1, topic); err == nil {
			err = all.Error()
		}
	case n < 11:
		what, err = "reassign", s.reassign(ctx, topic, s.replicas()[:1+s.random.IntN(3)])
	case n == 11:
		what, err = "reorder", s.reassign(ctx, campaignTopic, s.replicas())
	case n < 14:
		what, err = "cancel", s.cancelMoves(ctx, topic)
	case n == 14:
		what = "elect"
		_, err = s.admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, nil)
	case n == 15:
		what, err = "depose the controller", s.tree.Delete(znode.ControllerPath, -1)
	case s.down != 0 && n >= 19:
		what = "mend"
		s.mend(t)
	case s.down == 0 && n < 20:
		what = s.breakOne(t, n)
	default:
		return
	}
	if err != nil {
		what += " (failed)"
	}
	s.count[what]++
}

// replicas are all brokers in any order.
func (s *storm) replicas() []int32 {
	ids := []int32{1, 2, 3}
	s.random.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids
}

func (s *storm) reassign(ctx context.Context, topic string, replicas []int32) error {
	r := kadm.AlterPartitionAssignmentsReq{}
	r.Assign(topic, int32(s.random.IntN(campaignPartitions)), replicas)
	return s.alter(ctx, r)
}

func (s *storm) cancelMoves(ctx context.Context, topic string) error {
	r := kadm.AlterPartitionAssignmentsReq{}
	for p := range int32(3) {
		r.CancelAssign(topic, p)
	}
	return s.alter(ctx, r)
}

func (s *storm) alter(ctx context.Context, r kadm.AlterPartitionAssignmentsReq) error {
	all, err := s.admin.AlterPartitionAssignments(ctx, r)
	if err != nil {
		return err
	}
	return all.Error()
}

// breakOne kills, stops or pauses a broker.
func (s *storm) breakOne(t *testing.T, n int) string {
	s.down = 1 + s.random.IntN(3)
	switch {
	case n < 18:
		s.cluster.Kill(s.down)
		return "kill"
	case n == 18:
		s.cluster.Stop(t, s.down)
		return "stop"
	}
	s.since = s.record.Now()
	s.cluster.Pause(s.down)
	return "pause"
}

// mend brings the broken broker back, if there is one.
func (s *storm) mend(t *testing.T) {
	if err := s.cluster.Mend(); err != nil {
		t.Fatal(err)
	}
	if s.since > 0 {
		s.record.Add(history.Event{Kind: history.Broken, Client: on("pause", s.down), Begin: s.since})
	}
	s.down, s.since = 0, 0
}

// settled reports what is still under way: moves and deletions.
func (s *storm) settled(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 6*time.Second)
	defer cancel()
	moves, err := s.admin.ListPartitionReassignments(ctx, nil)
	if err != nil {
		return err
	}
	if len(moves) > 0 {
		return fmt.Errorf("moves are under way: %v", moves)
	}
	for _, topic := range stormTopics {
		if exists, _, err := s.tree.Exists(znode.DeleteTopicPath(topic)); exists || err != nil {
			return fmt.Errorf("%s is still being deleted: %v", topic, err)
		}
	}
	return nil
}

// disks compares the folders of all brokers with the assigned replicas.
func (s *storm) disks(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 6*time.Second)
	defer cancel()
	topics, err := s.admin.ListTopicsWithInternal(ctx)
	if err == nil {
		err = topics.Error()
	}
	if err != nil {
		return err
	}
	var want, got []string
	for _, topic := range topics {
		for _, p := range topic.Partitions {
			for _, id := range p.Replicas {
				want = append(want, fmt.Sprintf("%d/%s-%d", id, topic.Topic, p.Partition))
			}
		}
	}
	for id := 1; id <= 3; id++ {
		entries, err := os.ReadDir(s.cluster.Broker(id).DataDir())
		if err != nil {
			return err
		}
		for _, e := range entries {
			if e.IsDir() && !strings.HasSuffix(e.Name(), "-delete") {
				got = append(got, fmt.Sprintf("%d/%s", id, e.Name()))
			}
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		return errors.Join(fmt.Errorf("on the disks are %v", got), fmt.Errorf("assigned are %v", want))
	}
	return nil
}
