package reactor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

const (
	firstRetry = 5 * time.Millisecond
	lastRetry  = time.Second
)

// listener is a listening socket. It waits for connections in Go's netpoller, as it has no other business.
type listener struct {
	name string
	addr net.Addr
	file *os.File
}

// listen makes a listener. Accepted sockets inherit its buffer sizes.
func (e *Engine) listen(name, address string) (*listener, error) {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		c.Control(func(fd uintptr) {
			if e.o.SendBuffer > 0 {
				err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, e.o.SendBuffer)
			}
			if e.o.ReceiveBuffer > 0 {
				err = errors.Join(err, unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, e.o.ReceiveBuffer))
			}
		})
		return err
	}}
	ln, err := lc.Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, err
	}
	defer ln.Close() // the duplicate goes on listening
	file, err := ln.(*net.TCPListener).File()
	if err != nil {
		return nil, err
	}
	l := &listener{name: name, addr: ln.Addr(), file: file}
	if e.o.Backlog > 0 {
		if err := l.control(func(fd int) error { return unix.Listen(fd, e.o.Backlog) }); err != nil {
			return nil, errors.Join(fmt.Errorf("listen backlog: %w", err), file.Close())
		}
	}
	return l, nil
}

func (l *listener) control(f func(fd int) error) error {
	raw, err := l.file.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}

// next waits for a connection.
func (l *listener) next(raw syscall.RawConn) (fd int, remote netip.AddrPort, err error) {
	var from unix.Sockaddr
	waiting := raw.Read(func(s uintptr) bool {
		fd, from, err = unix.Accept4(int(s), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		return err != unix.EAGAIN
	})
	if waiting != nil {
		return -1, remote, net.ErrClosed
	}
	return fd, addrPort(from), err
}

// accept serves one listener until it is closed. When the system has no descriptors or memory left it waits, longer each
// time, instead of asking again at once.
func (e *Engine) accept(l *listener) {
	raw, err := l.file.SyscallConn()
	if err != nil {
		return // closed already
	}
	retry := firstRetry
	for {
		fd, remote, err := l.next(raw)
		switch {
		case err == nil:
			retry = firstRetry
			e.serve(l.name, fd, remote)
			continue
		case errors.Is(err, net.ErrClosed):
			return
		case err == unix.EINTR || err == unix.ECONNABORTED || err == unix.EPROTO:
			continue
		}
		if retry == firstRetry {
			e.o.Logger.Warn("cannot accept connections; trying again", zap.String("listener", l.name), zap.Error(err))
		}
		again, timer := e.o.Clock.NewTimer(retry)
		select {
		case <-again:
		case <-e.stop:
			timer.Stop()
			return
		}
		retry = min(2*retry, lastRetry)
	}
}

// serve hands a connection to a processor, or closes it.
func (e *Engine) serve(listener string, fd int, remote netip.AddrPort) {
	local, err := unix.Getsockname(fd)
	if err == nil {
		err = tune(fd)
	}
	if err != nil {
		unix.Close(fd) // the client has gone again
		return
	}
	c := &conn{proc: e.pick(), fd: fd}
	if c.peer = e.o.Acceptor.Accept(listener, c, remote, addrPort(local)); c.peer == nil {
		unix.Close(fd)
		return
	}
	if !c.proc.post(letter{kind: adopt, c: c}) {
		c.discard()
	}
}

func tune(fd int) error {
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return err
	}
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
}

func addrPort(a unix.Sockaddr) netip.AddrPort {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port))
	}
	return netip.AddrPort{}
}
