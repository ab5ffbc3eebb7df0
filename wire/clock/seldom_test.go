package clock

import (
	"testing"
	"time"
)

func TestSeldom(t *testing.T) {
	c := NewFake(time.Unix(0, 0))
	s := Seldom{}
	for i, w := range []struct {
		after   time.Duration
		leftOut int
		due     bool
	}{{0, 0, true}, {time.Second, 0, false}, {58 * time.Second, 0, false}, {time.Second, 2, true}, {time.Minute, 0, true}} {
		c.Advance(w.after)
		if leftOut, due := s.Due(c, time.Minute); leftOut != w.leftOut || due != w.due {
			t.Errorf("%d: %d, %v; want %d, %v", i, leftOut, due, w.leftOut, w.due)
		}
	}
}
