package wire

import (
	"testing"
	"time"

	"github.com/gregor-broker/gregor/wire/clock"
)

func TestSamplerCountsWhatItLeavesOut(t *testing.T) {
	clk := clock.NewFake(time.UnixMilli(0))
	s := sampler{clock: clk}
	written := 0
	for range 100 {
		if left, ok := s.allow(); ok {
			written++
			if left != nil {
				t.Errorf("a line says that others were left out: %v", left)
			}
		}
	}
	if written != linesPerSecond {
		t.Errorf("%d lines in a second", written)
	}
	clk.Advance(time.Second)
	left, ok := s.allow()
	if !ok || len(left) != 1 || left[0].Integer != int64(100-linesPerSecond) {
		t.Errorf("the next line says %v", left)
	}
	if left, _ := s.allow(); left != nil {
		t.Errorf("and the one after it %v", left)
	}
}
