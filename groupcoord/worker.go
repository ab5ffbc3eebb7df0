package groupcoord

import (
	"context"
	gosync "sync"
	"time"
)

// maxResolution is how long a group's regular expressions may be matched against the names of all topics.
const maxResolution = 3 * time.Second

// worker does what may take long, one job after the other, so that neither a shard nor a connection is held up by it, and not more
// than one core. Safe for concurrent use. Its goroutine lives while there are jobs.
type worker struct {
	wg gosync.WaitGroup
	mu struct {
		gosync.Mutex
		jobs            []func(stop func() bool)
		running, closed bool
	}
}

// do queues a job and does not block; once the worker is closed it does it at once. Each job is called once; stop tells it that nobody needs it any more.
func (w *worker) do(job func(stop func() bool)) {
	w.mu.Lock()
	if w.mu.closed {
		w.mu.Unlock()
		job(w.stopped)
		return
	}
	defer w.mu.Unlock()
	w.mu.jobs = append(w.mu.jobs, job)
	if !w.mu.running {
		w.mu.running = true
		w.wg.Go(w.run)
	}
}

func (w *worker) run() {
	for {
		w.mu.Lock()
		if len(w.mu.jobs) == 0 {
			w.mu.jobs, w.mu.running = nil, false
			w.mu.Unlock()
			return
		}
		job := w.mu.jobs[0]
		w.mu.jobs[0] = nil
		w.mu.jobs = w.mu.jobs[1:]
		w.mu.Unlock()
		job(w.stopped)
	}
}

func (w *worker) stopped() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.closed
}

// close makes all jobs end, and waits for that or for ctx.
func (w *worker) close(ctx context.Context) error {
	w.mu.Lock()
	w.mu.closed = true
	w.mu.Unlock()
	done := make(chan struct{})
	go func() { w.wg.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
