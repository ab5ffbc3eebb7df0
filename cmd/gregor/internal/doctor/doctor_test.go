package doctor

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// said is a report as it is printed.
func said(t *testing.T, findings []finding) (text string, bad bool) {
	t.Helper()
	var b bytes.Buffer
	err := report(&b, findings)
	return b.String(), err != nil
}

func wants(t *testing.T, what string, findings []finding, bad bool, words ...string) {
	t.Helper()
	text, wrong := said(t, findings)
	if wrong != bad {
		t.Errorf("%s: wrong %v:\n%s", what, wrong, text)
	}
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%s: it does not say %q:\n%s", what, w, text)
		}
	}
}

// peer answers on an address with a function, as long as the test runs.
func peer(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serve(conn)
			conn.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

func TestConnect(t *testing.T) {
	closed := peer(t, func(net.Conn) {})
	web := peer(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 1024))
		_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
	})
	for _, w := range []struct{ address, words string }{
		{closed, "closes the connection at the first request"}, {web, "does not speak Kafka's protocol"},
		{"127.0.0.1:1", "nothing listens there"}, {"no.such.name.invalid:9092", "cannot be looked up"}, {"no-port", "cannot be looked up"},
	} {
		wants(t, w.address, connect(context.Background(), []string{w.address}), true, w.words)
	}
	cluster := &kmsg.MetadataResponse{ControllerID: 3, Brokers: []kmsg.MetadataResponseBroker{{NodeID: 1}}}
	wants(t, "no controller", []finding{judgeController(cluster)}, true, "has none that lives")
	cluster.ControllerID = 1
	wants(t, "a controller", []finding{judgeController(cluster)}, false, "broker 1")
}

func TestPartition(t *testing.T) {
	topic := &topicState{
		alive: map[int32]bool{1: true, 2: true, 3: true, 4: true}, minISR: 2, moving: map[int32]bool{0: true},
		detail: kadm.TopicDetail{Topic: "t", Partitions: kadm.PartitionDetails{
			0: {Topic: "t", Partition: 0, Leader: 1, Replicas: []int32{1, 2}, ISR: []int32{1, 2}},
			1: {Topic: "t", Partition: 1, Leader: 1, Replicas: []int32{1, 2, 3, 4, 5}, ISR: []int32{1}},
			2: {Topic: "t", Partition: 2, Leader: -1, Replicas: []int32{5}, ISR: []int32{5}},
			3: {Topic: "t", Partition: 3, Leader: -1, Replicas: []int32{2, 5}, ISR: []int32{5}},
			4: {Topic: "t", Partition: 4, Leader: 2, Replicas: []int32{1, 2}, ISR: []int32{2}},
		}},
		dirs: kadm.DescribedAllLogDirs{
			2: {"/a": {Broker: 2, Dir: "/a", Topics: kadm.DescribedLogDirTopics{"t": {1: {Topic: "t", Partition: 1, OffsetLag: 77}}}}},
			3: {"/a": {Broker: 3, Dir: "/a", Err: kerr.KafkaStorageError}},
			4: {"/a": {Broker: 4, Dir: "/a"}},
		},
	}
	wants(t, "whole", topic.judge([]int32{0}), false, "t-0 (its replicas are being reassigned): broker 1 leads, 2 replicas in sync")
	wants(t, "under-replicated", topic.judge([]int32{1}), true, "1 of 5 replicas in sync", "broker 2 is 77 records behind", "broker 3 runs, but its log directories /a have failed",
		"broker 4 runs and does not hold it", "broker 5 does not run", "acks=all are refused: min.insync.replicas is 2")
	wants(t, "leaderless", topic.judge([]int32{2}), true, "it has no leader: of the replicas that were in sync, broker 5 does not run",
		"Start that broker again: nobody else has all that was acknowledged.\n")
	wants(t, "leaderless, with another", topic.judge([]int32{3}), true, "broker 5 does not run", "broker 2 runs and does not hold it",
		"gregor cluster elect --unclean t:3")
	wants(t, "silent", topic.judge([]int32{4}), true, "broker 1 is registered and does not answer")
	wants(t, "all", topic.judge(nil), true, "ok    t-0", "WRONG t-1", "WRONG t-2")
	wants(t, "none", topic.judge([]int32{9}), true, "no such partition")
}

