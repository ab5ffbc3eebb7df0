package txn

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/wire/clock"
)

// marker is one partition's marker on its way. Owned by the sender.
type marker struct {
	*ending
	at int32 // in its partitions

	due    time.Duration // when it is tried next
	tries  int
	absent bool          // metadata does not know the partition
	since  time.Duration // when that began
}

func (m *marker) partition() *partition { return &m.partitions[m.at] }

// The sender's patience.
const (
	firstBackoff = 20 * time.Millisecond
	lastBackoff  = time.Second
	// deletedAfter is how long metadata must not have known a partition before it is taken for deleted: what a broker knows of the
	// cluster may come a little after what it is to lead.
	deletedAfter = 2 * time.Second
	// maxMarkers is how many partitions' markers go into one request.
	maxMarkers = 2000
)

// sender brings markers to the leaders of partitions until each is written, taken for deleted, or fenced off. To each broker goes
// one request at a time, with all that has gathered meanwhile. It holds one goroutine; who decides that a transaction is prepared,
// and hears that it is marked, is the machine.
type sender struct {
	transport Transport
	clock     clock.Clock
	log       *zap.Logger
	version   func() int16         // of WriteTxnMarkers
	tell      func(*life, *marked) // the machine
	wake      chan struct{}
	done      chan struct{}
	cancel    context.CancelFunc

	mu struct { // what others put in
		sync.Mutex
		endings []*ending
		answers []markersAnswer
	}

	waiting []*marker         // for their time
	held    atomic.Int64      // how many those are, for whoever looks
	brokers map[int32]*target // with a request in work, or with markers that wait for one
}

// target is a broker.
type target struct {
	busy  bool
	queue []*marker
}

// markersAnswer is what became of a request.
type markersAnswer struct {
	broker   int32
	markers  []*marker
	response *kmsg.WriteTxnMarkersResponse
	err      error
}

func newSender(o *Options, version func() int16, tell func(*life, *marked)) *sender {
	ctx, cancel := context.WithCancel(context.Background())
	s := &sender{
		transport: o.Transport, clock: o.Clock, log: o.Logger, version: version, tell: tell,
		wake: make(chan struct{}, 1), done: make(chan struct{}), cancel: cancel, brokers: map[int32]*target{},
	}
	go func() {
		defer close(s.done)
		s.run(ctx)
	}()
	return s
}

// close ends the goroutine and waits for that. Requests in work are the transport's.
func (s *sender) close() {
	s.cancel()
	<-s.done
}

// send takes the markers of a transaction over. Safe for concurrent use.
func (s *sender) send(g *ending) {
	s.mu.Lock()
	s.mu.endings = append(s.mu.endings, g)
	s.mu.Unlock()
	s.poke()
}

func (s *sender) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *sender) run(ctx context.Context) {
	ticks, timer := s.clock.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if next, ok := s.turn(s.clock.Monotonic()); ok {
			timer.Reset(max(next-s.clock.Monotonic(), 0))
		} else {
			timer.Stop()
		}
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		case <-ticks:
		}
	}
}

// turn takes what has come, sends what is due, and tells when to look again.
func (s *sender) turn(now time.Duration) (next time.Duration, ok bool) {
	s.mu.Lock()
	fresh := s.mu.endings
	answers := s.mu.answers
	s.mu.endings, s.mu.answers = nil, nil
	s.mu.Unlock()
	for _, g := range fresh {
		s.waiting = append(s.waiting, g.markers(now)...)
	}
	for _, a := range answers {
		s.brokers[a.broker].busy = false
		s.take(a, now)
	}
	s.route(now)
	for id, t := range s.brokers {
		if !t.busy && len(t.queue) > 0 {
			s.request(id, t)
		}
	}
	s.held.Store(int64(len(s.waiting)))
	for _, m := range s.waiting {
		if !ok || m.due < next {
			next, ok = m.due, true
		}
	}
	return next, ok
}

// markers are those of all partitions, due now.
func (g *ending) markers(now time.Duration) []*marker {
	memory := make([]marker, len(g.partitions))
	list := make([]*marker, len(g.partitions))
	for i := range memory {
		memory[i] = marker{ending: g, at: int32(i), due: now}
		list[i] = &memory[i]
	}
	return list
}

// route gives what is due to the leaders' queues.
func (s *sender) route(now time.Duration) {
	waiting := s.waiting
	s.waiting = nil
	written := outcome{}
	for _, m := range waiting {
		switch {
		case m.life.over.Load():
		case m.due > now:
			s.waiting = append(s.waiting, m)
		default:
			s.direct(m, now, written)
		}
	}
	written.tell(s)
}

// direct gives one marker to the queue of its leader, or lets it wait, or be.
func (s *sender) direct(m *marker, now time.Duration, written outcome) {
	leader, exists := s.transport.Leader(m.partition().topic, m.partition().index)
	if !exists && !m.absent {
		m.since = now
	}
	m.absent = !exists
	switch {
	case !exists && now-m.since >= deletedAfter:
		s.log.Info("a partition of a transaction is gone; its marker is left out", zap.String("txn", m.id), zap.String("topic", m.partition().topic),
			zap.Int32("partition", m.partition().index))
		written.add(m)
	case !exists || leader < 0:
		s.delay(m, now)
	default:
		t := s.brokers[leader]
		if t == nil {
			t = &target{}
			s.brokers[leader] = t
		}
		t.queue = append(t.queue, m)
	}
}

