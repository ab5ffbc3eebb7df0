package wire_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/gregor-broker/gregor/wire"
	"github.com/gregor-broker/gregor/wire/frame"
	"github.com/gregor-broker/gregor/wire/payload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sleeper answers after as many seconds as the request's body says, and at once when that is none.
type sleeper struct{ server *wire.Server }

func (s *sleeper) Admit(*wire.Conn, frame.Header, int) (wire.Admission, error) {
	return wire.Admission{Inline: true}, nil
}

func (s *sleeper) Serve(r *wire.Request, _ bool) bool {
	if len(r.Body) == 0 {
		panic("no body")
	}
	wait := time.Duration(r.Body[0]) * time.Second
	if wait == 0 {
		reply(r)
	} else {
		time.AfterFunc(wait, func() { s.server.Go(func() { reply(r) }) })
	}
	return true
}

func (s *sleeper) Closed(*wire.Conn) {}

func reply(r *wire.Request) {
	r.Reply(payload.Part{Bytes: frame.AppendResponseHeader(r.Buffer(8), r.Header.Key, r.Header.Version, r.Header.CorrelationID)})
}

func send(t *testing.T, nc net.Conn, corr int32, body ...byte) {
	t.Helper()
	b := binary.BigEndian.AppendUint32(nil, uint32(10+len(body)))
	b = append(b, 0, 3, 0, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(corr))
	b = append(append(b, 0xff, 0xff), body...)
	if _, err := nc.Write(b); err != nil {
		t.Fatal(err)
	}
}

func receive(t *testing.T, nc net.Conn) int32 {
	t.Helper()
	var b [8]byte
	if _, err := io.ReadFull(nc, b[:]); err != nil {
		t.Fatal(err)
	}
	return int32(binary.BigEndian.Uint32(b[4:]))
}

func pipes(t *testing.T, cfg wire.Config) (*wire.Server, func() net.Conn) {
	t.Helper()
	h := &sleeper{}
	cfg.Engine = wire.EngineNetloop
	s, err := wire.New(cfg, h)
	if err != nil {
		t.Fatal(err)
	}
	h.server = s
	dial := s.BindPipe("PLAINTEXT")
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	return s, dial
}

// TestVirtualTime: over pipes the whole server lives in a bubble.
func TestVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dial := pipes(t, wire.Config{IdleTimeout: 10 * time.Minute})
		defer s.Close()
		start := time.Now()
		nc, idle := dial(), dial()
		send(t, nc, 1, 200)
		send(t, nc, 2, 0)
		if a, b := receive(t, nc), receive(t, nc); a != 1 || b != 2 {
			t.Errorf("answers %d, %d", a, b)
		}
		if d := time.Since(start); d != 200*time.Second {
			t.Errorf("%v passed", d)
		}
		if _, err := idle.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the idle connection ends with %v", err)
		}
		if d := time.Since(start); d < 10*time.Minute || d > 13*time.Minute {
			t.Errorf("an idle connection lives for %v", d)
		}
	})
}

func TestDrainUnderVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dial := pipes(t, wire.Config{})
		nc := dial()
		send(t, nc, 1, 30)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		drained := make(chan error)
		go func() { drained <- s.Drain(ctx) }()
		if corr := receive(t, nc); corr != 1 {
			t.Errorf("answer %d", corr)
		}
		if err := <-drained; err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := dial().Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("a connection to a closed server: %v", err)
		}
	})
}
