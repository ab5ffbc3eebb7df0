package replica

import (
	"github.com/gregor-broker/gregor/broker/purgatory"
	"github.com/gregor-broker/gregor/log"
)

// Stats is how the partitions that this broker holds fare. The names are those of Kafka's ReplicaManager metrics.
type Stats struct {
	Partitions, Leaders                    int
	UnderReplicated, UnderMinISR, AtMinISR int // of those that this broker leads
	Reassigning                            int // of those
	Offline                                int // in log directories that failed
	MaxLag                                 int64
	FailedFetches                          int // partitions that are not fetched any more because of an error
	Waiting                                Waiting
	Expired                                Expired
}

// Expired counts the waits that ended because their time was over: partitions of Produces, Fetches of consumers and of followers.
type Expired struct{ Produces, Consumers, Followers int64 }

// Waiting counts the requests that wait and, in In, the partitions for which they do.
type Waiting struct {
	Produces, Fetches, Deletions       int // for acks, bytes, followers
	ProducesIn, FetchesIn, DeletionsIn int
}

// PartitionStats is a partition that is held here.
type PartitionStats struct {
	log.TopicPartition
	Leads, UnderReplicated, UnderMinISR, AtMinISR bool
	InSync, Replicas                              int // as the leader knows them, else 0

	Bounds     log.Bounds
	Size       int64 // bytes
	SegmentNum int
	// RetentionPercent is the size as a part of retention.bytes, 0 where that is unlimited.
	RetentionPercent int
	Producers        int
	// LateSince is when the producer last wrote whose transaction is open for the longest, in ms; -1 if none is open.
	LateSince int64
}

// Stats looks at every partition, and calls each, unless it is nil, with what is known of it.
func (m *Manager) Stats(each func(*PartitionStats)) Stats {
	s := Stats{Waiting: m.waiting(), Expired: Expired{m.expired.produces.Load(), m.expired.consumers.Load(), m.expired.followers.Load()}}
	if m.fetchers != nil {
		s.FailedFetches = m.fetchers.Failed()
	}
	for _, ps := range *m.topics.Load() {
		for _, p := range ps {
			if p == nil {
				continue
			}
			r := p.role.Load()
			if r.deleted {
				continue
			}
			x := p.stats(r)
			s.count(p, r, x)
			if each != nil {
				each(x)
			}
		}
	}
	return s
}

func (m *Manager) waiting() (w Waiting) {
	m.purgatory.Each(func(op purgatory.Op, lists int) {
		switch op.(type) {
		case *produceOp:
			w.Produces++
			w.ProducesIn += lists
		case *deleteOp:
			w.Deletions++
			w.DeletionsIn += lists
		default:
			w.Fetches++
			w.FetchesIn += lists
		}
	})
	return w
}

// ended counts the end of a Fetch's wait.
func (m *Manager) ended(p *FetchParams, expired bool) {
	switch {
	case !expired:
	case p.ReplicaID >= 0:
		m.expired.followers.Add(1)
	default:
		m.expired.consumers.Add(1)
	}
}

func (p *Partition) stats(r *role) *PartitionStats {
	x := &PartitionStats{
		TopicPartition: p.tp, Leads: r.leads, Bounds: p.log.Bounds(), Size: p.log.Size(), SegmentNum: len(p.log.Segments()), LateSince: -1,
	}
	x.Producers = p.log.ProducerCount()
	if limit := p.log.Config().RetentionBytes; limit > 0 {
		x.RetentionPercent = int(100 * x.Size / limit)
	}
	if x.Bounds.Stable < x.Bounds.HighWatermark {
		x.LateSince = p.lateSince()
	}
	if !r.leads {
		return x
	}
	x.InSync, x.Replicas = len(r.isr), len(r.replicas)
	x.UnderReplicated = x.InSync < x.Replicas
	enough := min(int(p.minISR.Load()), x.Replicas)
	x.UnderMinISR, x.AtMinISR = x.InSync < enough, x.InSync == enough
	return x
}

func (p *Partition) lateSince() int64 {
	first, since := int64(-1), int64(-1)
	for _, s := range p.log.Producers() {
		if s.TxnStartOffset >= 0 && (first < 0 || s.TxnStartOffset < first) {
			first, since = s.TxnStartOffset, s.LastTimestamp
		}
	}
	return since
}

func (s *Stats) count(p *Partition, r *role, x *PartitionStats) {
	s.Partitions++
	if r.failed {
		s.Offline++
		return
	}
	if !r.leads {
		s.MaxLag = max(s.MaxLag, p.lag.Load())
		return
	}
	s.Leaders++
	s.UnderReplicated += asInt(x.UnderReplicated)
	s.UnderMinISR += asInt(x.UnderMinISR)
	s.AtMinISR += asInt(x.AtMinISR)
	s.Reassigning += asInt(r.moving)
}

func asInt(is bool) int {
	if is {
		return 1
	}
	return 0
}

// FailedDirs returns the log directories that cannot be written any more.
func (m *Manager) FailedDirs() map[string]bool { return m.failed.all() }

// HighWatermark returns the high watermark of a partition that is held here, as far as this broker knows it.
func (m *Manager) HighWatermark(topic string, partition int32) (offset int64, ok bool) {
	p := m.find(topic, partition)
	if p == nil {
		return 0, false
	}
	return p.log.Bounds().HighWatermark, true
}
