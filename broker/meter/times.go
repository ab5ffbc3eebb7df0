package meter

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	window   = time.Minute
	finer    = 3                // bits of a duration after its highest that tell: steps of an eighth
	buckets  = 64 << finer      //
	windows  = 3                // the one that grows, the one before, and one being emptied
	smallest = time.Microsecond // what is told apart
)

// Times counts durations: how many, their sum, and how they are spread over the last one to two windows. Safe for concurrent
// use; a duration that comes while its window begins may be lost.
type Times struct {
	count, sum atomic.Int64
	parts      [windows]part
}

type part struct {
	number atomic.Int64 // of the window, plus one; 0: unused
	counts [buckets]atomic.Uint32
}

// bucket is where a duration is counted; it rises with it.
func bucket(d time.Duration) int {
	n := uint64(max(d, 0) / smallest)
	if n < 1<<(finer+1) {
		return int(n)
	}
	high := bits.Len64(n) - 1
	return (high-finer)<<finer + int(n>>(high-finer))
}

// middle is a duration that stands for those in a bucket.
func middle(b int) time.Duration {
	if b < 1<<(finer+1) {
		return time.Duration(b) * smallest
	}
	high := b>>finer - 1 + finer
	low := uint64(b&(1<<finer-1)|1<<finer) << (high - finer)
	return time.Duration(low+1<<(high-finer)/2) * smallest
}

func (t *Times) add(now, d time.Duration) {
	t.count.Add(1)
	t.sum.Add(int64(d))
	number := int64(now/window) + 1
	p := &t.parts[number%windows]
	if old := p.number.Load(); old != number {
		if old > number || !p.number.CompareAndSwap(old, number) {
			return
		}
		for i := range p.counts {
			p.counts[i].Store(0)
		}
	}
	p.counts[bucket(d)].Add(1)
}

// look returns how many durations there were, their sum, and the quantiles.
func (t *Times) look(now time.Duration, shares []float64) (count int64, sum time.Duration, at []time.Duration) {
	return t.count.Load(), time.Duration(t.sum.Load()), t.quantiles(now, shares)
}

// quantiles returns the durations below which the given shares lie; 0 where there is none.
func (t *Times) quantiles(now time.Duration, shares []float64) []time.Duration {
	var counts [buckets]uint64
	total := uint64(0)
	for number := int64(now / window); number <= int64(now/window)+1; number++ {
		p := &t.parts[(number+windows)%windows]
		if number < 1 || p.number.Load() != number {
			continue
		}
		for i := range counts {
			n := uint64(p.counts[i].Load())
			counts[i] += n
			total += n
		}
	}
	at := make([]time.Duration, len(shares))
	for i, share := range shares {
		left := int64(math.Ceil(share * float64(total)))
		for b := 0; left > 0 && b < buckets; b++ {
			if left -= int64(counts[b]); left <= 0 {
				at[i] = middle(b)
			}
		}
	}
	return at
}
