package doctor

import (
	"bytes"
	"context"
	"io"
	"net"
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
		}},
		dirs: kadm.DescribedAllLogDirs{
			2: {"/a": {Broker: 2, Dir: "/a", Topics: kadm.DescribedLogDirTopics{"t": {1: {Topic: "t", Partition: 1, OffsetLag: 77}}}}},
			3: {"/a": {Broker: 3, Dir: "/a", Err: kerr.KafkaStorageError}},
			4: {"/a": {Broker: 4, Dir: "/a"}},
		},
	}
	wants(t, "whole", topic.judge(0), false, "t-0 (its replicas are being reassigned): broker 1 leads, 2 replicas in sync")
	wants(t, "under-replicated", topic.judge(1), true, "1 of 5 replicas in sync", "broker 2 is 77 records behind", "broker 3 runs, but its log directories /a have failed",
		"broker 4 runs and does not hold it", "broker 5 does not run", "acks=all are refused: min.insync.replicas is 2")
	wants(t, "leaderless", topic.judge(2), true, "it has no leader")
	wants(t, "all", topic.judge(-1), true, "ok    t-0", "WRONG t-1", "WRONG t-2")
	wants(t, "none", topic.judge(9), true, "no such partition")
}

func TestGroup(t *testing.T) {
	member := func(id string) kadm.DescribedGroupMember {
		return kadm.DescribedGroupMember{MemberID: id, ClientID: "c-" + id, ClientHost: "/10.0.0.1"}
	}
	of := func(state string, members ...kadm.DescribedGroupMember) *groupState {
		g := kadm.DescribedGroup{State: state, Protocol: "range", Members: members}
		return &groupState{name: "g", was: g, is: g}
	}
	wants(t, "stable", of("Stable", member("a")).judge(), false, "stable, 1 member, assignor range", "0 records behind")
	wants(t, "rebalancing", of("PreparingRebalance", member("a"), member("b")).judge(), true, "waits for members to join again", "c-a at /10.0.0.1, c-b at")
	wants(t, "empty", of("Empty").judge(), true, "nobody is in it")
	wants(t, "dead", of("Dead").judge(), true, "does not exist")
	restless := of("Stable", member("a"), member("b"))
	restless.is.Members = []kadm.DescribedGroupMember{member("a"), member("c")}
	wants(t, "restless", restless.judge(), true, "1 came, 1 went")
	wants(t, "no coordinator", (&groupState{name: "g", err: kerr.CoordinatorNotAvailable, offsetsGone: true}).judge(), true, "offsets.topic.replication.factor")
	wants(t, "an error", (&groupState{name: "g", err: kerr.GroupAuthorizationFailed}).judge(), true, "GROUP_AUTHORIZATION_FAILED")
	behind := of("Stable")
	behind.lag.Lag = kadm.GroupLag{"t": {0: {
		Topic: "t", Lag: 60, Commit: kadm.Offset{Topic: "t", At: 3}, Start: kadm.ListedOffset{Offset: 40}, End: kadm.ListedOffset{Offset: 63},
	}}}
	wants(t, "too late", behind.judge(), true, "t-0 (committed 3, the log starts at 40)")
}

// A broker that does not go by gregor.extensions is wrong only where others do.
func TestJudgeExtensions(t *testing.T) {
	wants(t, "off", judgeExtensions(map[int32]bool{1: false, 2: false}), false, "ok    broker 1\n", "ok    broker 2\n")
	wants(t, "on", judgeExtensions(map[int32]bool{1: true, 2: true}), false, "ok    broker 2: gregor.extensions is on")
	wants(t, "mixed", judgeExtensions(map[int32]bool{1: true, 2: false, 3: true}), true, "WRONG broker 2: it does not go by gregor.extensions, which is on",
		"gregor cluster extensions off", "ok    broker 3")
}
