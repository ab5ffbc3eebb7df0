// Package raw is a Kafka client without opinions: a test says which request, in which version, and sees the very answer.
// Requests and answers are kmsg's; batches and message sets are built here and not with the broker's own packages, so that
// a fault of theirs cannot hide itself.
package raw

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// answerLimit is how long an answer may take, on a busy machine too.
const answerLimit = 2 * time.Minute

// Conn is one connection. Its methods fail the test on the first error. Not safe for concurrent use.
type Conn struct {
	t         testing.TB
	net       net.Conn
	formatter *kmsg.RequestFormatter
	next      int32
	waiting   []sent // answers are due in this order
}

type sent struct {
	correlation int32
	request     kmsg.Request
}

// Dial connects. The connection is closed at the end of the test.
func Dial(t testing.TB, addr string) *Conn {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, answerLimit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &Conn{t: t, net: c, formatter: kmsg.NewRequestFormatter(kmsg.FormatterClientID("compat"))}
}

// Close closes the connection now.
func (c *Conn) Close() { _ = c.net.Close() }

// Write sends bytes as they are.
func (c *Conn) Write(b []byte) {
	c.t.Helper()
	if err := c.net.SetWriteDeadline(time.Now().Add(answerLimit)); err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.net.Write(b); err != nil {
		c.t.Fatalf("write %d bytes: %v", len(b), err)
	}
}

// Send sends a request in the version that it carries; Receive takes its answer.
func (c *Conn) Send(request kmsg.Request) {
	c.t.Helper()
	c.SendNoAnswer(request)
	c.waiting = append(c.waiting, sent{c.next - 1, request})
}

// SendNoAnswer sends a request that gets no answer (Produce with acks=0).
func (c *Conn) SendNoAnswer(request kmsg.Request) {
	c.t.Helper()
	c.Write(c.formatter.AppendRequest(nil, request, c.next))
	c.next++
}

// frame reads one frame.
func (c *Conn) frame() ([]byte, error) {
	if err := c.net.SetReadDeadline(time.Now().Add(answerLimit)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(c.net, size[:]); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	n := int64(binary.BigEndian.Uint32(size[:]))
	if _, err := io.CopyN(&b, c.net, n); err != nil {
		return nil, fmt.Errorf("an answer of %d bytes ends after %d: %w", n, b.Len(), err)
	}
	return b.Bytes(), nil
}

// Frame reads the next frame, without its length, whatever it is.
func (c *Conn) Frame() []byte {
	c.t.Helper()
	b, err := c.frame()
	if err != nil {
		c.t.Fatalf("read an answer: %v", err)
	}
	return b
}

// Receive reads the answer to the oldest request that has none yet.
func (c *Conn) Receive() kmsg.Response {
	c.t.Helper()
	response, err := c.TryReceive()
	if err != nil {
		c.t.Fatalf("read an answer: %v", err)
	}
	return response
}

// TryReceive is Receive for a connection that the broker may have closed; then it returns io.EOF.
func (c *Conn) TryReceive() (kmsg.Response, error) {
	c.t.Helper()
	if len(c.waiting) == 0 {
		c.t.Fatal("no request waits for an answer")
	}
	oldest := c.waiting[0]
	c.waiting = c.waiting[1:]
	frame, err := c.frame()
	if err != nil {
		return nil, err
	}
	response, err := decode(oldest, frame)
	if err != nil {
		c.t.Fatalf("%s v%d: %v", kmsg.NameForKey(oldest.request.Key()), oldest.request.GetVersion(), err)
	}
	return response, nil
}

// decode reads an answer's header and body; nothing may be left.
func decode(s sent, frame []byte) (kmsg.Response, error) {
	response := s.request.ResponseKind()
	response.SetVersion(s.request.GetVersion())
	reader := kbin.Reader{Src: frame}
	if correlation := reader.Int32(); correlation != s.correlation {
		return nil, fmt.Errorf("the answer's correlation id is %d, not %d", correlation, s.correlation)
	}
	if s.request.IsFlexible() && s.request.Key() != kmsg.ApiVersions.Int16() {
		kmsg.SkipTags(&reader)
	}
	if err := reader.Complete(); err != nil {
		return nil, fmt.Errorf("answer header: %w", err)
	}
	if err := response.ReadFrom(reader.Src); err != nil {
		return nil, fmt.Errorf("answer body %x: %w", reader.Src, err)
	}
	if again := response.AppendTo(nil); !bytes.Equal(again, reader.Src) && s.request.Key() != kmsg.Fetch.Int16() {
		// Tags that kmsg drops, or bytes behind the end. A Fetch answer is exempt: kmsg writes null arrays its own way.
		return response, checkLeftOver(reader.Src, again)
	}
	return response, nil
}

// checkLeftOver reports bytes behind an answer's end.
func checkLeftOver(got, understood []byte) error {
	if len(got) > len(understood) && bytes.HasPrefix(got, understood) {
		return fmt.Errorf("%d bytes follow the answer's end: %x", len(got)-len(understood), got[len(understood):])
	}
	return nil
}

// ExpectClosed fails the test unless the broker closes the connection without sending anything more.
func (c *Conn) ExpectClosed() {
	c.t.Helper()
	b, err := c.frame()
	var timeout net.Error
	switch {
	case err == nil:
		c.t.Fatalf("the broker answered %x; it should close the connection", b)
	case errors.As(err, &timeout) && timeout.Timeout():
		c.t.Fatalf("the broker neither answered nor closed the connection within %v", answerLimit)
	}
}

// Do sends a request and returns its answer.
func Do[R kmsg.Response](c *Conn, request kmsg.Request) R {
	c.t.Helper()
	c.Send(request)
	return Receive[R](c)
}

// Receive is Conn.Receive with the answer's type.
func Receive[R kmsg.Response](c *Conn) R {
	c.t.Helper()
	response := c.Receive()
	typed, ok := response.(R)
	if !ok {
		c.t.Fatalf("the answer is a %T", response)
	}
	return typed
}

// With sets the request's version.
func With[R kmsg.Request](request R, version int16) R {
	request.SetVersion(version)
	return request
}
