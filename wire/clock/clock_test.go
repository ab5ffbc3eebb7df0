package clock

import (
	"slices"
	"testing"
	"time"
)

func TestFakeFiresInOrderOfDueTimes(t *testing.T) {
	start := time.UnixMilli(1000)
	f := NewFake(start)
	var fired []string
	f.AfterFunc(2*time.Second, func() { fired = append(fired, "two "+f.Now().Sub(start).String()) })
	f.AfterFunc(time.Second, func() {
		fired = append(fired, "one "+f.Now().Sub(start).String())
		f.AfterFunc(500*time.Millisecond, func() { fired = append(fired, "nested "+f.Now().Sub(start).String()) })
	})
	stopped := f.AfterFunc(time.Second, func() { fired = append(fired, "stopped") })
	if !stopped.Stop() || stopped.Stop() {
		t.Error("Stop must report a pending timer once")
	}
	f.Advance(3 * time.Second)
	want := []string{"one 1s", "nested 1.5s", "two 2s"}
	if !slices.Equal(fired, want) {
		t.Errorf("fired %v, want %v", fired, want)
	}
}

func TestFakeJumpMovesOnlyTheWall(t *testing.T) {
	f := NewFake(time.UnixMilli(0))
	c, _ := f.NewTimer(time.Minute)
	f.Jump(time.UnixMilli(0).Add(time.Hour))
	select {
	case <-c:
		t.Fatal("a jump of the wall clock fired a timer")
	default:
	}
	if f.Monotonic() != 0 {
		t.Errorf("monotonic time is %v after a jump, want 0", f.Monotonic())
	}
	f.Advance(time.Minute)
	select {
	case <-c:
	default:
		t.Error("the timer did not fire when its time had passed")
	}
}
