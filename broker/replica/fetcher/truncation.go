package fetcher

// TruncationPoint is the offset to which a follower cuts its log after the leader said that its records of epoch
// leaderEpoch, the largest that it knows among those up to the follower's last one, end at leaderEnd. ownEpoch and
// ownEnd are the follower's for the same question; logEnd is the follower's log end, hw its high watermark.
//
// Where both know the epoch, the histories agree up to the smaller of its ends. Where the follower does not know it,
// it drops all its newer epochs, and asks again with the one before (KIP-279). After
// AbstractFetcherThread.getOffsetTruncationState.
func TruncationPoint(leaderEpoch int32, leaderEnd int64, ownEpoch int32, ownEnd, logEnd, hw int64) int64 {
	switch {
	case leaderEnd < 0:
		return min(hw, logEnd)
	case leaderEpoch < 0 || ownEpoch < 0:
		return min(leaderEnd, logEnd)
	case ownEpoch != leaderEpoch:
		return min(ownEnd, logEnd)
	}
	return min(ownEnd, leaderEnd, logEnd)
}

// Remedy is what a follower does whose log end the leader does not have.
type Remedy int8

// The remedies.
const (
	Resume   Remedy = iota // fetch again: the leader has reached us meanwhile
	Truncate               // to the leader's end: an unclean leader has less than we
	Restart                // at the leader's start: it has deleted what we would need
)

// OutOfRange decides what to do about OFFSET_OUT_OF_RANGE, and at which offset to go on. After
// AbstractFetcherThread.fetchOffsetAndTruncate.
func OutOfRange(leaderStart, leaderEnd, logEnd int64) (Remedy, int64) {
	switch {
	case leaderEnd < logEnd:
		return Truncate, leaderEnd
	case leaderStart > logEnd:
		return Restart, leaderStart
	}
	return Resume, logEnd
}
