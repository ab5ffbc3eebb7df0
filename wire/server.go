package wire

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/gregor-broker/gregor/wire/frame"
	"github.com/gregor-broker/gregor/wire/payload"
)

type Server struct{}

func New(cfg Config, h Handler) (*Server, error)              { panic("being written") }
func (s *Server) Bind(l Listener) (net.Addr, error)           { panic("being written") }
func (s *Server) BindPipe(name string) (dial func() net.Conn) { panic("being written") }
func (s *Server) Start() error                                { panic("being written") }
func (s *Server) Drain(ctx context.Context) error             { panic("being written") }
func (s *Server) Close() error                                { panic("being written") }

// Go runs f on a handler goroutine, never on the caller's. It does not wait.
func (s *Server) Go(f func()) { panic("being written") }

type ConnID struct {
	Proc uint16
	Slot uint32
	Gen  uint32
}

type Conn struct{ Value any }

func (c *Conn) ID() ConnID                 { panic("being written") }
func (c *Conn) Listener() string           { panic("being written") }
func (c *Conn) RemoteAddr() netip.AddrPort { panic("being written") }
func (c *Conn) LocalAddr() netip.AddrPort  { panic("being written") }

type Request struct {
	Conn     *Conn
	Header   frame.Header
	Body     []byte // valid until Serve returns true
	Received time.Time
}

// Buffer returns an empty slice of capacity at least n for the response; wire takes it back when the response is out.
func (r *Request) Buffer(n int) []byte         { panic("being written") }
func (r *Request) Reply(parts ...payload.Part) { panic("being written") }
func (r *Request) NoReply()                    { panic("being written") }
func (r *Request) Close(reason string)         { panic("being written") }
func (r *Request) Dead() bool                  { panic("being written") }
