package txn

import (
	"math/rand/v2"
	"testing"

	"github.com/gregor-broker/gregor/compat/harness"
)

// TestSoakBankOnZooKeeper: three brokers, of which one at a time is killed, stopped in order or stands still: coordinators and leaders move, and
// what their predecessors began is finished.
func TestSoakBankOnZooKeeper(t *testing.T) {
	harness.NeedCluster(t)
	runBankCluster(t, []harness.Kind{harness.Peer(), harness.Peer(), harness.Peer()}, rounds(t, 2))
}

// TestSoakBankMixed: the same with a Kafka 3.9.2 among the brokers: coordinators of one kind write markers to leaders of the other.
func TestSoakBankMixed(t *testing.T) {
	harness.NeedCluster(t)
	if harness.Peer() != harness.Gregor {
		t.Skip("a cluster of this kind would not be mixed")
	}
	runBankCluster(t, []harness.Kind{harness.Gregor, harness.Gregor, harness.Kafka39}, rounds(t, 2))
}

func runBankCluster(t *testing.T, kinds []harness.Kind, again func(round int) bool) {
	c := harness.StartCluster(t, harness.ClusterOptions{Kinds: kinds, Props: map[string]string{
		"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
	}})
	c.CreateTopic(t, bankTopic, bankPartitions, 3, "min.insync.replicas", "2")
	seed := bankSeed(t)
	o := openOffice(t, seed, c.Addrs())
	defer o.close()
	random := rand.New(rand.NewPCG(seed, 99))
	for round := 0; again(round); round++ {
		o.progress(t, 10+random.IntN(20))
		id := 1 + random.IntN(len(kinds))
		back := func() { c.Restart(t, id) }
		switch round % 3 {
		case 0:
			o.fault("kill -9")
			c.Kill(id)
		case 1:
			o.fault("restart")
			c.Stop(t, id)
		default:
			o.fault("standstill")
			c.Pause(id)
			back = func() { c.Resume(id) }
		}
		o.progress(t, 10) // the others go on
		back()
		c.AwaitInSync(t, bankPatience, bankTopic, "__transaction_state")
	}
	o.progress(t, 20)
	o.close()
	o.audit(t)
}
