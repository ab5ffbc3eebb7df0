package zk

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	zoo "github.com/go-zookeeper/zk"
	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParseConnect(t *testing.T) {
	for _, test := range []struct {
		connect string
		servers []string
		root    string
		words   string
	}{
		{connect: "localhost:2181", servers: []string{"localhost:2181"}},
		{connect: "a,b:2182 , [::1]:2183,[::2]", servers: []string{"a:2181", "b:2182", "[::1]:2183", "[::2]:2181"}},
		{connect: "a:1,b:2/kafka/one", servers: []string{"a:1", "b:2"}, root: "/kafka/one"},
		{connect: "a/", servers: []string{"a:2181"}},
		{connect: "a/kafka/", servers: []string{"a:2181"}, root: "/kafka"},
		{connect: "a/kafka//x", words: `"/kafka//x" is no path`},
		{connect: "a/../b", words: "is no path"},
		{connect: "", words: "names no server"},
		{connect: "/kafka", words: "names no server"},
		{connect: "a:b:c", words: `"a:b:c" is no host:port`},
		{connect: "a:99999", words: `"a:99999" is no host:port`},
		{connect: ":2181", words: "the host is empty"},
	} {
		servers, root, err := ParseConnect(test.connect)
		if test.words != "" {
			if err == nil || !strings.Contains(err.Error(), test.words) || !strings.Contains(err.Error(), "zookeeper.connect") {
				t.Errorf("%q: error %v, want %q", test.connect, err, test.words)
			}
		} else if err != nil || !slices.Equal(servers, test.servers) || root != test.root {
			t.Errorf("%q: %q, %q, %v", test.connect, servers, root, err)
		}
	}
}

func TestHostsPauseOnceAllWereTried(t *testing.T) {
	c := clock.NewFake(time.UnixMilli(0))
	h := &hosts{clock: c}
	if err := h.Init([]string{"a", "b"}); err != nil || h.Len() != 2 {
		t.Fatal(err)
	}
	step := func(server string, pause bool) {
		t.Helper()
		if s, p := h.Next(); s != server || p != pause {
			t.Errorf("%s, pause %v; want %s, %v", s, p, server, pause)
		}
	}
	step("a", false)
	step("b", false)
	step("a", true)
	step("b", false)
	h.Connected()
	c.Advance(2 * pause)
	step("a", false) // the connection lasted: no pause
	h.Connected()
	c.Advance(pause / 2)
	step("b", true)
}

func TestACL(t *testing.T) {
	creator := zoo.ACL{Perms: zoo.PermAll, Scheme: "auth"}
	readers := zoo.ACL{Perms: zoo.PermRead, Scheme: "world", ID: "anyone"}
	open := zoo.ACL{Perms: zoo.PermAll, Scheme: "world", ID: "anyone"}
	for path, want := range map[string][]zoo.ACL{
		"/brokers/ids/1":               {creator, readers},
		"/config/topics/t":             {creator, readers},
		"/config/users":                {creator},
		"/config/users/alice":          {creator},
		"/config/brokers/1":            {creator},
		"/delegation_token/tokens/x":   {creator},
		"/delegation_token":            {creator, readers},
		"/consumers":                   {open},
		"/consumers/g/offsets/topic/0": {creator, readers},
	} {
		if got := acl(true, path); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
		if got := acl(false, path); !slices.Equal(got, []zoo.ACL{open}) {
			t.Errorf("%s without zookeeper.set.acl: %v", path, got)
		}
	}
}

