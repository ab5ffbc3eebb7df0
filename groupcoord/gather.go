package groupcoord

import "sync/atomic"

// gather calls finish once done was called n times; at once if n is 0. Safe for concurrent use.
type gather struct {
	left   atomic.Int64
	finish func()
}

func newGather(n int, finish func()) *gather {
	g := &gather{finish: finish}
	g.left.Store(int64(n))
	if n == 0 {
		finish()
	}
	return g
}

func (g *gather) done() {
	if g.left.Add(-1) == 0 {
		g.finish()
	}
}
