package controller

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// assigned adds a manual assignment to the last topic of a request: assigned[p] are the replicas of partition p, except that a
// negative first replica is the partition's number and one less.
func assigned(r *kmsg.CreateTopicsRequest, replicas ...[]int32) *kmsg.CreateTopicsRequest {
	t := &r.Topics[len(r.Topics)-1]
	for p, list := range replicas {
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition = int32(p)
		if len(list) > 0 && list[0] < 0 {
			a.Partition, list = -list[0]-1, list[1:]
		}
		a.Replicas = list
		t.ReplicaAssignment = append(t.ReplicaAssignment, a)
	}
	return r
}

func configured(r *kmsg.CreateTopicsRequest, pairs ...string) *kmsg.CreateTopicsRequest {
	for _, pair := range pairs {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		key, value, ok := strings.Cut(pair, "=")
		if c.Name = key; ok {
			c.Value = &value
		}
		r.Topics[len(r.Topics)-1].Configs = append(r.Topics[len(r.Topics)-1].Configs, c)
	}
	return r
}

func TestCreateTopicsRefusals(t *testing.T) {
	n := start(t, newStore(t), func(o *Options) { o.Settings.RefuseUnknownReplicas = true })
	n.mustCreate("there", "a.b")
	long := strings.Repeat("x", 250)
	characters := " contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
	for _, c := range []struct {
		request *kmsg.CreateTopicsRequest
		code    int16
		message string
	}{
		{newTopicRequest("there"), 36, "Topic 'there' already exists."},
		{newTopicRequest("a_b"), 17, "Topic 'a_b' collides with existing topics: a.b"},
		{newTopicRequest(""), 17, "Topic name is invalid: the empty string is not allowed"},
		{newTopicRequest("."), 17, "Topic name is invalid: '.' is not allowed"},
		{newTopicRequest(".."), 17, "Topic name is invalid: '..' is not allowed"},
		{newTopicRequest(long), 17, "Topic name is invalid: the length of '" + long + "' is longer than the max allowed length 249"},
		{newTopicRequest("a b"), 17, "Topic name is invalid: 'a b'" + characters},
		{newTopicRequest("ä"), 17, "Topic name is invalid: 'ä'" + characters},
		{newTopicRequest("__cluster_metadata"), 42, "Creation of internal topic __cluster_metadata is prohibited."},
		{newTopicRequest("n:0"), 37, "Number of partitions must be larger than 0."},
		{newTopicRequest("n:-2"), 37, "Number of partitions must be larger than 0."},
		{configured(newTopicRequest("a b:0"), "bad=1"), 17, "Topic name is invalid: 'a b'" + characters},
		{newTopicRequest("n:10001"), 44, "Excessively large number of partitions per request."},
		{newTopicRequest("n:5000", "o:5000", "p"), 44, "Excessively large number of partitions per request."},
		{newTopicRequest("n:1:0"), 38, "Replication factor must be larger than 0."},
		{newTopicRequest("n:1:2"), 38, "Replication factor: 2 larger than available brokers: 1."},
		{assigned(newTopicRequest("n:1"), []int32{1}), 42, "Both numPartitions or replicationFactor and replicasAssignments were set. Both cannot be used at the same time."},
		{assigned(newTopicRequest("n"), []int32{1}, []int32{1, 2}), 39, "All partitions should have the same number of replicas"},
		{assigned(newTopicRequest("n"), []int32{1, 1}), 39, "Duplicate replica assignment found: partition 0 has [1 1]"},
		{assigned(newTopicRequest("n"), []int32{1}, []int32{-3, 1}), 39, "partitions should be a consecutive 0-based integer sequence"},
		{assigned(newTopicRequest("n"), []int32{1}, []int32{-1, 1}), 39, "partitions should be a consecutive 0-based integer sequence"},
		{assigned(newTopicRequest("n"), []int32{}), 39, "The manual partition assignment includes an empty replica list."},
		{assigned(newTopicRequest("n"), []int32{7}), 39, "The manual partition assignment includes broker 7, but no such broker is registered."},
		{configured(newTopicRequest("n"), "a", "b"), 40, "Null value not supported for topic configs: a,b"},
		{configured(newTopicRequest("n"), "bad=1"), 40, "Unknown topic config name: bad (1)"},
	} {
		for _, validate := range []bool{true, false} {
			c.request.ValidateOnly = validate
			rt := ask(n.CreateTopics, c.request).Topics[0]
			if rt.ErrorCode != c.code || message(rt.ErrorMessage) != c.message {
				t.Errorf("%q: %d %s, want %d %s", rt.Topic, rt.ErrorCode, message(rt.ErrorMessage), c.code, c.message)
			}
			if rt.NumPartitions != -1 || rt.ReplicationFactor != -1 || rt.TopicID != [16]byte{} || len(rt.Configs) != 0 {
				t.Errorf("%q: a refusal says %+v", rt.Topic, rt)
			}
		}
	}
	if len(n.server.mu.replicas) != 2 {
		t.Errorf("something was created: %v", n.server.mu.replicas)
	}
}

func TestCreateTopicsAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, newStore(t), func(o *Options) { o.Settings.NumPartitions = 3 })
		r := configured(newTopicRequest("twice", "ok", "twice", "there.", "conf"), "retention.ms=7")
		r.ValidateOnly = true
		for round := range 2 {
			resp := ask(n.CreateTopics, r)
			var got []string
			for _, rt := range resp.Topics {
				got = append(got, fmt.Sprintf("%s %d %s %d×%d %d", rt.Topic, rt.ErrorCode, message(rt.ErrorMessage), rt.NumPartitions, rt.ReplicationFactor, len(rt.Configs)))
				if hasID := rt.TopicID != [16]byte{}; hasID != (round == 1 && rt.ErrorCode == 0) {
					t.Errorf("round %d, %s: id %x", round, rt.Topic, rt.TopicID)
				}
			}
			want := []string{"twice 42 Found multiple entries for this topic. -1×-1 0", "ok 0 <null> 3×1 0", "twice 42 Found multiple entries for this topic. -1×-1 0",
				"there. 0 <null> 3×1 0", "conf 0 <null> 3×1 1"}
			if !slices.Equal(got, want) {
				t.Errorf("round %d: %q", round, got)
			}
			r.ValidateOnly = false
		}
		if n.TopicConfigs("conf")["retention.ms"] != "7" || n.server.mu.ids["ok"] == [16]byte{} {
			t.Error("not created as asked")
		}
		if resp := ask(n.CreateTopics, assigned(newTopicRequest("manual"), []int32{-2, 1}, []int32{-1, 1})); resp.Topics[0].ErrorCode != 0 || resp.Topics[0].NumPartitions != 2 {
			t.Errorf("manual: %+v", resp.Topics[0])
		}
		now := newTopicRequest("now")
		now.TimeoutMillis = 0
		if resp := ask(n.CreateTopics, now); resp.Topics[0].ErrorCode != 7 || resp.Topics[0].ErrorMessage != nil {
			t.Errorf("without a timeout: %+v", resp.Topics[0])
		}
		// As in 3.9 a topic may be put on a broker that is not there; it has no leader until that comes.
		later := assigned(newTopicRequest("later"), []int32{7})
		later.TimeoutMillis = 30
		if resp := ask(n.CreateTopics, later); resp.Topics[0].ErrorCode != 7 || n.data(znode.StatePath("later", 0)) != "<none>" {
			t.Errorf("on a broker that is not there: %+v", resp.Topics[0])
		}
		if resp := n.delete("later", "now"); resp.Topics[0].ErrorCode != 0 || resp.Topics[1].ErrorCode != 0 {
			t.Errorf("deleting those: %+v", resp.Topics)
		}
		if resp := n.create("later"); resp.Topics[0].ErrorCode != 36 || message(resp.Topics[0].ErrorMessage) != "Topic 'later' is marked for deletion." {
			t.Errorf("while its broker is down: %d %s", resp.Topics[0].ErrorCode, message(resp.Topics[0].ErrorMessage))
		}
	})
}

func TestNextState(t *testing.T) {
	for _, c := range []struct {
		name     string
		replicas []int32
		isr      []int32
		leader   int32
		version  int32
		dead     []int32
		shrink   bool
		unclean  bool
		want     string // leader epoch isr, "" no change
	}{
		{"new", []int32{2, 1, 3}, nil, -1, -1, nil, false, false, "2 0 [2 1 3]"},
		{"new, preferred leader dead", []int32{2, 1, 3}, nil, -1, -1, []int32{2}, false, false, "1 0 [1 3]"},
		{"new, all dead", []int32{2}, nil, -1, -1, []int32{2}, false, true, ""},
		{"online", []int32{2, 1}, []int32{2, 1}, 2, 5, nil, true, false, ""},
		{"online, another leader than preferred", []int32{2, 1}, []int32{2, 1}, 1, 5, nil, true, false, ""},
		{"follower dead at failover", []int32{2, 1}, []int32{2, 1}, 2, 5, []int32{1}, false, false, ""},
		{"follower fails", []int32{2, 1}, []int32{2, 1}, 2, 5, []int32{1}, true, false, "2 8 [2]"},
		{"leader fails", []int32{2, 1, 3}, []int32{3, 2, 1}, 2, 5, []int32{2}, true, false, "1 8 [3 1]"},
		{"leader fails, next not in sync", []int32{2, 1, 3}, []int32{2, 3}, 2, 5, []int32{2}, true, false, "3 8 [3]"},
		{"sole in-sync replica fails", []int32{2, 1}, []int32{2}, 2, 5, []int32{2}, true, false, "-1 8 [2]"},
		{"unclean", []int32{2, 1}, []int32{2}, 2, 5, []int32{2}, true, true, "1 8 [1] recovering"},
		{"unclean allowed but not needed", []int32{2, 1}, []int32{2, 1}, 2, 5, []int32{2}, true, true, "1 8 [1]"},
		{"all in-sync replicas fail", []int32{2, 1}, []int32{1, 2}, 2, 5, []int32{1, 2}, true, false, "-1 8 [1 2]"},
		{"offline stays", []int32{2, 1}, []int32{2}, -1, 5, []int32{2}, true, false, ""},
		{"offline comes back", []int32{2, 1}, []int32{2}, -1, 5, nil, false, false, "2 8 [2]"},
		{"the leader was not in sync, as somebody wrote", []int32{2, 1}, []int32{1, 9}, 2, 5, nil, true, false, "1 8 [1 9]"},
		{"nor is anybody else", []int32{2, 1}, []int32{}, 2, 5, nil, true, false, "-1 8 []"},
		{"all dead, unclean", []int32{2}, []int32{2}, -1, 5, []int32{2}, false, true, ""},
	} {
		p := &partition{replicas: c.replicas, isr: c.isr, leader: c.leader, leaderEpoch: 7, version: c.version}
		live := func(id int32) bool { return !slices.Contains(c.dead, id) }
		s, change := nextState(p, view{c.replicas, live, live, true}, c.shrink, func() bool { return c.unclean })
		got := ""
		if change {
			got = fmt.Sprintf("%d %d %v", s.Leader, s.LeaderEpoch, s.ISR)
			if s.Recovering {
				got += " recovering"
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if !slices.Equal(p.isr, c.isr) || p.leader != c.leader {
			t.Errorf("%s: the rule changed the partition", c.name)
		}
	}
}
