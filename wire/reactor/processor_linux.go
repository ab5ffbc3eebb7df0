package reactor

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/gregor-broker/gregor/wire/payload"
	"github.com/gregor-broker/gregor/wire/session"
)

const (
	eventsPerWait = 256
	maxVectors    = 64
	inboxKept     = 1024              // letters that the inbox's arrays keep room for
	wakeSlot      = int32(-1)         // of the eventfd
	scratchSize   = session.FirstStep // bytes
	readQuantum   = 512 << 10         // bytes that a connection may bring in per turn
	writeQuantum  = 1 << 20           // bytes that a connection may take out per turn
	copiedRange   = 16 << 10          // bytes of a file range up to which it is copied
)

// processor owns an epoll set and its connections. Everything but the inbox belongs to its goroutine.
type processor struct {
	engine *Engine
	index  uint16
	epoll  int
	event  int // eventfd

	slots  []slot
	free   []int32
	byUse  list          // connections, longest unused first
	now    time.Duration // at the beginning of the turn
	sweep  clock.Timer   // nil: none planned
	toRun  []*conn       // connections that have something to do besides events
	spare  []*conn
	all    []session.Message // what was broadcast: connections on their way get it when they arrive
	ending bool

	scratch       [scratchSize]byte          // shared by reading, and by sending what is copied from files
	copied        int                        // bytes of scratch that hold file ranges
	copySmallFunc func(*payload.Part) []byte // copySmall, made once
	events        [eventsPerWait]unix.EpollEvent
	vectors       [maxVectors][]byte
	iovecs        [maxVectors]unix.Iovec
	message       unix.Msghdr

	letters []letter // taken from the inbox
	inbox   struct {
		sync.Mutex
		letters []letter
		asleep  bool          // the processor waits, or is about to, and wants the eventfd written
		since   time.Duration // when its wait began; 0 while it works, and while nobody has asked
		slept   time.Duration // in the waits before
		closed  bool
	}
}

// slot is a place in the table of connections; gen is raised when one leaves.
type slot struct {
	c   *conn
	gen uint32
}

// letter is what others tell a processor.
type letter struct {
	kind kind
	c    *conn
	m    session.Message
}

type kind uint8

const (
	deliver  kind = iota // m to c
	adopt                // c is a new connection
	loaded               // the file range that c waits for is in the page cache
	toAll                // m to every connection
	idle                 // look for idle connections
	shutDown             // the end
)

func newProcessor(e *Engine, index uint16) (*processor, error) {
	p := &processor{engine: e, index: index, epoll: -1, event: -1}
	var err error
	if p.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("reactor: epoll_create1: %w", err)
	}
	if p.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		p.closeDescriptors()
		return nil, fmt.Errorf("reactor: eventfd: %w", err)
	}
	// Edge-triggered, each write is reported once and need not be read away.
	wake := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: wakeSlot}
	if err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, p.event, &wake); err != nil {
		p.closeDescriptors()
		return nil, fmt.Errorf("reactor: epoll_ctl: %w", err)
	}
	p.byUse.init()
	p.copySmallFunc = p.copySmall
	return p, nil
}

func (p *processor) closeDescriptors() {
	for _, fd := range []int{p.epoll, p.event} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// post puts a letter into the inbox. It returns false when the processor is gone. It never waits.
func (p *processor) post(l letter) bool {
	p.inbox.Lock()
	defer p.inbox.Unlock()
	if p.inbox.closed {
		return false
	}
	p.inbox.letters = append(p.inbox.letters, l)
	if p.inbox.asleep {
		p.inbox.asleep = false
		p.wake()
	}
	return true
}

// wake makes epoll_wait return. The caller holds the inbox, which keeps the descriptor open.
func (p *processor) wake() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	if _, err := unix.Write(p.event, one[:]); err != nil {
		p.engine.o.Logger.Error("a processor cannot be woken", zap.Error(err))
	}
}

// run is the processor's goroutine.
func (p *processor) run() {
	for !p.ending {
		n := p.wait()
		p.readLetters()
		for i := range p.events[:n] {
			p.handle(&p.events[i])
		}
		p.runQueued()
	}
	p.shutDown()
}

// wait sleeps until there are events or letters, and takes both.
func (p *processor) wait() (events int) {
	timeout := 0
	if p.engine.o.Waiting() {
		// What was just handed over, to a handler or a coordinator, runs on this thread, and its answer may be in the inbox before the
		// processor sleeps: two wake-ups saved.
		runtime.Gosched()
	}
	p.inbox.Lock()
	if len(p.inbox.letters) == 0 && len(p.toRun) == 0 {
		p.inbox.asleep = true
		if p.engine.measured.Load() {
			p.inbox.since = max(1, p.engine.o.Clock.Monotonic())
		}
		timeout = -1
	}
	p.inbox.Unlock()
	events, err := unix.EpollWait(p.epoll, p.events[:], timeout)
	if err != nil && err != unix.EINTR {
		// Only a descriptor that is closed or no epoll set makes it fail: a mistake of ours.
		panic(fmt.Sprintf("reactor: epoll_wait: %v", err))
	}
	p.now = p.engine.o.Clock.Monotonic()
	p.inbox.Lock()
	p.inbox.asleep = false
	if p.inbox.since > 0 {
		p.inbox.slept += max(0, p.now-p.inbox.since)
		p.inbox.since = 0
	}
	p.letters, p.inbox.letters = p.inbox.letters, p.letters
	p.inbox.Unlock()
	return max(events, 0)
}

// measure begins to count for how long the processor waits.
func (p *processor) measure(now time.Duration) {
	p.inbox.Lock()
	defer p.inbox.Unlock()
	if p.inbox.asleep && p.inbox.since == 0 {
		p.inbox.since = max(1, now)
	}
}

