package cluster

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/compat/harness"
)

// fault is something that happens to a cluster.
type fault struct {
	name string
	// strike does it and says to whom.
	strike func(t *testing.T, k *campaign) string
	// serves: the cluster must go on, whatever lasts.
	serves bool
	// lasts is how long brokers are kept from knowing better. 0 = it is mended at once, or when the cluster has gone on.
	lasts time.Duration
	mend  func(t *testing.T) // what Cluster.Mend does not do; may be nil
}

// longer than a session and than replica.lag.time.max.ms of campaigns.
const longer = campaignSession + 3*time.Second

func (k *campaign) leader(t *testing.T) int {
	return k.cluster.Leader(t, campaignTopic, k.random.IntN(campaignPartitions))
}

// others returns the other two in any order.
func (k *campaign) others(id int) (int, int) {
	a, b := id%3+1, (id+1)%3+1
	if k.random.IntN(2) == 0 {
		a, b = b, a
	}
	return a, b
}

// wipe takes all that is in a broker's log directories.
func (k *campaign) wipe(t *testing.T, id int) {
	t.Helper()
	for _, dir := range k.cluster.Broker(id).DataDirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func on(what string, id int) string { return fmt.Sprintf("%s %d", what, id) }

// processFaults need nothing but signals.
var processFaults = []fault{
	{name: "kill leader", serves: true, strike: func(t *testing.T, k *campaign) string {
		id := k.leader(t)
		k.cluster.Kill(id)
		return on("kill leader", id)
	}},
	{name: "pause leader", serves: true, lasts: longer, strike: func(t *testing.T, k *campaign) string {
		id := k.leader(t)
		k.cluster.Pause(id)
		return on("pause leader", id)
	}},
	{name: "kill two", strike: func(t *testing.T, k *campaign) string {
		id := k.leader(t)
		other, _ := k.others(id)
		k.cluster.Kill(id)
		k.cluster.Kill(other)
		return on(on("kill", id), other)
	}},
	{name: "kill controller", serves: true, strike: func(t *testing.T, k *campaign) string {
		id := k.cluster.Controller(t)
		k.cluster.Kill(id)
		return on("kill controller", id)
	}},
	{name: "kill all", strike: func(t *testing.T, k *campaign) string {
		for _, id := range k.random.Perm(3) {
			k.cluster.Kill(id + 1)
		}
		return "kill all"
	}},
	{name: "ZooKeeper killed", strike: func(t *testing.T, k *campaign) string {
		k.cluster.ZooKeeper.Kill()
		return "ZooKeeper killed"
	}},
	{name: "kill follower", serves: true, strike: func(t *testing.T, k *campaign) string {
		id, _ := k.others(k.leader(t))
		k.cluster.Kill(id)
		return on("kill follower", id)
	}},
	{name: "disk wiped", serves: true, strike: func(t *testing.T, k *campaign) string {
		id := k.leader(t)
		k.cluster.Kill(id)
		k.wipe(t, id)
		k.cluster.Restart(t, id) // before its session is over
		return on("disk wiped of leader", id)
	}},
	{name: "pause controller", serves: true, lasts: longer, strike: func(t *testing.T, k *campaign) string {
		id := k.cluster.Controller(t)
		k.cluster.Pause(id)
		return on("pause controller", id)
	}},
	{name: "ZooKeeper stands still", lasts: longer, strike: func(t *testing.T, k *campaign) string {
		k.cluster.ZooKeeper.Pause()
		return "ZooKeeper stands still"
	}},
}

// cuts need the proxies of a proxied cluster.
var cuts = []fault{
	{name: "leader without ZooKeeper", serves: true, lasts: longer, strike: func(t *testing.T, k *campaign) string {
		id := k.leader(t)
		k.cluster.ToZooKeeper(id).Set(harness.Fault{HoldRequests: true, HoldReplies: true})
		return on("no ZooKeeper for leader", id)
	}},
	{name: "followers cannot reach the leader", lasts: longer, strike: func(t *testing.T, k *campaign) string {
		id := k.leader(t)
		k.cluster.Peers(id).Set(harness.Fault{HoldRequests: true, HoldReplies: true})
		return on("nobody reaches leader", id)
	}},
	{name: "nobody hears the controller's ZooKeeper", lasts: longer, strike: func(t *testing.T, k *campaign) string {
		id := k.cluster.Controller(t)
		k.cluster.ToZooKeeper(id).Set(harness.Fault{HoldReplies: true})
		return on("ZooKeeper's answers do not reach controller", id)
	}},
	{name: "slow ZooKeeper", serves: true, lasts: longer, strike: func(t *testing.T, k *campaign) string {
		for id := 1; id <= 3; id++ {
			k.cluster.ToZooKeeper(id).Set(harness.Fault{Delay: 200 * time.Millisecond})
		}
		k.cluster.Kill(k.leader(t))
		return "slow ZooKeeper and a leader killed"
	}},
	{name: "connections break", serves: true, strike: func(t *testing.T, k *campaign) string {
		for id := 1; id <= 3; id++ {
			k.cluster.Peers(id).Set(harness.Fault{Refuse: true})
			k.cluster.Peers(id).Set(harness.Fault{})
		}
		return "all connections between brokers break"
	}},
}

// onDisk is the broker that has a disk of its own in a campaign, and diskSize what fits on it: a soak of a night.
const (
	onDisk         = 3
	diskSize int64 = 8 << 30
)

// fullDisk: a broker whose only disk is full ends. The others go on.
func fullDisk(d *disk) fault {
	return fault{
		name: "full disk", serves: true,
		strike: func(t *testing.T, k *campaign) string {
			harness.Eventually(t, limit, d.fill) // until nobody writes in between
			harness.Eventually(t, limit, func() error {
				if slices.Contains(k.cluster.Alive(), onDisk) {
					return fmt.Errorf("broker %d runs on, although its disk is full", onDisk)
				}
				return nil
			})
			return on("full disk of", onDisk)
		},
		mend: func(t *testing.T) {
			if err := d.resize(diskSize); err != nil {
				t.Fatal(err)
			}
		},
	}
}

// campaignCluster starts a cluster, and says what can be done to it.
func campaignCluster(t *testing.T) (*harness.Cluster, []fault) {
	t.Helper()
	harness.NeedCluster(t)
	faults := slices.Concat(cuts, processFaults)
	o := harness.ClusterOptions{Proxied: true, Props: map[string]string{
		"zookeeper.session.timeout.ms": strconv.FormatInt(campaignSession.Milliseconds(), 10),
		"replica.lag.time.max.ms":      "3000",
	}}
	d, err := mountDisk(t, diskSize)
	if err != nil {
		t.Logf("the campaign leaves the full disk out: %v", err)
		return harness.StartCluster(t, o), faults
	}
	o.PropsOf = func(id int) map[string]string {
		if id != onDisk {
			return nil
		}
		return map[string]string{"log.dirs": filepath.Join(d.dir, "data")}
	}
	return harness.StartCluster(t, o), append(faults, fullDisk(d))
}

// seed is GREGOR_SEED, or another one each time.
func seed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("GREGOR_SEED")
	if text == "" {
		return rand.Uint64()
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("GREGOR_SEED: %v", err)
	}
	return n
}

// TestCampaign breaks a cluster in every way once. TestSoak goes on for as long as GREGOR_SOAK says ("make soak"), in any order.
func TestCampaign(t *testing.T) {
	c, faults := campaignCluster(t)
	k := startCampaign(t, c, seed(t))
	for _, f := range faults {
		k.inflict(t, f)
	}
	k.judge(t)
}

func TestSoak(t *testing.T) {
	text := os.Getenv("GREGOR_SOAK")
	if text == "" {
		return // TestCampaign is the short form
	}
	lasts, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("GREGOR_SOAK: %v", err)
	}
	c, faults := campaignCluster(t)
	k := startCampaign(t, c, seed(t))
	all := append(faults, fault{name: "ZooKeeper away for a minute", lasts: time.Minute, strike: func(t *testing.T, k *campaign) string {
		k.cluster.ZooKeeper.Kill()
		return "ZooKeeper away for a minute"
	}})
	for began := time.Now(); time.Since(began) < lasts; {
		f := all[k.random.IntN(len(all))]
		f.lasts = time.Duration(float64(f.lasts) * (0.2 + 1.3*k.random.Float64())) // shorter than the session, too
		k.inflict(t, f)
	}
	k.judge(t)
}
