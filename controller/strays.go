package controller

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// This file finds replicas that were reassigned away from a broker while it was dead, under a controller that has not lived to see
// it come back. (Kafka leaves them there.) Brokers are asked what they have; of topics that the cluster does not know nothing is
// removed, since nobody can say whether they are missed.

// strayDelay is how long after it appeared, or after an election, a broker is asked: when it has had its orders.
const strayDelay = 10 * time.Second

// askForStrays has brokers asked, later and once.
func (m *Machine) askForStrays(ids []int32) {
	if m.o.Settings.Embedded {
		return
	}
	r := m.reign
	asked := make([]*broker, len(ids))
	for i, id := range ids {
		asked[i] = r.brokers[id]
	}
	m.after(inReign, strayDelay, func() {
		for _, b := range asked {
			if r.brokers[b.ID] == b {
				req := kmsg.NewPtrDescribeLogDirsRequest()
				req.Version, req.Topics = 1, nil
				m.sendTo(b.ID, req, func(resp kmsg.Response) { m.foundLogs(b, resp) })
			}
		}
	})
}

// foundLogs removes what a broker has and should not have.
func (m *Machine) foundLogs(b *broker, resp kmsg.Response) {
	answer, ok := resp.(*kmsg.DescribeLogDirsResponse)
	if !ok || m.reign.brokers[b.ID] != b {
		return
	}
	count := 0
	for _, dir := range answer.Dirs {
		for _, dt := range dir.Topics {
			for _, dp := range dt.Partitions {
				if x, stray := m.stray(b.ID, dt.Topic, dp.Partition); stray && !dp.IsFuture {
					m.removeStray(b.ID, x)
					count++
				}
			}
		}
	}
	if count > 0 {
		m.log.Info("a broker has replicas that were reassigned away from it; they are removed", zap.Int32("broker", b.ID), zap.Int("count", count))
	}
}

// stray says whether a broker should not have a partition.
func (m *Machine) stray(id int32, topic string, partition int32) (ref, bool) {
	t := m.reign.topics[topic]
	if t == nil || t.deletion != nil || partition < 0 || int(partition) >= len(t.parts) {
		return ref{}, false
	}
	x := ref{t, partition}
	return x, x.part().version >= 0 && !slices.Contains(x.written().replicas, id)
}

func (m *Machine) removeStray(id int32, x ref) {
	r := m.reign
	if r.strays[id] == nil {
		r.strays[id] = map[ref]struct{}{}
	}
	r.strays[id][x] = struct{}{}
	r.orders.stops[id] = append(r.orders.stops[id], stop{ref: x, remove: true, epoch: x.part().leaderEpoch})
}