func TestGroup(t *testing.T) {
	member := func(id string) kadm.DescribedGroupMember {
		return kadm.DescribedGroupMember{MemberID: id, ClientID: "c-" + id, ClientHost: "/10.0.0.1"}
	}
	look := func(state string, members ...kadm.DescribedGroupMember) kadm.DescribedGroupLag {
		return kadm.DescribedGroupLag{Group: "g", State: state, Protocol: "range", Members: members}
	}
	of := func(looks ...kadm.DescribedGroupLag) *groupState {
		g := &groupState{name: "g", was: looks[0], watched: lookFor}
		for _, l := range looks {
			g.see(l)
		}
		return g
	}
	reads := func(l kadm.DescribedGroupLag, committed int64) kadm.DescribedGroupLag {
		l.Lag = kadm.GroupLag{"t": {0: {
			Topic: "t", Lag: 63 - committed, Commit: kadm.Offset{Topic: "t", At: committed}, End: kadm.ListedOffset{Offset: 63}, Member: &l.Members[0],
		}}}
		return l
	}
	stable := look("Stable", member("a"))
	wants(t, "stable", of(reads(stable, 63)).judge(), false, "stable, 1 member, assignor range", "0 records behind")
	wants(t, "rebalancing", of(look("PreparingRebalance", member("a"), member("b"))).judge(), true, "waits for members to join again", "c-a at /10.0.0.1, c-b at")
	wants(t, "empty", of(look("Empty")).judge(), true, "nobody is in it")
	wants(t, "dead", of(look("Dead")).judge(), true, "does not exist")
	wants(t, "members come and go", of(look("Stable", member("a"), member("b")), look("Stable", member("a"), member("c"))).judge(), true,
		"it rebalances again and again: in 6s 1 members came and 1 went")
	wants(t, "it was stable only now", of(look("CompletingRebalance", member("a")), stable).judge(), true, "it rebalances again and again")
	wants(t, "goes on", of(reads(stable, 3), reads(stable, 13)).judge(), false, "1 partition among 1 member", "50 records behind, 10 records handled in 6s")
	wants(t, "stands still", of(reads(stable, 3), reads(stable, 3)).judge(), true, "60 records behind, and nothing was committed in 6s", "c-a at /10.0.0.1")
	wants(t, "has read all", of(reads(stable, 63), reads(stable, 63)).judge(), false, "0 records behind")
	wants(t, "too many", of(reads(look("Stable", member("a"), member("b")), 63)).judge(), true, "1 of 2 members have no partition")
	moving := of(look("Reconciling", member("a")))
	moving.holders = []string{"c-a at /10.0.0.1 has yet to give up t-0"}
	wants(t, "reconciling", moving.judge(), true, "it moves to a new assignment", "c-a at /10.0.0.1 has yet to give up t-0.")
	wants(t, "no coordinator", (&groupState{name: "g", err: kerr.CoordinatorNotAvailable, offsetsGone: true}).judge(), true, "offsets.topic.replication.factor")
	wants(t, "an error", (&groupState{name: "g", err: kerr.GroupAuthorizationFailed}).judge(), true, "GROUP_AUTHORIZATION_FAILED")
	behind := of(stable)
	behind.is.Lag = kadm.GroupLag{"t": {0: {
		Topic: "t", Lag: 60, Commit: kadm.Offset{Topic: "t", At: 3}, Start: kadm.ListedOffset{Offset: 40}, End: kadm.ListedOffset{Offset: 63},
	}}}
	wants(t, "too late", behind.judge(), true, "t-0 (committed 3, the log starts at 40)")
}

func TestAddresses(t *testing.T) {
	cluster := &kmsg.MetadataResponse{Brokers: []kmsg.MetadataResponseBroker{
		{NodeID: 1, Host: "h", Port: 9092}, {NodeID: 2, Host: "h", Port: 9093}, {NodeID: 3, Host: "h", Port: 9092},
	}}
	wants(t, "shared", judgeAddresses(cluster), true, "address h:9092: clients are told that brokers 1 and 3 are both there")
	cluster.Brokers = cluster.Brokers[:2]
	wants(t, "each its own", judgeAddresses(cluster), false)
}

func TestGroups(t *testing.T) {
	groups := kadm.ListedGroups{"a": {Group: "a", State: "Stable"}, "b": {Group: "b", State: "Empty"}}
	wants(t, "calm", judgeGroups(groups, nil), false, "groups: none of 2 rebalances")
	wants(t, "one not asked", judgeGroups(groups, kerr.BrokerNotAvailable), true, "not all brokers say which they have: BROKER_NOT_AVAILABLE")
	groups["c"] = kadm.ListedGroup{Group: "c", State: "Assigning"}
	wants(t, "one moves", judgeGroups(groups, nil), true, "WRONG group c: it rebalances (Assigning)", "gregor doctor group c")
}

// A broker that does not go by gregor.extensions is wrong only where others do.
func TestCluster(t *testing.T) {
	with := func(known map[int32]bool) *clusterState { return &clusterState{extended: known} }
	wants(t, "off", with(map[int32]bool{1: false, 2: false}).judge(), false, "ok    broker 1\n", "ok    broker 2\n")
	wants(t, "on", with(map[int32]bool{1: true, 2: true}).judge(), false, "ok    broker 2: gregor.extensions is on")
	wants(t, "mixed", with(map[int32]bool{1: true, 2: false, 3: true}).judge(), true, "WRONG broker 2: it does not go by gregor.extensions, which is on",
		"gregor cluster extensions off", "ok    broker 3")
	alone := &clusterState{extended: map[int32]bool{1: true, 2: true}, cutOff: map[int32]bool{1: false, 2: true}}
	wants(t, "alone", alone.judge(), true, "ok    broker 1: ", "WRONG broker 2: it serves clients, but ZooKeeper does not answer it")
	broken := &clusterState{extended: map[int32]bool{1: false}, silent: map[int32]error{2: os.ErrDeadlineExceeded}, away: map[int32]int{3: 7, 4: 1}}
	wants(t, "broken", broken.judge(), true, "ok    broker 1\n", "WRONG broker 2: it is registered and does not answer: it takes connections and says nothing",
		"WRONG broker 3: it is not in the cluster, and 7 partitions have replicas on it", "--drain 3", "WRONG broker 4: it is not in the cluster, and 1 partition has")
}
