package controller

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// orders are what this turn wants the brokers to do. flush makes requests of them: one of a kind per broker.
// After kafka.controller.ControllerBrokerRequestBatch.
type orders struct {
	states    map[int32]*stateOrders // LeaderAndIsr, by broker
	metadata  refSet                 // UpdateMetadata, for every broker
	everybody bool                   // UpdateMetadata even without partitions: the brokers have changed
	full      map[int32]bool         // brokers that get UpdateMetadata with everything
	stops     map[int32][]stop       // StopReplica, by broker
	then      []func()               // to be called when this broker has answered
	told      []func()               // to be called when every broker has answered UpdateMetadata
	waits     []*delivery            // of single orders
	handing   []ref                  // whose former leaders are told later
}

// refSet is a list of partitions in the order in which they came, each once.
type refSet struct {
	list []ref
	has  map[ref]struct{}
}

func (s *refSet) add(x ref) {
	if _, ok := s.has[x]; ok {
		return
	}
	if s.has == nil {
		s.has = map[ref]struct{}{}
	}
	s.has[x] = struct{}{}
	s.list = append(s.list, x)
}

// stateOrders are for one broker.
type stateOrders struct {
	refSet
	isNew map[ref]struct{}
}

// stop is an entry of StopReplica.
type stop struct {
	ref
	remove bool      // the data too
	epoch  int32     // leader epoch, epochDuringDelete for a topic that goes
	wait   *delivery // who waits for the answer, or nil
}

func newOrders() orders {
	return orders{states: map[int32]*stateOrders{}, full: map[int32]bool{}, stops: map[int32][]stop{}}
}

func (o *orders) empty() bool {
	return len(o.states) == 0 && !o.updates() && len(o.full) == 0 && len(o.stops) == 0 && len(o.then) == 0 && len(o.told) == 0 && len(o.waits) == 0
}

// updates says whether every broker gets UpdateMetadata.
func (o *orders) updates() bool { return o.everybody || len(o.metadata.list) > 0 }

// orderState tells a partition's live replicas its state, and everybody its metadata as soon as its leader has answered.
// former is who led before, noLeader if nobody did. A broker that shuts down is told only what it leads or led: as a follower it
// has been stopped and must not begin again.
//
// A former leader that lives is told last, when the new one has answered (handedOver): then whoever it sends away finds a leader that
// serves, and metadata that names it. Meanwhile it can commit nothing, since the new leader was in sync and does not fetch from
// it any more; but it goes on to take records with acks=1, which are lost, so that it is not left so for more than handLimit.
// (Kafka tells all at once, and clients that are sent away too early wait for their next try.)
func (m *Machine) orderState(x ref, isNew bool, former int32) {
	r, p, replicas := m.reign, x.part(), x.assigned().replicas
	p.fresh = p.fresh || isNew
	delete(r.handing, x)
	handing := former >= 0 && former != p.leader && r.brokers[p.leader] != nil && r.brokers[former] != nil
	for _, id := range replicas {
		b := r.brokers[id]
		switch {
		case b == nil, b.stopping && id != p.leader && id != former:
		case handing && id == former:
			r.handing[x] = former
			r.orders.handing = append(r.orders.handing, x)
		default:
			m.orderStateOf(x, id, isNew)
		}
	}
	r.orders.metadata.add(x)
}

// handLimit is how long the new leader may take to answer until the former one is told all the same.
const handLimit = 50 * time.Millisecond

// handedOver says that a partition's leader has answered: everybody may know it.
func (m *Machine) handedOver(x ref) {
	r := m.reign
	x.part().told, x.part().fresh = true, false
	r.orders.metadata.add(x)
	m.tellFormer(x)
}

// tellFormer tells the former leader, if that has been left for later.
func (m *Machine) tellFormer(x ref) {
	if former, ok := m.reign.handing[x]; ok {
		delete(m.reign.handing, x)
		m.orderStateOf(x, former, false)
	}
}

// orderStateOf tells one replica, unless it cannot listen or there is nothing to tell.
func (m *Machine) orderStateOf(x ref, id int32, isNew bool) {
	r := m.reign
	if x.t.deletion != nil || x.part().version < 0 || r.brokers[id] == nil {
		return
	}
	if _, held := r.returned[x]; held {
		return // who leads is about to change
	}
	o := r.orders.states[id]
	if o == nil {
		o = &stateOrders{isNew: map[ref]struct{}{}}
		r.orders.states[id] = o
	}
	o.add(x)
	if isNew {
		o.isNew[x] = struct{}{}
	}
}

