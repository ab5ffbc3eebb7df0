package replica

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/log/vfs"
)

// TestReplication: acks=all is answered when all have it, and consumers see it then.
func TestReplication(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		c.elect(1)
		leader := c.nodes[1]
		for i := range 20 {
			leader.mustProduce(value(i))
			for id, n := range c.nodes {
				if b := n.bounds(); b.End != int64(i+1) {
					t.Errorf("acknowledged, but %d ends at %d", id, b.End)
				}
			}
		}
		c.settle()
		c.same()
		if r := leader.get(look(), from("t", 0, 0))[0]; r.Err != nil || r.HighWatermark != 20 || r.Records.Size() != len(leader.bytes()) {
			t.Errorf("a consumer gets %d bytes, %v, high watermark %d", r.Records.Size(), r.Err, r.HighWatermark)
		}
	})
}

// TestReassignmentBytes: what comes and goes for a replica that a reassignment adds is told apart.
func TestReassignmentBytes(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		c.mu.adding = []int32{3}
		c.elect(1, 1, 2)
		c.nodes[1].mustProduce(value(0))
		c.settle()
		size := len(c.nodes[1].bytes())
		c.mu.Lock()
		got := maps.Clone(c.mu.added)
		c.mu.adding = nil
		c.mu.Unlock()
		if want := map[int32][2]int{1: {0, size}, 3: {size, 0}}; !maps.Equal(got, want) {
			t.Errorf("bytes of reassignments %v, want %v", got, want)
		}
		c.elect(1, 1, 2, 3)
		c.nodes[1].mustProduce(value(1))
		c.settle()
		c.mu.Lock()
		defer c.mu.Unlock()
		if !maps.Equal(got, c.mu.added) {
			t.Errorf("what comes after the reassignment counts: %v", c.mu.added)
		}
	})
}

// TestDivergence: a leader that was cut off has records of its own; it drops them when it is back, whatever epochs were
// in between, and never acknowledged them.
func TestDivergence(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		c.elect(1)
		c.nodes[1].mustProduce("kept")
		c.isolate(1)
		lost := c.nodes[1].produce(time.Second, "lost")
		c.nodes[1].mustPut("t", 0, batch(t, record.Gzip, "lost, too", 1, 2, 3))
		c.elect(2, 2, 3)
		c.nodes[2].mustProduce("of epoch 2")
		c.elect(3, 2, 3)
		c.nodes[3].mustProduce("of epoch 3")
		if r := <-lost; !errors.Is(r.Err, kerr.RequestTimedOut) {
			t.Errorf("what was lost was answered with %v", r.Err)
		}
		c.rejoin(1)
		c.tell(1)
		c.settle()
		c.same()
		if got := c.isr(); !slices.Equal(got, []int32{1, 2, 3}) {
			t.Errorf("the ISR is %v", got)
		}
		if b := c.nodes[1].bounds(); b.End != 3 || b.HighWatermark != 3 {
			t.Errorf("%+v", b)
		}
	})
}

// TestEmptyEpochs: leaders that wrote nothing leave no trace for which others would part.
func TestEmptyEpochs(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		c.elect(1)
		c.nodes[1].mustProduce("a")
		for _, leader := range []int32{2, 3, 1, 3} {
			c.elect(leader)
		}
		c.nodes[3].mustProduce("b")
		c.settle()
		c.same()
	})
}

// TestInSyncReplicas: one that is gone leaves the ISR after the lag limit and then holds nothing up; one that is back
// joins when it has everything.
func TestInSyncReplicas(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		c.nodes[1].minISR["t"] = 2
		c.elect(1)
		c.nodes[1].mustProduce("a")
		c.isolate(3)
		started := c.nodes[1].clock.Monotonic()
		c.nodes[1].mustProduce("b") // waits for 3 to leave
		if d := c.nodes[1].clock.Monotonic() - started; d < clusterLag-time.Second || d > 2*clusterLag {
			t.Errorf("it took %v", d)
		}
		if got := c.isr(); !slices.Equal(got, []int32{1, 2}) {
			t.Errorf("the ISR is %v", got)
		}
		c.isolate(2)
		waits := c.nodes[1].produce(2*clusterLag, "c")
		if r := <-waits; !errors.Is(r.Err, kerr.RequestTimedOut) || c.nodes[1].bounds().HighWatermark != 2 {
			t.Errorf("with one replica of two that must be there: %v, %+v", r.Err, c.nodes[1].bounds())
		}
		if r := <-c.nodes[1].produce(time.Second, "d"); !errors.Is(r.Err, kerr.NotEnoughReplicas) || c.nodes[1].bounds().End != 3 {
			t.Errorf("refused before it is written: %v, %+v", r.Err, c.nodes[1].bounds())
		}
		c.rejoin(2)
		c.rejoin(3)
		c.settle()
		if got := c.isr(); !slices.Equal(got, []int32{1, 2, 3}) {
			t.Errorf("the ISR is %v", got)
		}
		c.nodes[1].mustProduce("e")
		c.settle()
		c.same()
	})
}

