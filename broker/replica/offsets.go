package replica

import (
	"github.com/gregor-broker/gregor/log"
)

// Timestamps with which ListOffsets asks for an offset other than that of a time.
const (
	Latest                = -1
	Earliest              = -2
	MaxTimestamp          = -3
	EarliestLocal         = -4 // Earliest, since nothing is tiered
	LatestTiered          = -5 // none
	EarliestPendingUpload = -6 // none
)

// OffsetQuery asks for one offset of a partition.
type OffsetQuery struct {
	Topic              string
	Partition          int32
	Timestamp          int64 // ms, or one of those above
	CurrentLeaderEpoch int32 // -1: not to be checked
	ReplicaID          int32 // Consumer, Debugger, or a follower's id
	Committed          bool  // read_committed
}

// Offset is the answer: -1 throughout when there is no such offset. Timestamp is -1 unless that of a record was asked
// for; LeaderEpoch is that of the offset's batch, -1 when unknown.
type Offset struct {
	Offset      int64
	Timestamp   int64
	LeaderEpoch int32
}

var noOffset = Offset{-1, -1, -1}

// Offset looks an offset up. Consumers never see one at or past the high watermark, or under read_committed the last
// stable offset. After Partition.fetchOffsetForTimestamp.
func (m *Manager) Offset(q *OffsetQuery) (Offset, error) {
	p, err := m.lookup(q.Topic, log.TopicID{}, q.Partition)
	if err != nil {
		return noOffset, err
	}
	find := p.leading
	if q.ReplicaID == Debugger {
		find = p.holding
	}
	r, err := find(q.CurrentLeaderEpoch)
	if err != nil {
		return noOffset, err
	}
	b := p.log.Bounds()
	last := b.End
	if q.ReplicaID == Consumer {
		last = b.HighWatermark
		if q.Committed {
			last = b.Stable
		}
	}
	// A new leader's high watermark may lag behind what the old one told its clients.
	lagging := q.ReplicaID == Consumer && r.epochStart > b.HighWatermark
	switch q.Timestamp {
	case Latest:
		if lagging {
			return noOffset, ErrOffsetNotAvailable
		}
		return Offset{last, -1, r.leaderEpoch}, nil
	case Earliest, EarliestLocal:
		return Offset{b.Start, -1, epochAt(p.log, b.Start)}, nil
	case LatestTiered, EarliestPendingUpload:
		return noOffset, nil
	}
	found, err := search(p.log, q.Timestamp)
	switch {
	case err != nil:
		return noOffset, err
	case found.Offset >= 0 && found.Offset < last:
		return found, nil
	case lagging:
		return noOffset, ErrOffsetNotAvailable
	}
	return noOffset, nil
}

func search(l *log.Log, timestamp int64) (o Offset, err error) {
	if timestamp == MaxTimestamp {
		o.Offset, o.Timestamp, o.LeaderEpoch, err = l.OffsetOfMaxTimestamp()
	} else {
		o.Offset, o.Timestamp, o.LeaderEpoch, err = l.OffsetForTimestamp(timestamp)
	}
	return o, err
}

func epochAt(l *log.Log, offset int64) int32 {
	if epoch, ok := l.EpochForOffset(offset); ok {
		return epoch
	}
	return -1
}

// LegacyOffsets answers ListOffsets v0: the base offsets of segments that were last written at or before timestamp, and
// the log end, at most limit of them, falling. A consumer sees the high watermark in place of what lies above it.
func (m *Manager) LegacyOffsets(q *OffsetQuery, limit int) ([]int64, error) {
	p, err := m.lookup(q.Topic, log.TopicID{}, q.Partition)
	if err != nil {
		return nil, err
	}
	if _, err := p.leading(-1); err != nil {
		return nil, err
	}
	if limit < 0 {
		return nil, ErrNegativeCount
	}
	offsets := p.log.LegacyOffsets(q.Timestamp, limit)
	if q.ReplicaID != Consumer {
		return offsets, nil
	}
	return below(offsets, p.log.Bounds().HighWatermark), nil
}

// below replaces the offsets above hw, which come first, by hw itself.
func below(offsets []int64, hw int64) []int64 {
	n := 0
	for n < len(offsets) && offsets[n] > hw {
		n++
	}
	if n == 0 {
		return offsets
	}
	return append([]int64{hw}, offsets[n:]...)
}

// EpochEnd returns the largest leader epoch that is not above the given one, and where its records end; -1 and -1 when
// there is none.
func (m *Manager) EpochEnd(topic string, partition, currentLeaderEpoch, epoch int32) (EpochEnd, error) {
	none := EpochEnd{-1, -1}
	p, err := m.lookup(topic, log.TopicID{}, partition)
	if err != nil {
		return none, err
	}
	if _, err := p.leading(currentLeaderEpoch); err != nil {
		return none, err
	}
	found, end := p.log.EndOffsetForEpoch(epoch)
	if end < 0 {
		return none, nil
	}
	return EpochEnd{found, end}, nil
}