// rested returns for how long the processor has had nothing to do until now, of the time that is measured.
func (p *processor) rested(now time.Duration) time.Duration {
	p.inbox.Lock()
	defer p.inbox.Unlock()
	if p.inbox.since == 0 {
		return p.inbox.slept
	}
	return p.inbox.slept + max(0, now-p.inbox.since)
}

// readLetters does what the inbox says.
func (p *processor) readLetters() {
	for i := range p.letters {
		l := &p.letters[i]
		switch l.kind {
		case deliver:
			p.deliver(l.c, l.m)
		case adopt:
			p.adopt(l.c)
		case loaded:
			l.c.loading = false
			p.queue(l.c)
		case toAll:
			p.all = append(p.all, l.m)
			for c := p.byUse.first(); c != nil; c = p.byUse.after(c) {
				p.deliver(c, l.m)
			}
		case idle:
			p.sweepIdle()
		case shutDown:
			p.ending = true
		}
		*l = letter{}
	}
	if p.letters = p.letters[:0]; cap(p.letters) > inboxKept {
		p.letters = nil
	}
}

// deliver hands a message to a connection that may be gone.
func (p *processor) deliver(c *conn, m session.Message) {
	if !c.closed {
		c.peer.Deliver(m)
		p.queue(c)
	} else if m.Kind == session.Replied {
		m.X.Drop(p.engine.o.Pool)
	}
}

// queue gives c a turn after the events of this round.
func (p *processor) queue(c *conn) {
	if !c.queued && !c.closed {
		c.queued = true
		p.toRun = append(p.toRun, c)
	}
}

// runQueued gives the queued connections their turn; those that queue themselves again have it in the next round.
func (p *processor) runQueued() {
	run := p.toRun
	p.toRun = p.spare[:0]
	for i, c := range run {
		run[i] = nil
		c.queued = false
		if !c.closed {
			p.turn(c)
		}
	}
	if p.spare = run[:0]; cap(run) > inboxKept {
		p.spare = nil
	}
}

// adopt begins to serve a connection.
func (p *processor) adopt(c *conn) {
	last := len(p.free) - 1
	if last < 0 {
		p.slots = append(p.slots, slot{})
		p.free = append(p.free, int32(len(p.slots)-1))
		last = 0
	}
	c.slot = p.free[last]
	p.free = p.free[:last]
	s := &p.slots[c.slot]
	s.c = c
	c.gen = s.gen
	c.used = p.now
	p.byUse.push(c)
	p.planSweep(p.engine.o.IdleTimeout)
	c.interest = unix.EPOLLIN
	ev := unix.EpollEvent{Events: c.interest, Fd: c.slot, Pad: int32(c.gen)}
	if err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, c.fd, &ev); err != nil {
		p.close(c, fmt.Errorf("epoll_ctl: %w", err))
		return
	}
	if c.peer.Session().Muted() {
		p.deliver(c, session.Message{Kind: session.Began})
	}
	for _, m := range p.all {
		p.deliver(c, m)
	}
}

// handle does what an event asks for.
func (p *processor) handle(ev *unix.EpollEvent) {
	if ev.Fd == wakeSlot {
		return
	}
	c := p.slots[ev.Fd].c
	if c == nil || int32(c.gen) != ev.Pad {
		return // it was closed in this round
	}
	if ev.Events&unix.EPOLLOUT != 0 {
		c.full = false
	}
	if ev.Events&(unix.EPOLLIN|unix.EPOLLHUP|unix.EPOLLERR) != 0 && !p.read(c, ev.Events) {
		return
	}
	p.turn(c)
}

// close ends a connection and makes its slot free for another generation.
func (p *processor) close(c *conn, cause error) {
	p.byUse.remove(c)
	s := &p.slots[c.slot]
	s.c = nil
	s.gen++
	p.free = append(p.free, c.slot)
	c.end(cause)
}

// planSweep looks for idle connections after d, unless that is planned.
func (p *processor) planSweep(d time.Duration) {
	if p.engine.o.IdleTimeout > 0 && p.sweep == nil && p.byUse.first() != nil {
		p.sweep = p.engine.o.Clock.AfterFunc(d, func() { p.post(letter{kind: idle}) })
	}
}

// sweepIdle closes the connections that have been idle for too long; those that wait for us are not idle.
func (p *processor) sweepIdle() {
	limit := p.engine.o.IdleTimeout
	c := p.byUse.first()
	for ; c != nil && p.now-c.used >= limit; c = p.byUse.first() {
		if c.peer.Session().Waits() {
			p.use(c)
		} else {
			p.close(c, session.ErrIdle)
		}
	}
	p.sweep = nil
	if c != nil {
		p.planSweep(max(c.used+limit-p.now, limit/100))
	}
}

// use notes that a connection has had traffic.
func (p *processor) use(c *conn) {
	if c.used != p.now {
		c.used = p.now
		p.byUse.remove(c)
		p.byUse.push(c)
	}
}

// shutDown closes everything.
func (p *processor) shutDown() {
	if p.sweep != nil {
		p.sweep.Stop()
	}
	for c := p.byUse.first(); c != nil; c = p.byUse.first() {
		p.close(c, session.ErrServer)
	}
	p.inbox.Lock()
	p.inbox.closed = true
	letters := p.inbox.letters
	p.inbox.letters = nil
	p.inbox.Unlock()
	for _, l := range letters {
		switch l.kind {
		case deliver:
			p.deliver(l.c, l.m)
		case adopt:
			l.c.discard()
		}
	}
	p.closeDescriptors()
}
