package quota

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/wire/clock"
)

func newClients() (*Clients, *clock.Fake) {
	c := clock.NewFake(time.UnixMilli(0))
	return NewClients(c, elevenSeconds, elevenSeconds), c
}

// The quota of the most specific entity counts, and it is shared by those for whom it is one.
func TestWhichQuota(t *testing.T) {
	all := []Entity{
		{"u", "c"}, {"u", Default}, {"u", ""}, {Default, "c"}, {Default, Default}, {Default, ""}, {"", "c"}, {"", Default},
	}
	shares := []Entity{{"u", "c"}, {"u", "c"}, {"u", ""}, {"u", "c"}, {"u", "c"}, {"u", ""}, {"", "c"}, {"", "c"}}
	for first := range all {
		q, _ := newClients()
		for i := first; i < len(all); i++ {
			q.Set(all[i], map[Kind]float64{Fetch: float64(i + 1)})
		}
		limit, shared, ok := q.limit(Fetch, "u", "c")
		if !ok || limit != float64(first+1) || shared != shares[first] {
			t.Errorf("from %v on: %v, %v, shared by %v", all[first], limit, ok, shared)
		}
		if _, _, ok := q.limit(Produce, "u", "c"); ok {
			t.Error("a quota of another kind counts")
		}
	}
	q, _ := newClients()
	q.Set(Entity{"other", ""}, map[Kind]float64{Fetch: 1})
	if _, _, ok := q.limit(Fetch, "u", "c"); ok {
		t.Error("another user's quota counts")
	}
	if _, _, ok := q.limit(Fetch, "", ""); ok {
		t.Error("who has no name has a quota")
	}
}

func TestRecord(t *testing.T) {
	q, c := newClients()
	if q.Record(Produce, "u", "c", 1<<40) != 0 {
		t.Error("throttled without a quota")
	}
	q.Set(Entity{"", "c"}, map[Kind]float64{Produce: 100})
	if w := q.Record(Produce, "u", "c", 1000); w != 0 { // as if ten seconds had passed
		t.Errorf("at the quota: %v", w)
	}
	if w := q.Record(Produce, "u", "c", 500); w != 5*time.Second { // 150/s over 10 s: half as much again
		t.Errorf("above the quota: %v", w)
	}
	if w := q.Record(Produce, "v", "c", 0); w != 5*time.Second {
		t.Errorf("another user of the same client id: %v", w)
	}
	if w := q.Record(Produce, "u", "d", 1<<40); w != 0 {
		t.Errorf("another client id: %v", w)
	}
	q.Unrecord(Produce, "u", "c", 500)
	if w := q.Record(Produce, "u", "c", 0); w != 0 {
		t.Errorf("what was taken back counts: %v", w)
	}
	q.Record(Produce, "u", "c", 1000)
	c.Advance(12 * time.Second)
	if w := q.Record(Produce, "u", "c", 1); w != 0 {
		t.Errorf("after the windows: %v", w)
	}
	q.Set(Entity{"", "c"}, nil)
	if q.Enabled(Produce) || q.Record(Produce, "u", "c", 1<<40) != 0 {
		t.Error("a quota that was taken back counts")
	}
}

// What a client used is throttled until its rate is what the quota allows, however it is used.
func TestRateIsKeptTo(t *testing.T) {
	for _, size := range []float64{10, 1000} {
		q, c := newClients()
		q.Set(Entity{"", Default}, map[Kind]float64{Fetch: 1000})
		sum := 0.0
		for start := c.Monotonic(); c.Monotonic()-start < 5*time.Minute; {
			sum += size
			c.Advance(max(time.Millisecond, q.Record(Fetch, "u", "c", size)))
		}
		if rate := sum / 300; rate < 900 || rate > 1100 {
			t.Errorf("in pieces of %v: %v/s", size, rate)
		}
	}
}

func TestRequestsAreNotHeldLong(t *testing.T) {
	q, _ := newClients()
	q.Set(Entity{Default, ""}, map[Kind]float64{Request: 1})
	if w := q.Record(Request, "u", "c", 1e6); w != time.Second {
		t.Errorf("held for %v", w)
	}
}

func TestMost(t *testing.T) {
	q, _ := newClients()
	q.Set(Entity{"", "c"}, map[Kind]float64{Fetch: 5})
	if q.Most(Fetch, "u", "c") != 50 || q.Most(Fetch, "u", "d") < 1e300 {
		t.Error(q.Most(Fetch, "u", "c"), q.Most(Fetch, "u", "d"))
	}
}

