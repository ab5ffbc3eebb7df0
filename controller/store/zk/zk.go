// Package zk keeps the metadata tree in a ZooKeeper ensemble, so that several brokers share it.
//
// How a request travels: it takes one of the slots (Options.MaxInFlight), then the turn, then waits for a connection, and is
// handed to the client library on a goroutine of its own. The turn goes on when the request is seen on its way to the socket:
// so requests leave in the order of the calls, many are in flight, and of each it is known whether it may have reached a
// server. One that did not is handed over again; a commit that did, and whose reply is lost, is store.ErrUnknown.
//
// How a session ends: a server tells the library that the session has expired. The library would now open a new one and send
// what is queued there; so a connection object serves one session only. When it hears of the expiry it refuses to dial, the
// Store tells who watches the session, and then opens another object. A call belongs to the session in which it began,
// a commit to the one in which it was decided (store.Within).
//
// How a watch lives: ZooKeeper's fire once. One that has fired is armed again first, then notify is called; so a reader that
// looks after notify sees everything before, and what comes later fires again. After a reconnect every watch is called.
package zk

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	zoo "github.com/go-zookeeper/zk"
	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/wire/clock"
	"go.uber.org/zap"
)

// Options of Open, named after Kafka's keys. A zero is Kafka's default.
type Options struct {
	Connect           string        // zookeeper.connect: host:port,host:port/chroot
	SessionTimeout    time.Duration // zookeeper.session.timeout.ms (18 s); the servers may bound it
	ConnectionTimeout time.Duration // zookeeper.connection.timeout.ms: how long Open waits for the first session (SessionTimeout)
	MaxInFlight       int           // zookeeper.max.in.flight.requests (10)
	MaxPacketBytes    int           // the servers' jute.maxbuffer (1,048,575): a larger commit is refused before it is sent
	SetACL            bool          // zookeeper.set.acl: see acl
	TLS               *TLS          // zookeeper.ssl.*; nil is a connection in the clear

	// Answered is told how long a server took to answer, Changed what became of the connection. They must be quick; nil: nobody wants
	// to know.
	Answered func(took time.Duration)
	Changed  func(State)

	Clock  clock.Clock
	Logger *zap.Logger
}

// State is what became of the connection. The names are those of ZooKeeper's KeeperState.
type State uint8

// The states.
const (
	SyncConnected State = iota
	Disconnected
	Expired
)

// Kafka's defaults, and the servers' of jute.maxbuffer.
const (
	defaultSessionTimeout = 18 * time.Second
	defaultMaxInFlight    = 10
	defaultMaxPacketBytes = 1<<20 - 1
)

// Store implements store.Store. Its goroutines end with Close.
type Store struct {
	o       Options
	servers []string
	root    string // the chroot, "" or "/a/b"
	watches watches
	closing chan struct{}
	done    chan struct{} // run has ended

	mu struct {
		sync.Mutex
		session  *session // nil between two
		closed   bool
		watchers map[int64]func(store.SessionEvent)
		last     int64
	}
}

// Open connects, and creates the chroot if it is missing. It fails in words when there is no session within
// Options.ConnectionTimeout.
func Open(ctx context.Context, o Options) (*Store, error) {
	servers, root, err := ParseConnect(o.Connect)
	if err != nil {
		return nil, err
	}
	s := &Store{o: o.withDefaults(), servers: servers, root: root, closing: make(chan struct{}), done: make(chan struct{})}
	s.mu.watchers = map[int64]func(store.SessionEvent){}
	s.watches.init()
	if o.TLS != nil {
		if _, err := o.TLS.config(""); err != nil {
			return nil, err
		}
	}
	first, err := s.connect()
	if err != nil {
		return nil, err
	}
	if err := s.await(ctx, first); err != nil {
		first.finish(store.ErrClosed)
		return nil, err
	}
	if err := s.createRoot(ctx, first); err != nil {
		first.finish(store.ErrClosed)
		return nil, fmt.Errorf("ZooKeeper at %s: create the chroot %s: %w", strings.Join(servers, ","), root, err)
	}
	s.mu.session = first
	go s.run(first)
	return s, nil
}

