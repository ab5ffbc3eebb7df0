package dispatch

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStrandsKeepOrderAndNeverOverlap(t *testing.T) {
	p := NewPool(4)
	const strands, jobs = 20, 500
	var pushers sync.WaitGroup
	got := make([][]int, strands)
	for i := range strands {
		s := NewStrand(p)
		var running atomic.Bool
		pushers.Go(func() {
			for k := range jobs {
				s.Push(&Node{Job: Func(func() {
					if running.Swap(true) {
						t.Error("two jobs of one strand at once")
					}
					got[i] = append(got[i], k)
					running.Store(false)
				})})
				if k%7 == 0 && s.Idle() {
					got[i] = append(got[i], -1) // idle: what the jobs wrote is ours to touch
					got[i] = got[i][:len(got[i])-1]
				}
			}
		})
	}
	pushers.Wait()
	p.Close()
	for i, g := range got {
		if len(g) != jobs || !slices.IsSorted(g) {
			t.Errorf("strand %d ran %d jobs, in order: %v", i, len(g), slices.IsSorted(g))
		}
	}
}

func TestBusyStrandLeavesRoomForOthers(t *testing.T) {
	p := NewPool(1)
	var order []string
	start := make(chan struct{})
	p.Submit(Func(func() { <-start }))
	a, b := NewStrand(p), NewStrand(p)
	for range 3 * turn {
		a.Push(&Node{Job: Func(func() { order = append(order, "a") })})
	}
	b.Push(&Node{Job: Func(func() { order = append(order, "b") })})
	close(start)
	p.Close()
	if i := slices.Index(order, "b"); i != turn {
		t.Errorf("the other strand ran after %d jobs, want %d", i, turn)
	}
}

func TestPoolCloseRunsWhatJobsSubmit(t *testing.T) {
	p := NewPool(3)
	var ran atomic.Int32
	for range 100 {
		p.Submit(Func(func() {
			ran.Add(1)
			p.Submit(Func(func() { ran.Add(1) }))
		}))
	}
	p.Close()
	if ran.Load() != 200 {
		t.Errorf("%d jobs ran", ran.Load())
	}
	if p.Submit(Func(func() {})) {
		t.Error("a job is taken after Close")
	}
}

// TestPoolResizes: as many jobs at once as the pool was last told, and none is lost.
func TestPoolResizes(t *testing.T) {
	p := NewPool(1)
	for _, n := range []int{3, 1, 5, 2, 0} {
		p.Resize(n)
		n = max(1, n)
		var running atomic.Int32
		var done sync.WaitGroup
		var filled sync.Once
		full, release := make(chan struct{}), make(chan struct{})
		for range 4 * n {
			done.Add(1)
			p.Submit(Func(func() {
				defer done.Done()
				if r := running.Add(1); int(r) == n {
					filled.Do(func() { close(full) })
				} else if int(r) > n {
					t.Errorf("more than %d jobs at once", n)
				}
				<-release
				running.Add(-1)
			}))
		}
		<-full
		close(release)
		done.Wait()
	}
	p.Close()
	p.Resize(9)
}

// TestPoolTellsHowBusyItIs: of two goroutines one that works all the time is half of what they could do.
func TestPoolTellsHowBusyItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(2)
		p.Worked()
		p.Submit(Func(func() { time.Sleep(10 * time.Second) }))
		time.Sleep(8 * time.Second)
		if worked, available := p.Worked(); worked != 8*time.Second || available != 16*time.Second {
			t.Errorf("%v of %v", worked, available)
		}
		time.Sleep(8 * time.Second)
		if worked, available := p.Worked(); worked != 10*time.Second || available != 32*time.Second {
			t.Errorf("%v of %v", worked, available)
		}
		p.Close()
	})
}

type told func()

func (f told) Granted(*Gate) { f() }

func TestGateIsFirstComeFirstServed(t *testing.T) {
	g := NewGate(100)
	var order []int
	waiters := make([]Waiter, 4)
	acquire := func(i int, n int64) bool {
		return g.Acquire(&waiters[i], n, told(func() { order = append(order, i) }))
	}
	var first Waiter
	if !g.Acquire(&first, 60, nil) {
		t.Fatal("refused within the limit")
	}
	if acquire(0, 1000) { // more than all: runs alone
		t.Fatal("granted above the limit")
	}
	if acquire(1, 10) {
		t.Fatal("granted out of turn")
	}
	acquire(2, 20)
	acquire(3, 90)
	g.Release(60)
	if !slices.Equal(order, []int{0}) {
		t.Fatalf("granted %v", order)
	}
	g.Release(1000)
	if !slices.Equal(order, []int{0, 1, 2}) {
		t.Fatalf("granted %v", order)
	}
	if g.Cancel(&waiters[1]) {
		t.Error("a grant was cancelled")
	}
	if !g.Cancel(&waiters[3]) {
		t.Error("a place in the queue was not cancelled")
	}
	g.Release(10)
	g.Release(20)
	if len(order) != 3 || g.Free() != 100 {
		t.Errorf("granted %v, %d free", order, g.Free())
	}
}

func TestCancelLetsTheNextPass(t *testing.T) {
	g := NewGate(10)
	var a, b, c Waiter
	granted := ""
	g.Acquire(&a, 5, nil)
	g.Acquire(&b, 10, told(func() { granted += "b" }))
	g.Acquire(&c, 5, told(func() { granted += "c" }))
	if !g.Cancel(&b) || granted != "c" {
		t.Errorf("granted %q", granted)
	}
}

func TestGateUnderConcurrency(t *testing.T) {
	g := NewGate(50)
	var inside atomic.Int64
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 0))
			var w Waiter
			for range 500 {
				n := 1 + r.Int64N(70)
				there := make(chan struct{})
				if !g.Acquire(&w, n, told(func() { close(there) })) {
					if r.IntN(4) == 0 && g.Cancel(&w) {
						continue
					}
					<-there
				}
				if inside.Add(min(n, 50)) > 50 {
					t.Error("more inside than the gate lets in")
				}
				inside.Add(-min(n, 50))
				g.Release(n)
			}
		})
	}
	wg.Wait()
	if g.Free() != 50 {
		t.Errorf("%d free", g.Free())
	}
}

func TestNilGateHasNoLimit(t *testing.T) {
	g := NewGate(-1)
	if !g.Acquire(nil, 1<<40, nil) {
		t.Error("refused")
	}
	g.Release(1 << 40)
}

func BenchmarkStrandHandOff(b *testing.B) {
	p := NewPool(4)
	defer p.Close()
	s := NewStrand(p)
	done := make(chan struct{}, 1)
	n := Node{Job: Func(func() { done <- struct{}{} })}
	b.ReportAllocs()
	for b.Loop() {
		s.Push(&n)
		<-done
	}
}
