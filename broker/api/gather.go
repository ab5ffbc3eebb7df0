package api

import "sync"

// gather collects the results of operations that end in any order and on any goroutine, and hands them over, in the
// order of their indexes, when all are there. Each index is put once.
type gather struct {
	mu struct {
		sync.Mutex
		missing int
		results []error
	}
	done func([]error)
}

func newGather(n int, done func([]error)) *gather {
	g := &gather{done: done}
	g.mu.missing = n
	g.mu.results = make([]error, n)
	if n == 0 {
		done(nil)
	}
	return g
}

func (g *gather) put(i int, err error) {
	g.mu.Lock()
	g.mu.results[i] = err
	g.mu.missing--
	complete := g.mu.missing == 0
	g.mu.Unlock()
	if complete {
		g.done(g.mu.results)
	}
}
