package runtime

import "sync/atomic"

// Gather waits for the answers of several shards. Safe for concurrent use.
type Gather struct {
	left   atomic.Int64
	finish func()
}

// NewGather returns a Gather that calls finish once Done was called n times; at once if n is 0.
func NewGather(n int, finish func()) *Gather {
	g := &Gather{finish: finish}
	g.left.Store(int64(n))
	if n == 0 {
		finish()
	}
	return g
}

// Done says that one of them has answered.
func (g *Gather) Done() {
	if g.left.Add(-1) == 0 {
		g.finish()
	}
}