func (o Options) withDefaults() Options {
	if o.Answered == nil {
		o.Answered = func(time.Duration) {}
	}
	if o.Changed == nil {
		o.Changed = func(State) {}
	}
	if o.SessionTimeout <= 0 {
		o.SessionTimeout = defaultSessionTimeout
	}
	if o.ConnectionTimeout <= 0 {
		o.ConnectionTimeout = o.SessionTimeout
	}
	if o.MaxInFlight <= 0 {
		o.MaxInFlight = defaultMaxInFlight
	}
	if o.MaxPacketBytes <= 0 {
		o.MaxPacketBytes = defaultMaxPacketBytes
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	return o
}

// await waits for a session's beginning, as long as Open may.
func (s *Store) await(ctx context.Context, first *session) error {
	limit, timer := s.o.Clock.NewTimer(s.o.ConnectionTimeout)
	defer timer.Stop()
	select {
	case <-first.begun:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stopped while it waited for a session with ZooKeeper at %s (%w): %w", strings.Join(s.servers, ","), first.trouble(), ctx.Err())
	case <-limit:
		return fmt.Errorf("no session with ZooKeeper at %s within %v: %w", strings.Join(s.servers, ","), s.o.ConnectionTimeout, first.trouble())
	}
}

// createRoot makes the chroot, name by name. Another broker may do the same at the same time.
func (s *Store) createRoot(ctx context.Context, in *session) error {
	for i := 1; i <= len(s.root); i++ {
		if i < len(s.root) && s.root[i] != '/' {
			continue
		}
		path := s.root[:i]
		for {
			err := in.call(ctx, func(c *zoo.Conn) error {
				_, _, err := c.Get(path)
				return err
			})
			if errors.Is(err, zoo.ErrNoNode) {
				err = in.call(ctx, func(c *zoo.Conn) error {
					_, err := c.Create(path, nil, zoo.FlagPersistent, acl(s.o.SetACL, path))
					return err
				})
			}
			if err == nil || errors.Is(err, zoo.ErrNodeExists) || errors.Is(err, zoo.ErrNoAuth) && i < len(s.root) {
				break
			}
			if !disconnected(err) {
				return fmt.Errorf("%s: %w", path, reason(err))
			}
		}
	}
	return nil
}

// run opens a new session whenever one has ended, until Close.
func (s *Store) run(present *session) {
	defer close(s.done)
	armed := s.arm(present)
	for {
		select {
		case <-present.ended:
		case <-s.closing:
			present.finish(store.ErrClosed)
			<-armed
			return
		}
		s.o.Changed(Expired)
		s.publish(nil, store.SessionEvent{ID: present.id(), Lost: true})
		s.o.Logger.Warn("the session with ZooKeeper has expired, its ephemeral nodes are gone", sessionID(present.id()))
		present.finish(store.ErrSessionExpired)
		<-armed
		if present = s.renew(); present == nil {
			return
		}
		s.publish(present, store.SessionEvent{ID: present.id()})
		armed = s.arm(present)
	}
}

// renew opens a session and waits for it, however long it takes. It returns nil when the Store is closed meanwhile.
func (s *Store) renew() *session {
	for {
		next, err := s.connect()
		if err != nil { // only a programming error can be refused here: the same options worked in Open
			s.o.Logger.Error("cannot open a session with ZooKeeper", zap.Error(err))
			<-s.closing
			return nil
		}
		select {
		case <-next.begun:
			return next
		case <-next.ended:
			next.finish(store.ErrSessionExpired)
		case <-s.closing:
			next.finish(store.ErrClosed)
			return nil
		}
	}
}

// publish makes a session the present one and tells those who watch.
func (s *Store) publish(present *session, event store.SessionEvent) {
	s.mu.Lock()
	s.mu.session = present
	due := inOrder(s.mu.watchers)
	s.mu.Unlock()
	for _, notify := range due {
		notify(event)
	}
}

// present returns the session that a call belongs to.
func (s *Store) present() (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.mu.closed:
		return nil, store.ErrClosed
	case s.mu.session == nil:
		return nil, store.ErrSessionExpired
	}
	return s.mu.session, nil
}

// Session implements store.Store: 0 between two sessions.
func (s *Store) Session() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.session == nil {
		return 0
	}
	return s.mu.session.id()
}

// WatchSession implements store.Store.
func (s *Store) WatchSession(notify func(store.SessionEvent)) (cancel func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.last++
	id := s.mu.last
	s.mu.watchers[id] = notify
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.mu.watchers, id)
	}
}

// Close implements store.Store. Without a connection, or without a server's answer within a second, the session and its
// ephemeral nodes last until the servers have missed it for the session timeout.
func (s *Store) Close() error {
	s.mu.Lock()
	if !s.mu.closed {
		s.mu.closed = true
		close(s.closing)
	}
	s.mu.Unlock()
	<-s.done
	return nil
}

// at returns the path on the servers.
func (s *Store) at(path string) string {
	if path == "/" && s.root != "" {
		return s.root
	}
	return s.root + path
}
