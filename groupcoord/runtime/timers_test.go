package runtime

import (
	"math/rand/v2"
	"testing"
	"time"
)

// The heap must behave as a list that is searched: the same timers due, none early, each once.
func TestTimersAgainstAModel(t *testing.T) {
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		var h timers
		all := make([]*Timer, 40)
		due := map[*Timer]time.Duration{}
		for i := range all {
			all[i] = &Timer{Event: i}
		}
		now := time.Duration(0)
		for range 2000 {
			timer := all[rnd.IntN(len(all))]
			switch rnd.IntN(5) {
			case 0, 1, 2:
				at := now + time.Duration(rnd.IntN(100))
				h.set(timer, at)
				due[timer] = at
			case 3:
				h.stop(timer)
				delete(due, timer)
			case 4:
				now += time.Duration(rnd.IntN(20))
				for {
					fired := h.next(now)
					if fired == nil {
						break
					}
					at, ok := due[fired]
					if !ok || at > now {
						t.Fatalf("seed %d: timer %v fired at %v, due %v (pending: %v)", seed, fired.Event, now, at, ok)
					}
					delete(due, fired)
				}
				for timer, at := range due {
					if at <= now {
						t.Fatalf("seed %d: timer %v, due %v, did not fire at %v", seed, timer.Event, at, now)
					}
				}
			}
			if first, ok := h.earliest(); ok != (len(due) > 0) {
				t.Fatalf("seed %d: %d pending, heap says %v", seed, len(due), ok)
			} else {
				for _, at := range due {
					if at < first {
						t.Fatalf("seed %d: would look again at %v, a timer is due at %v", seed, first, at)
					}
				}
			}
			for timer := range due {
				if !timer.Pending() {
					t.Fatalf("seed %d: timer %v is not pending", seed, timer.Event)
				}
			}
		}
	}
}

func BenchmarkTimerMovedLater(b *testing.B) {
	var h timers
	list := make([]Timer, 100_000)
	for i := range list {
		h.set(&list[i], time.Duration(i))
	}
	b.ReportAllocs()
	for i := range b.N {
		h.set(&list[i%len(list)], time.Hour+time.Duration(i))
	}
}
