package fetcher

import (
	"errors"

	"github.com/gregor-broker/gregor/log"
)

// Position is how far a replica's log goes.
type Position struct {
	End       int64
	LastEpoch int32 // the latest leader epoch of its records, -1 when unknown
	Start     int64
}

// Replica is a follower's log. Whatever changes it is refused with ErrSuperseded once the partition is no longer a
// follower in leaderEpoch. Calls come from one goroutine.
type Replica interface {
	Position() Position
	// EndOffsetForEpoch is the largest epoch known that is at most epoch, and where it ends; -1, -1 when unknown.
	EndOffsetForEpoch(epoch int32) (found int32, end int64)
	HighWatermark() int64
	// Append writes whole entries, if any, and takes over the leader's high watermark and log start as far as its own
	// log goes. It does not keep records.
	Append(leaderEpoch int32, records []byte, highWatermark, logStart int64) error
	TruncateTo(leaderEpoch int32, offset int64) error
	// RestartAt drops everything and begins anew at start.
	RestartAt(leaderEpoch int32, start int64) error
}

// ErrSuperseded is returned by a Replica that follows no longer, or in another epoch.
var ErrSuperseded = errors.New("the partition has another role or leader epoch by now")

// Assignment makes a replica follow its leader.
type Assignment struct {
	log.TopicPartition
	TopicID     log.TopicID // zero: unknown; then the whole Fetcher speaks of topics by name
	LeaderEpoch int32
	Replica     Replica
}
