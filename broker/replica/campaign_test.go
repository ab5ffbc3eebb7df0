package replica

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/log/record"
)

var campaignSeed = flag.Uint64("campaign.seed", 0, "run TestCampaign with this seed only")

// history is what clients of a campaign were told.
type history struct {
	sync.Mutex
	acknowledged map[int64]string // by offset
	seen         map[int64]string // read by consumers
	wrong        []string
}

func (h *history) note(at map[int64]string, offset int64, value, by string) {
	h.Lock()
	defer h.Unlock()
	for _, known := range []map[int64]string{h.acknowledged, h.seen} {
		if v, ok := known[offset]; ok && v != value {
			h.wrong = append(h.wrong, fmt.Sprintf("offset %d was %q, %s has %q", offset, v, by, value))
		}
	}
	at[offset] = value
}

// campaign drives a cluster with faults and clients.
type campaign struct {
	*cluster
	r       *rand.Rand
	h       history
	sent    int
	clients sync.WaitGroup
}

// TestCampaign: brokers are cut off from each other, from the controller or from all, killed and started again, leaders
// move; producers write to whoever takes it and consumers read wherever they may. What was acknowledged with acks=all
// and min.insync.replicas=2 is there in the end, at its offset; what a consumer saw stays; all logs are the same.
func TestCampaign(t *testing.T) {
	seeds := []uint64{*campaignSeed}
	if *campaignSeed == 0 {
		n, _ := strconv.Atoi(cmp.Or(os.Getenv("GREGOR_CAMPAIGNS"), "12"))
		for range n {
			seeds = append(seeds, rand.Uint64())
		}
		seeds = seeds[1:]
	}
	for _, seed := range seeds {
		inCluster(t, 3, func(c *cluster) {
			k := &campaign{cluster: c, r: rand.New(rand.NewPCG(seed, 2))}
			k.h.acknowledged, k.h.seen = map[int64]string{}, map[int64]string{}
			k.run()
		})
		if t.Failed() {
			t.Fatalf("again with: go test ./broker/replica -run TestCampaign -campaign.seed=%d", seed)
		}
	}
}

func (k *campaign) run() {
	for _, n := range k.nodes {
		n.minISR["t"] = 2
	}
	k.elect(1)
	for range 150 {
		k.fault()
		for range k.r.IntN(6) {
			k.produceSomewhere()
			k.consumeSomewhere()
			sleep(time.Duration(k.r.Int64N(int64(300 * time.Millisecond))))
		}
		if k.r.IntN(10) == 0 {
			sleep(time.Duration(k.r.Int64N(int64(2 * clusterLag))))
		}
	}
	k.heal()
	sleep(3 * clusterLag)
	k.clients.Wait()
	k.check()
}

func (k *campaign) anyone() int32 { return 1 + k.r.Int32N(3) }

func (k *campaign) fault() {
	switch id := k.anyone(); k.r.IntN(8) {
	case 0:
		k.isolate(id)
		k.failed(id)
	case 1:
		k.cut(id, 0) // a leader that is still followed, but that the controller has given up
		k.failed(id)
	case 2:
		k.cut(id, k.anyone()) // nobody but the two notices
	case 3:
		k.restart(id)
		k.failed(id)
		k.rejoin(id)
		k.returned(id)
	case 4:
		k.move()
	default:
		away := k.isCut(id, 0)
		k.rejoin(id)
		if away {
			k.returned(id)
		}
	}
}

// failed is the controller's part when a broker's session ends.
func (k *campaign) failed(id int32) {
	k.mu.Lock()
	left := slices.DeleteFunc(slices.Clone(k.mu.isr), func(i int32) bool { return i == id })
	changed := k.mu.leader == id
	if len(left) > 0 && len(left) < len(k.mu.isr) {
		k.mu.isr, changed = left, true
	}
	k.reelect(changed)
}

// returned is the controller's part when a broker is there again: it gets the state as it is, or leads.
func (k *campaign) returned(id int32) {
	k.mu.Lock()
	k.reelect(k.mu.leader < 0)
	k.tellAgain(id)
}

