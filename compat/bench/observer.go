//go:build linux

package main

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"
)

// observer passes on what other brokers say to one broker, and takes the times of the controller's orders among it: the same way for
// both kinds, whatever they log.
type observer struct {
	addr     string
	target   string
	listener net.Listener
	running  sync.WaitGroup

	mu struct {
		sync.Mutex
		closed   bool
		conns    map[net.Conn]struct{}
		open     int // orders that are not answered yet
		orders   int
		requests int64     // of every kind
		last     time.Time // when an UpdateMetadata was answered last
		quiet    time.Time // when an order was sent or answered last
	}
}

// Keys of orders.
const (
	keyLeaderAndISR   = 4
	keyStopReplica    = 5
	keyUpdateMetadata = 6
)

func newObserver(target string) (*observer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	o := &observer{addr: l.Addr().String(), target: target, listener: l}
	o.mu.conns = map[net.Conn]struct{}{}
	o.running.Go(o.accept)
	return o, nil
}

func (o *observer) accept() {
	for {
		from, err := o.listener.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", o.target)
		if err != nil {
			_ = from.Close() // as the broker's own port would be
			continue
		}
		if !o.keep(from, to) {
			return
		}
		c := &observed{observer: o, open: map[int32]int16{}}
		o.running.Go(func() { c.pass(to, from, c.sent, 12) })
		o.running.Go(func() {
			c.pass(from, to, c.answered, 8)
			c.ended()
		})
	}
}

func (o *observer) keep(conns ...net.Conn) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range conns {
		if o.mu.closed {
			_ = c.Close()
			continue
		}
		o.mu.conns[c] = struct{}{}
	}
	return !o.mu.closed
}

func (o *observer) close() {
	_ = o.listener.Close()
	o.mu.Lock()
	o.mu.closed = true
	for c := range o.mu.conns {
		_ = c.Close()
	}
	o.mu.Unlock()
	o.running.Wait()
}

// seen returns when an UpdateMetadata was answered last, and for how long there has been no order, zero while one is unanswered.
func (o *observer) seen() (last time.Time, quiet time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.open > 0 {
		return o.mu.last, 0
	}
	return o.mu.last, time.Since(o.mu.quiet)
}

// observed is one connection. Its map is guarded by the observer's mutex.
type observed struct {
	observer *observer
	open     map[int32]int16 // key of each unanswered order, by correlation id
}

// pass copies frames of one direction, and shows each one's beginning before it is passed on and again after.
func (c *observed) pass(to, from net.Conn, see func(head []byte), head int) {
	defer to.Close()
	defer from.Close()
	in := bufio.NewReaderSize(from, 64<<10)
	for {
		first, err := in.Peek(head)
		if err != nil {
			return
		}
		see(first)
		if _, err := io.CopyN(to, in, 4+int64(binary.BigEndian.Uint32(first))); err != nil {
			return
		}
	}
}

func (c *observed) sent(head []byte) {
	key, correlation := int16(binary.BigEndian.Uint16(head[4:])), int32(binary.BigEndian.Uint32(head[8:]))
	o := c.observer
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.requests++
	switch key {
	case keyLeaderAndISR, keyStopReplica, keyUpdateMetadata:
		c.open[correlation] = key
		o.mu.open++
		o.mu.orders++
		o.mu.quiet = time.Now()
	}
}

func (c *observed) answered(head []byte) {
	correlation := int32(binary.BigEndian.Uint32(head[4:]))
	o := c.observer
	o.mu.Lock()
	defer o.mu.Unlock()
	key, ok := c.open[correlation]
	if !ok {
		return
	}
	delete(c.open, correlation)
	o.mu.open--
	o.mu.quiet = time.Now()
	if key == keyUpdateMetadata {
		o.mu.last = o.mu.quiet
	}
}

// ended forgets orders whose answers will not come any more.
func (c *observed) ended() {
	o := c.observer
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.open -= len(c.open)
	clear(c.open)
}
