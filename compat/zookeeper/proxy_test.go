package zookeeper

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/gregor-broker/gregor/compat/harness"
)

// Opcodes of ZooKeeper's protocol.
const (
	opGetData int32 = 4
	opMulti   int32 = 14
	opClose   int32 = -11
)

// proxy passes one client's connections on to a server, frame by frame.
type proxy struct {
	addr, server string
	listener     net.Listener
	wg           sync.WaitGroup

	mu struct {
		sync.Mutex
		conns    map[net.Conn]struct{}
		closed   bool
		away     bool                    // new connections are closed at once
		lose     func(opcode int32) bool // the reply is dropped and the connection cut
		requests map[int32]int           // by opcode
		inFlight int
		most     int           // the largest inFlight
		stalled  chan struct{} // until it is closed nothing is read from the client; nil: read
		session  []byte        // id and password of the last session, as in a connect request
	}
}

func newProxy(t *testing.T, server string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: l.Addr().String(), server: server, listener: l}
	p.mu.conns, p.mu.requests = map[net.Conn]struct{}{}, map[int32]int{}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		p.mu.Lock()
		p.mu.closed = true
		p.mu.Unlock()
		l.Close()
		p.cut()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil || !p.keep(client, server) {
			client.Close()
			if err == nil {
				server.Close()
			}
			continue
		}
		c := &passage{proxy: p, client: client, server: server, opcodes: map[int32]int32{}}
		p.wg.Go(func() { c.close(c.up()) })
		p.wg.Go(func() { c.close(c.down()) })
	}
}

func (p *proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.away || p.mu.closed {
		return false
	}
	for _, c := range conns {
		p.mu.conns[c] = struct{}{}
	}
	return true
}

// cut breaks every connection.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.mu.conns {
		c.Close()
	}
}

// away says whether the servers cannot be reached.
func (p *proxy) away(yes bool) {
	p.mu.Lock()
	p.mu.away = yes
	p.mu.Unlock()
	if yes {
		p.cut()
	}
}

// lose drops replies from now on; nil stops that.
func (p *proxy) lose(f func(opcode int32) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.lose = f
}

// stall stops reading from the client until resume is called.
func (p *proxy) stall() (resume func()) {
	stalled := make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.stalled = stalled
	for c := range p.mu.conns {
		c.(*net.TCPConn).SetReadBuffer(64 << 10)
	}
	return sync.OnceFunc(func() { close(stalled) })
}

func (p *proxy) waitWhileStalled() {
	p.mu.Lock()
	stalled := p.mu.stalled
	p.mu.Unlock()
	if stalled != nil {
		<-stalled
	}
}

// count returns how many requests of an opcode there were, and how many of all kinds were in flight at most, since the last call.
func (p *proxy) count(opcode int32) (requests, most int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	requests, most = p.mu.requests[opcode], p.mu.most
	clear(p.mu.requests)
	p.mu.most = p.mu.inFlight
	return requests, most
}

// expire ends the client's session on the server, as another connection of the same session may.
func (p *proxy) expire(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	session := bytes.Clone(p.mu.session)
	p.mu.Unlock()
	conn, err := net.Dial("tcp", p.server)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	hello := make([]byte, 16, 64) // protocol version, last zxid seen, timeout
	binary.BigEndian.PutUint32(hello[12:], 10_000)
	hello = append(hello, session...)
	if err := writeFrame(conn, hello); err != nil {
		t.Fatal(err)
	}
	if _, err := readFrame(conn); err != nil {
		t.Fatal(err)
	}
	end := binary.BigEndian.AppendUint32([]byte{0, 0, 0, 1}, uint32(0xffffffff-10)) // xid, opcode -11
	if err := writeFrame(conn, end); err != nil {
		t.Fatal(err)
	}
	if _, err := readFrame(conn); err != nil {
		t.Fatal(err)
	}
}

// passage is one connection through the proxy.
type passage struct {
	proxy          *proxy
	client, server net.Conn

	mu      sync.Mutex
	opcodes map[int32]int32 // of requests in flight, by xid
}

func (c *passage) close(error) {
	c.client.Close()
	c.server.Close()
	p := c.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.mu.conns, c.client)
	delete(p.mu.conns, c.server)
	c.mu.Lock()
	defer c.mu.Unlock()
	p.mu.inFlight -= len(c.opcodes)
	clear(c.opcodes)
}

func (c *passage) up() error {
	for first := true; ; first = false {
		frame, err := readFrame(c.client)
		if err != nil {
			return err
		}
		c.proxy.waitWhileStalled()
		if xid := int32(binary.BigEndian.Uint32(frame)); !first && xid >= 0 {
			c.sent(xid, int32(binary.BigEndian.Uint32(frame[4:])))
		}
		if err := writeFrame(c.server, frame); err != nil {
			return err
		}
	}
}

func (c *passage) sent(xid, opcode int32) {
	p := c.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.requests[opcode]++
	p.mu.inFlight++
	p.mu.most = max(p.mu.most, p.mu.inFlight)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opcodes[xid] = opcode
}

func (c *passage) down() error {
	for first := true; ; first = false {
		frame, err := readFrame(c.server)
		if err != nil {
			return err
		}
		if first {
			c.proxy.greeted(frame)
		} else if c.answered(int32(binary.BigEndian.Uint32(frame))) {
			return nil
		}
		if err := writeFrame(c.client, frame); err != nil {
			return err
		}
	}
}

// greeted remembers the session: after protocol version and timeout, its id and password.
func (p *proxy) greeted(frame []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.session = bytes.Clone(frame[8:36])
}

// answered reports whether the reply is to be lost.
func (c *passage) answered(xid int32) bool {
	p := c.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	opcode, ok := c.opcodes[xid]
	if !ok {
		return false
	}
	if opcode != opClose && p.mu.lose != nil && p.mu.lose(opcode) {
		return true
	}
	delete(c.opcodes, xid)
	p.mu.inFlight--
	return false
}

func readFrame(r io.Reader) ([]byte, error) {
	var prefix [4]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(prefix[:]))
	_, err := io.ReadFull(r, frame)
	return frame, err
}

func writeFrame(w io.Writer, frame []byte) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...))
	return err
}

func TestMain(m *testing.M) {
	if child() {
		return
	}
	harness.Main(m)
}