// delay tries a marker again later.
func (s *sender) delay(m *marker, now time.Duration) {
	m.due = now + min(firstBackoff<<min(m.tries, 10), lastBackoff)
	m.tries++
	s.waiting = append(s.waiting, m)
}

// request sends a broker what waits for it.
func (s *sender) request(broker int32, t *target) {
	n := min(len(t.queue), maxMarkers)
	markers := t.queue[:n:n]
	t.queue = append([]*marker(nil), t.queue[n:]...)
	t.busy = true
	r := kmsg.NewPtrWriteTxnMarkersRequest()
	r.Version = s.version()
	r.Markers = encodeMarkers(markers)
	s.transport.Write(broker, r, func(response *kmsg.WriteTxnMarkersResponse, err error) {
		s.mu.Lock()
		s.mu.answers = append(s.mu.answers, markersAnswer{broker, markers, response, err})
		s.mu.Unlock()
		s.poke()
	})
}

// encodeMarkers puts the partitions of one transaction that follow each other under one marker.
func encodeMarkers(markers []*marker) (list []kmsg.WriteTxnMarkersRequestMarker) {
	for i, m := range markers {
		if i == 0 || m.ending != markers[i-1].ending {
			w := kmsg.NewWriteTxnMarkersRequestMarker()
			w.ProducerID, w.ProducerEpoch, w.Committed = m.producerID, m.producerEpoch, m.commit
			w.CoordinatorEpoch, w.TransactionVersion = m.coordinatorEpoch, m.version
			list = append(list, w)
		}
		w, p := &list[len(list)-1], m.partition()
		if n := len(w.Topics); n == 0 || w.Topics[n-1].Topic != p.topic {
			w.Topics = append(w.Topics, kmsg.WriteTxnMarkersRequestMarkerTopic{
				Topic: p.topic, Partitions: make([]int32, 0, sameTopic(markers[i:])),
			})
		}
		t := &w.Topics[len(w.Topics)-1]
		t.Partitions = append(t.Partitions, p.index)
	}
	return list
}

// sameTopic is how many of the first markers are of one topic of one transaction.
func sameTopic(markers []*marker) int {
	for i, m := range markers {
		if m.ending != markers[0].ending || m.partition().topic != markers[0].partition().topic {
			return i
		}
	}
	return len(markers)
}

// take looks what became of each marker. After TransactionMarkerRequestCompletionHandler.
func (s *sender) take(a markersAnswer, now time.Duration) {
	if a.err != nil {
		s.log.Info("a broker has not taken transaction markers; trying again", zap.Int32("broker", a.broker), zap.Error(a.err))
	}
	codes := answeredCodes(&a)
	written := outcome{}
	for i, m := range a.markers {
		if m.life.over.Load() {
			continue
		}
		s.settle(m, codes[i], now, written)
	}
	written.tell(s)
}

// unanswered stands for the code of a marker of which the answer does not speak.
const unanswered = math.MinInt16

// answeredCodes returns the code for each marker of a request.
func answeredCodes(a *markersAnswer) []int16 {
	codes := make([]int16, len(a.markers))
	for i := range codes {
		codes[i] = unanswered
	}
	if a.err != nil {
		return codes
	}
	next := 0 // answers usually come in the order of what was asked
	for i := range a.response.Markers {
		m := &a.response.Markers[i]
		for j := range m.Topics {
			t := &m.Topics[j]
			for _, p := range t.Partitions {
				of := func(k *marker) bool {
					return k.producerID == m.ProducerID && k.partition().index == p.Partition && k.partition().topic == t.Topic
				}
				if next >= len(a.markers) || !of(a.markers[next]) {
					if next = slices.IndexFunc(a.markers, of); next < 0 {
						next = 0
						continue // nobody asked
					}
				}
				codes[next] = p.ErrorCode
				next++
			}
		}
	}
	return codes
}

// settle decides about one marker.
func (s *sender) settle(m *marker, code int16, now time.Duration, written outcome) {
	switch code {
	case 0:
		written.add(m)
	case unanswered:
		s.delay(m, now)
	case kerr.UnsupportedForMessageFormat.Code, kerr.UnsupportedVersion.Code:
		s.warn("a partition cannot hold transaction markers; it is left out", m, code)
		written.add(m)
	case kerr.InvalidProducerEpoch.Code, kerr.TransactionCoordinatorFenced.Code:
		s.warn("a transaction marker was refused: another coordinator or a newer producer has taken over", m, code)
	default: // leaders move, replicas come back, disks are replaced
		if m.tries >= 5 {
			s.warn("a transaction marker could not be written yet; trying again", m, code)
		}
		s.delay(m, now)
	}
}

func (s *sender) warn(what string, m *marker, code int16) {
	s.log.Warn(what, zap.String("txn", m.id), zap.String("topic", m.partition().topic), zap.Int32("partition", m.partition().index),
		zap.Error(kerr.ErrorForCode(code)))
}

// outcome gathers the partitions that are marked, by transaction.
type outcome map[*ending][]int32

func (o outcome) add(m *marker) {
	at := o[m.ending]
	if at == nil {
		at = make([]int32, 0, len(m.partitions))
	}
	o[m.ending] = append(at, m.at)
}

func (o outcome) tell(s *sender) {
	for g, at := range o {
		s.tell(g.life, &marked{g, at})
	}
}
