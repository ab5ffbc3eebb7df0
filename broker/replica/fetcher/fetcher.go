package fetcher

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/wire/clock"
)

// Client is a connection to one broker, as peer.Client is: Do is called by one goroutine, Close by any.
type Client interface {
	// Do sends r and reads the answer into response, whose byte slices are valid until the next Do.
	Do(ctx context.Context, r kmsg.Request, response kmsg.Response) error
	Close()
}

// fetcher is the goroutine that follows some of what one broker leads.
type fetcher struct {
	machine *Machine // only the goroutine's, but for Failed
	client  Client
	end     func() // from any goroutine: the fetcher is needed no more
	index   int32  // among those that go to its broker
	clock   clock.Clock
	logger  *zap.Logger
	maxWait time.Duration
	wake    chan struct{} // has room for one

	mu struct {
		sync.Mutex
		inbox []order
		// interrupt ends the Fetch that is on its way; nil when none is, or it may not be interrupted.
		interrupt   context.CancelFunc
		interrupted bool
		lastFor     time.Duration // when a Fetch was interrupted last
	}
}

// order adds a partition, or removes it.
type order struct {
	Assignment
	remove bool
}

// take gives the goroutine orders. One that brings new partitions interrupts the Fetch on its way, so that they need
// not wait until that has waited for the others; but rarely, since the next Fetch then names all partitions.
func (f *fetcher) take(orders []order, urgent bool) {
	f.mu.Lock()
	f.mu.inbox = append(f.mu.inbox, orders...)
	now := f.clock.Monotonic()
	if urgent && f.mu.interrupt != nil && now-f.mu.lastFor >= f.maxWait {
		f.mu.lastFor, f.mu.interrupted = now, true
		f.mu.interrupt()
		f.mu.interrupt = nil
	}
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// run does what the machine says until ctx ends.
func (f *fetcher) run(ctx context.Context) {
	defer f.client.Close()
	for ctx.Err() == nil {
		f.obey()
		step := f.machine.Next(f.clock.Monotonic())
		switch r := step.Request.(type) {
		case *kmsg.FetchRequest:
			f.fetch(ctx, r)
		case *kmsg.ListOffsetsRequest:
			response := kmsg.NewPtrListOffsetsResponse()
			err := f.client.Do(ctx, r, response)
			f.logBroken(ctx, err)
			f.machine.Listed(f.clock.Monotonic(), r, response, err)
		default:
			f.sleep(ctx, step.Wait)
		}
		f.logRefused()
	}
}

// obey carries out the orders that have come.
func (f *fetcher) obey() {
	f.mu.Lock()
	orders := f.mu.inbox
	f.mu.inbox = nil
	f.mu.Unlock()
	for i := range orders {
		if o := &orders[i]; o.remove {
			f.machine.Remove(o.TopicPartition)
		} else {
			f.machine.Add(o.Assignment)
		}
	}
}

func (f *fetcher) fetch(ctx context.Context, r *kmsg.FetchRequest) {
	doing, cancel := context.WithCancel(ctx)
	defer cancel()
	f.mu.Lock()
	if len(f.mu.inbox) == 0 {
		f.mu.interrupt = cancel
	} else {
		r.MaxWaitMillis = 0 // more has come since
	}
	f.mu.interrupted = false
	f.mu.Unlock()
	response := kmsg.NewPtrFetchResponse()
	err := f.client.Do(doing, r, response)
	f.mu.Lock()
	f.mu.interrupt = nil
	interrupted := f.mu.interrupted
	f.mu.Unlock()
	if err != nil && interrupted {
		f.machine.Interrupted()
		return
	}
	f.logBroken(ctx, err)
	f.machine.Fetched(f.clock.Monotonic(), response, err)
}

// sleep waits for d, or Forever, or until an order comes.
func (f *fetcher) sleep(ctx context.Context, d time.Duration) {
	var due <-chan time.Time
	if d != Forever {
		c, timer := f.clock.NewTimer(d)
		defer timer.Stop()
		due = c
	}
	select {
	case <-f.wake:
	case <-due:
	case <-ctx.Done():
	}
}

// logBroken notes that the leader's broker cannot be reached: once, until it can again.
func (f *fetcher) logBroken(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil && f.machine.failures == 0 {
		f.logger.Warn("fetching from a broker failed; trying again", zap.Error(err))
	}
}

func (f *fetcher) logRefused() {
	for _, r := range f.machine.Refused() {
		words := "a partition could not be fetched; trying again"
		if r.Failed {
			words = "a partition is not fetched any more until the controller's next order"
		}
		f.logger.Warn(words, zap.String("topic", r.Topic), zap.Int32("partition", r.Partition),
			zap.Int32("leader_epoch", r.LeaderEpoch), zap.Error(r.Err))
	}
}

// hash is by which a partition finds its fetcher at a broker (AbstractFetcherManager.getFetcherId).
func hash(tp log.TopicPartition) uint32 {
	h := int32(0)
	for _, c := range []byte(tp.Topic) {
		h = 31*h + int32(c)
	}
	if h = 31*h + tp.Partition; h < 0 {
		h = -h
	}
	return uint32(max(0, h)) // the least number has no positive counterpart
}
