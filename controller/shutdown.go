package controller

import (
	"slices"

	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// This file serves ControlledShutdown: a broker that is about to go gives its leaderships to others, and is taken out of the
// in-sync replicas, so that nobody waits for it. Unlike Kafka it is answered when the new leaders serve, not when they have been
// chosen: so the broker refuses nobody before there is somebody else to go to. And the broker stops following what it led, too.
// After kafka.controller.KafkaController.doControlledShutdown.

// controlledShutdown serves ControlledShutdown. The answer lists what the broker still leads although others have replicas.
func (m *Machine) controlledShutdown(r *kmsg.ControlledShutdownRequest, done func(*kmsg.ControlledShutdownResponse)) {
	resp := r.ResponseKind().(*kmsg.ControlledShutdownResponse)
	answer := func(*Machine) { m.do(Answer{resp, func() { done(resp) }}) }
	if !m.active() {
		resp.ErrorCode = kerr.NotController.Code
		answer(m)
		return
	}
	id := r.BrokerID
	b := m.reign.brokers[id]
	switch {
	case b == nil:
		resp.ErrorCode = kerr.BrokerNotAvailable.Code
	case r.Version >= 2 && r.BrokerEpoch != -1 && r.BrokerEpoch < b.epoch:
		resp.ErrorCode = kerr.StaleBrokerEpoch.Code
	default:
		m.log.Info("a broker shuts down", zap.Int32("broker", id))
		b.stopping = true
	}
	if resp.ErrorCode != 0 {
		answer(m)
		return
	}
	refs := m.shared(id)
	q := m.newRequest(len(refs), leaderTimeoutMs, func(_ int, code int16, _ *string) {
		if code == kerr.NotController.Code {
			resp.ErrorCode = code
		}
	}, func(m *Machine) {
		if m.reign != nil {
			resp.PartitionsRemaining = m.remaining(id)
		}
		answer(m)
	})
	// Whoever has been killed and started again meanwhile does not shut down any more.
	same := func() bool { return m.reign.brokers[id] == b }
	index, led := map[ref]int{}, map[ref]bool{}
	stopFollowing := func(x ref, wait *delivery) {
		m.reign.orders.stops[id] = append(m.reign.orders.stops[id], stop{ref: x, epoch: x.part().leaderEpoch, wait: wait})
	}
	for i, x := range refs {
		index[x] = i
		if led[x] = x.part().leader == id; !led[x] {
			stopFollowing(x, nil)
		}
	}
	q.begin(m, leaderTimeoutMs)
	m.alter(refs, change{
		next: func(x ref) (znode.State, bool) {
			if !same() {
				return znode.State{}, false
			}
			return m.withdraw(x, id)
		},
		then: func(x ref) {
			if p := x.part(); x.t.deletion != nil || p.leader == id || p.leader < 0 {
				q.result(m, index[x], nil)
			} else {
				m.await(x.t, x.p, x.p+1, func() {
					if !led[x] || x.t.deletion != nil || !same() {
						q.result(m, index[x], nil)
						return
					}
					// It need not follow what it led: it would only be proposed as in-sync, and refused. The answer also says that it
					// has stopped to lead, and so has sent its clients on.
					wait := &delivery{left: 1, then: []func(){func() { q.result(m, index[x], nil) }}}
					stopFollowing(x, wait)
					m.reign.orders.waits = append(m.reign.orders.waits, wait)
				})
			}
		}})
}

// shared returns the partitions that a broker has together with others.
func (m *Machine) shared(id int32) []ref {
	return slices.DeleteFunc(m.reign.onBrokers([]int32{id}), func(x ref) bool {
		p := x.part()
		return x.t.deletion != nil || p.version < 0 || len(p.replicas) < 2
	})
}

// withdraw takes a broker that shuts down out of a partition.
func (m *Machine) withdraw(x ref, id int32) (znode.State, bool) {
	p, v := x.part(), m.view(x)
	if x.t.deletion != nil || p.version < 0 {
		return znode.State{}, false
	}
	next := p.state()
	next.LeaderEpoch++
	if p.leader == id {
		heir, ok := v.first(func(id int32) bool { return slices.Contains(p.isr, id) && v.live(id) })
		next.Leader = heir
		next.ISR = only(p.isr, func(id int32) bool { b := m.reign.brokers[id]; return b == nil || !b.stopping })
		return next, ok
	}
	next.ISR = without(p.isr, []int32{id})
	return next, len(next.ISR) < len(p.isr) && len(next.ISR) > 0
}

// remaining is what a broker leads that others have a replica of.
func (m *Machine) remaining(id int32) []kmsg.ControlledShutdownResponsePartitionsRemaining {
	var list []kmsg.ControlledShutdownResponsePartitionsRemaining
	for _, x := range m.shared(id) {
		if x.part().leader == id {
			r := kmsg.NewControlledShutdownResponsePartitionsRemaining()
			r.Topic, r.Partition = x.t.name, x.p
			list = append(list, r)
		}
	}
	return list
}
