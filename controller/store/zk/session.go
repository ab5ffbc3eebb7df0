package zk

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	zoo "github.com/go-zookeeper/zk"
	"github.com/gregor-broker/gregor/controller/store"
	"go.uber.org/zap"
)

// errAbandoned is begin's when ctx ended while the request was in the library's hands: it may still reach a server.
var errAbandoned = errors.New("given up while it was being sent")

// session is one connection object of the library, and the one session that it may have. Safe for concurrent use.
type session struct {
	store  *Store
	conn   *zoo.Conn
	events <-chan zoo.Event // closed when the library's goroutines have ended; nobody needs the events
	dials  context.Context  // ends when no more connections may be made
	stop   context.CancelFunc

	slots chan struct{} // one token for each request in flight
	turn  chan struct{} // one token: the request that is on its way to the socket

	ready chan struct{} // conn is set
	begun chan struct{} // a server has given the session its id
	ended chan struct{} // there will be no more: mu.why says why

	mu struct {
		sync.Mutex
		number int64
		up     chan struct{} // closed while there is a connection
		socket *socket
		next   *handover // the holder of the turn, until it is written
		why    error
		last   error // why the last attempt to connect failed
	}
}

// handover is a request between taking the turn and being written.
type handover struct {
	written chan struct{} // closed before the first byte is
	dropped chan struct{} // closed when it came back from the library unwritten
}

// connect makes a session; its begun is closed once a server has agreed.
func (s *Store) connect() (*session, error) {
	n := &session{
		store: s, slots: make(chan struct{}, s.o.MaxInFlight), turn: make(chan struct{}, 1),
		ready: make(chan struct{}), begun: make(chan struct{}), ended: make(chan struct{}),
	}
	n.mu.up = make(chan struct{})
	n.dials, n.stop = context.WithCancel(context.Background())
	var err error
	n.conn, n.events, err = zoo.Connect(s.servers, s.o.SessionTimeout,
		zoo.WithHostProvider(&hosts{clock: s.o.Clock}), zoo.WithDialer(n.dial), zoo.WithEventCallback(n.happened),
		zoo.WithLogger(libraryLog{s.o.Logger}), zoo.WithLogInfo(false),
		zoo.WithMaxConnBufferSize(s.o.MaxPacketBytes+64), zoo.WithMaxBufferSize(maxReplyBytes))
	if err != nil {
		n.stop()
		return nil, fmt.Errorf("ZooKeeper client: %w", err)
	}
	close(n.ready)
	return n, nil
}

// libraryLog receives what the library says of each attempt to connect.
type libraryLog struct{ logger *zap.Logger }

func (l libraryLog) Printf(format string, args ...any) {
	l.logger.Debug("ZooKeeper client: " + fmt.Sprintf(format, args...))
}

// sessionID is a session in the form in which ZooKeeper prints it.
func sessionID(id int64) zap.Field { return zap.String("session", fmt.Sprintf("0x%x", id)) }

// dial is the library's only way to a server.
func (n *session) dial(_, address string, _ time.Duration) (net.Conn, error) {
	select {
	case <-n.ready:
	case <-n.dials.Done():
	}
	if err := n.dials.Err(); err != nil {
		return nil, err
	}
	limit := n.store.o.SessionTimeout / time.Duration(len(n.store.servers))
	ctx, cancel := context.WithTimeout(n.dials, limit)
	defer cancel()
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err == nil && n.store.o.TLS != nil {
		raw, err = n.store.o.TLS.client(ctx, raw, address)
	}
	if err != nil {
		n.failed(err)
		return nil, err
	}
	c := newSocket(raw, address, n)
	if err := raw.SetDeadline(n.store.o.Clock.Now().Add(limit)); err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.dials.Err() != nil {
		return nil, errors.Join(n.dials.Err(), raw.Close())
	}
	n.mu.socket = c
	return c, nil
}

// failed remembers why the last attempt failed.
func (n *session) failed(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.last = err
}

func (n *session) lastError() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.last
}

// trouble is why the session has not begun, as far as that is known.
func (n *session) trouble() error {
	if err := n.lastError(); err != nil {
		return err
	}
	return errors.New("no answer")
}

// id returns the session's id, 0 before it has begun.
func (n *session) id() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.number
}

// happened is called by the library, on its goroutines, in the order of events. It must not block.
func (n *session) happened(e zoo.Event) {
	switch {
	case e.Type != zoo.EventSession:
		n.store.watches.fired(e.Type, n.store.below(e.Path))
	case e.State == zoo.StateHasSession:
		n.connected()
	case e.State == zoo.StateDisconnected:
		n.disconnected()
	case e.State == zoo.StateExpired:
		n.end(store.ErrSessionExpired)
	}
}