func TestMutations(t *testing.T) {
	q, c := newClients()
	take := func(strict bool, n int) string {
		m := q.Mutation("u", "c", strict)
		return fmt.Sprint(m.Take(n), m.Wait())
	}
	if got := take(true, 1000); got != "true 0s" {
		t.Errorf("without a quota: %s", got)
	}
	q.Set(Entity{"u", ""}, map[Kind]float64{Mutations: 2}) // a burst of 22
	for _, step := range []struct {
		strict  bool
		n       int
		want    string
		advance time.Duration
	}{
		{true, 20, "true 0s", 0},
		{true, 10, "true 0s", 0}, // 2 are left: begun, it may go below
		{true, 1, "false 4s", time.Second},
		{true, 1, "false 3s", 3 * time.Second},
		{true, 1, "true 0s", 0},
		{false, 5, "true 3s", 0}, // an older version is let go on, and waits
		{true, 1, "false 3s", time.Hour},
		{true, 22, "true 0s", 0},
		{true, 1, "true 0s", 0},
		{true, 1, "false 500ms", 0},
	} {
		if got := take(step.strict, step.n); got != step.want {
			t.Errorf("%+v: %s", step, got)
		}
		c.Advance(step.advance)
	}
}

func TestMetersAreForgotten(t *testing.T) {
	q, c := newClients()
	q.Set(Entity{"", Default}, map[Kind]float64{Produce: 1})
	for i := range 100 * leastMeters {
		q.Record(Produce, "u", fmt.Sprint(i), 1)
		c.Advance(50 * time.Millisecond)
	}
	if n := len(q.mu.meters[Produce]); n > 2*leastMeters {
		t.Errorf("%d meters", n)
	}
}

func TestConnections(t *testing.T) {
	c := clock.NewFake(time.UnixMilli(0))
	q := NewConnections(c, elevenSeconds)
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	if q.Admit(a) != 0 {
		t.Error("refused without a quota")
	}
	if q.Pace("a") != 0 {
		t.Error("paced without a limit")
	}
	q.SetAll(1)
	for range 9 {
		q.Pace("a")
	}
	if w := q.Pace("a"); w <= 0 || w > time.Second {
		t.Errorf("the eleventh of all waits %v", w)
	}
	c.Advance(time.Minute)
	q.SetListeners(map[string]float64{"slow": 0.5})
	for range 5 {
		q.Pace("slow")
	}
	if slow, other := q.Pace("slow"), q.Pace("a"); slow <= other {
		t.Errorf("a connection waits %v at the slow listener and %v at another", slow, other)
	}
	q.SetListeners(nil)
	q.SetRest(1)
	q.Set(a, 2)
	admitted := func(addr netip.Addr) (n int) {
		for q.Admit(addr) == 0 {
			n++
		}
		return n
	}
	if n := admitted(a); n != 20 {
		t.Errorf("%d of an address with a quota of 2/s", n)
	}
	if n := admitted(netip.MustParseAddr("::ffff:10.0.0.2")); n != 10 {
		t.Errorf("%d of one with the rest's", n)
	}
	if w := q.Admit(b); w <= 0 || w > time.Second {
		t.Errorf("held for %v", w)
	}
	c.Advance(12 * time.Second)
	if q.Admit(b) != 0 {
		t.Error("refused after the windows")
	}
	q.Set(a, -1)
	q.SetRest(-1)
	if n := 0; q.Admit(a) != 0 || n > 0 {
		t.Error("a quota that was taken back counts")
	}
}

// Each tells what was used of quotas, and how long clients were kept waiting for it.
func TestEach(t *testing.T) {
	q, c := newClients()
	q.Set(Entity{"", "c"}, map[Kind]float64{Produce: 10, Mutations: 2})
	q.Record(Produce, "u", "c", 50)
	wait := q.Record(Produce, "u", "c", 150)
	q.Record(Produce, "u", "other", 1000)
	q.Mutation("u", "c", true).Take(20)
	c.Advance(time.Second)
	found := map[Kind]Used{}
	q.Each(func(u Used) {
		if u.Entity != (Entity{"", "c"}) {
			t.Errorf("%+v has no quota", u)
		}
		found[u.Kind] = u
	})
	if p := found[Produce]; len(found) != 2 || p.Rate < 10 || p.Rate > 20 || wait == 0 || p.Wait != float64(wait.Milliseconds()) {
		t.Errorf("%+v after a wait of %v", found, wait)
	}
	if m := found[Mutations]; m.Tokens != 2 || m.Rate <= 0 || m.Wait != 0 {
		t.Errorf("%+v", m)
	}
}
