package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lockedBuffer is a writer that a drawing goroutine and the test share.
type lockedBuffer struct {
	sync.Mutex
	bytes.Buffer
	wrote chan struct{}
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.Lock()
	defer b.Unlock()
	select {
	case b.wrote <- struct{}{}:
	default:
	}
	return b.Buffer.Write(p)
}

func TestDrawProgress(t *testing.T) {
	b := &lockedBuffer{wrote: make(chan struct{}, 1)}
	stop := drawProgress(b, goal{records: 10}, &meter{})
	<-b.wrote
	stop()
	if text := b.String(); !strings.Contains(text, "  0% 0 records") || !strings.HasSuffix(text, "\r\x1b[K") {
		t.Errorf("%q", text)
	}
}

// A quantile is never below the true one and at most 1/32 above it.
func TestHistogram(t *testing.T) {
	var h histogram
	if h.quantile(0.5) != 0 {
		t.Error("empty")
	}
	random := rand.New(rand.NewPCG(1, 1))
	var all []time.Duration
	for range 10_000 {
		d := time.Duration(math.Exp(random.Float64() * 25))
		all = append(all, d)
		h.record(d)
	}
	slices.Sort(all)
	for _, part := range []float64{0, 0.5, 0.9, 0.99, 0.999, 1} {
		want := all[min(int(part*10_000), 9_999)]
		got := h.quantile(part)
		if got < want || float64(got) > float64(want)*(1+1.0/32)+1 {
			t.Errorf("%v: %v, want %v", part, got, want)
		}
	}
}

func TestBuckets(t *testing.T) {
	for _, n := range []uint64{0, 1, 31, 32, 63, 64, 65, 1000, 1 << 40, math.MaxInt64, math.MaxUint64} {
		b := bucketOf(n)
		if b >= buckets || upperBound(b) < n || b > 0 && upperBound(b-1) >= n {
			t.Errorf("%d is in bucket %d, up to %d", n, b, upperBound(b))
		}
	}
}

func TestResult(t *testing.T) {
	m := &meter{}
	for range 2_000 {
		m.count(1_000)
		m.latency.record(3 * time.Millisecond)
	}
	r := newResult("produce", "t", m, 2*time.Second)
	var b bytes.Buffer
	if err := r.write(&b, false); err != nil {
		t.Fatal(err)
	}
	want := "t: 2,000 records, 2.00 MB in 2.00 s: 1,000 records/s, 1.0 MB/s\n" +
		"latency in ms: p50 3.00, p90 3.00, p99 3.00, p99.9 3.00, max 3.00\n"
	if b.String() != want {
		t.Errorf("%q", b.String())
	}
	b.Reset()
	var back map[string]any
	if err := r.write(&b, true); err != nil || json.Unmarshal(b.Bytes(), &back) != nil || back["records_per_second"] != 1000.0 {
		t.Error(b.String(), err)
	}
}

func TestGrouped(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -100: "-100"} {
		if got := grouped(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}

func TestProgress(t *testing.T) {
	m := &meter{}
	m.count(1_000_000)
	line := progressLine(goal{records: 4}, m, time.Second)
	if !strings.HasPrefix(line, "[#######-----------------------]  25% 1 records, 1/s, 1.0 MB/s") {
		t.Error(line)
	}
	if got := (goal{duration: time.Second}).part(7, 2*time.Second); got != 1 {
		t.Error(got)
	}
}

func TestPaceCounts(t *testing.T) {
	n := int64(0)
	pace(context.Background(), 0, goal{records: 5}, func(i int64, _ time.Time) {
		if i != n {
			t.Errorf("record %d, want %d", i, n)
		}
		n++
	})
	if n != 5 {
		t.Error(n)
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	pace(cancelled, 1, goal{records: 5}, func(int64, time.Time) { t.Error("sent although cancelled") })
}

func TestProducingCheck(t *testing.T) {
	good := producing{size: 1, records: 1, acks: "all", compression: "none"}
	if err := good.check(); err != nil {
		t.Error(err)
	}
	if _, err := good.clientOptions("t"); err != nil {
		t.Error(err)
	}
	for _, bad := range []producing{{size: -1, records: 1}, {records: 1, rate: -1}, {}} {
		if bad.check() == nil {
			t.Errorf("%+v", bad)
		}
	}
}

// Only records of this run count, and not those of the first second.
func TestLatencyCounts(t *testing.T) {
	l := &latencyRun{started: time.Unix(1, 0), m: &meter{}}
	stamp := func(run, due int64) []byte {
		b := binary.BigEndian.AppendUint64(nil, uint64(run))
		return binary.BigEndian.AppendUint64(b, uint64(due))
	}
	l.got([]byte("short"), time.Second)
	l.got(stamp(5, 0), time.Second)
	l.got(stamp(1e9, 0), time.Second)
	l.got(stamp(1e9, int64(2*time.Second)), 2*time.Second+time.Millisecond)
	if l.arrived.Load() != 2 || l.m.records.Load() != 1 || l.m.latency.quantile(1) != time.Millisecond {
		t.Error(l.arrived.Load(), l.m.records.Load(), l.m.latency.quantile(1))
	}
}
