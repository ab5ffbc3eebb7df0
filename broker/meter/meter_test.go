package meter

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/wire/clock"
)

// Durations are counted where they belong, within an eighth.
func TestBuckets(t *testing.T) {
	before := -1
	for d := time.Duration(0); d < 1000*time.Hour; d += max(time.Microsecond, d/37) {
		b := bucket(d)
		if b < before || b >= buckets {
			t.Fatalf("%v is in bucket %d, after %d", d, b, before)
		}
		before = b
		if off := middle(b) - d; off > d/8+time.Microsecond || off < -d/8-time.Microsecond {
			t.Errorf("%v is told as %v", d, middle(b))
		}
	}
}

func total(d time.Duration) *[Bytes + 1]time.Duration { return &[Bytes + 1]time.Duration{Total: d} }

func TestQuantiles(t *testing.T) {
	c := clock.NewFake(time.Unix(0, 0))
	m := New(c)
	shares := []float64{0, 0.5, 0.99, 1}
	look := func() (count int64, at []time.Duration) {
		m.Times(shares, func(s Spent, n int64, _ float64, q []time.Duration) {
			if s.Part == Total {
				count, at = n, q
			}
		})
		return count, at
	}
	near := func(got, want time.Duration) bool { return got >= want*7/8 && got <= want*9/8 }
	var all []time.Duration
	for range 5000 {
		d := time.Duration(rand.ExpFloat64() * float64(time.Millisecond))
		all = append(all, d)
		m.Answered(1, total(d))
	}
	slices.Sort(all)
	if n, at := look(); n != 5000 || !near(at[1], all[2500]) || !near(at[2], all[4950]) || !near(at[3], all[4999]) {
		t.Errorf("%d: %v, want %v %v %v", n, at, all[2500], all[4950], all[4999])
	}
	c.Advance(time.Minute)
	m.Answered(1, total(time.Hour))
	if n, at := look(); n != 5001 || !near(at[1], all[2500]) || !near(at[3], time.Hour) {
		t.Errorf("a minute later: %d: %v", n, at)
	}
	c.Advance(time.Minute)
	if _, at := look(); !near(at[1], time.Hour) {
		t.Errorf("what is older than two minutes counts: %v", at)
	}
	c.Advance(2 * time.Minute)
	if n, at := look(); n != 5001 || at[3] != 0 {
		t.Errorf("of nothing: %d: %v", n, at)
	}
}

func TestTimed(t *testing.T) {
	c := clock.NewFake(time.Unix(0, 0))
	m := New(c)
	for range 3 {
		m.Took(Flush, 8*time.Millisecond)
	}
	m.OrderWaited(2, time.Millisecond)
	m.Happened(NotVerified, 2)
	if n, sum, at := m.Timings(Flush, []float64{0.5}); n != 3 || sum != 24*time.Millisecond || at[0] < 7*time.Millisecond || at[0] > 9*time.Millisecond {
		t.Errorf("%d flushes, %v, %v", n, sum, at)
	}
	if n, _, _ := m.Timings(EventQueue, nil); n != 0 {
		t.Errorf("%d events", n)
	}
	m.Orders(nil, func(broker int32, n int64, _ []time.Duration) {
		if broker != 2 || n != 1 {
			t.Errorf("%d orders to %d", n, broker)
		}
	})
	if n := m.Events(NotVerified); n != 2 {
		t.Errorf("%d partitions were not verified", n)
	}
	var none *Meter
	none.Took(Flush, 1)
	none.OrderWaited(1, 1)
	none.Happened(StoreExpired, 1)
}

func TestTopics(t *testing.T) {
	m := New(clock.System)
	m.Produced("t", 100, 3, Well)
	m.Produced("t", 50, 0, TooLarge)
	m.Produced("t", 7, 0, Failed)
	m.Produced("t", 7, 0, Refused)
	m.Fetched("t", 90, Well, false)
	m.Fetched("t", 1000, Well, true)
	m.Fetched("t", 0, Refused, false)
	m.Fetched("u", 0, Failed, false)
	m.Appended("__consumer_offsets", 40, 4)
	m.Replicated(7, false)
	m.Replicated(2, true)
	m.Reassigned(20)
	m.Converted("t", 3, true)
	m.Converted("t", 4, false)
	m.Refused(KeylessRecords, 2)
	m.Forget("u")
	names := map[string]*Topic{}
	m.Topics(func(name string, topic *Topic) { names[name] = topic })
	if in, out := m.Replication(); in != 9 || out != 1000 {
		t.Errorf("%d bytes came and %d went between brokers", in, out)
	}
	if in, out := m.Reassignment(); in != 2 || out != 20 {
		t.Errorf("%d bytes came and %d went to replicas that are being added", in, out)
	}
	for _, of := range []*Topic{names[""], names["t"]} {
		if in, out := of.ProducedConverted.Load(), of.FetchedConverted.Load(); in != 3 || out != 4 {
			t.Errorf("%d and %d records were converted", in, out)
		}
	}
	if magic, keys := m.Faults(InvalidMagic), m.Faults(KeylessRecords); magic != 0 || keys != 2 {
		t.Errorf("%d wrong magic bytes, %d missing keys", magic, keys)
	}
	if len(names) != 3 {
		t.Fatalf("topics %v", names)
	}
	for name, want := range map[string][8]int64{
		"": {7, 140, 90, 50, 5, 1, 4, 1}, "t": {3, 100, 90, 50, 4, 1, 3, 0}, "__consumer_offsets": {4, 40, 0, 0, 1, 0, 0, 0},
	} {
		c := names[name]
		got := [8]int64{c.MessagesIn.Load(), c.BytesIn.Load(), c.BytesOut.Load(), c.BytesRejected.Load(), c.Produces.Load(), c.FailedProduces.Load(), c.Fetches.Load(), c.FailedFetches.Load()}
		if got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
	var none *Meter
	none.Produced("t", 1, 1, Well)
	none.Fetched("t", 1, Well, true)
	none.Appended("t", 1, 1)
	none.Replicated(1, true)
	none.Reassigned(1)
	none.Converted("t", 1, true)
	none.Refused(InvalidMagic, 1)
	none.ISRRefused()
	none.Code(1, 1, 1)
	none.Arrived(1, 1)
	none.Answered(1, total(1))
	none.ISRChanged(1, 2)
}
