package observe

import "time"

// Cleaning is what the cleaner did last.
type Cleaning struct {
	Looked       time.Duration // how long ago it looked for something to clean; as it was then:
	DirtyPercent int           // the largest part of a log that is dirty
	Delay        time.Duration // the longest time for which a log should have been cleaned
	// Of the last round:
	Took                         time.Duration
	BufferPercent, RecopyPercent int // of the memory for keys that was used, of what was read that was written again

	Bytes       int64 // read and written so far
	Uncleanable map[string]Uncleanable
}

// Uncleanable is what could not be cleaned in a log directory.
type Uncleanable struct {
	Partitions int
	Bytes      int64
}

// cleaner tells what was cleaned.
func (c *collector) cleaner(out sink) {
	x := c.Cleaner()
	if x == nil {
		return
	}
	out.gauge("kafka_log_logcleaner_max_buffer_utilization_percent", x.BufferPercent)
	out.gauge("kafka_log_logcleaner_cleaner_recopy_percent", x.RecopyPercent)
	out.gauge("kafka_log_logcleaner_max_clean_time_secs", int(x.Took.Seconds()))
	out.gauge("kafka_log_logcleaner_max_compaction_delay_secs", int(x.Delay.Seconds()))
	out.gauge("kafka_log_logcleanermanager_max_dirty_percent", x.DirtyPercent)
	out.gauge("kafka_log_logcleanermanager_time_since_last_run_ms", int(x.Looked.Milliseconds()))
	out.counter("kafka_utils_throttler_cleaner_io_count_total", x.Bytes)
	for _, d := range c.Services().Logs.Dirs() {
		u := x.Uncleanable[d.Path]
		out.gauge("kafka_log_logcleanermanager_uncleanable_partitions_count", u.Partitions, "logDirectory", quoted(d.Path))
		out.gauge("kafka_log_logcleanermanager_uncleanable_bytes", int(u.Bytes), "logDirectory", quoted(d.Path))
	}
}

// quoted is a path as names with a slash are in JMX.
func quoted(path string) string { return `"` + path + `"` }
