package reactor_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gregor-broker/gregor/wire"
	"github.com/gregor-broker/gregor/wire/frame"
	"github.com/gregor-broker/gregor/wire/payload"
	"github.com/gregor-broker/gregor/wire/reactor"
)

type coldFile struct {
	*os.File
	fd   int
	refs atomic.Int32
}

func (f *coldFile) FD() int  { return f.fd }
func (f *coldFile) Retain()  { f.refs.Add(1) }
func (f *coldFile) Release() { f.refs.Add(-1) }

type app struct{ file *coldFile }

func (a app) Admit(*wire.Conn, frame.Header, int) (wire.Admission, error) {
	return wire.Admission{Inline: true}, nil
}

func (a app) Serve(r *wire.Request, _ bool) bool {
	head := payload.Part{Bytes: frame.AppendResponseHeader(nil, r.Header.Key, r.Header.Version, r.Header.CorrelationID)}
	if r.Header.CorrelationID == 1 {
		r.Reply(head)
		return true
	}
	a.file.Retain()
	a.file.Retain()
	r.Reply(head, payload.Part{File: a.file, Pos: 5, Len: 3 << 20, Cold: true}, payload.Part{File: a.file, Len: 77, Cold: true})
	return true
}

func (a app) Closed(*wire.Conn) {}

// TestColdRanges sends ranges that are dropped from the page cache first, with the probe and without.
func TestColdRanges(t *testing.T) {
	data := make([]byte, 4<<20)
	for i := range data {
		data[i] = byte(i * 7 >> 5)
	}
	path := filepath.Join(t.TempDir(), "segment")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	file := &coldFile{File: f, fd: int(f.Fd())}
	s, err := wire.New(wire.Config{Engine: wire.EngineReactor, Processors: 1}, app{file})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	addr, err := s.Bind(wire.Listener{Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	want := slicesJoin(data[5:5+3<<20], data[:77])
	for _, probe := range []bool{true, false} {
		if !probe {
			defer reactor.NoProbe()()
		}
		unix.Fadvise(file.fd, 0, 0, unix.FADV_DONTNEED)
		nc, err := net.Dial("tcp", addr.String())
		if err != nil {
			t.Fatal(err)
		}
		request := []byte("\x00\x00\x00\x0a\x00\x00\x00\x00\x00\x00\x00\x02\xff\xff")
		nc.Write(append(request, bytes.Replace(request, []byte{2}, []byte{1}, 1)...))
		got := make([]byte, 8+len(want)+8)
		if _, err := io.ReadFull(nc, got); err != nil {
			t.Fatal(err)
		}
		if n := int(binary.BigEndian.Uint32(got)); n != len(want)+4 || !bytes.Equal(got[8:8+len(want)], want) {
			t.Errorf("probe %v: another response than the file's", probe)
		}
		nc.Close()
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if n := file.refs.Load(); n != 0 {
		t.Errorf("%d references remain", n)
	}
}

func slicesJoin(a, b []byte) []byte { return append(append([]byte(nil), a...), b...) }
