package cleaner

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gregor-broker/gregor/wire/clock"
)

func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		settings, changed := &Settings{}, make(chan struct{}, 1)
		p := pace{clock: clock.System, settings: func() *Settings { return settings }, changed: changed, due: clock.System.Monotonic()}
		took := func(ctx context.Context, batches, size int) (time.Duration, error) {
			began := clock.System.Monotonic()
			for range batches {
				if err := p.take(ctx, size); err != nil {
					return clock.System.Monotonic() - began, err
				}
			}
			return clock.System.Monotonic() - began, nil
		}
		if d, err := took(t.Context(), 1000, 1<<20); d != 0 || err != nil {
			t.Errorf("without a limit: %v, %v", d, err)
		}
		settings = &Settings{BytesPerSecond: 1 << 20}
		if d, err := took(t.Context(), 1000, 10<<10); d < 9*time.Second || d > 10*time.Second || err != nil {
			t.Errorf("ten megabytes at one a second: %v, %v", d, err)
		}
		settings = &Settings{BytesPerSecond: 1}
		changed <- struct{}{}
		if d, err := took(t.Context(), 1, 1<<20); d != 0 || err != nil {
			t.Errorf("when the settings change: %v, %v", d, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if d, err := took(ctx, 1, 1<<20); d != time.Minute || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("when the cleaner ends: %v, %v", d, err)
		}
	})
}
