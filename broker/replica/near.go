package replica

import (
	"slices"
	"time"

	"github.com/gregor-broker/gregor/broker/replica/insync"
)

// Candidate is a replica from which a consumer may read (ReplicaView of Apache Kafka).
type Candidate struct {
	Broker        int32
	LogEnd        int64
	SinceCaughtUp time.Duration // since it had all that the leader has
}

// preferred returns the follower that a consumer should read from, NoPreference for the leader. After
// ReplicaManager.findPreferredReadReplica.
func (p *Partition) preferred(f *FetchParams, r *role, offset int64) int32 {
	near := p.manager.options.NearReplica
	if near == nil || f.ReplicaID != Consumer || !f.AnyReplica || !r.leads || f.Rack == "" || len(r.replicas) < 2 {
		return NoPreference
	}
	if chosen := near(f.Rack, p.candidates(f.at, offset)); chosen != r.leader {
		return chosen
	}
	return NoPreference
}

// candidates lists the leader and the followers in sync that have an offset.
func (p *Partition) candidates(now time.Duration, offset int64) []Candidate {
	cs := []Candidate{{Broker: p.manager.options.BrokerID, LogEnd: p.log.Bounds().End}}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.mu.leader.Followers() {
		if slices.Contains(p.mu.leader.ISR, f.ID) && f.LogStart != insync.Unknown && f.LogStart <= offset && offset <= f.LogEnd {
			cs = append(cs, Candidate{f.ID, f.LogEnd, f.SinceCaughtUp(now)})
		}
	}
	return cs
}

// SameRack returns a NearReplica that goes by the brokers' racks (RackAwareReplicaSelector of Apache Kafka): the leader
// if it is in the consumer's rack or nobody is, else the one there that has most. rack is that of a live broker, or "".
func SameRack(rack func(broker int32) string) func(string, []Candidate) int32 {
	return func(wanted string, candidates []Candidate) int32 {
		leader := candidates[0].Broker
		best := -1
		for i, c := range candidates {
			if rack(c.Broker) != wanted {
				continue
			}
			if c.Broker == leader {
				return leader
			}
			if best < 0 || c.LogEnd > candidates[best].LogEnd ||
				c.LogEnd == candidates[best].LogEnd && c.SinceCaughtUp < candidates[best].SinceCaughtUp {
				best = i
			}
		}
		if best < 0 {
			return leader
		}
		return candidates[best].Broker
	}
}