// flush sends what has been gathered.
func (m *Machine) flush() {
	for r := m.reign; r != nil && m.reign == r && !r.orders.empty(); {
		o := r.orders
		r.orders = newOrders()
		m.send(&o)
	}
}

// send makes the requests of a turn. Requests to different brokers share what is equal in them.
func (m *Machine) send(o *orders) {
	r := m.reign
	d := &delivery{then: o.then, left: 1}
	told := &delivery{then: o.told, left: 1}
	live := r.liveBrokers()
	some := r.metadataOf(o.metadata.list)
	if len(some) == 0 && len(o.metadata.list) > 0 && !o.everybody {
		o.metadata.list = nil // all of them wait for their leaders
	}
	var all []kmsg.UpdateMetadataRequestTopicState
	for _, id := range r.brokerIDs() {
		if s := o.states[id]; s.assigned(id) {
			waiting := []*delivery{}
			if id == m.id {
				waiting = append(waiting, d)
			}
			m.sendTo(id, r.stateRequest(m.id, id, s), m.statesAnswered(id, s.list), waiting...)
		}
		if o.full[id] && all == nil {
			all = r.metadataOf(r.allRefs())
		}
		if o.updates() || o.full[id] {
			topics := some
			if o.full[id] {
				topics = all
			}
			waiting := []*delivery{told}
			if id == m.id {
				d.serve(o.metadata.list)
				waiting = append(waiting, d)
			}
			m.sendTo(id, r.metadataRequest(m.id, id, topics, live), nil, waiting...)
		}
		m.sendStops(id, o.stops[id])
	}
	if len(o.handing) > 0 {
		m.after(inReign, handLimit, func() {
			for _, x := range o.handing {
				m.tellFormer(x)
			}
		})
	}
	for _, w := range append(o.waits, told, d) {
		if m.reign == r {
			m.delivered(w)
		}
	}
}

// assigned leaves out what the broker has lost again in this turn, and reports whether anything is left to tell.
func (s *stateOrders) assigned(id int32) bool {
	if s == nil {
		return false
	}
	s.list = slices.DeleteFunc(s.list, func(x ref) bool { return !slices.Contains(x.assigned().replicas, id) })
	return len(s.list) > 0
}

// sendStops ends replicas first and removes their data with a request of its own, as Kafka does.
func (m *Machine) sendStops(id int32, all []stop) {
	for _, remove := range []bool{false, true} {
		stops := slices.DeleteFunc(slices.Clone(all), func(s stop) bool { return s.remove != remove })
		if len(stops) == 0 {
			continue
		}
		var answered func(kmsg.Response)
		if remove {
			answered = m.stopsAnswered(id, stops)
		}
		var waiting []*delivery
		for _, s := range stops {
			if s.wait != nil {
				waiting = append(waiting, s.wait)
			}
		}
		m.sendTo(id, m.reign.stopRequest(m.id, id, stops), answered, waiting...)
	}
}

// delivery follows orders of a turn that somebody waits for.
type delivery struct {
	left   int           // answers that are missing, and one for the turn that sends
	epochs map[ref]int32 // partitions that clients of this broker know of then, with the leader epoch
	then   []func()
}

// serve notes partitions whose leaders have answered and that our own clients are told of.
func (d *delivery) serve(refs []ref) {
	d.epochs = make(map[ref]int32, len(refs))
	for _, x := range refs {
		if p := x.part(); p.told {
			d.epochs[x] = p.leaderEpoch
		}
	}
}

// sendTo gives one order. answered, if any, is called with the answer unless the broker is gone; waiting count it.
func (m *Machine) sendTo(broker int32, req kmsg.Request, answered func(kmsg.Response), waiting ...*delivery) {
	for _, d := range waiting {
		d.left++
	}
	id := m.expect(inReign, func(e Event) {
		done, reign := e.(SendDone), m.reign
		if done.Err == nil && answered != nil {
			answered(done.Response)
		}
		for _, d := range waiting {
			if m.reign == reign {
				m.delivered(d)
			}
		}
	})
	m.do(Send{id, broker, req})
}

// delivered counts an answer. After the last one the partitions are served, and who waits for that is told.
func (m *Machine) delivered(d *delivery) {
	if d.left--; d.left > 0 {
		return
	}
	topics := map[*topic]bool{}
	for x, epoch := range d.epochs {
		if p := x.part(); p.leaderEpoch == epoch {
			p.served = true
			topics[x.t] = len(x.t.awaits) > 0
		}
	}
	reign := m.reign
	for t, awaited := range topics {
		if awaited {
			m.checkAwaits(t)
		}
	}
	for _, f := range d.then {
		if m.reign == reign {
			f()
		}
	}
}
