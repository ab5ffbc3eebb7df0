package log

import (
	"math"

	"github.com/gregor-broker/gregor/log/record"
)

// Config is a topic's configuration as far as its logs need it. Immutable. The fields are Kafka's topic keys; times
// are in milliseconds, -1 means unlimited for retention.
type Config struct {
	SegmentBytes           int32
	SegmentMs              int64
	SegmentJitterMs        int64
	IndexIntervalBytes     int32
	SegmentIndexBytes      int32
	FlushMessages          int64
	FlushMs                int64
	RetentionBytes         int64
	RetentionMs            int64
	Compact, Delete        bool // cleanup.policy
	MaxMessageBytes        int32
	TimestampType          record.TimestampType
	TimestampBeforeMaxMs   int64
	TimestampAfterMaxMs    int64
	Compression            record.Compression
	FileDeleteDelayMs      int64
	MinCleanableDirtyRatio float64
	MinCompactionLagMs     int64
	MaxCompactionLagMs     int64
	DeleteRetentionMs      int64
}

// DefaultConfig returns Kafka's defaults.
func DefaultConfig() *Config {
	return &Config{
		SegmentBytes: 1 << 30, SegmentMs: 7 * 24 * 3600 * 1000, IndexIntervalBytes: 4096, SegmentIndexBytes: 10 << 20,
		FlushMessages: math.MaxInt64, FlushMs: math.MaxInt64, RetentionBytes: -1, RetentionMs: 7 * 24 * 3600 * 1000,
		Delete: true, MaxMessageBytes: 1048588, TimestampBeforeMaxMs: math.MaxInt64, TimestampAfterMaxMs: math.MaxInt64,
		FileDeleteDelayMs: 60_000, MinCleanableDirtyRatio: 0.5, MaxCompactionLagMs: math.MaxInt64,
		DeleteRetentionMs: 24 * 3600 * 1000,
	}
}

// Rules returns what a batch from a client must keep to at wall time nowMs.
func (c *Config) Rules(nowMs int64) record.Rules {
	return record.Rules{
		Now: nowMs, TimestampType: c.TimestampType, BeforeMaxMs: c.TimestampBeforeMaxMs, AfterMaxMs: c.TimestampAfterMaxMs,
		MaxBatchBytes: int(c.MaxMessageBytes), RequireKeys: c.Compact, Compression: c.Compression, AllowZstd: true, Client: true,
	}
}

// maxSegmentMs is the age at which a segment rolls: compaction with a bounded lag needs closed segments in time.
func (c *Config) maxSegmentMs() int64 {
	if c.Compact && c.MaxCompactionLagMs > 0 {
		return min(c.MaxCompactionLagMs, c.SegmentMs)
	}
	return c.SegmentMs
}
