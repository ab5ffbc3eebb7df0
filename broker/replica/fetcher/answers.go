package fetcher

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/log"
)

// broken is what follows an error of the connection, or of a whole answer.
func (m *Machine) broken(now time.Duration) {
	m.resting, m.retryAt = true, now+backoff(m.settings.Backoff, m.failures)
	m.failures++
}

// Interrupted says that a Fetch was given up for another that asks for more: its answer will not come.
func (m *Machine) Interrupted() { m.session.restart() }

// Fetched takes the answer to a Fetch, or the error because of which there is none.
func (m *Machine) Fetched(now time.Duration, r *kmsg.FetchResponse, err error) {
	if err != nil {
		m.session.restart()
		m.broken(now)
		return
	}
	if r.ErrorCode != 0 {
		if m.session.restart(); r.ErrorCode == kerr.FetchSessionIDNotFound.Code {
			m.session.id = 0
		}
		if m.failures++; m.failures > 1 {
			m.broken(now) // not once only
		}
		return
	}
	m.failures = 0
	m.session.answered(r.SessionID)
	for i := range r.Topics {
		t := &r.Topics[i]
		for j := range t.Partitions {
			q := &t.Partitions[j]
			p := m.byTopic[log.TopicPartition{Topic: t.Topic, Partition: q.Partition}]
			if !m.session.byName {
				p = m.byID[idKey{t.TopicID, q.Partition}]
			}
			// A partition that was assigned again since it was asked for is not what is answered here.
			if p != nil && p.phase == fetching && p.inSession && p.sent == p.want {
				m.take(now, p, q)
			}
		}
	}
}

// take carries out the answer for one partition.
func (m *Machine) take(now time.Duration, p *partition, q *kmsg.FetchResponseTopicPartition) {
	switch q.ErrorCode {
	case 0:
	case kerr.OffsetOutOfRange.Code:
		m.forget(p)
		p.phase = lost
		m.asking = append(m.asking, p)
		return
	case kerr.FencedLeaderEpoch.Code:
		m.fail(p, kerr.FencedLeaderEpoch) // the next order is on its way
		return
	case kerr.UnknownLeaderEpoch.Code, kerr.NotLeaderForPartition.Code, kerr.UnknownTopicOrPartition.Code, kerr.UnknownTopicID.Code,
		kerr.InconsistentTopicID.Code:
		m.delay(p, now) // one of the two brokers has not had its order yet
		return
	default:
		m.delayFor(p, now, kerr.ErrorForCode(q.ErrorCode))
		return
	}
	if q.DivergingEpoch.Epoch >= 0 {
		m.wrote(now, p, p.part(q), true)
		return
	}
	records := wholeEntries(q.RecordBatches, p.LeaderEpoch)
	err := p.Replica.Append(p.LeaderEpoch, records, q.HighWatermark, q.LogStartOffset)
	m.wrote(now, p, err, false)
	m.fetched(p, len(records), q.HighWatermark)
}

var errNothingToCut = errors.New("the log's history differs from the leader's, but nothing is left to cut off")

// wrote goes on after a change of the log.
func (m *Machine) wrote(now time.Duration, p *partition, err error, moves bool) {
	before := p.want
	switch {
	case errors.Is(err, ErrSuperseded):
		m.fail(p, nil)
		return
	case errors.Is(err, log.ErrUnexpectedOffset), errors.Is(err, log.ErrCorrupt), errors.Is(err, log.ErrStorage):
		m.delayFor(p, now, err) // a full disk may be emptied
		return
	case err != nil:
		m.fail(p, err)
		return
	}
	if p.refresh(); moves && p.want == before {
		m.delayFor(p, now, errNothingToCut)
		return
	}
	p.failures = 0
	m.touch(p)
}

// listOffsets asks for the ends of the leader's logs, or else for their starts.
func (m *Machine) listOffsets() *kmsg.ListOffsetsRequest {
	const latest, earliest = -1, -2
	r := kmsg.NewPtrListOffsetsRequest()
	r.Version, r.ReplicaID = m.settings.ListOffsetsVersion, m.settings.BrokerID
	ask, timestamp := m.asking[0].phase, int64(latest)
	if ask == lostStart {
		timestamp = earliest
	}
	for _, p := range m.asking {
		if p.phase != ask {
			continue
		}
		n := len(r.Topics)
		if n == 0 || r.Topics[n-1].Topic != p.Topic {
			t := kmsg.NewListOffsetsRequestTopic()
			t.Topic = p.Topic
			r.Topics = append(r.Topics, t)
			n++
		}
		q := kmsg.NewListOffsetsRequestTopicPartition()
		q.Partition, q.CurrentLeaderEpoch, q.Timestamp = p.Partition, p.LeaderEpoch, timestamp
		r.Topics[n-1].Partitions = append(r.Topics[n-1].Partitions, q)
	}
	return r
}

// Listed takes the answer to a ListOffsets, or the error because of which there is none. asked is the request.
func (m *Machine) Listed(now time.Duration, asked *kmsg.ListOffsetsRequest, r *kmsg.ListOffsetsResponse, err error) {
	if err != nil {
		m.broken(now)
		return
	}
	m.failures = 0
	epochs := map[log.TopicPartition]int32{}
	for i := range asked.Topics {
		for _, q := range asked.Topics[i].Partitions {
			epochs[log.TopicPartition{Topic: asked.Topics[i].Topic, Partition: q.Partition}] = q.CurrentLeaderEpoch
		}
	}
	for i := range r.Topics {
		for j := range r.Topics[i].Partitions {
			q := &r.Topics[i].Partitions[j]
			tp := log.TopicPartition{Topic: r.Topics[i].Topic, Partition: q.Partition}
			epoch, was := epochs[tp]
			if p := m.byTopic[tp]; was && p != nil && (p.phase == lost || p.phase == lostStart) && p.LeaderEpoch == epoch {
				m.located(now, p, q)
			}
		}
	}
}

// located carries out the answer for one partition.
func (m *Machine) located(now time.Duration, p *partition, q *kmsg.ListOffsetsResponseTopicPartition) {
	if q.ErrorCode != 0 || q.Offset < 0 {
		m.delay(p, now)
		return
	}
	start := int64(-1)
	end := p.Replica.Position().End
	switch {
	case p.phase == lostStart:
		start = q.Offset
	case q.Offset >= end:
		p.phase, p.leaderEnd = lostStart, q.Offset
		return
	default:
		p.leaderEnd = q.Offset
	}
	m.leave(p)
	p.phase = fetching
	var err error
	switch remedy, to := OutOfRange(start, p.leaderEnd, end); remedy {
	case Truncate:
		err = p.Replica.TruncateTo(p.LeaderEpoch, to)
	case Restart:
		err = p.Replica.RestartAt(p.LeaderEpoch, to)
	}
	m.wrote(now, p, err, false)
}
