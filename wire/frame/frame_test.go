package frame

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestHeaderOfEveryVersion compares with kmsg's own request formatter, which writes the header that a client would.
func TestHeaderOfEveryVersion(t *testing.T) {
	f := kmsg.NewRequestFormatter(kmsg.FormatterClientID("client-1"))
	for key := int16(0); key <= kmsg.MaxKey; key++ {
		r := kmsg.RequestForKey(key)
		if r == nil {
			continue
		}
		for v := int16(0); v <= r.MaxVersion(); v++ {
			if key == controlledShutdownKey && v == 0 {
				continue // kmsg writes a client id where Kafka has none
			}
			r.SetVersion(v)
			raw := f.AppendRequest(nil, r, 77)
			h, body, err := ParseHeader(raw[LengthSize:])
			if err != nil {
				t.Fatalf("key %d v%d: %v", key, v, err)
			}
			if h.Key != key || h.Version != v || h.CorrelationID != 77 || h.ClientID == nil || *h.ClientID != "client-1" || h.Flexible != r.IsFlexible() {
				t.Errorf("key %d v%d: header %+v", key, v, h)
			}
			if want := r.AppendTo(nil); !bytes.Equal(body, want) {
				t.Errorf("key %d v%d: body %x, want %x", key, v, body, want)
			}
		}
	}
}

func TestParseHeader(t *testing.T) {
	for _, c := range []struct {
		name, in string
		client   string
		body     string
		fails    bool
	}{
		{name: "null client id", in: "\x00\x03\x00\x00\x00\x00\x00\x05\xff\xffbody", client: "null", body: "body"},
		{name: "v0 has none", in: "\x00\x07\x00\x00\x00\x00\x00\x05body", client: "null", body: "body"},
		{name: "unknown key", in: "\x01\x2c\x00\x63\x00\x00\x00\x05\x00\x01abody", client: "a", body: "body"},
		{name: "negative key", in: "\xff\xfe\x00\x63\x00\x00\x00\x05\x00\x01abody", client: "a", body: "body"},
		{name: "tags are passed over", in: "\x00\x03\x00\x09\x00\x00\x00\x05\x00\x01a\x02\x00\x02xy\x07\x00body", client: "a", body: "body"},
		{name: "short", in: "\x00\x03\x00\x00\x00\x00\x00", fails: true},
		{name: "no client id", in: "\x00\x03\x00\x00\x00\x00\x00\x05\x00", fails: true},
		{name: "client id beyond the end", in: "\x00\x03\x00\x00\x00\x00\x00\x05\x00\x09abc", fails: true},
		{name: "client id of length -2", in: "\x00\x03\x00\x00\x00\x00\x00\x05\xff\xfeabc", fails: true},
		{name: "tag beyond the end", in: "\x00\x03\x00\x09\x00\x00\x00\x05\x00\x01a\x01\x00\x09xy", fails: true},
		{name: "endless tag count", in: "\x00\x03\x00\x09\x00\x00\x00\x05\x00\x01a\xff\xff\xff\xff\x0f", fails: true},
		{name: "a later ApiVersions", in: "\x00\x12\x00\x63\x00\x00\x00\x05\x00\x01a\x01\x00\x09xy", client: "a"},
	} {
		h, body, err := ParseHeader([]byte(c.in))
		if c.fails {
			if !errors.Is(err, ErrHeader) {
				t.Errorf("%s: error %v", c.name, err)
			}
			continue
		}
		client := "null"
		if h.ClientID != nil {
			client = *h.ClientID
		}
		if err != nil || client != c.client || string(body) != c.body {
			t.Errorf("%s: client %q, body %q, error %v", c.name, client, body, err)
		}
	}
}

func TestClientIDIsReused(t *testing.T) {
	in := []byte("\x00\x03\x00\x00\x00\x00\x00\x05\x00\x03abcbody")
	first, _, _ := ParseHeader(in)
	if n := testing.AllocsPerRun(100, func() {
		if h, _, _ := ParseHeaderReusing(in, first.ClientID); h.ClientID != first.ClientID {
			t.Fatal("not reused")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestResponseHeader(t *testing.T) {
	for _, c := range []struct {
		key, version int16
		want         string
	}{
		{3, 8, "\x00\x00\x00\x07"}, {3, 9, "\x00\x00\x00\x07\x00"}, {18, 3, "\x00\x00\x00\x07"}, {18, 99, "\x00\x00\x00\x07"},
		{17, 1, "\x00\x00\x00\x07"}, {45, 0, "\x00\x00\x00\x07\x00"},
	} {
		if got := AppendResponseHeader(nil, c.key, c.version, 7); string(got) != c.want {
			t.Errorf("key %d v%d: %x, want %x", c.key, c.version, got, c.want)
		}
	}
}

func TestCheckLength(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"\x00\x00\x00\x07", "too short for a header"},
		{"\xff\xff\xff\xfe", "a negative length, -2"},
		{"\x06\x40\x00\x01", "104857601 bytes, more than socket.request.max.bytes (104857600)"},
		{"\x7f\xff\xff\xff\x00", "2147483647 bytes"},
		{"\x16\x03\x01\x02\x00\x01", "a TLS handshake"},
		{"GET / HTTP/1.1\r\n", "an HTTP request"},
		{"PRI * HTTP/2.0", "an HTTP request"},
		{"SSH-2.0-OpenSSH", "an SSH client"},
		{"hello world, who is there?", `text, beginning with "hello world, who"`},
		{"\r\n\r\n\x00\r\nQUIT\n", "a PROXY protocol header"},
	} {
		_, err := CheckLength([]byte(c.in), 100<<20)
		var size *SizeError
		if !errors.As(err, &size) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q in it", c.in, err, c.want)
		}
	}
	for _, ok := range []string{"\x00\x00\x00\x08", "\x06\x40\x00\x00", "\x01\x00\x00\x01"} {
		if n, err := CheckLength([]byte(ok), 100<<20); err != nil || n != int(binary.BigEndian.Uint32([]byte(ok))) {
			t.Errorf("%x: %d, %v", ok, n, err)
		}
	}
	if _, err := CheckLength([]byte("\x16\x03\x01\x02\x00\x01"), 1<<31-1); err == nil {
		t.Error("a TLS handshake passes as a large request where the limit is high")
	}
}

func TestAllowedSizeThatLooksLikeText(t *testing.T) {
	if n, err := CheckLength([]byte("\n   and a request"), 1<<30); err != nil || n != 0x0a202020 {
		t.Errorf("%d, %v", n, err)
	}
}

func FuzzParseHeader(f *testing.F) {
	f.Add([]byte("\x00\x03\x00\x09\x00\x00\x00\x05\x00\x01a\x02\x00\x02xy\x07\x00body"))
	f.Add([]byte("\x00\x12\x00\x63\x00\x00\x00\x05\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, body, err := ParseHeader(b)
		if err != nil {
			return
		}
		if len(body) > len(b)-8 || !bytes.HasSuffix(b, body) {
			t.Errorf("the body of %x is %x", b, body)
		}
		if h.Key != int16(binary.BigEndian.Uint16(b)) {
			t.Errorf("key %d", h.Key)
		}
		if len(b) >= LengthSize {
			CheckLength(b, 1000)
		}
	})
}

func BenchmarkParseHeader(b *testing.B) {
	in := []byte("\x00\x00\x00\x09\x00\x00\x00\x05\x00\x08client-1\x00body")
	h, _, err := ParseHeader(in)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if h, _, err = ParseHeaderReusing(in, h.ClientID); err != nil {
			b.Fatal(err)
		}
	}
}
