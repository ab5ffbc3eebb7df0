package runtime

import (
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/gregor-broker/gregor/wire/errcode"
)

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

// Part is what one shard adds to a list of things of all shards. It is embedded in the Event that asks for it.
type Part[T any] struct {
	whole *whole[T]
	all   *Gather
}

// whole is the list.
type whole[T any] struct {
	sync.Mutex
	found []T
	err   error
}

// List submits to every shard the Event that ask makes of its Part, and calls done when all have answered: if one of them cannot,
// with an error.
func List[T any](r *Runtime, ask func(Part[T]) Event, done func(found []T, err error)) {
	partitions := r.Partitions()
	w := &whole[T]{}
	all := NewGather(len(partitions), func() {
		if w.err != nil {
			w.found = nil
		}
		done(w.found, w.err)
	})
	for _, p := range partitions {
		r.Submit(p, ask(Part[T]{w, all}))
	}
}

// Refuse implements Event. A partition that has just moved away is not ours to list.
func (p Part[T]) Refuse(err error) {
	if errcode.Of(err) != kerr.NotCoordinator.Code {
		p.whole.Lock()
		p.whole.err = err
		p.whole.Unlock()
	}
	p.all.Done()
}

// Answer adds what a shard has found, once that is safe.
func (p Part[T]) Answer(out *Out, found []T) {
	out.Then(func(err error, _ *Out) {
		if err != nil {
			p.Refuse(err)
			return
		}
		p.whole.Lock()
		p.whole.found = append(p.whole.found, found...)
		p.whole.Unlock()
		p.all.Done()
	})
}
