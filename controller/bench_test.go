package controller

import (
	"path/filepath"
	"strconv"
	"testing"
	"unsafe"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/store/storetest"
	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/gregor-broker/gregor/wire/clock"
)

// A partition must cost little: there may be hundreds of thousands.
func TestPartitionIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(partition{}); n > 80 {
		t.Errorf("a partition takes %d bytes", n)
	}
}

func manyTopics(n int) []string {
	specs := make([]string, n)
	for i := range specs {
		specs[i] = "topic-" + strconv.Itoa(i)
	}
	return specs
}

// From the request until the leaders serve, on a file with its syncs.
func BenchmarkCreate5000Topics(b *testing.B) {
	for b.Loop() {
		start(b, openEmbedded(b, filepath.Join(b.TempDir(), "metadata"))).mustCreate(manyTopics(5000)...)
	}
}

func BenchmarkCreateTopicWith5000Partitions(b *testing.B) {
	for b.Loop() {
		start(b, openEmbedded(b, filepath.Join(b.TempDir(), "metadata"))).mustCreate("topic:5000")
	}
}

func BenchmarkRestartWith10000Partitions(b *testing.B) {
	path := filepath.Join(b.TempDir(), "metadata")
	s := openEmbedded(b, path)
	n := start(b, s)
	n.mustCreate("big:5000")
	n.mustCreate(manyTopics(5000)...)
	n.stop()
	s.Close()
	for b.Loop() {
		s := openEmbedded(b, path)
		n := start(b, s)
		b.StopTimer()
		n.stop()
		s.Close()
		b.StartTimer()
	}
}

// BenchmarkFailures10000Partitions fails a broker of three that share 10,000 partitions, and has it come back. The store is in memory and
// brokers answer at once: what is left is what the controller itself costs.
func BenchmarkFailures10000Partitions(b *testing.B) {
	f := storetest.NewFake(clock.System)
	servers := network{}
	for id := int32(1); id <= 3; id++ {
		servers[id] = newReplicaServer(b, id)
	}
	n := start(b, f.Client(), func(o *Options) { o.Transport = servers })
	register := func(id int32) *storetest.Client {
		c := f.Client()
		if _, err := c.Commit(b.Context(), store.Create(znode.BrokerPath(id), brokerNode(id).Encode(), store.Ephemeral)); err != nil {
			b.Fatal(err)
		}
		return c
	}
	register(2)
	third := register(3)
	n.waitFor(func(m *Machine) bool { return len(m.reign.brokers) == 3 })
	n.mustCreate("big:5000:3")
	specs := manyTopics(5000)
	for i := range specs {
		specs[i] += ":1:3"
	}
	n.mustCreate(specs...)
	n.waitFor(func(m *Machine) bool { return len(m.pending) == 0 }) // also what it does some seconds later
	for b.Loop() {
		third.Close()
		n.waitFor(func(m *Machine) bool { return len(m.reign.brokers) == 2 && n.quiet(m) })
		third = register(3)
		n.waitFor(func(m *Machine) bool { return len(m.reign.brokers) == 3 && n.quiet(m) })
	}
}

// BenchmarkTakeover10000Partitions has the controller move between two brokers of three that share 10,000 partitions: from the
// vanishing of its node until the last order is answered.
func BenchmarkTakeover10000Partitions(b *testing.B) {
	f := storetest.NewFake(clock.System)
	servers := network{}
	for id := int32(1); id <= 3; id++ {
		servers[id] = newReplicaServer(b, id)
	}
	third := f.Client()
	n := start(b, f.Client(), func(o *Options) { o.Transport = servers })
	if _, err := third.Commit(b.Context(), store.Create(znode.BrokerPath(3), brokerNode(3).Encode(), store.Ephemeral)); err != nil {
		b.Fatal(err)
	}
	other := start(b, f.Client(), func(o *Options) { o.Broker, o.Transport, o.Observer = brokerNode(2), servers, servers[2] })
	n.waitFor(func(m *Machine) bool { return len(m.reign.brokers) == 3 })
	n.mustCreate("big:5000:3")
	specs := manyTopics(5000)
	for i := range specs {
		specs[i] += ":1:3"
	}
	n.mustCreate(specs...)
	nodes, former := []*node{n, other}, int32(1) // epoch of the last reign
	for b.Loop() {
		if _, err := third.Commit(b.Context(), store.Delete(znode.ControllerPath, store.AnyVersion)); err != nil {
			b.Fatal(err)
		}
		for active := false; !active; {
			for _, n := range nodes {
				active = active || n.says(func(m *Machine) bool {
					if m.reign == nil || m.reign.epoch == former || !m.reign.loaded || !n.quiet(m) {
						return false
					}
					former = m.reign.epoch
					return true
				})
			}
		}
	}
}

// waitFor waits until the machine says so.
func (n *node) waitFor(ok func(*Machine) bool) {
	for !n.says(ok) {
	}
}

// says asks the machine.
func (n *node) says(ok func(*Machine) bool) bool {
	c := make(chan bool)
	n.request(func(m *Machine) {
		r := ok(m)
		m.do(Answer{nil, func() { c <- r }})
	})
	return <-c
}

// quiet says that the machine, which is the node's, waits for no commit, no reading and no order: only for time to pass. Only requests may
// call it.
func (n *node) quiet(m *Machine) bool {
	for id := range m.pending {
		if n.driver.timers[id] == nil {
			return false
		}
	}
	return m.reign == nil || m.reign.orders.empty()
}
