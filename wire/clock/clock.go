// Package clock is the one source of time. State machines take a time as an argument; what drives them takes a Clock,
// so that a test can turn it.
package clock

import "time"

// Clock tells the time and calls back later. Safe for concurrent use.
type Clock interface {
	Now() time.Time                            // wall time, which may jump in either direction
	Monotonic() time.Duration                  // never goes back; only differences have a meaning
	AfterFunc(d time.Duration, f func()) Timer // calls f once on a goroutine of its own after d
	NewTimer(d time.Duration) (<-chan time.Time, Timer)
}

// Timer is a pending call. Stop and Reset report whether it was still pending, as time.Timer does.
type Timer interface {
	Stop() bool
	Reset(d time.Duration) bool
}

// System is the machine's clock; inside a testing/synctest bubble it is the bubble's.
var System Clock = system{started: time.Now()}

type system struct{ started time.Time }

func (system) Now() time.Time             { return time.Now() }
func (s system) Monotonic() time.Duration { return time.Since(s.started) }

func (system) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }

func (system) NewTimer(d time.Duration) (<-chan time.Time, Timer) {
	t := time.NewTimer(d)
	return t.C, t
}
