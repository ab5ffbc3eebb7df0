package harness

import (
	"io"
	"net"
	"sync"
	"time"
)

// Fault is what a Proxy does to the connections through it; the zero Fault does nothing.
type Fault struct {
	Refuse       bool          // connections are closed, new ones at once
	HoldRequests bool          // bytes towards the target are kept back, as by a network that drops them
	HoldReplies  bool          // bytes from the target are kept back
	Delay        time.Duration // every piece of data comes that much later
}

// Proxy passes TCP connections on to one target, until a test has it do otherwise. Safe for concurrent use.
type Proxy struct {
	Addr string // where it listens

	target   string
	listener net.Listener
	requests func(Asked) // told of every request that passes; nil = nobody is
	wg       sync.WaitGroup
	mu       struct {
		sync.Mutex
		fault   Fault
		changed chan struct{} // closed at the next change of fault
		closed  bool
		conns   map[net.Conn]struct{}
	}
}

// NewProxy starts a proxy to the target, host:port, on a port of 127.0.0.1.
func NewProxy(target string) (*Proxy, error) { return newProxy(target, nil) }

func newProxy(target string, requests func(Asked)) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{Addr: l.Addr().String(), target: target, listener: l, requests: requests}
	p.mu.changed, p.mu.conns = make(chan struct{}), map[net.Conn]struct{}{}
	p.wg.Go(p.accept)
	return p, nil
}

// Set changes what happens to all connections, also those that exist.
func (p *Proxy) Set(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.fault = f
	close(p.mu.changed)
	p.mu.changed = make(chan struct{})
	if f.Refuse {
		p.breakAll()
	}
}

// Close ends the proxy and its connections.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.mu.closed = true
	p.mu.fault = Fault{}
	close(p.mu.changed)
	p.mu.changed = make(chan struct{})
	p.breakAll()
	p.mu.Unlock()
	_ = p.listener.Close()
	p.wg.Wait()
}

// breakAll needs the lock.
func (p *Proxy) breakAll() {
	for conn := range p.mu.conns {
		_ = conn.Close()
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		if !p.keep(client) {
			continue
		}
		p.wg.Go(func() { p.serve(client) })
	}
}

// keep remembers a connection, or closes it when it must not be.
func (p *Proxy) keep(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed || p.mu.fault.Refuse {
		_ = conn.Close()
		return false
	}
	p.mu.conns[conn] = struct{}{}
	return true
}

func (p *Proxy) forget(conn net.Conn) {
	_ = conn.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.mu.conns, conn)
}

func (p *Proxy) serve(client net.Conn) {
	defer p.forget(client)
	p.wait(func(f Fault) bool { return f.HoldRequests || f.HoldReplies }) // no handshake either
	server, err := net.DialTimeout("tcp", p.target, 5*time.Second)
	if err != nil || !p.keep(server) {
		return
	}
	defer p.forget(server)
	var both sync.WaitGroup
	both.Go(func() {
		var look io.Writer = io.Discard
		if p.requests != nil {
			look = &requestReader{tell: p.requests}
		}
		p.pass(server, client, look, func(f Fault) bool { return f.HoldRequests })
	})
	p.pass(client, server, io.Discard, func(f Fault) bool { return f.HoldReplies })
	both.Wait()
}

// pass copies one direction; when it ends, so does the other.
func (p *Proxy) pass(to, from net.Conn, look io.Writer, held func(Fault) bool) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			p.wait(held)
			_, _ = look.Write(buffer[:n])
			_, err = to.Write(buffer[:n])
		}
		if err != nil {
			_ = to.Close()
			_ = from.Close()
			return
		}
	}
}

// wait returns when the fault no longer holds and its delay is over.
func (p *Proxy) wait(held func(Fault) bool) {
	for {
		p.mu.Lock()
		fault, changed := p.mu.fault, p.mu.changed
		p.mu.Unlock()
		switch {
		case held(fault):
			<-changed
		case fault.Delay > 0:
			select {
			case <-time.After(fault.Delay):
			case <-changed:
			}
			return
		default:
			return
		}
	}
}
