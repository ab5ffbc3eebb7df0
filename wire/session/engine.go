package session

import (
	"net/netip"
	"time"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/wire/buffers"
	"github.com/gregor-broker/gregor/wire/clock"
)

// Options are what an engine needs; the fields are those of wire.Config.
type Options struct {
	Acceptor      Acceptor
	Processors    int
	IdleTimeout   time.Duration // ≤ 0: never
	SendBuffer    int           // bytes; ≤ 0: the system's
	ReceiveBuffer int           // bytes; ≤ 0: the system's
	Backlog       int           // ≤ 0: the system's
	Clock         clock.Clock
	Logger        *zap.Logger
	Pool          *buffers.Pool
	Waiting       func() bool // something was handed over that has not been taken up
}

// Causes for which engines close connections.
var (
	ErrIdle   = cause("the connection was idle for too long")
	ErrServer = cause("the server closes")
)

type cause string

func (c cause) Error() string { return string(c) }

// ID names a connection for as long as the process lives; descriptors and slots are used again, generations are not.
type ID struct {
	Proc uint16 // the processor that owns it
	Slot uint32
	Gen  uint32
}

// Peer is the application's side of a connection, as an engine sees it. All methods are called by the goroutine that owns
// the connection at that time.
type Peer interface {
	Session() *Conn
	// Advance handles the requests that have arrived, until there are none or the connection is muted. It is called after
	// Fed, and again when the session is Resumable.
	Advance()
	// Deliver handles a message that was posted.
	Deliver(m Message)
	// Closed is called last, once, with the cause; nil when the client closed the connection or all is done.
	Closed(cause error)
}

// Port is an engine's side of a connection. Safe for concurrent use.
type Port interface {
	ID() ID
	// Post has m delivered by the connection's owner, soon. It returns false when the connection is gone. It never waits.
	Post(m Message) bool
}

// Message is what other goroutines tell a connection's owner.
type Message struct {
	Kind Kind
	X    *Exchange // the reply, for Replied
}

// Kind says what a message is about.
type Kind uint8

// The kinds of messages.
const (
	Replied      Kind = iota // an exchange has its reply
	MemoryThere              // the memory budget has room for the request that waits for it
	QueueHasRoom             // the handlers' queue has room for the request that waits for it
	Stalled                  // others wait for memory that the arriving request holds without arriving
	Untaken                  // others wait for memory that replies hold which the client does not take
	Drain                    // read nothing more, close when all is answered
	Began                    // the engine has begun to own a connection that is muted from the start
	PauseOver                // a pause may be over
	TooFast                  // the connection came too soon after others of its address
)

// Acceptor decides about new connections. Called on an engine's accepting goroutines.
type Acceptor interface {
	// Accept returns the application's side of a connection, or nil if it is to be closed at once. It may wait for other
	// connections to end.
	Accept(listener string, port Port, remote, local netip.AddrPort) Peer
}
