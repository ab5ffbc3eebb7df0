package insync

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Env is what a decision needs to know of the outside, at one moment.
type Env struct {
	Now           time.Duration // monotonic
	MaxLag        time.Duration // replica.lag.time.max.ms
	End           int64         // the leader's own log end
	HighWatermark int64
	MinISR        int // min.insync.replicas
	Alive         func(broker int32) bool
}

// Assignment is a partition's state as the controller gave it to its leader.
type Assignment struct {
	Self           int32 // the leader
	LeaderEpoch    int32
	PartitionEpoch int32 // version of the state in the store
	Replicas, ISR  []int32
}

// Leader is a partition as its leader sees it, within one leader epoch. The zero value leads nothing. Not safe for
// concurrent use.
type Leader struct {
	Assignment
	EpochStart int64   // log end when the epoch began
	Proposed   []int32 // the ISR that was proposed and not answered yet; nil when nothing is

	followers []Follower
}

// Elect begins an epoch. again says that this broker led the partition until now. What it knows of the followers' progress
// holds on then, unless an epoch was left out: another broker may have led in that, without this one hearing of it, and the
// followers may have truncated for it.
func (l *Leader) Elect(a Assignment, again bool, end int64, now time.Duration) {
	old := l.followers
	again = again && a.LeaderEpoch == l.LeaderEpoch+1
	l.Assignment, l.EpochStart, l.Proposed = a, end, nil
	l.followers = make([]Follower, 0, len(a.Replicas))
	for _, id := range slices.Concat(a.Replicas, a.ISR) {
		if id == a.Self || l.follower(id) != nil {
			continue
		}
		f := Follower{ID: id}
		i := slices.IndexFunc(old, func(f Follower) bool { return f.ID == id })
		if again && i >= 0 {
			f = old[i]
			f.reelected(slices.Contains(a.ISR, id), end, now)
		} else {
			f.elected(slices.Contains(a.ISR, id), now)
		}
		l.followers = append(l.followers, f)
	}
}

// Followers lists the other replicas, and those that are none any more after a reassignment but still in the ISR: they may
// be elected yet, so nothing is committed without them. The caller must not change them.
func (l *Leader) Followers() []Follower { return l.followers }

func (l *Leader) follower(id int32) *Follower {
	for i := range l.followers {
		if l.followers[i].ID == id {
			return &l.followers[i]
		}
	}
	return nil
}

// Fetched takes note of a follower's fetch. known is false if that broker is no replica; moved says that its log end is
// another than before.
func (l *Leader) Fetched(id int32, x *Fetch) (known, moved bool) {
	f := l.follower(id)
	if f == nil {
		return false, false
	}
	before := f.LogEnd
	f.fetched(x)
	return true, f.LogEnd != before
}

func (l *Leader) assigned(id int32) bool { return slices.Contains(l.Replicas, id) }

// maximal says whether a replica is in the ISR as it is or as it may be already.
func (l *Leader) maximal(id int32) bool {
	return slices.Contains(l.ISR, id) || slices.Contains(l.Proposed, id)
}

// MaximalISR is the number of replicas that are in the ISR as it is or as it may be already.
func (l *Leader) MaximalISR() int {
	n := len(l.ISR)
	for _, id := range l.Proposed {
		if !slices.Contains(l.ISR, id) {
			n++
		}
	}
	return n
}

// EnoughInSync says whether acks=-1 can be kept: Kafka never asks for more replicas than a partition has
// (Partition.effectiveMinIsr).
func EnoughInSync(isr, replicas, minISR int) bool { return isr >= min(minISR, replicas) }

// HighWatermark is the offset up to which the log is on every replica of the maximal ISR, and on those that are about
// to join it, so that they can; Unknown while too few are in sync (Kafka since 3.7) or one has not fetched yet.
func (l *Leader) HighWatermark(e *Env) int64 {
	if !EnoughInSync(len(l.ISR), len(l.Replicas), e.MinISR) {
		return Unknown
	}
	hw := e.End
	for i := range l.followers {
		f := &l.followers[i]
		if f.LogEnd < hw && (l.maximal(f.ID) || l.assigned(f.ID) && f.caughtUp(e) && e.Alive(f.ID)) {
			hw = f.LogEnd
		}
	}
	return hw
}

// LowWatermark is the least log start of the replicas that are alive; Unknown while one has not said.
func (l *Leader) LowWatermark(start int64, e *Env) int64 {
	low := start
	for i := range l.followers {
		if f := &l.followers[i]; f.LogStart < low && e.Alive(f.ID) {
			low = f.LogStart
		}
	}
	return low
}

// Expand returns the ISR with a follower added that has reached the high watermark and the start of this epoch; nil if
// it has not, is a member, or another change is on its way.
func (l *Leader) Expand(id int32, e *Env) []int32 {
	f := l.follower(id)
	if f == nil || l.Proposed != nil || !l.assigned(id) || slices.Contains(l.ISR, id) || f.LogEnd < e.HighWatermark || f.LogEnd < l.EpochStart || !e.Alive(id) {
		return nil
	}
	return append(slices.Clone(l.ISR), id)
}

// Shrink returns the ISR without those that lag for too long; nil if there are none or another change is on its way.
func (l *Leader) Shrink(e *Env) []int32 {
	if l.Proposed != nil {
		return nil
	}
	lags := func(id int32) bool {
		if id == l.Self {
			return false
		}
		f := l.follower(id)
		return f == nil || !f.caughtUp(e)
	}
	if !slices.ContainsFunc(l.ISR, lags) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(l.ISR), lags)
}

// Committed takes the controller's answer to the proposal and reports whether it counts: an older state does not.
func (l *Leader) Committed(leaderEpoch, partitionEpoch int32, isr []int32) bool {
	if leaderEpoch != l.LeaderEpoch || partitionEpoch < l.PartitionEpoch {
		return false
	}
	l.ISR, l.PartitionEpoch, l.Proposed = isr, partitionEpoch, nil
	return true
}

// Refused takes the error code with which a proposal was answered, and reports whether it is to be sent again. With
// two of them the controller says that nothing was written, so that the ISR is what it was; with others it knows a
// newer state than ours, which will come with its next order; until then the maximal ISR holds.
func (l *Leader) Refused(code int16) (again bool) {
	switch code {
	case kerr.OperationNotAttempted.Code, kerr.IneligibleReplica.Code:
		l.Proposed = nil
		return false
	case kerr.UnknownTopicOrPartition.Code, kerr.UnknownTopicID.Code, kerr.FencedLeaderEpoch.Code, kerr.InvalidUpdateVersion.Code,
		kerr.InvalidRequest.Code, kerr.NewLeaderElected.Code:
		return false
	}
	return true
}
