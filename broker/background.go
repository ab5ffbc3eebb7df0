package broker

import (
	"context"
	"time"
)

// rest waits for d; false when ctx ended first.
func (b *Broker) rest(ctx context.Context, d time.Duration) bool {
	elapsed, timer := b.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-elapsed:
		return true
	case <-ctx.Done():
		return false
	}
}

// stopBackground ends what runs on goroutines of the broker's own and waits for it.
func (b *Broker) stopBackground(context.Context) error {
	b.cancel()
	b.background.Wait()
	if b.proposals != nil {
		b.proposals.close()
	}
	return nil
}