// reelect keeps the leader if it is in sync and alive, else takes another or none, and tells all. The caller holds mu,
// which it lets go.
func (k *campaign) reelect(changed bool) {
	alive := func(id int32) bool { return id > 0 && !k.mu.cut[pair(id, 0)] && slices.Contains(k.mu.isr, id) }
	if changed {
		if !alive(k.mu.leader) {
			k.mu.leader = -1
			if i := slices.IndexFunc(k.mu.isr, alive); i >= 0 {
				k.mu.leader = k.mu.isr[i]
			}
		}
		k.mu.epoch++
		k.mu.version++
	}
	k.mu.Unlock()
	if changed {
		for id := range k.nodes {
			k.tellAgain(id)
		}
	}
}

// tellAgain is tell to one that may know already.
func (k *campaign) tellAgain(id int32) {
	if !k.isCut(id, 0) {
		k.nodes[id].LeaderAndISR(k.state(id), 0)
	}
}

// move makes another in-sync replica the leader.
func (k *campaign) move() {
	k.mu.Lock()
	to := k.mu.isr[k.r.IntN(len(k.mu.isr))]
	if k.mu.cut[pair(to, 0)] || to == k.mu.leader {
		k.mu.Unlock()
		return
	}
	k.mu.leader = to
	k.reelect(true)
}

func (k *campaign) heal() {
	for id := int32(1); id <= 3; id++ {
		k.rejoin(id)
		k.returned(id)
	}
}

func (k *campaign) produceSomewhere() {
	k.mu.Lock()
	to := k.mu.leader
	k.mu.Unlock()
	if to < 0 || k.r.IntN(4) == 0 {
		to = k.anyone() // a client with old metadata
	}
	k.sent++
	v := value(k.sent)
	answered := k.nodes[to].produce(time.Duration(1+k.r.IntN(40))*time.Second, v)
	k.clients.Go(func() {
		if r := <-answered; r.Err == nil {
			k.h.note(k.h.acknowledged, r.BaseOffset, v, fmt.Sprintf("the acknowledgement of %d", to))
		}
	})
}

func (k *campaign) consumeSomewhere() {
	n := k.nodes[k.anyone()]
	if n.find("t", 0) == nil {
		return
	}
	p := look()
	p.AnyReplica = true
	b := n.bounds()
	var rs []FetchResult
	n.Manager.Fetch(p, []FetchEntry{from("t", 0, b.Start+k.r.Int64N(b.End-b.Start+1))}, func(got []FetchResult) { rs = got })
	k.note(n.id, contents(k.t, &rs[0]))
}

func (k *campaign) note(by int32, buf []byte) {
	eachValue(k.t, buf, func(offset int64, v string) {
		k.h.note(k.h.seen, offset, v, fmt.Sprintf("a consumer at %d", by))
	})
}

func eachValue(t testing.TB, buf []byte, f func(offset int64, v string)) {
	for len(buf) > 0 {
		e, rest, err := record.NextEntry(buf)
		if err != nil {
			t.Errorf("records that cannot be read: %v", err)
			return
		}
		for r, err := range e.Records(record.Limits{}) {
			if err != nil {
				t.Errorf("a record that cannot be read: %v", err)
				return
			}
			f(r.Offset, string(r.Value))
		}
		buf = rest
	}
}

func (k *campaign) check() {
	k.same()
	if got := k.isr(); len(got) != 3 {
		k.t.Errorf("healed, the ISR is %v", got)
	}
	have := map[int64]string{}
	eachValue(k.t, k.nodes[1].bytes(), func(offset int64, v string) { have[offset] = v })
	for what, told := range map[string]map[int64]string{"acknowledged": k.h.acknowledged, "seen": k.h.seen} {
		for offset, v := range told {
			if have[offset] != v {
				k.t.Errorf("%q was %s at offset %d, where there is %q", v, what, offset, have[offset])
			}
		}
	}
	for _, w := range k.h.wrong {
		k.t.Error(w)
	}
	if len(k.h.acknowledged) < 10 {
		k.t.Errorf("only %d of %d records were acknowledged: that shows little", len(k.h.acknowledged), k.sent)
	}
	k.t.Logf("%d sent, %d acknowledged, %d read, %d epochs, %d proposals", k.sent, len(k.h.acknowledged), len(k.h.seen), k.mu.epoch, k.mu.proposals)
}
