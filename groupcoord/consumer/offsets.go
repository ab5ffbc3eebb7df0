package consumer

import "github.com/twmb/franz-go/pkg/kerr"

// Commit is a claim to commit offsets.
type Commit struct {
	MemberID      string
	InstanceID    *string
	Epoch         int32
	Version       int16 // of OffsetCommit
	Transactional bool
}

// CheckCommit says whether someone may commit offsets at all; partition, if not nil, whether for a partition: a member whose
// epoch is an earlier one may for what it has had since then (KIP-1251). After ConsumerGroup.validateOffsetCommit.
func (g *Group) CheckCommit(c *Commit) (partition func(topic Topic, partition int32) error, err error) {
	if c.Epoch < 0 && g.Empty() || c.Transactional && c.Epoch == -1 && c.MemberID == "" && c.InstanceID == nil {
		return nil, nil
	}
	m := g.member(c.MemberID)
	switch {
	case m == nil:
		return nil, errUnknown(c.MemberID, g.id)
	case !c.Transactional && !m.classic() && c.Version < 9:
		return nil, fail(kerr.UnsupportedVersion, "OffsetCommit version 9 or above must be used by members using the consumer group protocol")
	case c.Epoch == m.Epoch:
		return nil, nil
	case c.Epoch > m.Epoch:
		return nil, m.stale(c.Epoch)
	}
	return func(topic Topic, partition int32) error {
		since, ok := m.Assigned.epoch(topic, partition)
		if !ok {
			since, ok = m.Revoking.epoch(topic, partition)
		}
		if !ok || c.Epoch < since {
			return m.stale(c.Epoch)
		}
		return nil
	}, nil
}

// stale is what a member with another epoch is told.
func (m *Member) stale(received int32) error {
	if m.classic() {
		return fail(kerr.IllegalGeneration, "The received generation id %d does not match the member epoch %d.", received, m.Epoch)
	}
	return fail(kerr.StaleMemberEpoch, "The received member epoch %d does not match the member epoch %d.", received, m.Epoch)
}

// CheckFetch says whether someone may fetch offsets: anyone who claims nothing may.
// After ConsumerGroup.validateOffsetFetch.
func (g *Group) CheckFetch(member *string, epoch int32) error {
	if member == nil && epoch < 0 {
		return nil
	}
	id := ""
	if member != nil {
		id = *member
	}
	m := g.member(id)
	switch {
	case m == nil:
		return errUnknown(id, g.id)
	case m.Epoch != epoch:
		return m.stale(epoch)
	}
	return nil
}
