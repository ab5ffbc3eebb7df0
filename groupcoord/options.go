package groupcoord

import (
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/groupcoord/consumer"
	"github.com/gregor-broker/gregor/groupcoord/group"
	"github.com/gregor-broker/gregor/groupcoord/offset"
	"github.com/gregor-broker/gregor/groupcoord/runtime"
	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/wire/clock"
)

// Log is what a shard needs of the partitions of __consumer_offsets. See runtime.Log for the contract.
type Log = runtime.Log

// Metadata tells which topics exist. Safe for concurrent use; never blocks.
type Metadata = consumer.Metadata

// Settings are the configuration values that the coordinator honours, named as in Kafka's configuration.
type Settings struct {
	Group    group.Settings
	Consumer consumer.Settings

	OffsetMetadataMaxBytes        int           // offset.metadata.max.bytes, 4096
	OffsetsRetention              time.Duration // offsets.retention.minutes, 7 days
	OffsetsRetentionCheckInterval time.Duration // offsets.retention.check.interval.ms, 10 minutes
	OffsetsCommitTimeout          time.Duration // offsets.commit.timeout.ms, 5 seconds; how long any answer waits for the high watermark
	OffsetsTopicCodec             record.Codec  // offsets.topic.compression.codec, none

	// Kafka4 makes the coordinator write records and choose between error codes as Kafka 4.4 does (embedded mode); without it
	// as 3.9 does.
	Kafka4 bool
}

// DefaultSettings returns Kafka's defaults.
func DefaultSettings() Settings {
	return Settings{
		Group:                         group.DefaultSettings(),
		Consumer:                      consumer.DefaultSettings(),
		OffsetMetadataMaxBytes:        4096,
		OffsetsRetention:              7 * 24 * time.Hour,
		OffsetsRetentionCheckInterval: 10 * time.Minute,
		OffsetsCommitTimeout:          5 * time.Second,
	}
}

// Options are what a Coordinator is made of. Log, Metadata, Clock, Logger and Partitions must be set.
type Options struct {
	Log        Log
	Metadata   Metadata
	Clock      clock.Clock
	Logger     *zap.Logger
	Config     Settings
	Partitions func() int32 // of __consumer_offsets; 0 while the topic does not exist
	// Times, if not nil, returns what holds now for a group of the consumer protocol; else it is as in Config.
	Times func(group string) consumer.Times
	// Waiting, if not nil, counts the partitions with requests that are not taken up yet.
	Waiting *atomic.Int32
}

// Caller is who sent a request.
type Caller struct {
	ClientID   string
	ClientHost string // as Java prints an address: "/10.0.0.1"
}

// offsetFormat decides in which versions offsets are stored.
func (s *Settings) offsetFormat() offset.Format {
	if s.Kafka4 {
		return offset.FormatKafka4
	}
	return offset.FormatKafka3
}
