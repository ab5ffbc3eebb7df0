package fetcher

import (
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/log"
)

// session is the fetch session at the leader (KIP-227; org.apache.kafka.clients.FetchSessionHandler). Epoch 0 asks for a
// new one, in place of the one with this id.
type session struct {
	id, epoch int32
	byName    bool
}

// forgotten is a partition that the session still has.
type forgotten struct {
	log.TopicPartition
	id log.TopicID
}

func (s *session) answered(id int32) {
	switch {
	case id <= 0: // the leader keeps none
		s.id, s.epoch = 0, 0
	case s.epoch == 0 || id != s.id:
		s.id, s.epoch = id, 1
	case s.epoch == math.MaxInt32:
		s.epoch = 1
	default:
		s.epoch++
	}
}

// restart makes the next Fetch a full one that replaces the session.
func (s *session) restart() { s.epoch = 0 }

// fetch is the next Fetch: all partitions, or what changed since the last one.
func (m *Machine) fetch(maxWait time.Duration) *kmsg.FetchRequest {
	r := kmsg.NewPtrFetchRequest()
	r.Version = m.settings.FetchVersion
	byName := m.nameless > 0 || r.Version <= byNameVersion
	if byName {
		r.Version = min(r.Version, byNameVersion)
	}
	if byName != m.session.byName {
		m.session.restart()
		m.session.byName = byName
	}
	r.ReplicaID = m.settings.BrokerID
	if r.Version >= replicaEpochVersion { // an older version with this tag makes a leader close the connection
		r.ReplicaState.ID, r.ReplicaState.Epoch = m.settings.BrokerID, m.settings.BrokerEpoch()
	}
	r.MaxWaitMillis = int32((maxWait + time.Millisecond - 1).Milliseconds()) // up: a wait of nothing would be asked for again and again
	r.MinBytes, r.MaxBytes = m.settings.MinBytes, m.settings.MaxBytes
	r.SessionID, r.SessionEpoch = m.session.id, m.session.epoch
	changed := m.dirty
	for _, p := range m.dirty {
		p.dirty = false
	}
	if m.session.epoch == 0 {
		changed = m.all()
	} else {
		m.addForgotten(r)
	}
	m.addPartitions(r, changed)
	m.dirty, m.forgotten = m.dirty[:0], m.forgotten[:0]
	return r
}

// addPartitions tells what is wanted, a topic for each run of its partitions.
func (m *Machine) addPartitions(r *kmsg.FetchRequest, ps []*partition) {
	for _, p := range ps {
		if p.phase != fetching {
			continue
		}
		p.sent, p.inSession = p.want, true
		n := len(r.Topics)
		if n == 0 || r.Topics[n-1].Topic != p.Topic || r.Topics[n-1].TopicID != p.TopicID {
			t := kmsg.NewFetchRequestTopic()
			t.Topic, t.TopicID = p.Topic, p.TopicID
			r.Topics = append(r.Topics, t)
			n++
		}
		q := kmsg.NewFetchRequestTopicPartition()
		q.Partition, q.CurrentLeaderEpoch, q.FetchOffset = p.Partition, p.want.leaderEpoch, p.want.offset
		q.LastFetchedEpoch, q.LogStartOffset, q.PartitionMaxBytes = p.want.lastEpoch, p.want.logStart, m.settings.PartitionBytes
		r.Topics[n-1].Partitions = append(r.Topics[n-1].Partitions, q)
	}
}

// addForgotten names what the session is to drop, except what has come back meanwhile: that replaces what was there.
func (m *Machine) addForgotten(r *kmsg.FetchRequest) {
	for _, f := range m.forgotten {
		if p := m.byTopic[f.TopicPartition]; p != nil && p.phase == fetching && (m.session.byName || p.TopicID == f.id) {
			continue
		}
		n := len(r.ForgottenTopics)
		if n == 0 || r.ForgottenTopics[n-1].Topic != f.Topic || r.ForgottenTopics[n-1].TopicID != f.id {
			t := kmsg.NewFetchRequestForgottenTopic()
			t.Topic, t.TopicID = f.Topic, f.id
			r.ForgottenTopics = append(r.ForgottenTopics, t)
			n++
		}
		r.ForgottenTopics[n-1].Partitions = append(r.ForgottenTopics[n-1].Partitions, f.Partition)
	}
}
