package harness

import (
	"os"
	"sync"
	"testing"
)

// shared is the broker that the tests of one package use together.
var shared struct {
	sync.Mutex
	broker *Broker
	err    error
}

// Shared returns a broker of kind Peer() with default settings that all tests of the package use: each with topics and
// groups of its own names. It is stopped after the last one.
func Shared(t testing.TB) *Broker {
	t.Helper()
	return SharedWith(t, nil)
}

// SharedWith is Shared with lines of server.properties, which must be the same in all tests of a package.
func SharedWith(t testing.TB, props map[string]string) *Broker {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.err != nil {
		t.Fatalf("the shared broker did not start: %v", shared.err)
	}
	if shared.broker != nil {
		if shared.broker.process.ended() {
			t.Fatalf("the shared broker has ended:\n%s", tail(shared.broker.process.log(), 4000))
		}
		return shared.broker
	}
	dir, err := os.MkdirTemp("", "gregor-compat-")
	if err != nil {
		t.Fatal(err)
	}
	atEnd.add(func() { _ = os.RemoveAll(dir) })
	b, err := newBroker(Options{Dir: dir, Props: props}, nil)
	if err == nil {
		atEnd.add(b.discard)
		err = b.start()
	}
	if shared.err = err; err != nil {
		t.Fatal(err)
	}
	shared.broker = b
	return b
}

// sharedOne is the cluster of one broker that the tests of one package use together.
var sharedOne sharing

// oneReplica is what a cluster of one broker needs to be told.
var oneReplica = map[string]string{
	"default.replication.factor":               "1",
	"min.insync.replicas":                      "1",
	"offsets.topic.replication.factor":         "1",
	"transaction.state.log.replication.factor": "1",
	"transaction.state.log.min.isr":            "1",
}

// SharedOnZooKeeper returns the only broker of a cluster on ZooKeeper, of kind Peer(), that all tests of the package use: each with
// topics and groups of its own names. The test is skipped where the kind knows no ZooKeeper.
func SharedOnZooKeeper(t testing.TB) *Broker {
	t.Helper()
	NeedCluster(t)
	c := sharedOne.start(t, ClusterOptions{Kinds: []Kind{Peer()}, Props: oneReplica})
	if c.Broker(1).process.ended() {
		c.logTails(t)
		t.Fatal("the shared broker on ZooKeeper has ended")
	}
	return c.Broker(1)
}
