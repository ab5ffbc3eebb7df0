package controller

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// sendRetryDelay is how long after a failed Send the same order is tried again.
const sendRetryDelay = 100 * time.Millisecond

// eventsPerTurn bounds what one turn takes from the mailbox.
const eventsPerTurn = 1000

var errGone = errors.New("the broker or the reign is gone")

// driver carries out a machine's actions. Its goroutine owns the machine; every read and commit runs on a goroutine of its
// own, and so does the queue of each broker.
type driver struct {
	o       Options
	machine *Machine
	ctx     context.Context // ends everything that may block
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	told    func(Action) // actions that the Controller keeps a copy of, or waits for

	mail struct {
		sync.Mutex
		events  []Event
		came    []time.Duration  // when each did
		changed map[Changed]bool // those that are in events
		wake    chan struct{}    // holds one token while there is mail
		closed  bool
	}

	// Owned by the driver's goroutine.
	watches map[Changed]func()
	timers  map[uint64]clock.Timer
	peers   map[int32]*peer

	obeying sync.Map // peers, for whoever looks at them
}

func newDriver(o Options, m *Machine, told func(Action)) *driver {
	d := &driver{o: o, machine: m, told: told, watches: map[Changed]func(){}, timers: map[uint64]clock.Timer{}, peers: map[int32]*peer{}}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.mail.changed = map[Changed]bool{}
	d.mail.wake = make(chan struct{}, 1)
	return d
}

// post puts an event into the mailbox. It never blocks; after the end it does nothing and reports false.
func (d *driver) post(e Event) bool {
	d.mail.Lock()
	defer d.mail.Unlock()
	if d.mail.closed {
		return false
	}
	if c, ok := e.(Changed); ok {
		if d.mail.changed[c] {
			return true
		}
		d.mail.changed[c] = true
	}
	d.mail.events = append(d.mail.events, e)
	d.mail.came = append(d.mail.came, d.o.Clock.Monotonic())
	select {
	case d.mail.wake <- struct{}{}:
	default:
	}
	return true
}

// take empties the mailbox, up to a turn's worth.
func (d *driver) take() (events []Event, came []time.Duration) {
	d.mail.Lock()
	defer d.mail.Unlock()
	events, came = d.mail.events, d.mail.came
	if len(events) > eventsPerTurn {
		d.mail.events, d.mail.came = events[eventsPerTurn:], came[eventsPerTurn:]
		events, came = events[:eventsPerTurn:eventsPerTurn], came[:eventsPerTurn:eventsPerTurn]
		select {
		case d.mail.wake <- struct{}{}:
		default:
		}
	} else {
		d.mail.events, d.mail.came = nil, nil
	}
	for _, e := range events {
		if c, ok := e.(Changed); ok {
			delete(d.mail.changed, c)
		}
	}
	return events, came
}

// run is the driver's goroutine.
func (d *driver) run() {
	defer d.end()
	cancel := d.o.Store.WatchSession(func(e store.SessionEvent) { d.post(SessionChanged{e}) })
	defer cancel()
	d.post(Begin{d.o.Store.Session()})
	for {
		select {
		case <-d.mail.wake:
		case <-d.ctx.Done():
			return
		}
		events, came := d.take()
		began := d.o.Clock.Monotonic()
		for i, e := range events {
			d.o.Measure.EventWaited(began - came[i])
			if f, ok := e.(Fired); ok {
				delete(d.timers, f.ID)
			}
		}
		for _, a := range d.machine.Step(d.o.Clock.Now(), events...) {
			d.do(a)
		}
		d.o.Measure.TurnTook(d.o.Clock.Monotonic() - began)
	}
}

// end answers who waits and lets go of everything.
func (d *driver) end() {
	d.mail.Lock()
	d.mail.closed = true
	left := d.mail.events
	d.mail.events, d.mail.came = nil, nil
	d.mail.Unlock()
	for _, e := range left {
		if r, ok := e.(Request); ok {
			r.run(d.machine)
		}
	}
	d.machine.quit()
	answerAll(d.machine.Step(d.o.Clock.Now()))
	for _, cancel := range d.watches {
		cancel()
	}
	for _, t := range d.timers {
		t.Stop()
	}
	for _, p := range d.peers {
		p.close()
	}
}

// answerAll carries out answers only.
func answerAll(actions []Action) {
	for _, a := range actions {
		if answer, ok := a.(Answer); ok {
			answer.reply()
		}
	}
}

