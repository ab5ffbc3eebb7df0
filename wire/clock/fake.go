package clock

import (
	"sync"
	"time"
)

// Fake is a clock that moves only when told to. Safe for concurrent use.
type Fake struct {
	mu struct {
		sync.Mutex
		wall   time.Time
		mono   time.Duration
		timers map[*fakeTimer]struct{}
	}
}

// NewFake returns a clock whose wall time is now.
func NewFake(now time.Time) *Fake {
	f := &Fake{}
	f.mu.wall = now
	f.mu.timers = map[*fakeTimer]struct{}{}
	return f
}

// Now returns the wall time.
func (f *Fake) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.wall
}

// Monotonic returns how far the clock was advanced.
func (f *Fake) Monotonic() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.mono
}

// Jump sets the wall time without letting time pass: no timer fires.
func (f *Fake) Jump(to time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.wall = to
}

// Advance lets d pass: timers that become due are called in order of their due times, on the caller's goroutine.
func (f *Fake) Advance(d time.Duration) {
	f.mu.Lock()
	end := f.mu.mono + d
	for {
		next := f.earliest(end)
		if next == nil {
			break
		}
		f.moveTo(next.due)
		delete(f.mu.timers, next)
		call, now := next.call, f.mu.wall
		f.mu.Unlock()
		call(now)
		f.mu.Lock()
	}
	f.moveTo(end)
	f.mu.Unlock()
}

// earliest returns the first timer due at or before end. The caller holds mu.
func (f *Fake) earliest(end time.Duration) *fakeTimer {
	var first *fakeTimer
	for t := range f.mu.timers {
		if t.due <= end && (first == nil || t.due < first.due) {
			first = t
		}
	}
	return first
}

// moveTo moves both times forward. The caller holds mu.
func (f *Fake) moveTo(mono time.Duration) {
	if mono > f.mu.mono {
		f.mu.wall = f.mu.wall.Add(mono - f.mu.mono)
		f.mu.mono = mono
	}
}

// AfterFunc calls fn during the Advance that reaches d.
func (f *Fake) AfterFunc(d time.Duration, fn func()) Timer {
	return f.add(d, func(time.Time) { fn() })
}

// NewTimer sends the wall time during the Advance that reaches d.
func (f *Fake) NewTimer(d time.Duration) (<-chan time.Time, Timer) {
	c := make(chan time.Time, 1)
	return c, f.add(d, func(now time.Time) {
		select {
		case c <- now:
		default:
		}
	})
}

func (f *Fake) add(d time.Duration, call func(time.Time)) *fakeTimer {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := &fakeTimer{clock: f, due: f.mu.mono + d, call: call}
	f.mu.timers[t] = struct{}{}
	return t
}

type fakeTimer struct {
	clock *Fake
	due   time.Duration
	call  func(time.Time)
}

func (t *fakeTimer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	_, pending := t.clock.mu.timers[t]
	delete(t.clock.mu.timers, t)
	return pending
}

func (t *fakeTimer) Reset(d time.Duration) bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	_, pending := t.clock.mu.timers[t]
	t.due = t.clock.mu.mono + d
	t.clock.mu.timers[t] = struct{}{}
	return pending
}
