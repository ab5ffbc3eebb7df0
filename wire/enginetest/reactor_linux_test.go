package enginetest

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"

	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"

	"github.com/gregor-broker/gregor/wire"
)

func TestReactor(t *testing.T) { (&Suite{Engine: wire.EngineReactor}).Run(t) }

// socket returns an unconnected client socket.
func socket(t *testing.T) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

func connect(t *testing.T, fd int, addr string) {
	t.Helper()
	to := netip.MustParseAddrPort(addr)
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}); err != nil {
		t.Fatal(err)
	}
}

// exchange sends a request on a client socket and waits for its answer.
func exchange(t *testing.T, fd int, corr int32) {
	t.Helper()
	if _, err := unix.Write(fd, request(corr, make([]byte, 200))); err != nil {
		t.Fatal(err)
	}
	tv := unix.NsecToTimeval(int64(patience))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
		t.Fatal(err)
	}
	for buf, got := make([]byte, 208), 0; got < len(buf); {
		n, err := unix.Read(fd, buf[got:])
		if err == unix.EINTR { // a read with a time limit is not taken up again after a signal of Go's scheduler
			continue
		}
		if err != nil || n == 0 {
			t.Fatalf("no answer to %d: %v", corr, err)
		}
		got += n
	}
}

// TestUnansweredAtTheEnd: a server that ends resets connections on which it has answered nothing yet, and ends the others in order.
func TestUnansweredAtTheEnd(t *testing.T) {
	arrived := make(chan struct{}, 2)
	r := (&Suite{Engine: wire.EngineReactor}).start(t, wire.Config{}, &app{serve: func(r *wire.Request, _ bool) bool {
		if string(r.Body) == "answer" {
			answer(r)
		} else {
			arrived <- struct{}{}
		}
		return true
	}})
	silent, spoken := r.dial(), r.dial()
	spoken.send(request(1, []byte("answer")))
	if corr, _, err := spoken.receive(); corr != 1 || err != nil {
		t.Fatalf("%d, %v", corr, err)
	}
	for _, c := range []*client{silent, spoken} {
		c.send(request(2, nil))
		<-arrived
	}
	if err := r.server.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := silent.receive(); !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("without any answer: %v", err)
	}
	if _, _, err := spoken.receive(); !errors.Is(err, io.EOF) {
		t.Errorf("with an answer before: %v", err)
	}
}

// TestIdleConnectionIsSmall measures the heap that connections take which have been used and are idle again.
func TestIdleConnectionIsSmall(t *testing.T) {
	r := (&Suite{Engine: wire.EngineReactor}).start(t, wire.Config{ConnectionLimits: wire.ConnectionLimits{MaxConnectionsPerIP: 1e6}}, echo(false))
	const n = 1000
	fds := make([]int, n)
	for i := range fds {
		fds[i] = socket(t)
	}
	before := heap()
	for i, fd := range fds {
		connect(t, fd, r.addr)
		exchange(t, fd, int32(i))
	}
	per := (heap() - before) / n
	t.Logf("%d bytes of heap per idle connection", per)
	if per > 1024 {
		t.Errorf("an idle connection takes %d bytes of heap", per)
	}
}

// TestNoDescriptorsLeft has both engines run out of descriptors: they say so once, wait, and go on when there are some.
func TestNoDescriptorsLeft(t *testing.T) {
	for _, engine := range engines {
		t.Run(engine, func(t *testing.T) {
			r := (&Suite{Engine: engine}).start(t, wire.Config{}, echo(true))
			early, late := socket(t), socket(t)
			connect(t, early, r.addr)
			exchange(t, early, 1)
			var limit unix.Rlimit
			if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
				t.Fatal(err)
			}
			low := limit
			low.Cur = 3 // descriptors that are open stay so
			if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
				t.Fatal(err)
			}
			restore := func() {
				if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
					t.Fatal(err)
				}
			}
			defer restore()
			connect(t, late, r.addr)
			eventually(t, "a line says that nothing can be accepted", func() bool { return r.logs.FilterLevelExact(zapcore.WarnLevel).Len() == 1 })
			exchange(t, early, 2)
			restore()
			exchange(t, late, 3)
			if n := r.logs.FilterLevelExact(zapcore.WarnLevel).Len(); n != 1 {
				t.Errorf("%d lines about it", n)
			}
		})
	}
}

// TestBindErrors: a port in use, and an address that is none, show before anything starts.
func TestBindErrors(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for _, engine := range engines {
		s, err := wire.New(wire.Config{Engine: engine, Backlog: 7, SendBuffer: 1 << 16, ReceiveBuffer: 1 << 16}, echo(true))
		if err != nil {
			t.Fatal(err)
		}
		for _, address := range []string{ln.Addr().String(), "nonsense", "127.0.0.1:99999"} {
			if _, err := s.Bind(wire.Listener{Address: address}); err == nil {
				t.Errorf("%s: bound to %s", engine, address)
			}
		}
		if _, err := s.Bind(wire.Listener{Address: "127.0.0.1:0"}); err != nil {
			t.Errorf("%s: %v", engine, err)
		}
		if err := s.Close(); err != nil { // without Start
			t.Error(err)
		}
		if _, err := s.Bind(wire.Listener{Address: "127.0.0.1:0"}); err == nil {
			t.Errorf("%s: bound after Close", engine)
		}
	}
	if _, err := wire.New(wire.Config{Engine: "uring"}, echo(true)); err == nil {
		t.Error("an unknown engine is taken")
	}
}
