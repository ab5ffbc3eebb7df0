package controller

import (
	"slices"

	"github.com/gregor-broker/gregor/controller/znode"
	"go.uber.org/zap"
)

// This file finds brokers that left and came back while there was no controller. A controller that sees that takes them out of the
// in-sync replicas and elects others; if nobody saw it, a broker that has come back without its disk would still be named a leader,
// and the others would cut their logs to its empty one: all that was acknowledged would be gone. (With Kafka it is.) But a broker's
// registration is a node of its own each time, so that one which is younger than a partition's state tells that the broker was not there
// when the state was written.

// noteReturned looks, while a reign is loading, for in-sync replicas that are younger than the partition's state, which was written at
// zxid. Where others have been there all the time they are the ones to go by. Where there are none, all have come back alike, as after a
// time without ZooKeeper. Of itself this broker knows whether it has only lost a session.
func (m *Machine) noteReturned(x ref, zxid int64) {
	r := m.reign
	returned := func(id int32) bool {
		b := r.brokers[id]
		return b != nil && b.epoch > zxid && (id != m.id || m.firstEpoch > zxid)
	}
	stayed := func(id int32) bool { b := r.brokers[id]; return b != nil && b.epoch <= zxid }
	if isr := x.part().isr; !r.loaded && slices.ContainsFunc(isr, returned) && slices.ContainsFunc(isr, stayed) {
		r.returned[x] = only(isr, returned)
	}
}

// withdrawReturned takes them out. Nobody is told of such a partition before that is written: see orderStateOf.
func (m *Machine) withdrawReturned() {
	r := m.reign
	if len(r.returned) == 0 {
		return
	}
	m.log.Info("brokers have come back while there was no controller; what they led is led by who stayed", zap.Int("partitions", len(r.returned)))
	var refs []ref
	for _, x := range r.allRefs() {
		if _, ok := r.returned[x]; ok {
			refs = append(refs, x)
		}
	}
	m.alter(refs, change{
		next: func(x ref) (znode.State, bool) {
			p, v := x.part(), m.view(x)
			if x.t.deletion != nil || p.version < 0 {
				return znode.State{}, false
			}
			next := p.state()
			next.LeaderEpoch++
			next.ISR = without(p.isr, r.returned[x])
			if slices.Contains(next.ISR, next.Leader) && v.serves(next.Leader) {
				return next, len(next.ISR) < len(p.isr)
			}
			heir, ok := v.first(func(id int32) bool { return slices.Contains(next.ISR, id) && v.live(id) })
			next.Leader = heir
			return next, ok
		},
		then: func(x ref) {
			if _, held := r.returned[x]; held { // it has not been written: those who stayed have gone
				delete(r.returned, x)
				m.orderState(x, false, noLeader)
				m.settle([]ref{x}, true)
			}
		}})
}
