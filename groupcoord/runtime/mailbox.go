package runtime

import (
	"sync"
	"sync/atomic"
)

// maxQueued bounds a shard's mailbox: more requests than that are refused. A request holds at most the memory that was
// reserved for it when it was admitted.
const maxQueued = 16384

// maxTurn is how many events one turn takes.
const maxTurn = 1024

// mailbox is a bounded queue of events to one shard. Safe for concurrent use.
type mailbox struct {
	wake   chan struct{} // holds a token when there is something to look at
	filled *atomic.Int32 // of the runtime: mailboxes that hold requests
	mu     struct {
		sync.Mutex
		refusal error // why no request is taken now; nil while the shard serves
		closed  bool
		events  []Event // requests
		notices []Event // of the broker's own: few, and not to be lost by a reload
	}
}

func newMailbox(filled *atomic.Int32) *mailbox {
	m := &mailbox{wake: make(chan struct{}, 1), filled: filled}
	m.mu.refusal = ErrLoading
	return m
}

// poke makes the shard look around.
func (m *mailbox) poke() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// push queues ev, or returns why not.
func (m *mailbox) push(ev Event) error {
	m.mu.Lock()
	err := m.mu.refusal
	if err == nil && len(m.mu.events) >= maxQueued {
		err = ErrLoading
	}
	if err == nil {
		if len(m.mu.events) == 0 {
			m.filled.Add(1)
		}
		m.mu.events = append(m.mu.events, ev)
	}
	m.mu.Unlock()
	if err == nil {
		m.poke()
	}
	return err
}

// notify queues an event of the broker's own, which waits for the end of loading and knows no limit.
func (m *mailbox) notify(ev Event) error {
	m.mu.Lock()
	closed := m.mu.closed
	if !closed {
		m.mu.notices = append(m.mu.notices, ev)
	}
	m.mu.Unlock()
	if closed {
		return ErrNotCoordinator
	}
	m.poke()
	return nil
}

// take appends the notices and up to maxTurn requests to buf.
func (m *mailbox) take(buf []Event) []Event {
	m.mu.Lock()
	buf = append(buf, m.mu.notices...)
	clear(m.mu.notices)
	m.mu.notices = m.mu.notices[:0]
	n := min(len(m.mu.events), maxTurn)
	buf = append(buf, m.mu.events[:n]...)
	rest := copy(m.mu.events, m.mu.events[n:])
	clear(m.mu.events[rest:])
	m.mu.events = m.mu.events[:rest]
	if n > 0 && rest == 0 {
		m.filled.Add(-1)
	}
	m.mu.Unlock()
	if rest > 0 {
		m.poke()
	}
	return buf
}

// open lets requests in.
func (m *mailbox) open() { m.gate(nil, false) }

// shut refuses requests with err from now on, and those that wait too.
func (m *mailbox) shut(err error) { m.gate(err, false) }

// close refuses everything for good.
func (m *mailbox) close() { m.gate(ErrNotCoordinator, true) }

func (m *mailbox) gate(err error, closed bool) {
	m.mu.Lock()
	if m.mu.closed {
		err = ErrNotCoordinator
	}
	m.mu.refusal = err
	m.mu.closed = m.mu.closed || closed
	var drop []Event
	if err != nil {
		if len(m.mu.events) > 0 {
			m.filled.Add(-1)
		}
		drop, m.mu.events = m.mu.events, nil
	}
	if m.mu.closed {
		drop, m.mu.notices = append(drop, m.mu.notices...), nil
	}
	m.mu.Unlock()
	for _, ev := range drop {
		ev.Refuse(err)
	}
	m.poke()
}
