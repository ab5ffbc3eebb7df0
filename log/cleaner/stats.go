package cleaner

import "time"

// Stats is what the cleaner did last. After LogCleaner and LogCleanerManager of Apache Kafka.
type Stats struct {
	LookedAt time.Duration // monotonic time at which it last looked for something to clean
	// As it was then, of all logs:
	DirtyPercent int           // the largest part of one that is dirty
	Delay        time.Duration // the longest time for which one should have been cleaned by max.compaction.lag.ms
	// Of the last round:
	Took          time.Duration
	BufferPercent int // of the memory for keys that it used
	RecopyPercent int // of what it read that it wrote again

	Uncleanable map[string]Uncleanable // by log directory; none for those without
	Bytes       int64                  // read and written so far
}

// Uncleanable is what is left alone for a while because it could not be cleaned.
type Uncleanable struct {
	Partitions int
	Bytes      int64 // that are dirty
}

// Stats returns what the cleaner did last. Safe for concurrent use.
func (c *Cleaner) Stats() Stats {
	s := *c.stats.Load()
	s.Bytes = c.pace.bytes.Load()
	return s
}

// publish makes what the cleaner's goroutine has seen known.
func (c *Cleaner) publish() {
	s := c.seen
	s.Uncleanable = map[string]Uncleanable{}
	for l, f := range c.failed {
		u := s.Uncleanable[logDir(l)]
		s.Uncleanable[logDir(l)] = Uncleanable{u.Partitions + 1, u.Bytes + f.bytes}
	}
	c.stats.Store(&s)
}

// cleaned notes a round.
func (s *Stats) cleaned(r *round, took time.Duration) {
	s.Took, s.BufferPercent = took, int(100*r.offsets.filled())
	s.RecopyPercent = int(100 * r.stats.bytesWritten / max(1, r.stats.bytesRead))
}
