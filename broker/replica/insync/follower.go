package insync

import (
	"math"
	"time"
)

// Unknown is the log end and the log start of a follower that has not fetched yet.
const Unknown = -1

// never is when a replica was caught up that never was; far enough from both ends to be subtracted.
const never = time.Duration(math.MinInt64 / 4)

// Follower is what a leader knows of another replica.
type Follower struct {
	ID       int32
	LogEnd   int64 // offset of its last fetch: it has everything below; Unknown
	LogStart int64 // Unknown

	leaderEnd  int64         // largest log end of the leader at one of its fetches
	fetchedAt  time.Duration // monotonic time of its last fetch
	caughtUpAt time.Duration // last time at which it had all that the leader had
	beat       Beat          // of a follower that has all that the leader has, and is not told of each fetch; else nil
}

// Beat is the time of a follower's last fetch, in which nothing had happened to the partition since the one before.
type Beat interface{ LastFetch() time.Duration }

// Fetch is one fetch of a follower.
type Fetch struct {
	Offset    int64
	LogStart  int64
	LeaderEnd int64 // the leader's log end before it read
	At        time.Duration
	// Beat, if not nil, tells of the fetches that follow, which are not told themselves until something happens to the partition.
	Beat Beat
}

// elected forgets what a former leader knew. A member of the ISR has until the lag limit to show that it is still there.
func (f *Follower) elected(inSync bool, now time.Duration) {
	*f = Follower{ID: f.ID, LogEnd: Unknown, LogStart: Unknown, leaderEnd: Unknown, fetchedAt: never, caughtUpAt: never}
	if inSync {
		f.caughtUpAt = now
	}
}

// reelected keeps the progress, since the log that it was made on is the same; only the times begin anew.
func (f *Follower) reelected(inSync bool, end int64, now time.Duration) {
	f.beat = nil
	f.leaderEnd, f.fetchedAt, f.caughtUpAt = end, never, never
	if inSync {
		f.fetchedAt, f.caughtUpAt = now, now
	}
}

// fetched takes note of a fetch. A follower was caught up now if it asks for the end, and at its previous fetch if it
// asks for what was the end then: a busy leader's end is always further when the follower comes again.
func (f *Follower) fetched(x *Fetch) {
	if f.beat != nil {
		at := f.beat.LastFetch()
		f.fetchedAt, f.caughtUpAt, f.beat = max(f.fetchedAt, at), max(f.caughtUpAt, at), nil
	}
	if x.Offset >= x.LeaderEnd {
		f.beat = x.Beat
	}
	switch {
	case x.Offset >= x.LeaderEnd:
		f.caughtUpAt = max(f.caughtUpAt, x.At)
	case x.Offset >= f.leaderEnd:
		f.caughtUpAt = max(f.caughtUpAt, f.fetchedAt)
	}
	f.LogEnd, f.LogStart, f.fetchedAt = x.Offset, x.LogStart, x.At
	f.leaderEnd = max(f.leaderEnd, x.LeaderEnd)
}

// caughtUp says whether the follower lags by no more than the limit.
func (f *Follower) caughtUp(e *Env) bool {
	return f.LogEnd == e.End || f.SinceCaughtUp(e.Now) <= e.MaxLag
}

// SinceCaughtUp is how long ago the follower had everything.
func (f *Follower) SinceCaughtUp(now time.Duration) time.Duration {
	at := f.caughtUpAt
	if f.beat != nil {
		at = max(at, f.beat.LastFetch())
	}
	return now - at
}
