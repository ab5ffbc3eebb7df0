package bench

import (
	"math/bits"
	"sync"
	"time"
)

// histogram counts durations in buckets whose width is at most 1/32 of their value. Safe for concurrent use.
type histogram struct {
	mu struct {
		sync.Mutex
		counts [buckets]uint64
		total  uint64
		max    time.Duration
	}
}

const (
	mantissaBits = 5 // buckets per power of two: 2^5
	buckets      = (64 - mantissaBits + 1) << mantissaBits
)

// bucketOf returns the bucket of a number; numbers below 32 have one each.
func bucketOf(n uint64) int {
	exponent := max(bits.Len64(n)-mantissaBits-1, 0)
	return exponent<<mantissaBits + int(n>>exponent)
}

// upperBound is the largest number in a bucket.
func upperBound(bucket int) uint64 {
	if bucket < 2<<mantissaBits {
		return uint64(bucket)
	}
	exponent := bucket>>mantissaBits - 1
	mantissa := uint64(bucket) - uint64(exponent)<<mantissaBits
	return (mantissa+1)<<exponent - 1
}

func (h *histogram) record(d time.Duration) {
	d = max(d, 0)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.counts[bucketOf(uint64(d))]++
	h.mu.total++
	h.mu.max = max(h.mu.max, d)
}

// quantile returns the duration that the given part of all is not above; 0 if there are none.
func (h *histogram) quantile(part float64) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.total == 0 {
		return 0
	}
	rank := min(uint64(part*float64(h.mu.total)), h.mu.total-1)
	var seen uint64
	for bucket, n := range h.mu.counts {
		if seen += n; seen > rank {
			return min(time.Duration(upperBound(bucket)), h.mu.max)
		}
	}
	return h.mu.max
}
