// Package peer speaks to other brokers: for a follower's fetches, a controller's orders and what is forwarded to the
// controller.
package peer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/gregor-broker/gregor/wire/frame"
	"github.com/gregor-broker/gregor/wire/kmsgfix"
)

// Options is what a Client works with. Dial, RequestTimeout and Clock must be set.
type Options struct {
	ClientID       string
	Dial           func(ctx context.Context) (net.Conn, error)
	Moved          func() bool   // since the last Dial, so that the connection leads to somebody else; nil: never
	RequestTimeout time.Duration // for one answer, when the caller's context has no earlier end
	Clock          clock.Clock
	MaxResponse    int // bytes; 0: 100 MiB
}

const maxResponse = 100 << 20

// Client is a connection to one other broker, made when it is needed and made again after an error. One request is in
// work at a time: Do is for one goroutine, Close for any.
type Client struct {
	options   Options
	formatter *kmsg.RequestFormatter
	conn      net.Conn // only Do's goroutine replaces it, under mu
	out, in   []byte   // reused from request to request
	next      int32    // correlation id

	mu struct {
		sync.Mutex
		closed bool
	}
}

// ErrClosed is returned by Do once Close was called.
var ErrClosed = errors.New("the connection to the broker was closed by us")

// New returns a client that has no connection yet.
func New(o Options) *Client {
	if o.MaxResponse == 0 {
		o.MaxResponse = maxResponse
	}
	return &Client{options: o, formatter: kmsg.NewRequestFormatter(kmsg.FormatterClientID(o.ClientID))}
}

// Do sends r, in the version that r has, and reads the answer into response. The answer's byte slices are valid until
// the next Do. After an error it is not known whether the broker carried the request out.
//
// A connection that was used before and turns out to have ended meanwhile, as it lay idle or as the broker was started
// again, is no error: the request is sent once more on a new one. What brokers ask of each other may be carried out twice.
func (c *Client) Do(ctx context.Context, r kmsg.Request, response kmsg.Response) error {
	used := c.conn != nil
	err := c.do(ctx, r, response)
	if used && ended(err) && ctx.Err() == nil {
		err = c.do(ctx, r, response)
	}
	return err
}

// ended says whether an error is the end of a connection before the answer began.
func ended(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe)
}

func (c *Client) do(ctx context.Context, r kmsg.Request, response kmsg.Response) error {
	conn, err := c.connection(ctx)
	if err != nil {
		return err
	}
	if err := conn.SetDeadline(c.options.Clock.Now().Add(c.options.RequestTimeout)); err != nil {
		c.drop()
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	err = c.roundTrip(conn, r, response)
	if !stop() {
		err = errors.Join(ctx.Err(), err)
	}
	if err != nil {
		c.drop()
		return fmt.Errorf("%s to %s: %w", kmsg.NameForKey(r.Key()), conn.RemoteAddr(), err)
	}
	return nil
}

// connection returns the connection, a new one if there is none or the broker has another address by now.
func (c *Client) connection(ctx context.Context) (net.Conn, error) {
	if c.conn != nil && (c.options.Moved == nil || !c.options.Moved()) {
		return c.conn, nil
	}
	if c.conn != nil {
		c.drop()
	}
	dialing, cancel := context.WithTimeout(ctx, c.options.RequestTimeout)
	defer cancel()
	conn, err := c.options.Dial(dialing)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		_ = conn.Close()
		return nil, ErrClosed
	}
	c.conn = conn
	return conn, nil
}

func (c *Client) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.conn.Close()
	c.conn = nil
}

func (c *Client) roundTrip(conn net.Conn, r kmsg.Request, response kmsg.Response) error {
	c.next++
	c.out = c.formatter.AppendRequest(c.out[:0], kmsgfix.Request(r), c.next)
	if _, err := conn.Write(c.out); err != nil {
		return err
	}
	body, err := c.read(conn)
	if err != nil {
		return err
	}
	return decode(body, c.next, r, response)
}

// readFirst is how many bytes a connection has room for at first: most answers come whole with one read.
const readFirst = 32 << 10

// read reads one frame, which is all that there can be, since one request is in work. The buffer grows with what arrives: a length is
// only a claim.
func (c *Client) read(conn net.Conn) ([]byte, error) {
	if c.in == nil {
		c.in = make([]byte, readFirst)
	}
	c.in = c.in[:cap(c.in)]
	have, err := io.ReadAtLeast(conn, c.in, frame.LengthSize)
	if err != nil {
		return nil, err
	}
	size := int(int32(binary.BigEndian.Uint32(c.in)))
	if size < 4 || size > c.options.MaxResponse || have > frame.LengthSize+size {
		return nil, fmt.Errorf("a response of %d bytes, of which there are %d", size, have-frame.LengthSize)
	}
	const step = 1 << 20
	c.in = c.in[:have]
	for end := frame.LengthSize + size; len(c.in) < end; {
		n := min(end-len(c.in), max(step, len(c.in)))
		from := len(c.in)
		if cap(c.in) < from+n {
			c.in = append(make([]byte, 0, from+n), c.in...)
		}
		c.in = c.in[:from+n]
		if _, err := io.ReadFull(conn, c.in[from:]); err == io.EOF {
			return nil, io.ErrUnexpectedEOF
		} else if err != nil {
			return nil, err
		}
	}
	return c.in[frame.LengthSize:], nil
}

func decode(body []byte, correlation int32, r kmsg.Request, response kmsg.Response) error {
	if got := int32(binary.BigEndian.Uint32(body)); got != correlation {
		return fmt.Errorf("the answer to request %d came for %d", got, correlation)
	}
	body = body[4:]
	if frame.Flexible(r.Key(), r.GetVersion()) && r.Key() != kmsg.ApiVersions.Int16() {
		rest, ok := frame.SkipTags(body)
		if !ok {
			return errors.New("an answer with broken tagged fields")
		}
		body = rest
	}
	response.SetVersion(r.GetVersion())
	return response.ReadFrom(body)
}

// Close ends the connection and what is in work on it.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.closed = true
	if c.conn != nil {
		_ = c.conn.Close()
	}
}