func (d *driver) do(a Action) {
	switch a := a.(type) {
	case Read:
		d.wg.Go(func() {
			nodes, err := d.o.Store.Read(d.ctx, a.Reqs...)
			if d.ctx.Err() != nil {
				err = store.ErrClosed // it is we who end
			}
			d.post(ReadDone{a.ID, nodes, err})
		})
	case Commit:
		d.wg.Go(func() { d.post(CommitDone{a.ID, d.o.Store.CommitEach(store.Within(d.ctx, a.Session), a.Txns)}) })
	case Send:
		p := d.peers[a.Broker]
		if p == nil {
			p = d.newPeer(a.Broker)
			d.peers[a.Broker] = p
			d.obeying.Store(a.Broker, p)
		}
		p.add(a)
	case Forward:
		if d.o.Forward == nil {
			d.post(Forwarded{ID: a.ID, Err: errNotController})
			return
		}
		d.o.Forward(a.Request, func(resp kmsg.Response, err error) { d.post(Forwarded{a.ID, resp, err}) })
	case Drop:
		if p := d.peers[a.Broker]; p != nil {
			delete(d.peers, a.Broker)
			d.obeying.Delete(a.Broker)
			p.close()
		}
	case After:
		d.timers[a.ID] = d.o.Clock.AfterFunc(a.Delay, func() { d.post(Fired{a.ID}) })
	case Cancel:
		if t := d.timers[a.ID]; t != nil {
			t.Stop()
			delete(d.timers, a.ID)
		}
	case Watch:
		d.watch(Changed{a.Path, a.Kind})
	case Unwatch:
		d.unwatch(Changed{a.Path, a.Kind})
	case Answer:
		a.reply()
	default:
		d.told(a)
	}
}

func (d *driver) watch(c Changed) {
	if d.watches[c] == nil {
		d.watches[c] = d.o.Store.Watch(c.Path, c.Kind, func() { d.post(c) })
	}
}

func (d *driver) unwatch(c Changed) {
	if cancel := d.watches[c]; cancel != nil {
		delete(d.watches, c)
		cancel()
	}
}

// peer is the queue of orders for one broker: first in, first out, one at a time.
type peer struct {
	d      *driver
	id     int32
	ctx    context.Context
	cancel context.CancelFunc

	mu struct {
		sync.Mutex
		queue []queuedOrder
		wake  chan struct{}
	}
}

// queuedOrder is an order and when it came.
type queuedOrder struct {
	Send
	came time.Duration
}

func (d *driver) newPeer(id int32) *peer {
	p := &peer{d: d, id: id}
	p.ctx, p.cancel = context.WithCancel(d.ctx)
	p.mu.wake = make(chan struct{}, 1)
	d.wg.Go(p.run)
	return p
}

func (p *peer) add(s Send) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.queue = append(p.mu.queue, queuedOrder{s, p.d.o.Clock.Monotonic()})
	select {
	case p.mu.wake <- struct{}{}:
	default:
	}
}

func (p *peer) next() (queuedOrder, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.mu.queue) == 0 {
		return queuedOrder{}, false
	}
	s := p.mu.queue[0]
	p.mu.queue[0] = queuedOrder{} // do not hold the request
	p.mu.queue = p.mu.queue[1:]
	return s, true
}

// close gives up what is queued and under way.
func (p *peer) close() { p.cancel() }

func (p *peer) run() {
	for {
		s, ok := p.next()
		if !ok {
			select {
			case <-p.mu.wake:
				continue
			case <-p.ctx.Done():
				return
			}
		}
		p.d.o.Measure.OrderWaited(p.id, p.d.o.Clock.Monotonic()-s.came)
		resp, err := p.send(s.Request)
		p.d.post(SendDone{s.ID, resp, err})
	}
}

// send tries until the broker answers or is given up.
func (p *peer) send(req kmsg.Request) (kmsg.Response, error) {
	for failures := 0; ; failures++ {
		if p.ctx.Err() != nil {
			return nil, errGone
		}
		resp, err := p.d.o.Transport.Send(p.ctx, p.id, req)
		if err == nil {
			return resp, nil
		}
		if failures == 0 {
			continue // the connection was of the broker's earlier life, as a rule
		}
		if failures == 1 && p.ctx.Err() == nil {
			p.d.o.Logger.Warn("an order did not reach a broker; it is repeated", zap.Int32("broker", p.id), zap.Int16("api", req.Key()), zap.Error(err))
		}
		c, timer := p.d.o.Clock.NewTimer(sendRetryDelay)
		select {
		case <-c:
		case <-p.ctx.Done():
			timer.Stop()
		}
	}
}
