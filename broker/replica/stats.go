package replica

import "github.com/gregor-broker/gregor/log"

// Stats is how the partitions that this broker holds fare. The names are those of Kafka's ReplicaManager metrics.
type Stats struct {
	Partitions, Leaders                    int
	UnderReplicated, UnderMinISR, AtMinISR int // of those that this broker leads
	Offline                                int // in log directories that failed
	Waiting                                int // requests that wait: for acks, bytes, or followers
}

// PartitionStats is a partition that is held here.
type PartitionStats struct {
	log.TopicPartition
	Leads      bool
	LogEnd     int64
	HighWater  int64
	LogStart   int64
	Size       int64 // bytes
	SegmentNum int
}

// Stats looks at every partition, and calls each, unless it is nil, with what is known of it.
func (m *Manager) Stats(each func(*PartitionStats)) Stats {
	s := Stats{Waiting: m.purgatory.Waiting()}
	for _, ps := range *m.topics.Load() {
		for _, p := range ps {
			if p == nil {
				continue
			}
			r := p.role.Load()
			if r.deleted {
				continue
			}
			s.count(p, r)
			if each != nil {
				b := p.log.Bounds()
				each(&PartitionStats{p.tp, r.leads, b.End, b.HighWatermark, b.Start, p.log.Size(), len(p.log.Segments())})
			}
		}
	}
	return s
}

func (s *Stats) count(p *Partition, r *role) {
	s.Partitions++
	if r.failed {
		s.Offline++
		return
	}
	if !r.leads {
		return
	}
	s.Leaders++
	if len(r.isr) < len(r.replicas) {
		s.UnderReplicated++
	}
	switch min := min(int(p.minISR.Load()), len(r.replicas)); {
	case len(r.isr) < min:
		s.UnderMinISR++
	case len(r.isr) == min:
		s.AtMinISR++
	}
}

// HighWatermark returns the high watermark of a partition that is held here, as far as this broker knows it.
func (m *Manager) HighWatermark(topic string, partition int32) (offset int64, ok bool) {
	p := m.find(topic, partition)
	if p == nil {
		return 0, false
	}
	return p.log.Bounds().HighWatermark, true
}
