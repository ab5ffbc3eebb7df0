package api

import (
	"net/netip"

	"github.com/gregor-broker/gregor/wire"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/gregor-broker/gregor/wire/fetchenc"
	"github.com/gregor-broker/gregor/wire/frame"
	"github.com/gregor-broker/gregor/wire/payload"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Call is one request on its way to its answer. Exactly one of Reply, replyFetch, NoReply and Close must be called,
// once, from any goroutine.
type Call struct {
	request  *wire.Request
	Version  int16
	ClientID string

	// Set by an Intercept before the request is served, nil otherwise. Amend changes an answer that is not made of parts
	// (replyFetch); Deliver gets what sends the answer and calls it, when it likes.
	Amend   func(kmsg.Response)
	Deliver func(send func())

	size    int // of the request's body, in bytes
	usage   usage
	watched *watched // nil: nobody wants to know of the answer
}

func newCall(r *wire.Request) *Call {
	c := &Call{request: r, Version: r.Header.Version, size: len(r.Body)}
	if r.Header.ClientID != nil {
		c.ClientID = *r.Header.ClientID
	}
	return c
}

// Listener is the name of the listener that the request came in on.
func (c *Call) Listener() string { return c.request.Conn.Listener() }

// Remote is the client's address.
func (c *Call) Remote() netip.AddrPort { return c.request.Conn.RemoteAddr() }

// Local is our end of the client's connection.
func (c *Call) Local() netip.AddrPort { return c.request.Conn.LocalAddr() }

// Dead says whether the client is gone, so that a delayed operation may give up.
func (c *Call) Dead() bool { return c.request.Dead() }

// Code returns what err is answered as in this request's version.
func (c *Call) Code(err error) int16 {
	return errcode.Versioned(c.request.Header.Key, c.Version, errcode.Of(err))
}

// Reply answers with r, whose version it sets.
func (c *Call) Reply(r kmsg.Response) {
	r.SetVersion(c.Version)
	c.reply(r)
}

// reply answers with r in the version that r has, which differs from the request's only where ApiVersions says so.
func (c *Call) reply(r kmsg.Response) {
	if wait := c.throttled(); wait > 0 {
		if t, ok := r.(kmsg.SetThrottleResponse); ok {
			t.SetThrottle(int32(wait.Milliseconds()))
		}
		c.request.Throttle(wait)
	}
	if c.Amend != nil {
		c.Amend(r)
	}
	if c.Deliver != nil {
		c.Deliver(func() { c.send(r) })
		return
	}
	c.send(r)
}

func (c *Call) send(r kmsg.Response) {
	if c.watched != nil {
		c.seen(each(func(f func(int16)) { codes(r, f) }))
	}
	buf := c.request.Buffer(replySize(r))
	buf = frame.AppendResponseHeader(buf, r.Key(), r.GetVersion(), c.request.Header.CorrelationID)
	c.request.Reply(payload.Part{Bytes: r.AppendTo(buf)})
}

// smallReply is the buffer that an answer starts with; most need no more.
const smallReply = 256

// replySize is how large that buffer is for an answer.
func replySize(r kmsg.Response) int {
	const partition = 40 // of a Produce, which has many
	p, ok := r.(*kmsg.ProduceResponse)
	if !ok {
		return smallReply
	}
	n := smallReply
	for i := range p.Topics {
		n += partition * len(p.Topics[i].Partitions)
	}
	return n
}

// replyFetch answers with r, whose files the network layer releases when they are sent.
func (c *Call) replyFetch(r *fetchenc.Response) {
	if c.watched != nil {
		c.seen(each(func(f func(int16)) { fetchCodes(r, f) }))
	}
	const headBytes = 8 // of a response header
	var head [headBytes]byte
	parts := fetchenc.Encode(frame.AppendResponseHeader(head[:0], c.request.Header.Key, c.Version, c.request.Header.CorrelationID), r, c.Version)
	if c.Deliver != nil {
		c.Deliver(func() { c.request.Reply(parts...) })
		return
	}
	c.request.Reply(parts...)
}

// NoReply ends a request that has no answer (a produce with acks=0).
func (c *Call) NoReply() {
	c.usage.told = c.usage.wait
	if c.watched != nil {
		c.seen(func(func(int16, int64)) {})
	}
	if c.usage.wait > 0 {
		c.request.Throttle(c.usage.wait)
	}
	if c.Deliver != nil {
		c.Deliver(c.request.NoReply)
		return
	}
	c.request.NoReply()
}

// Close ends the request by closing its connection, the only answer that some errors have.
func (c *Call) Close(reason string) { c.request.Close(reason) }
