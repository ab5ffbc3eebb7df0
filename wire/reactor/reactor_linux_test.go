package reactor

import (
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/gregor-broker/gregor/wire/buffers"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/gregor-broker/gregor/wire/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakePeer counts what the engine does with a connection.
type fakePeer struct {
	session  session.Conn
	advanced int
	closed   int
}

func (p *fakePeer) Session() *session.Conn  { return &p.session }
func (p *fakePeer) Advance()                { p.advanced++; p.session.Stash() }
func (p *fakePeer) Deliver(session.Message) {}
func (p *fakePeer) Closed(error)            { p.closed++ }

type noAcceptor struct{}

func (noAcceptor) Accept(string, session.Port, netip.AddrPort, netip.AddrPort) session.Peer {
	return nil
}

// still returns a processor whose goroutine does not run.
func still(t *testing.T) *processor {
	e := &Engine{o: session.Options{
		Acceptor: noAcceptor{}, Clock: clock.System, Logger: zap.NewNop(), Pool: &buffers.Pool{}, Waiting: func() bool { return false },
	}}
	p, err := newProcessor(e, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.shutDown)
	return p
}

// connected adopts one end of a new socket pair.
func connected(t *testing.T, p *processor) (c *conn, peer *fakePeer, other int) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fds[1]) })
	peer = &fakePeer{session: session.New(&session.Limits{MaxRequestBytes: 1000, MaxInFlight: 4, MaxUnsentBytes: 1000}, p.engine.o.Pool)}
	c = &conn{proc: p, fd: fds[0], peer: peer}
	p.adopt(c)
	return c, peer, fds[1]
}

// TestStaleEventDoesNotReachTheNextConnection: one round may hold an event of a connection that an earlier event of the same
// round closed, and whose slot and descriptor are another one's by then.
func TestStaleEventDoesNotReachTheNextConnection(t *testing.T) {
	p := still(t)
	old, oldPeer, other := connected(t, p)
	unix.Write(other, []byte("\x00\x00\x00\x08"))
	if n := p.wait(); n != 1 {
		t.Fatalf("%d events", n)
	}
	event := p.events[0]
	id := old.ID()
	p.close(old, nil)
	next, nextPeer, _ := connected(t, p)
	if next.slot != old.slot || next.fd != old.fd {
		t.Fatalf("the slot %d and descriptor %d are not used again: %d, %d", old.slot, old.fd, next.slot, next.fd)
	}
	if next.ID() == id {
		t.Error("two connections have one ID")
	}
	event.Events |= unix.EPOLLHUP
	p.handle(&event)
	if oldPeer.advanced+nextPeer.advanced != 0 || nextPeer.closed != 0 || oldPeer.closed != 1 {
		t.Errorf("an event reached a connection that it was not for: %+v, %+v", oldPeer, nextPeer)
	}
}

// TestWakingIsAnnounced: the eventfd is written once, and only for a processor that sleeps.
func TestWakingIsAnnounced(t *testing.T) {
	p := still(t)
	count := func() uint64 {
		var b [8]byte
		if n, _ := unix.Read(p.event, b[:]); n == 0 || n < 0 {
			return 0
		}
		return uint64(b[0])
	}
	p.post(letter{kind: idle})
	if count() != 0 {
		t.Error("an awake processor is woken")
	}
	p.inbox.asleep = true
	p.post(letter{kind: idle})
	p.post(letter{kind: idle})
	if n := count(); n != 1 {
		t.Errorf("the eventfd was written %d times", n)
	}
	p.wait()
	if len(p.letters) != 3 {
		t.Errorf("%d letters", len(p.letters))
	}
}

// TestRested: a processor counts for how long it waits, and what it has begun to wait counts too.
func TestRested(t *testing.T) {
	fake := clock.NewFake(time.Unix(0, 0))
	fake.Advance(time.Hour)
	p := still(t)
	e := p.engine
	e.o.Clock, e.processors = fake, []*processor{p}
	begin := func() (waited chan struct{}) {
		waited = make(chan struct{})
		go func() {
			p.wait()
			p.readLetters()
			close(waited)
		}()
		for asleep := false; !asleep; runtime.Gosched() {
			p.inbox.Lock()
			asleep = p.inbox.asleep
			p.inbox.Unlock()
		}
		return waited
	}
	want := func(when string, since, rested time.Duration) {
		t.Helper()
		if passed, got := e.Rested(); passed != since || got[0] != rested {
			t.Errorf("%s: %v of %v, want %v of %v", when, got[0], passed, rested, since)
		}
	}
	waited := begin()
	fake.Advance(time.Minute)
	want("before somebody asked", 0, 0)
	fake.Advance(time.Minute)
	want("in the same wait", time.Minute, time.Minute)
	p.post(letter{kind: idle})
	<-waited
	p.queue(&conn{})
	p.wait()
	fake.Advance(time.Minute)
	want("at work", 2*time.Minute, time.Minute)
	p.toRun = nil
	waited = begin()
	fake.Advance(time.Minute)
	want("in the next wait", 3*time.Minute, 2*time.Minute)
	p.post(letter{kind: idle})
	<-waited
	want("after it", 3*time.Minute, 2*time.Minute)
}

func TestListKeepsOrderOfUse(t *testing.T) {
	var l list
	conns := make([]*conn, 4)
	for i := range conns {
		conns[i] = &conn{fd: i}
		l.push(conns[i])
	}
	order := func() (fds []int) {
		for c := l.first(); c != nil; c = l.after(c) {
			fds = append(fds, c.fd)
		}
		return fds
	}
	for _, i := range []int{1, 0, 3} {
		l.remove(conns[i])
		l.push(conns[i])
	}
	if got := order(); !slices.Equal(got, []int{2, 1, 0, 3}) {
		t.Errorf("%v", got)
	}
	for _, c := range conns {
		l.remove(c)
	}
	if l.first() != nil || l.root.prev != nil {
		t.Error("not empty")
	}
}

// TestProbe: what a loader has read is resident.
func TestProbe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "segment")
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !resident(int(f.Fd()), 1<<20-1) && !noProbe.Load() {
		t.Error("what was just written is not resident")
	}
	if !resident(int(f.Fd()), 5<<20) && !noProbe.Load() {
		t.Error("a position behind the end makes a loader run")
	}
}
