package replica

import (
	"testing"
	"time"
)

// noted is a Place that counts.
type noted struct {
	gone           bool
	touched, woken int
}

func (f *noted) LastFetch() time.Duration { return 0 }
func (f *noted) Gone() bool               { return f.gone }

func (f *noted) Touch(wake bool) bool {
	f.touched++
	if wake {
		f.woken++
	}
	return !f.gone
}

// TestPlaces: each place is kept once, and none that is gone, whether or not anything happens.
func TestPlaces(t *testing.T) {
	var p places
	p.touch(true)
	kept := &noted{}
	for range 100 {
		lost := &noted{}
		p.add(lost)
		p.add(kept)
		lost.gone = true
	}
	if n := len(p.mu.list); n > 2 {
		t.Errorf("%d places are kept", n)
	}
	p.touch(false)
	p.touch(true)
	if n := len(p.mu.list); n != 1 || kept.touched != 2 || kept.woken != 1 {
		t.Errorf("%d places, %+v", n, *kept)
	}
	kept.gone = true
	p.touch(true)
	if p.count.Load() != 0 {
		t.Error("the last place is not cleared away")
	}
}