// TestDeadFollowerHoldsNothingUp: a follower that is about to join the ISR is waited for, but not when it dies.
func TestDeadFollowerHoldsNothingUp(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		c.cut(3, 0) // so it does not join
		c.elect(1, 1, 2)
		c.nodes[3].mustObey(c.state(3))
		c.nodes[1].mustProduce("a")
		c.settle()
		c.cut(3, 1)
		c.mend(3, 0)
		waits := c.nodes[1].produce(time.Minute, "b")
		c.settle()
		select {
		case r := <-waits:
			t.Fatalf("a follower that was there just now was not waited for: %v", r.Err)
		default:
		}
		c.cut(3, 0)
		began := c.nodes[1].clock.Monotonic()
		c.nodes[1].UpdateMetadata(kmsg.NewPtrUpdateMetadataRequest(), 0, func() {})
		if r := <-waits; r.Err != nil || c.nodes[1].clock.Monotonic() != began {
			t.Errorf("it took %v until its death was noticed: %v", c.nodes[1].clock.Monotonic()-began, r.Err)
		}
	})
}

// TestOfflineReplicaIsNotProposed: the controller would refuse one that it has said to be offline.
func TestOfflineReplicaIsNotProposed(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		c.setOffline(3)
		c.elect(1, 1, 2)
		c.nodes[1].mustProduce("a")
		c.settle()
		if got := c.isr(); !slices.Equal(got, []int32{1, 2}) || c.mu.proposals != 0 {
			t.Errorf("the ISR is %v after %d proposals", got, c.mu.proposals)
		}
		c.setOffline(0)
		c.nodes[1].mustProduce("b")
		c.settle()
		if got := c.isr(); !slices.Equal(got, []int32{1, 2, 3}) {
			t.Errorf("when it is back, the ISR is %v", got)
		}
	})
}

// TestLostProposal: while the controller is away the maximal ISR holds, and the proposal is not repeated on its own.
func TestLostProposal(t *testing.T) {
	inCluster(t, 2, func(c *cluster) {
		c.elect(1)
		c.cut(1, 0)
		c.cut(1, 2)
		waits := c.nodes[1].produce(3*clusterLag, "a")
		if r := <-waits; !errors.Is(r.Err, kerr.RequestTimedOut) || c.nodes[1].bounds().HighWatermark != 0 {
			t.Errorf("a leader that the controller does not hear moved its high watermark: %v, %+v", r.Err, c.nodes[1].bounds())
		}
	})
}

// TestDeletedBeyondFollower: a follower for whom the leader has nothing that continues its log begins anew, in the middle
// of a batch if need be.
func TestDeletedBeyondFollower(t *testing.T) {
	inCluster(t, 2, func(c *cluster) {
		c.elect(1)
		c.nodes[1].mustProduce("a")
		c.isolate(2)
		for range 3 {
			c.nodes[1].mustPut("t", 0, batch(t, record.None, "v", 1, 2, 3, 4))
		}
		sleep(2 * clusterLag)
		if low, err := c.nodes[1].deleteRecords("t", 0, 7); err != nil || low != 7 {
			t.Fatalf("low watermark %d, %v", low, err)
		}
		c.rejoin(2)
		c.settle()
		if a, b := c.nodes[1].bounds(), c.nodes[2].bounds(); a != b || b.Start != 7 || b.End != 13 {
			t.Errorf("%+v, %+v", a, b)
		}
		if got := c.isr(); !slices.Equal(got, []int32{1, 2}) {
			t.Errorf("the ISR is %v", got)
		}
	})
}

// TestUncleanLeader: a follower that has more than an unclean leader drops it.
func TestUncleanLeader(t *testing.T) {
	inCluster(t, 2, func(c *cluster) {
		c.elect(1)
		c.nodes[1].mustProduce("a")
		c.isolate(2)
		sleep(2 * clusterLag)
		c.nodes[1].mustProduce("b")
		c.nodes[1].mustProduce("c")
		c.isolate(1)
		c.rejoin(2)
		c.cut(1, 2)
		c.elect(2, 2)
		c.nodes[2].mustProduce("d")
		c.rejoin(1)
		c.tell(1)
		c.settle()
		c.same()
		if b := c.nodes[1].bounds(); b.End != 2 {
			t.Errorf("%+v", b)
		}
	})
}

