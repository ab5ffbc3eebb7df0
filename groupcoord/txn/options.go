package txn

import (
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/groupcoord/runtime"
	"github.com/gregor-broker/gregor/wire/clock"
)

// Settings are the configuration values that the coordinator honours, named as in Kafka's configuration.
type Settings struct {
	MaxTimeout            time.Duration // transaction.max.timeout.ms, 15 minutes
	AbortTimedOutInterval time.Duration // transaction.abort.timed.out.transaction.cleanup.interval.ms, 10 s
	IDExpiration          time.Duration // transactional.id.expiration.ms, 7 days
	RemoveExpiredInterval time.Duration // transaction.remove.expired.transaction.cleanup.interval.ms, 1 hour
	RequestTimeout        time.Duration // request.timeout.ms, 30 s: how long an answer waits for the high watermark

	// Kafka4 makes the coordinator choose between answers as Kafka 4.4 does (embedded mode); without it as 3.9 does.
	Kafka4 bool
}

// DefaultSettings returns Kafka's defaults.
func DefaultSettings() Settings {
	return Settings{
		MaxTimeout:            15 * time.Minute,
		AbortTimedOutInterval: 10 * time.Second,
		IDExpiration:          7 * 24 * time.Hour,
		RemoveExpiredInterval: time.Hour,
		RequestTimeout:        30 * time.Second,
	}
}

// Transport is how markers reach the leaders of partitions. Safe for concurrent use; no method blocks.
type Transport interface {
	// Leader returns who leads a partition, -1 nobody for now; exists is false if metadata does not know the partition.
	Leader(topic string, partition int32) (broker int32, exists bool)
	// Write has broker write markers, and calls done once, on any goroutine, also before it returns. The response is the caller's.
	Write(broker int32, r *kmsg.WriteTxnMarkersRequest, done func(*kmsg.WriteTxnMarkersResponse, error))
}

// Options are what a Coordinator is made of; all but Waiting must be set.
type Options struct {
	Log       runtime.Log // of __transaction_state
	Transport Transport
	Clock     clock.Clock
	Logger    *zap.Logger
	Config    Settings
	// Partitions returns the number of partitions of __transaction_state; 0 while the topic does not exist.
	Partitions func() int32
	// NewProducerID calls done with a producer id that nobody else has, once, on any goroutine, also before it returns.
	NewProducerID func(done func(id int64, err error))
	// Version returns the level of the feature transaction.version: from 1 on records are stored in version 1, from 2 on the
	// coordinator's own aborts raise the epoch as the second protocol does.
	Version func() int16
	// Waiting counts the partitions with requests that are not taken up yet.
	Waiting *atomic.Int32
}
