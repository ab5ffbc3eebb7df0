// Package buffers keeps byte slices for reuse by size class. Its lists are bounded, and, other than sync.Pool's, they do
// not lose everything at each garbage collection.
package buffers

import (
	"math/bits"
	"sync"

	"github.com/gregor-broker/gregor/wire/invariants"
)

const (
	minShift = 8  // the smallest class is 256 bytes
	maxShift = 23 // larger slices than 8 MiB are not kept: they are rare, and dear to keep
	perShift = 4  // classes between two powers of two, so that a buffer is at most a quarter larger than asked
	classes  = (maxShift-minShift)*perShift + 1

	maxPerClass  = 256      // buffers kept of one class
	bytesInClass = 4 << 20  // bytes kept of one class, but at least one buffer
	bytesInAll   = 16 << 20 // bytes kept in all
)

// Pool keeps buffers. The zero value is ready. Safe for concurrent use.
type Pool struct {
	mu struct {
		sync.Mutex
		kept int // bytes
	}
	lists [classes]list
}

type list struct {
	sync.Mutex
	free [][]byte
}

// Get returns a slice of length n whose contents are arbitrary.
func (p *Pool) Get(n int) []byte {
	c := classFor(n)
	if c < 0 {
		return make([]byte, n)
	}
	l := &p.lists[c]
	l.Lock()
	last := len(l.free) - 1
	if last < 0 {
		l.Unlock()
		return make([]byte, n, sizeOf(c))
	}
	b := l.free[last]
	l.free[last] = nil
	l.free = l.free[:last]
	l.Unlock()
	p.add(-cap(b))
	return b[:n]
}

// Put takes back a slice from Get, or any other that nobody will use again. In test builds its contents are overwritten,
// so that use after Put shows.
func (p *Pool) Put(b []byte) {
	Poison(b[:cap(b)])
	c := classFor(cap(b))
	if c < 0 || sizeOf(c) != cap(b) || !p.add(cap(b)) {
		return
	}
	l := &p.lists[c]
	l.Lock()
	if len(l.free) < maxPerClass && (len(l.free) == 0 || len(l.free)*cap(b) < bytesInClass) {
		l.free = append(l.free, b[:0])
		l.Unlock()
		return
	}
	l.Unlock()
	p.add(-cap(b))
}

// Drop lets go of all that is kept.
func (p *Pool) Drop() {
	for i := range p.lists {
		l := &p.lists[i]
		l.Lock()
		free := l.free
		l.free = nil
		l.Unlock()
		for _, b := range free {
			p.add(-cap(b))
		}
	}
}

// Kept returns the number of bytes in the lists.
func (p *Pool) Kept() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.kept
}

// add counts n more bytes as kept unless there would be too many.
func (p *Pool) add(n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n > 0 && p.mu.kept+n > bytesInAll {
		return false
	}
	p.mu.kept += n
	return true
}

// Size returns the capacity that a buffer for n bytes has.
func Size(n int) int {
	if c := classFor(n); c >= 0 {
		return sizeOf(c)
	}
	return n
}

// classFor returns the smallest class that holds n bytes, -1 if none does.
func classFor(n int) int {
	if n <= 1<<minShift {
		return 0
	}
	shift := bits.Len(uint(n-1)) - 1 // 2^shift < n ≤ 2^(shift+1)
	if shift >= maxShift {
		return -1
	}
	step := 1 << shift / perShift
	return (shift-minShift)*perShift + (n-1<<shift+step-1)/step
}

func sizeOf(class int) int {
	shift := class/perShift + minShift
	return 1<<shift + class%perShift*(1<<shift/perShift)
}

// Poison overwrites b in test builds.
func Poison(b []byte) {
	if invariants.Enabled && len(b) > 0 {
		b[0] = 0xdb
		for n := 1; n < len(b); n *= 2 {
			copy(b[n:], b[:n])
		}
	}
}
