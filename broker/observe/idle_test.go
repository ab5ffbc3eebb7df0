package observe

import (
	"testing"
	"time"
)

// TestIdleness: what a processor did before the window does not count, and who looks often does not make the window shorter.
func TestIdleness(t *testing.T) {
	var i idleness
	rested := time.Duration(0)
	at := func(age, more time.Duration) float64 {
		rested += more
		return i.look(age, []time.Duration{rested})[0]
	}
	if got := at(0, 0); got != 1 {
		t.Errorf("of no time: %v", got)
	}
	if got := at(10*time.Second, 5*time.Second); got != 0.5 {
		t.Errorf("since the beginning: %v", got)
	}
	if got := at(20*time.Second, 0); got != 0.25 {
		t.Errorf("since the beginning: %v", got)
	}
	for s := 21; s < 60; s++ {
		at(time.Duration(s)*time.Second, time.Second)
	}
	if got := at(time.Minute, time.Second); got != 1 {
		t.Errorf("it has rested for longer than the window: %v", got)
	}
	if n := len(i.seen); n > 8 {
		t.Errorf("%d samples are kept", n)
	}
	if got := at(10*time.Minute, 0); got > 0.01 {
		t.Errorf("after a long time without anybody looking: %v", got)
	}
	if got := at(11*time.Minute, 30*time.Second); got != 0.5 {
		t.Errorf("between two looks: %v", got)
	}
}
