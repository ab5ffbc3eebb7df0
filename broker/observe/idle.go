package observe

import (
	"slices"
	"sync"
	"time"
)

// idleWindow is the time, at least, over which idleness is told: Kafka's rates look back over one to two windows of this length.
const idleWindow = 30 * time.Second

// samplesApart is how much older than the next a sample is, so that who looks all the time does not fill the memory.
const samplesApart = idleWindow / 6

// idleness makes of how long processors have rested in all which part of the last time that was. It remembers what it saw when somebody
// looked. Safe for concurrent use.
type idleness struct {
	mu   sync.Mutex
	seen []restSample // the first is the one that is compared with
}

// restSample is for how long each processor had rested at an age.
type restSample struct {
	age    time.Duration
	rested []time.Duration
}

// look returns the part of the time for each processor, over a window and a bit, or since it began while it is younger.
func (i *idleness) look(age time.Duration, rested []time.Duration) []float64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.seen == nil {
		i.seen = []restSample{{0, make([]time.Duration, len(rested))}}
	}
	for len(i.seen) > 1 && age-i.seen[1].age >= idleWindow {
		i.seen = i.seen[1:]
	}
	base := i.seen[0]
	parts := make([]float64, len(rested))
	for p := range parts {
		parts[p] = 1
		if passed := age - base.age; passed > 0 {
			parts[p] = min(1, max(0, (rested[p]-base.rested[p]).Seconds()/passed.Seconds()))
		}
	}
	if age-i.seen[len(i.seen)-1].age >= samplesApart {
		i.seen = append(slices.Clip(i.seen), restSample{age, rested})
	}
	return parts
}
