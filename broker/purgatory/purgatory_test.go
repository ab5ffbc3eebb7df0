package purgatory

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/gregor-broker/gregor/wire/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// op is ready when its flag is, and counts how it was finished.
type op struct {
	ready             atomic.Bool
	finished, expired atomic.Int32
	at                func() time.Duration
	when              time.Duration
}

func (o *op) Ready() bool { return o.ready.Load() }

func (o *op) Finish(expired bool) {
	if o.at != nil {
		o.when = o.at()
	}
	if expired {
		o.expired.Add(1)
	}
	o.finished.Add(1)
}

func goPool(f func()) { go f() }

// sleep lets virtual time pass in a synctest bubble.
func sleep(d time.Duration) {
	c, _ := clock.System.NewTimer(d)
	<-c
}

// queue is a pool that runs its functions when told.
type queue struct{ fs []func() }

func (q *queue) add(f func()) { q.fs = append(q.fs, f) }

func (q *queue) run() {
	for len(q.fs) > 0 {
		f := q.fs[0]
		q.fs = q.fs[1:]
		f()
	}
}

func TestNotifyFinishesOnlyWhatIsReady(t *testing.T) {
	q := &queue{}
	p := New(clock.NewFake(time.UnixMilli(0)), q.add)
	var a, b List
	first, second := &op{}, &op{}
	p.Watch(first, time.Second, &a, &b)
	p.Watch(second, time.Second, &b)
	b.Notify()
	q.run()
	if n := first.finished.Load() + second.finished.Load(); n != 0 {
		t.Fatalf("%d operations finished before they were ready", n)
	}
	first.ready.Store(true)
	b.Notify()
	if first.finished.Load() != 0 {
		t.Error("Finish ran inside Notify")
	}
	q.run()
	if first.finished.Load() != 1 || second.finished.Load() != 0 {
		t.Errorf("finished %d and %d times, want 1 and 0", first.finished.Load(), second.finished.Load())
	}
	if a.count.Load() != 0 || b.count.Load() != 1 || p.Waiting() != 1 {
		t.Errorf("%d, %d in the lists and %d waiting, want 0, 1 and 1", a.count.Load(), b.count.Load(), p.Waiting())
	}
}

func TestWatchLooksOnceItself(t *testing.T) {
	q := &queue{}
	p := New(clock.NewFake(time.UnixMilli(0)), q.add)
	o := &op{}
	o.ready.Store(true)
	var l List
	p.Watch(o, time.Second, &l)
	q.run()
	if o.finished.Load() != 1 || o.expired.Load() != 0 || l.count.Load() != 0 || p.Waiting() != 0 {
		t.Errorf("an operation that was ready when it came: finished %d, expired %d", o.finished.Load(), o.expired.Load())
	}
}

func TestNotifyCoalesces(t *testing.T) {
	q := &queue{}
	p := New(clock.NewFake(time.UnixMilli(0)), q.add)
	var l List
	l.Notify()
	p.Watch(&op{}, time.Second, &l)
	for range 5 {
		l.Notify()
	}
	if len(q.fs) != 1 {
		t.Errorf("%d looks are queued after five notifications, want 1", len(q.fs))
	}
}

func TestDeadlinesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(clock.System, goPool)
		start := clock.System.Monotonic()
		var l List
		ops := make([]*op, 500)
		waits := make([]time.Duration, len(ops))
		for i := range ops {
			ops[i] = &op{at: func() time.Duration { return clock.System.Monotonic() - start }}
			waits[i] = time.Duration(rand.IntN(100_000)) * time.Millisecond
			p.Watch(ops[i], waits[i], &l)
		}
		sleep(101 * time.Second)
		synctest.Wait()
		for i, o := range ops {
			if o.finished.Load() != 1 || o.expired.Load() != 1 || o.when != waits[i] {
				t.Fatalf("operation %d: finished %d times, at %v; its wait was %v", i, o.finished.Load(), o.when, waits[i])
			}
		}
		if p.Waiting() != 0 || l.count.Load() != 0 {
			t.Errorf("%d waiting and %d in the list after all deadlines", p.Waiting(), l.count.Load())
		}
		p.Close()
	})
}

func TestLooksAgainWithoutNotify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(clock.System, goPool)
		o := &op{}
		p.Watch(o, 24*time.Hour, &List{})
		sleep(lookAgain / 2)
		o.ready.Store(true)
		sleep(lookAgain)
		synctest.Wait()
		if o.finished.Load() != 1 || o.expired.Load() != 0 {
			t.Errorf("finished %d, expired %d; want it finished by the look after %v", o.finished.Load(), o.expired.Load(), lookAgain)
		}
		p.Close()
	})
}

func TestClose(t *testing.T) {
	q := &queue{}
	p := New(clock.NewFake(time.UnixMilli(0)), q.add)
	before, after := &op{}, &op{}
	var l List
	p.Watch(before, time.Hour, &l)
	p.Close()
	p.Watch(after, time.Hour, &l)
	q.run()
	for name, o := range map[string]*op{"before": before, "after": after} {
		if o.finished.Load() != 1 || o.expired.Load() != 1 {
			t.Errorf("%s Close: finished %d, expired %d; want 1 and 1", name, o.finished.Load(), o.expired.Load())
		}
	}
	if l.count.Load() != 0 {
		t.Errorf("%d left in the list", l.count.Load())
	}
}

// counter is ready once a published offset has reached its own.
type counter struct {
	offset *atomic.Int64
	want   int64
	done   sync.WaitGroup
	times  atomic.Int32
}

func (c *counter) Ready() bool { return c.offset.Load() >= c.want }

func (c *counter) Finish(bool) {
	c.times.Add(1)
	c.done.Done()
}

func TestNoWakeUpIsLost(t *testing.T) {
	p := New(clock.System, goPool)
	defer p.Close()
	var offsets [4]atomic.Int64
	var lists [4]List
	const each = 3000
	var writers, watchers sync.WaitGroup
	for i := range lists {
		writers.Go(func() {
			for range each {
				offsets[i].Add(1)
				lists[i].Notify()
			}
		})
		watchers.Go(func() {
			for want := int64(1); want <= each; want += 7 {
				c := &counter{offset: &offsets[i], want: want}
				c.done.Add(1)
				p.Watch(c, time.Hour, &lists[i], &lists[(i+1)%len(lists)])
				c.done.Wait() // hangs if a wake-up was lost
				if n := c.times.Load(); n != 1 {
					t.Errorf("finished %d times", n)
				}
			}
		})
	}
	writers.Wait()
	watchers.Wait()
	for i := range lists {
		if n := lists[i].count.Load(); n != 0 {
			t.Errorf("list %d still holds %d", i, n)
		}
	}
}

func BenchmarkNotifyNobody(b *testing.B) {
	var l List
	b.ReportAllocs()
	for b.Loop() {
		l.Notify()
	}
}

func BenchmarkWatchThenFinish(b *testing.B) {
	q := &queue{}
	p := New(clock.System, q.add)
	defer p.Close()
	var l List
	o := &op{}
	o.ready.Store(true)
	b.ReportAllocs()
	for b.Loop() {
		p.Watch(o, time.Second, &l)
		q.run()
	}
}
