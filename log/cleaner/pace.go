package cleaner

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/gregor-broker/gregor/wire/clock"
)

// paceStep is how far ahead of its rate the cleaner may be before it rests, so that it does not rest after each batch.
const paceStep = 100 * time.Millisecond

// pace keeps what is read and written within Settings.BytesPerSecond. Owned by the cleaner's goroutine. After
// org.apache.kafka.storage.internals.utils.Throttler.
type pace struct {
	clock    clock.Clock
	settings func() *Settings
	changed  <-chan struct{} // the settings have changed
	due      time.Duration   // when all so far is within the rate
	bytes    atomic.Int64    // all so far; anybody may look
}

// take counts n bytes, and rests if they are too many. The error is ctx's.
func (p *pace) take(ctx context.Context, n int) error {
	p.bytes.Add(int64(n))
	rate := p.settings().BytesPerSecond
	if rate <= 0 {
		return ctx.Err()
	}
	now := p.clock.Monotonic()
	p.due = max(p.due, now) + time.Duration(min(float64(n)/rate, maxRest.Seconds())*float64(time.Second))
	if p.due-now < paceStep {
		return ctx.Err()
	}
	over, timer := p.clock.NewTimer(p.due - now)
	defer timer.Stop()
	select {
	case <-over:
	case <-p.changed:
		p.due = p.clock.Monotonic()
	case <-ctx.Done():
	}
	return ctx.Err()
}

// maxRest bounds what one batch can cost at a very small rate.
const maxRest = 24 * time.Hour