// TestDeleteRecordsWaits: the low watermark is that of all replicas.
func TestDeleteRecordsWaits(t *testing.T) {
	inCluster(t, 2, func(c *cluster) {
		c.elect(1)
		for i := range 5 {
			c.nodes[1].mustProduce(value(i))
		}
		remove := func(to int64, timeout time.Duration) DeleteResult {
			answered := make(chan DeleteResult, 1)
			c.nodes[1].DeleteRecords(timeout, []DeleteEntry{{Topic: "t", Offset: to}}, func(rs []DeleteResult) { answered <- rs[0] })
			return <-answered
		}
		if r := remove(3, time.Minute); r.Err != nil || r.LowWatermark != 3 || c.nodes[2].bounds().Start != 3 {
			t.Errorf("%+v, the follower starts at %d", r, c.nodes[2].bounds().Start)
		}
		c.cut(1, 2)
		if r := remove(4, time.Second); !errors.Is(r.Err, kerr.RequestTimedOut) {
			t.Errorf("the follower cannot have followed: %+v", r)
		}
		c.isolate(2) // now it does not count
		if r := remove(5, time.Second); r.Err != nil || r.LowWatermark != 5 {
			t.Errorf("%+v", r)
		}
	})
}

// TestReadFromFollower: consumers in a follower's rack are sent there, and read what it knows to be committed (KIP-392).
func TestReadFromFollower(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		c.racks = map[int32]string{1: "a", 2: "b", 3: "b"}
		c.elect(1)
		for i := range 5 {
			c.nodes[1].mustProduce(value(i))
		}
		c.settle()
		p := look()
		p.AnyReplica, p.Rack = true, "b"
		e := from("t", 0, 2)
		e.CurrentLeaderEpoch = 1
		if r := c.nodes[1].get(p, e)[0]; r.Err != nil || r.Preferred != 2 && r.Preferred != 3 || r.Records.Size() != 0 || r.HighWatermark != 5 {
			t.Errorf("%+v", r)
		}
		r := c.nodes[2].get(p, e)[0]
		if r.Err != nil || r.Preferred != NoPreference || r.Records.Size() == 0 || r.HighWatermark != 5 {
			t.Errorf("%+v", r)
		}
		p.MaxWait = time.Minute
		waits := c.nodes[2].start(p, from("t", 0, 5))
		c.nodes[1].mustProduce("later")
		if r := <-waits; r[0].Err != nil || r[0].Records.Size() == 0 {
			t.Errorf("a consumer that waits at a follower: %+v", r[0])
		}
		p.MaxWait, p.Rack = 0, "elsewhere"
		if r := c.nodes[1].get(p, e)[0]; r.Preferred != NoPreference || r.Records.Size() == 0 {
			t.Errorf("nobody is in that rack: %+v", r)
		}
		if r := c.nodes[2].get(look(), e)[0]; !errors.Is(r.Err, kerr.NotLeaderForPartition) {
			t.Errorf("an old consumer at a follower: %v", r.Err)
		}
		e.CurrentLeaderEpoch = 2
		if r := c.nodes[2].get(p, e)[0]; !errors.Is(r.Err, kerr.UnknownLeaderEpoch) {
			t.Errorf("a consumer that knows a newer epoch: %v", r.Err)
		}
	})
}

// TestFailedDirectory: the replicas of a broker whose disk is full are offline; another one leads.
func TestFailedDirectory(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		c.restartOn(1, func() *vfs.Mem { return c.disk(200_000) })
		c.rejoin(1)
		c.elect(1)
		c.nodes[1].mustProduce("a")
		if r := <-c.nodes[1].produce(time.Second, strings.Repeat("b", 300_000)); !errors.Is(r.Err, kerr.KafkaStorageError) {
			t.Fatalf("%v", r.Err)
		}
		if got := <-c.nodes[1].failed; got != "/logs, 0 left" {
			t.Errorf("told of %q", got)
		}
		r := c.nodes[1].LeaderAndISR(c.state(1), 0)
		if got := codes(r); got[0] != kerr.KafkaStorageError.Code {
			t.Errorf("the order is answered with %v", got)
		}
		if r := c.nodes[1].get(look(), from("t", 0, 0))[0]; !errors.Is(r.Err, kerr.KafkaStorageError) {
			t.Errorf("a fetch: %v", r.Err)
		}
		c.cut(1, 0) // here: it is not told any more
		c.elect(2, 2, 3)
		c.nodes[2].mustProduce("c")
		c.settle()
		if b := c.nodes[1].bounds(); b.End != 1 {
			t.Errorf("still fetches: %+v", b)
		}
	})
}

// TestStoppedReplicaFetchesNoMore: without deletion, nothing is fetched any more.
func TestStoppedReplicaFetchesNoMore(t *testing.T) {
	inCluster(t, 2, func(c *cluster) {
		c.elect(1)
		c.nodes[1].mustProduce("a")
		c.settle()
		c.nodes[2].stop("t", false)
		sleep(time.Second)
		c.nodes[1].mustPut("t", 0, one(t, "b"))
		c.settle()
		if b := c.nodes[2].bounds(); b.End != 1 {
			t.Errorf("%+v", b)
		}
		c.elect(1) // and goes on with the next order
		c.settle()
		c.same()
		c.nodes[2].stop("t", true)
		if c.nodes[2].find("t", 0) != nil {
			t.Error("still there")
		}
	})
}
