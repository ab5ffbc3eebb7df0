package groupcoord

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/wire/clock"
)

// TestStatesAreKafkas holds the states of classic groups to an Apache Kafka of that version, and testdata/consumer-states.txt to a 4.4.0,
// as far as they are not about time, loading and transactions. Start it afresh with
//
//	group.initial.rebalance.delay.ms=0
//	group.consumer.assignment.interval.ms=0
//
// (the second one is unknown to 3.9.2), create the topics "t" with one partition, "ta" with four and "tb" with two, and run
//
//	go test ./groupcoord -run TestStatesAreKafkas/4.4.0 -kafka 127.0.0.1:9092
func TestStatesAreKafkas(t *testing.T) {
	if *kafka == "" {
		t.Skip("-kafka does not say where an Apache Kafka is")
	}
	c := dialKafka(t, *kafka)
	ids := c.topicIDs("ta", "tb")
	(&script{do: c.do, wait: pass, find: c.find}).awaitCoordinator()
	c.conn.Close()
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			classicStatesAre(t, version)
			if version == "4.4.0" {
				consumerStatesAre(t, ids)
			}
		})
	}
}

func classicStatesAre(t *testing.T, version string) {
	want := goldenStates(t, statesFile(version))
	for i, s := range situations {
		for k, h := range happenings {
			if onlyOurs(s.name, h.name) {
				continue
			}
			w := remoteWorld(t, fmt.Sprint("classic-", i, "-", k))
			j := s.enter(w)
			answer := h.send(w, j)
			if answer != nil {
				answer = due(answer, want[[2]string{s.name, h.name}])
			}
			w.settle()
			w.compare(want, s.name, h.name, outcome(answer)+" "+w.summary("g"))
			w.kafka.close()
		}
	}
}

func consumerStatesAre(t *testing.T, ids map[string][16]byte) {
	want := goldenStates(t, "testdata/consumer-states.txt")
	for i, from := range scenes {
		for k, e := range append(beats(), otherSteps...) {
			if onlyOurs(from.name, e.name) {
				continue
			}
			w := remoteWorld(t, fmt.Sprint("consumer-", i, "-", k))
			s := &scene{world: w, script: script{topics: ids}, epoch: 1}
			from.enter(s)
			w.settle()
			answer := due(e.send(s), want[[2]string{from.name, e.name}])
			w.settle()
			w.compare(want, from.name, e.name, outcome(answer)+" "+s.is())
			w.kafka.close()
		}
	}
}

// onlyOurs says whether a situation or a happening is one that only our own world can do.
func onlyOurs(words ...string) bool {
	for _, w := range words {
		for _, part := range []string{"s pass", "partition lost", "transaction", "topic grows", "topic goes", "refused:", "loaded again", "first rebalance"} {
			if strings.Contains(w, part) {
				return true
			}
		}
	}
	return false
}

// remoteWorld is a world whose group is the Apache Kafka's.
func remoteWorld(t *testing.T, name string) *world {
	return &world{t: t, topics: newTopics(), kafka: &remoteGroup{t: t, addr: *kafka, prefix: fmt.Sprintf("states-%d-%s-", os.Getpid(), name)}}
}

// due gives an answer that there should be some more time.
func due(answer <-chan kmsg.Response, want string) <-chan kmsg.Response {
	if strings.HasPrefix(want, "waits ") {
		return answer
	}
	late, timer := clock.System.NewTimer(10 * time.Second)
	defer timer.Stop()
	again := make(chan kmsg.Response, 1)
	select {
	case r := <-answer:
		again <- r
	case <-late:
	}
	return again
}

// goldenStates reads a file of states: what comes of each happening, by situation and happening.
func goldenStates(t *testing.T, file string) map[[2]string]string {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found, situation := map[[2]string]string{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		if !strings.HasPrefix(line, "  ") {
			situation = line
			continue
		}
		name, rest, _ := strings.Cut(line[2:], "  ")
		found[[2]string{situation, name}] = strings.Join(strings.Fields(rest), " ")
	}
	return found
}

func (w *world) compare(want map[[2]string]string, situation, happening, got string) {
	w.t.Helper()
	got = strings.Join(strings.Fields(got), " ")
	if wanted := want[[2]string{situation, happening}]; got != wanted {
		w.t.Errorf("%s: %s\n Kafka %s\n  ours %s", situation, happening, got, wanted)
	}
}

// remoteGroup is a group, of whatever name, at an Apache Kafka.
type remoteGroup struct {
	t      *testing.T
	addr   string
	prefix string // of its name
	conns  []*kafkaConn
}

// send sends a request on a connection of its own, since the next may not wait for its answer.
func (g *remoteGroup) send(v int16, r kmsg.Request) <-chan kmsg.Response {
	switch r := r.(type) {
	case *kmsg.DescribeGroupsRequest:
		r.Groups = g.named(r.Groups)
	case *kmsg.ConsumerGroupDescribeRequest:
		r.Groups = g.named(r.Groups)
	case *kmsg.DeleteGroupsRequest:
		r.Groups = g.named(r.Groups)
	case *kmsg.OffsetFetchRequest:
		r.Group = g.prefix + r.Group
		for i := range r.Groups {
			r.Groups[i].Group = g.prefix + r.Groups[i].Group
		}
	case *kmsg.JoinGroupRequest:
		r.Group = g.prefix + r.Group
	case *kmsg.SyncGroupRequest:
		r.Group = g.prefix + r.Group
	case *kmsg.HeartbeatRequest:
		r.Group = g.prefix + r.Group
	case *kmsg.LeaveGroupRequest:
		r.Group = g.prefix + r.Group
	case *kmsg.OffsetCommitRequest:
		r.Group = g.prefix + r.Group
	case *kmsg.OffsetDeleteRequest:
		r.Group = g.prefix + r.Group
	case *kmsg.ConsumerGroupHeartbeatRequest:
		r.Group = g.prefix + r.Group
	default:
		g.t.Fatalf("%T has no group", r)
	}
	c := dialKafka(g.t, g.addr)
	g.conns = append(g.conns, c)
	answer := make(chan kmsg.Response, 1)
	go func() {
		if resp, err := c.ask(v, r); err == nil {
			answer <- resp
		}
	}()
	return answer
}

func (g *remoteGroup) named(groups []string) []string {
	var named []string
	for _, group := range groups {
		named = append(named, g.prefix+group)
	}
	return named
}

// settle gives Kafka time: there is no telling when it has none left to do.
func (g *remoteGroup) settle() { pass(300 * time.Millisecond) }

// recreate deletes a topic and creates it again.
func (g *remoteGroup) recreate(name string) {
	c := dialKafka(g.t, g.addr)
	defer c.conn.Close()
	del := kmsg.NewPtrDeleteTopicsRequest()
	del.TopicNames, del.TimeoutMillis = []string{name}, 30_000
	c.do(1, del)
	g.settle()
	create := kmsg.NewPtrCreateTopicsRequest()
	create.TimeoutMillis = 30_000
	create.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: name, NumPartitions: 1, ReplicationFactor: 1}}
	for c.do(2, create).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode != 0 { // it is not gone yet
		g.settle()
	}
}

// close ends the connections.
func (g *remoteGroup) close() {
	for _, c := range g.conns {
		c.conn.Close()
	}
}
