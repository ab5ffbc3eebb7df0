package broker

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/store/storetest"
	"github.com/gregor-broker/gregor/wire/clock"
)

// The simulation is a cluster on one goroutine and virtual time: the controllers' machines, the replica managers over real
// logs in memory, the fetchers' machines, and a metadata store that all of them share. What is not real is what moves bytes
// and waits: the network between them (simConn), their goroutines (events of a queue) and their clocks. Everything that is
// left to chance is drawn from one seed, so a seed that fails fails again.

// simWorld is what is outside of the brokers' processes.
type simWorld struct {
	t         *testing.T
	rand      *rand.Rand
	now       time.Duration
	queue     simQueue
	last      uint64
	conns     uint64 // made so far
	store     *storetest.Fake
	brokers   []*simBroker    // [id-1]
	sessions  []*simControl   // with the store
	cut       map[simLink]int // links on which nothing arrives, with how often they were cut
	pace      time.Duration   // between two bad things, at most
	chaos     bool            // while bad things happen
	facts     simFacts        // what must stay true
	producers []*simProducer
	resting   bool                     // clients do nothing any more
	print     bool                     // every event
	counted   struct{ hash, n uint64 } // of the events, to see that a seed repeats itself
}

// simLink is a direction between two machines; 0 is the metadata store.
type simLink struct{ from, to int32 }

// simEvent is something that happens at a time.
type simEvent struct {
	at   time.Duration
	seq  uint64
	what string
	run  func()
}

type simQueue []simEvent

func (q simQueue) Len() int { return len(q) }
func (q simQueue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q simQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *simQueue) Push(e any)   { *q = append(*q, e.(simEvent)) }
func (q *simQueue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = simEvent{}
	*q = (*q)[:last]
	return e
}

func newSimWorld(t *testing.T, seed uint64, brokers int) *simWorld {
	w := &simWorld{t: t, rand: rand.New(rand.NewPCG(seed, 9)), cut: map[simLink]int{}, print: os.Getenv("GREGOR_TRACE") != ""}
	w.facts.begin(w)
	w.store = storetest.NewFake(worldClock{w})
	w.store.OnCommit = func(*storetest.Client, []store.Op) storetest.Fault {
		if w.chaos && w.rand.IntN(40) == 0 {
			return storetest.Fault(1 + w.rand.IntN(2))
		}
		return storetest.NoFault
	}
	for i := range brokers {
		b := newSimBroker(w, int32(i+1))
		w.brokers = append(w.brokers, b)
		b.start()
	}
	return w
}

// at has something happen after d.
func (w *simWorld) at(d time.Duration, what string, run func()) {
	w.last++
	heap.Push(&w.queue, simEvent{w.now + max(0, d), w.last, what, run})
}

// step lets the next thing happen.
func (w *simWorld) step() {
	e := heap.Pop(&w.queue).(simEvent)
	w.now = e.at
	w.counted.n++
	w.counted.hash = (w.counted.hash^uint64(e.at)^uint64(len(e.what))<<56)*0x100000001b3 + uint64(e.what[0])
	if w.print {
		w.t.Logf("%d %v %s", w.counted.n, e.at, e.what)
	}
	e.run()
	w.facts.look()
}

// pass lets time pass.
func (w *simWorld) pass(d time.Duration) {
	end := w.now + d
	for len(w.queue) > 0 && w.queue[0].at <= end && !w.t.Failed() {
		w.step()
	}
	w.now = end
}

// between is a time drawn evenly.
func (w *simWorld) between(from, to time.Duration) time.Duration {
	return from + time.Duration(w.rand.Int64N(int64(to-from)+1))
}

// mostly short is a time up to limit, most often much less.
func (w *simWorld) mostlyShort(limit time.Duration) time.Duration {
	return w.between(0, limit>>w.rand.IntN(8))
}

func (w *simWorld) anyone() *simBroker { return w.brokers[w.rand.IntN(len(w.brokers))] }

// say notes something in the trace.
func (w *simWorld) say(format string, args ...any) {
	if w.print {
		w.t.Logf("%v: %s", w.now, fmt.Sprintf(format, args...))
	}
}

var simBegin = time.UnixMilli(1_700_000_000_000)

// worldClock is the metadata store's.
type worldClock struct{ *simWorld }

func (c worldClock) Now() time.Time                                         { return simBegin.Add(c.now) }
func (c worldClock) Monotonic() time.Duration                               { return c.now }
func (c worldClock) AfterFunc(time.Duration, func()) clock.Timer            { panic("not used") }
func (c worldClock) NewTimer(time.Duration) (<-chan time.Time, clock.Timer) { panic("not used") }

// simClock is a process's: its wall time jumps, its timers run with the process.
type simClock struct{ *simProc }

func (c simClock) Now() time.Time           { return simBegin.Add(c.w.now + c.broker.skew) }
func (c simClock) Monotonic() time.Duration { return c.w.now - c.began }
func (c simClock) NewTimer(time.Duration) (<-chan time.Time, clock.Timer) {
	panic("what waits for a channel has a goroutine of its own, which the simulation has not")
}

func (c simClock) AfterFunc(d time.Duration, call func()) clock.Timer {
	t := &simTimer{proc: c.simProc, call: call}
	t.Reset(d)
	return t
}

type simTimer struct {
	proc *simProc
	call func()
	set  int // how often; the last one counts
	on   bool
}

func (t *simTimer) Stop() bool {
	on := t.on
	t.on = false
	return on
}

func (t *simTimer) Reset(d time.Duration) bool {
	on := t.on
	t.on = true
	t.set++
	set := t.set
	t.proc.after(d, "timer", func() {
		if t.on && t.set == set {
			t.on = false
			t.call()
		}
	})
	return on
}

// logClock is for the logs, whose goroutines must not find anything to do by themselves: for them no time passes.
type logClock struct{ simClock }

func (c logClock) Monotonic() time.Duration { return 0 }

func (c logClock) NewTimer(time.Duration) (<-chan time.Time, clock.Timer) { return nil, &simTimer{} }