func TestOpenFailsInWords(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	web, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			c, err := web.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
			c.Close()
		}
	}()
	defer func() { web.Close(); <-served }()
	for _, test := range []struct{ connect, words string }{
		{web.Addr().String(), "does not answer as ZooKeeper does"},
		{silent.Addr().String(), "no answer"},
		{"127.0.0.1:1", "connection refused"},
		{"", "names no server"},
	} {
		o := Options{Connect: test.connect, SessionTimeout: time.Minute, ConnectionTimeout: 300 * time.Millisecond, Clock: clock.System}
		s, err := Open(context.Background(), o)
		for err != nil && !strings.Contains(err.Error(), test.words) && o.ConnectionTimeout < 30*time.Second {
			o.ConnectionTimeout *= 3 // on a busy machine it may not have come to the server in that time
			s, err = Open(context.Background(), o)
		}
		if err == nil {
			s.Close()
			t.Errorf("opened %s", test.connect)
		} else if !strings.Contains(err.Error(), test.words) || !strings.Contains(err.Error(), test.connect) {
			t.Errorf("%s: %v, want %q", test.connect, err, test.words)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Open(ctx, Options{Connect: silent.Addr().String(), Clock: clock.System}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// stream is a connection that gives what a server sent.
type stream struct {
	net.Conn
	io.Reader
}

func (s stream) Read(p []byte) (int, error)      { return s.Reader.Read(p) }
func (s stream) SetDeadline(time.Time) error     { return nil }
func (s stream) SetReadDeadline(time.Time) error { return nil }

func frame(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// FuzzSocket reads as the library does: 4 bytes of length, then what they claim. It gets whole frames within the limits, or an error.
func FuzzSocket(f *testing.F) {
	f.Add(append(frame(make([]byte, 37)), frame(make([]byte, 16))...), true)
	f.Add([]byte("HTTP/1.1 200 OK\r\n\r\n"), false)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1, 2, 3}, true)
	f.Add(frame(make([]byte, 4)), true)
	f.Fuzz(func(t *testing.T, sent []byte, open bool) {
		c := newSocket(stream{Reader: bytes.NewReader(sent)}, "server", &session{})
		c.open.Store(open)
		for rest := sent; ; {
			var prefix [4]byte
			if _, err := io.ReadFull(c, prefix[:]); err != nil {
				return
			}
			length := int(binary.BigEndian.Uint32(prefix[:]))
			if most := map[bool]int{true: maxReplyBytes, false: maxGreetingBytes}[open]; length < minReplyBytes || length > most {
				t.Fatalf("a length of %d came through", length)
			}
			body := make([]byte, min(length, len(sent)))
			if n, err := io.ReadFull(c, body); err != nil || n < length {
				return
			}
			if !bytes.Equal(body, rest[4:4+length]) {
				t.Fatalf("frame %x, sent %x", body, rest[4:4+length])
			}
			rest = rest[4+length:]
		}
	})
}

func TestGroupsStayBelowTheLimits(t *testing.T) {
	s := &Store{o: Options{MaxPacketBytes: 10_000}.withDefaults()}
	var txns []store.Txn
	for i := range 1000 {
		txns = append(txns, store.Txn{store.Create(fmt.Sprintf("/%d", i), make([]byte, i), store.Persistent)})
	}
	outcomes := make([]store.Outcome, len(txns))
	list := s.translate(txns, outcomes)
	for total := 0; len(list) > 0; list = list[total:] {
		total = s.fit(list, groupTxns)
		bytes := multiBytes
		for _, x := range list[:total] {
			bytes += x.bytes
		}
		if total < 1 || total > groupTxns || bytes > s.o.MaxPacketBytes {
			t.Fatalf("a group of %d commits, %d bytes", total, bytes)
		}
	}
	big := []store.Txn{{store.Create("/a", make([]byte, 10_000), store.Persistent)}, {}, {store.Check("a", 0)}}
	outcomes = make([]store.Outcome, len(big))
	if list := s.translate(big, outcomes); len(list) > 0 {
		t.Errorf("%d requests for commits that cannot be sent", len(list))
	}
	if !errors.Is(outcomes[0].Err, kerr.PolicyViolation) || outcomes[1].Err != nil || outcomes[1].Results == nil || store.FailedOp(outcomes[2].Err) != 0 {
		t.Errorf("outcomes %+v", outcomes)
	}
}
