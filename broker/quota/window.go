package quota

import "time"

// Windows says over what a rate is measured: Num windows of Size each, the last of which is still open.
type Windows struct {
	Num  int
	Size time.Duration
}

// window adds up what happened in the last windows. Kept by whoever locks it. After
// org.apache.kafka.common.metrics.stats.SampledStat: a sample begins with what it counts first, and one that overlaps
// the oldest window counts whole.
type window struct {
	Windows
	samples []sample
	current int
}

type sample struct {
	start, last time.Duration // of its first and its last event; start also when there was none yet
	sum         float64
}

// sampleAt returns the sample that an event at now belongs to.
func (w *window) sampleAt(now time.Duration) *sample {
	if len(w.samples) == 0 {
		w.samples = append(w.samples, sample{start: now, last: now})
	}
	s := &w.samples[w.current]
	if now-s.start < w.Size {
		return s
	}
	if w.current = (w.current + 1) % (w.Num + 1); w.current == len(w.samples) {
		w.samples = append(w.samples, sample{})
	}
	s = &w.samples[w.current]
	*s = sample{start: now, last: now}
	return s
}

// add counts n, which may be negative, at now.
func (w *window) add(now time.Duration, n float64) {
	s := w.sampleAt(now)
	s.sum += n
	s.last = now
}

// total returns what the windows hold at now, and when the oldest of them began.
func (w *window) total(now time.Duration) (sum float64, oldest time.Duration) {
	w.sampleAt(now)
	age := time.Duration(w.Num) * w.Size
	for i := range w.samples {
		if s := &w.samples[i]; now-s.last >= age {
			*s = sample{start: now, last: now}
		}
	}
	oldest = now
	for i := range w.samples {
		sum += w.samples[i].sum
		oldest = min(oldest, w.samples[i].start)
	}
	return sum, oldest
}

// rate returns what happened per second, and over how long that is measured. What has not run long enough is taken as if
// it had run all windows but one, so that a first burst is no high rate (Rate.windowSize).
func (w *window) rate(now time.Duration) (perSecond float64, over time.Duration) {
	sum, oldest := w.total(now)
	over = now - oldest
	if full, least := int(over/w.Size), w.Num-1; full < least {
		over += time.Duration(least-full) * w.Size
	}
	over = max(over, time.Millisecond)
	return sum / over.Seconds(), over
}

// simpleRate returns what happened per second since the oldest sample began, or in one window (SimpleRate).
func (w *window) simpleRate(now time.Duration) float64 {
	sum, oldest := w.total(now)
	return sum / max(now-oldest, w.Size).Seconds()
}
