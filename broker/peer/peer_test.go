package peer

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/gregor-broker/gregor/wire/frame"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// other is a broker that answers Metadata with the given controller id, as often as answers says; then it hangs.
func other(conn net.Conn, controller int32, answers int) {
	defer conn.Close()
	for range answers {
		var prefix [4]byte
		if _, err := io.ReadFull(conn, prefix[:]); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(prefix[:]))
		if _, err := io.ReadFull(conn, body); err != nil {
			return
		}
		h, _, err := frame.ParseHeader(body)
		if err != nil {
			return
		}
		response := kmsg.NewPtrMetadataResponse()
		response.Version, response.ControllerID = h.Version, controller
		out := frame.AppendResponseHeader(make([]byte, 4), h.Key, h.Version, h.CorrelationID)
		out = response.AppendTo(out)
		binary.BigEndian.PutUint32(out, uint32(len(out)-4))
		if _, err := conn.Write(out); err != nil {
			return
		}
	}
	_, _ = io.Copy(io.Discard, conn)
}

func metadata() *kmsg.MetadataRequest {
	r := kmsg.NewPtrMetadataRequest()
	r.Version = 12
	return r
}

func TestClientConnectsAgainAfterAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dialed := int32(0)
		c := New(Options{ClientID: "1", RequestTimeout: 3 * time.Second, Clock: clock.System,
			Dial: func(context.Context) (net.Conn, error) {
				dialed++
				ours, theirs := net.Pipe()
				go other(theirs, dialed, 2)
				return ours, nil
			}})
		defer c.Close()
		for i, want := range []int32{1, 1, -1, 2} { // the third is not answered: a timeout, then a new connection
			var response kmsg.MetadataResponse
			err := c.Do(t.Context(), metadata(), &response)
			if want < 0 {
				if err == nil {
					t.Fatalf("request %d was answered", i)
				}
				continue
			}
			if err != nil || response.ControllerID != want {
				t.Errorf("request %d: %v, controller %d, want %d", i, err, response.ControllerID, want)
			}
		}
	})
}

// TestIdleConnectionMayHaveEnded: the end of a connection that was used before costs nothing but another; that of a new one,
// or in the middle of an answer, is an error.
func TestIdleConnectionMayHaveEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var theirs []net.Conn
		refuse := false
		c := New(Options{ClientID: "1", RequestTimeout: 3 * time.Second, Clock: clock.System,
			Dial: func(context.Context) (net.Conn, error) {
				a, b := net.Pipe()
				theirs = append(theirs, b)
				if refuse {
					_ = b.Close()
				} else {
					go other(b, int32(len(theirs)), 9)
				}
				return a, nil
			}})
		defer c.Close()
		ask := func() (int32, error) {
			var response kmsg.MetadataResponse
			err := c.Do(t.Context(), metadata(), &response)
			return response.ControllerID, err
		}
		for want := range int32(3) {
			if got, err := ask(); err != nil || got != want+1 {
				t.Errorf("connection %d, %v; want %d", got, err, want+1)
			}
			_ = theirs[want].Close()
			synctest.Wait()
		}
		refuse = true
		if _, err := ask(); err == nil || len(theirs) != 4 {
			t.Errorf("%v after %d connections", err, len(theirs))
		}
	})
}

// TestMovedBroker: a broker that registers at another address is asked there, though the old connection lives: another may be at its end.
// While nobody knows where it is, the connection stays.
func TestMovedBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		address, known := "1", true
		n := NewNetwork(NetworkOptions{
			Address:        func(int32) (string, bool) { return address, known },
			RequestTimeout: time.Hour, Clock: clock.System,
			Dial: func(_ context.Context, _ int32, address string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				go other(theirs, int32(address[0]-'0'), 9)
				return ours, nil
			},
		})
		defer n.Close()
		for i, c := range []struct {
			address string
			known   bool
			want    int32
		}{{"1", true, 1}, {"1", true, 1}, {"2", true, 2}, {"3", false, 2}, {"3", true, 3}} {
			address, known = c.address, c.known
			var response kmsg.MetadataResponse
			if err := n.Send(t.Context(), 7, "1", metadata(), &response); err != nil || response.ControllerID != c.want {
				t.Errorf("request %d: %v, %d answers, want %d", i, err, response.ControllerID, c.want)
			}
		}
	})
}

func TestDoEndsWithItsContextAndWithClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork(NetworkOptions{
			Address:        func(id int32) (string, bool) { return "a:1", id == 2 },
			RequestTimeout: time.Hour, Clock: clock.System,
			Dial: func(context.Context, int32, string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				go other(theirs, 0, 0)
				return ours, nil
			},
		})
		var response kmsg.MetadataResponse
		if err := n.Send(t.Context(), 3, "1", metadata(), &response); err == nil {
			t.Error("a broker that is not known was reached")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := n.Send(ctx, 2, "1", metadata(), &response); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ended with %v, want the context's end", err)
		}
		ended := make(chan error, 1)
		go func() { ended <- n.Send(t.Context(), 2, "1", metadata(), &response) }()
		synctest.Wait()
		n.Close()
		if err := <-ended; err == nil {
			t.Error("the request outlived Close")
		}
		if err := n.Send(t.Context(), 2, "1", metadata(), &response); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

func TestResponseLengthIsOnlyAClaim(t *testing.T) {
	for _, size := range []uint32{0, 3, 0xffffffff, 200 << 20} {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			go func() { _, _ = io.Copy(io.Discard, theirs) }()
			_, _ = theirs.Write(binary.BigEndian.AppendUint32(nil, size))
		}()
		c := New(Options{RequestTimeout: time.Minute, Clock: clock.System,
			Dial: func(context.Context) (net.Conn, error) { return ours, nil }})
		if err := c.Do(t.Context(), metadata(), &kmsg.MetadataResponse{}); err == nil {
			t.Errorf("a response of %d bytes was accepted", size)
		}
		c.Close()
	}
}