func (n *session) connected() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.socket.agreed()
	log := n.store.o.Logger.With(sessionID(n.conn.SessionID()), zap.String("server", n.mu.socket.address))
	if n.mu.number == 0 {
		n.mu.number = n.conn.SessionID()
		close(n.begun)
		log.Info("a session with ZooKeeper has begun")
	} else {
		n.mu.socket.resumed = true
		log.Info("connected to ZooKeeper again, within the session")
	}
	close(n.mu.up)
	n.store.o.Changed(SyncConnected)
}

func (n *session) disconnected() {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-n.mu.up:
		n.mu.up = make(chan struct{})
		if n.mu.why == nil {
			n.store.o.Changed(Disconnected)
			n.store.o.Logger.Warn("the connection to ZooKeeper is lost", sessionID(n.mu.number), zap.Error(n.mu.socket.err()))
		}
	default:
	}
}

// end makes every call of the session fail with why, and forbids to dial.
func (n *session) end(why error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.why != nil {
		return
	}
	n.mu.why = why
	close(n.ended)
	if errors.Is(why, store.ErrSessionExpired) || !isClosed(n.mu.up) {
		n.stop()
	}
}

// finish ends the session, on the servers too if there is a connection, and waits for the library's goroutines.
func (n *session) finish(why error) {
	n.end(why)
	n.conn.Close()
	n.stop()
	n.mu.Lock()
	last := n.mu.socket
	n.mu.Unlock()
	if last != nil {
		_ = last.Close() // the library may have closed it
	}
	for range n.events {
	}
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// begin hands a request to the library and returns when it is being written; later requests follow it on the wire. The
// request's error arrives on answer, and everything else that it did is then visible. An error of begin says that the request
// was not sent and never will be, unless it is errAbandoned.
func (n *session) begin(ctx context.Context, request func(*zoo.Conn) error) (answer <-chan error, err error) {
	if err := n.take(ctx, n.slots); err != nil {
		return nil, err
	}
	if err := n.take(ctx, n.turn); err != nil {
		<-n.slots
		return nil, err
	}
	for {
		h, err := n.announce(ctx)
		if err != nil {
			<-n.turn
			<-n.slots
			return nil, err
		}
		result := make(chan error, 1)
		go n.carry(h, request, result)
		select {
		case <-h.written:
			<-n.turn
			return result, nil
		case <-h.dropped:
			if err := <-result; !disconnected(err) {
				<-n.turn
				<-n.slots
				return nil, err
			}
		case <-ctx.Done():
			go n.abandon(h)
			return nil, fmt.Errorf("%w (%w)", errAbandoned, ctx.Err())
		}
	}
}

// take waits for a token of a bounded set.
func (n *session) take(ctx context.Context, tokens chan struct{}) error {
	select {
	case tokens <- struct{}{}:
		return nil
	case <-n.ended:
		return n.reason()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// announce waits for a connection and registers the turn's next request.
func (n *session) announce(ctx context.Context) (*handover, error) {
	for {
		n.mu.Lock()
		up := n.mu.up
		if n.mu.why == nil && isClosed(up) {
			h := &handover{written: make(chan struct{}), dropped: make(chan struct{})}
			n.mu.next = h
			n.mu.Unlock()
			return h, nil
		}
		n.mu.Unlock()
		select {
		case <-up:
		case <-n.ended:
			return nil, n.reason()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// carry runs one request.
func (n *session) carry(h *handover, request func(*zoo.Conn) error, result chan<- error) {
	began := n.store.o.Clock.Monotonic()
	err := request(n.conn)
	n.mu.Lock()
	dropped := n.mu.next == h
	if dropped {
		n.mu.next = nil
	}
	n.mu.Unlock()
	if !dropped {
		n.store.o.Answered(n.store.o.Clock.Monotonic() - began)
	}
	result <- err
	if dropped {
		close(h.dropped)
	} else {
		<-n.slots
	}
}

// abandon gives back what a request holds whose caller has gone.
func (n *session) abandon(h *handover) {
	select {
	case <-h.written:
	case <-h.dropped:
		<-n.slots
	}
	<-n.turn
}

// writing is called by the socket before the bytes of a request leave. It reports whether they may: at the end of a session the
// library answers for a request that is still in its queue, so the request's caller believes that it is not sent.
func (n *session) writing() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.next == nil {
		return false
	}
	close(n.mu.next.written)
	n.mu.next = nil
	return true
}

// call does one request and waits for it.
func (n *session) call(ctx context.Context, request func(*zoo.Conn) error) error {
	answer, err := n.begin(ctx, request)
	if err != nil {
		return err
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// reason says why the session has ended.
func (n *session) reason() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.why
}

// disconnected reports whether err says no more than that the connection broke.
func disconnected(err error) bool {
	if errors.Is(err, zoo.ErrNoServer) || errors.Is(err, zoo.ErrConnectionClosed) || errors.Is(err, zoo.ErrClosing) ||
		errors.Is(err, zoo.ErrSessionMoved) {
		return true
	}
	var network net.Error
	return errors.As(err, &network)
}
