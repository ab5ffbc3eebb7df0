// Package wire is the network side of the broker: listeners, connections, request frames in, responses out.
//
// A Server moves bytes with one of two engines (raw epoll, or Go's net), cuts them into requests, asks a Handler where
// each may run, runs their first stages one at a time per connection in arrival order, and sends the replies, which may
// be given in any order from any goroutine, in the order of the requests.
package wire

import (
	"github.com/gregor-broker/gregor/wire/frame"
)

// Handler is the application.
type Handler interface {
	// Admit judges a request by its header and size (bytes, without the length prefix). It runs on the processor and must be
	// cheap. An error closes the connection, with a log line that carries it. For a request of more than 64 KiB it is asked
	// before the whole of it has arrived.
	Admit(c *Conn, h frame.Header, size int) (Admission, error)

	// Serve runs a request's first stage: its effects, in arrival order, one at a time per connection. It must not wait for
	// others: what must wait is registered, and replies later. With inline it runs on the processor, where it must not block
	// at all: it may return false, having done nothing, and is called again on a handler goroutine.
	Serve(r *Request, inline bool) (done bool)

	// Closed is called once when the connection is gone and the first stages of all its requests have run, in order with
	// them.
	Closed(c *Conn)
}

// Admission says how a request is to be run.
type Admission struct {
	Inline bool  // may be tried on the processor
	Cost   int64 // bytes of memory that it may take while its first stage runs; at least its size is counted
}

// Listener is an address to listen on.
type Listener struct {
	Name    string // as in the configuration: PLAINTEXT, INTERNAL…
	Address string // host:port; port 0 takes a free one
}
