package wire

import (
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/wire/dispatch"
	"github.com/gregor-broker/gregor/wire/frame"
	"github.com/gregor-broker/gregor/wire/invariants"
	"github.com/gregor-broker/gregor/wire/payload"
	"github.com/gregor-broker/gregor/wire/session"
)

// Request is one request. It is answered exactly once, by Reply, NoReply or Close, from any goroutine, during Serve or later.
type Request struct {
	Conn     *Conn
	Header   frame.Header
	Body     []byte // valid until Serve returns true; after that its memory is used again
	Received time.Time

	buffer   []byte // of the pool's, behind Body; nil while it lies in the processor's
	cost     int64
	gate     *dispatch.Gate // that its cost is from; nil: the memory budget
	bodyAt   int
	inline   bool
	admitted bool // has its share of the memory budget
	begun    bool // has its place in the order of replies
	answered atomic.Bool
	state    atomic.Uint32
	exchange session.Exchange
	node     dispatch.Node
}

// Where a request's reply has to go.
const (
	stateOpen     uint32 = iota // to the processor, by post
	stateHere                   // the processor waits for Serve to return and will look
	stateAnswered               // it is there
)

// Buffer returns an empty slice of capacity n or more for the reply's bytes; wire takes it back when the reply is out. One
// per request.
func (r *Request) Buffer(n int) []byte {
	b := r.Conn.server.pool.Get(n)
	r.exchange.SetBuffer(b)
	return b[:0]
}

// Reply answers with parts, which begin with the response header (the length prefix is added). Their files are released when
// they have been sent, or will not be. Parts with bytes must stay as they are until then.
func (r *Request) Reply(parts ...payload.Part) {
	if r.once() {
		r.exchange.SetReply(parts)
		r.Conn.owe(&r.exchange)
		r.finish()
	} else {
		payload.Release(parts)
	}
}

// Throttle has nothing more read from the connection for d after the answer (KIP-219). Before the answer, once.
func (r *Request) Throttle(d time.Duration) { r.exchange.SetPause(d) }

// TellSent has s told when the answer is out. Before the answer, once.
func (r *Request) TellSent(s session.Sent) { r.exchange.SetSent(s) }

// NoReply ends a request that has no answer.
func (r *Request) NoReply() {
	if r.once() {
		r.finish()
	}
}

// Close ends the connection in place of an answer, after the answers to earlier requests; reason is for the log.
func (r *Request) Close(reason string) {
	if r.once() {
		r.Conn.server.say("closing a connection: "+reason, r.Conn,
			zap.Int16("api", r.Header.Key), zap.Int16("version", r.Header.Version), zap.Int32("corr", r.Header.CorrelationID))
		r.exchange.SetLast()
		r.finish()
	}
}

// Dead reports whether the client is gone, so that nobody waits for the answer.
func (r *Request) Dead() bool { return r.Conn.dead.Load() }

// once reports whether this is the first answer.
func (r *Request) once() bool {
	if !r.answered.Swap(true) {
		return true
	}
	if invariants.Enabled {
		panic(fmt.Sprintf("wire: a second answer to a request, API key %d", r.Header.Key))
	}
	r.Conn.server.log.Error("a request was answered twice", append(r.Conn.fields(), zap.Int16("api", r.Header.Key), zap.Stack("stack"))...)
	return false
}

// finish hands the answer to the connection's owner.
func (r *Request) finish() {
	if r.state.Swap(stateAnswered) == stateHere {
		return
	}
	if !r.Conn.port.Post(session.Message{Kind: session.Replied, X: &r.exchange}) {
		r.exchange.Drop(r.Conn.server.pool)
	}
}

// Run is for the strand: the first stage on a handler goroutine.
func (r *Request) Run() {
	s := r.Conn.server
	s.queue.Release(1)
	s.memory.AwaitSettled(s.departures.starved)
	if !s.serve(r, false) {
		if invariants.Enabled {
			panic(fmt.Sprintf("wire: Serve refused to run on a handler, API key %d", r.Header.Key))
		}
		r.Close("its request could not be run")
	}
	r.releaseBody()
}
