package log

import (
	"sync"
	"sync/atomic"
)

// position is where the log ends: pos bytes into the segment that begins at base.
type position struct{ base, pos int64 }

// view is a consistent set of what a log publishes.
type view struct {
	Bounds
	at position // of End
}

// published is a log's bounds, read without a lock and written without allocation. A writer makes seq odd while it
// changes the fields; a reader that saw an odd or a changed seq looks again.
type published struct {
	writing    sync.Mutex
	seq        atomic.Uint32
	start      atomic.Int64
	end        atomic.Int64
	hw         atomic.Int64
	unstable   atomic.Int64 // first unstable offset, -1 without
	base, size atomic.Int64 // position of end
}

// patience is how often a reader looks again before it waits for the writers.
const patience = 64

// view reads.
func (p *published) view() view {
	for range patience {
		before := p.seq.Load()
		v := p.load()
		if before&1 == 0 && p.seq.Load() == before {
			return v
		}
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	return p.load()
}

func (p *published) load() view {
	v := view{
		Bounds: Bounds{Start: p.start.Load(), End: p.end.Load(), HighWatermark: p.hw.Load()},
		at:     position{p.base.Load(), p.size.Load()},
	}
	v.Stable = v.HighWatermark
	if u := p.unstable.Load(); u >= 0 && u < v.Stable {
		v.Stable = max(u, v.Start) // the beginning of the transaction may have been deleted
	}
	return v
}

func (p *published) lock() {
	p.writing.Lock()
	p.seq.Add(1)
}

func (p *published) unlock() {
	p.seq.Add(1)
	p.writing.Unlock()
}

// appended publishes a new end.
func (p *published) appended(end int64, at position, unstable int64) {
	p.lock()
	p.end.Store(end)
	p.base.Store(at.base)
	p.size.Store(at.pos)
	p.unstable.Store(unstable)
	p.unlock()
}

// reset publishes everything after the log was loaded or truncated; the high watermark is cut to the bounds.
func (p *published) reset(start, end, hw int64, at position, unstable int64) {
	p.lock()
	p.start.Store(start)
	p.end.Store(end)
	p.hw.Store(min(max(hw, start), end))
	p.base.Store(at.base)
	p.size.Store(at.pos)
	p.unstable.Store(unstable)
	p.unlock()
}

// advance raises the high watermark to o, at most the end.
func (p *published) advance(o int64) bool {
	if o <= p.hw.Load() {
		return false
	}
	p.lock()
	defer p.unlock()
	if o = min(o, p.end.Load()); o <= p.hw.Load() {
		return false
	}
	p.hw.Store(o)
	return true
}

// raiseStart raises the log start to o.
func (p *published) raiseStart(o int64) bool {
	p.lock()
	defer p.unlock()
	if o <= p.start.Load() {
		return false
	}
	p.start.Store(o)
	return true
}

func (p *published) setUnstable(o int64) {
	p.lock()
	p.unstable.Store(o)
	p.unlock()
}
