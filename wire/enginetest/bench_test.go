package enginetest

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"testing"

	"github.com/gregor-broker/gregor/wire"
	"github.com/gregor-broker/gregor/wire/frame"
	"github.com/gregor-broker/gregor/wire/payload"
)

var engines = []string{wire.EngineNetloop, wire.EngineReactor}

// benchServer runs a server as the binary would, with a P for each processor.
func benchServer(b *testing.B, engine string, a *app) net.Addr {
	const processors = 2
	cores := runtime.GOMAXPROCS(runtime.NumCPU() + processors)
	b.Cleanup(func() { runtime.GOMAXPROCS(cores) })
	s, err := wire.New(wire.Config{Engine: engine, Processors: processors}, a)
	if err != nil {
		b.Skip(err) // no such engine here
	}
	b.Cleanup(func() { s.Close() })
	addr, err := s.Bind(wire.Listener{Name: "PLAINTEXT", Address: "127.0.0.1:0"})
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Start(); err != nil {
		b.Fatal(err)
	}
	return addr
}

var okBody = make([]byte, 40)

func small(inline bool) *app {
	return &app{
		admit: func(*wire.Conn, frame.Header, int) (wire.Admission, error) {
			return wire.Admission{Inline: inline}, nil
		},
		serve: func(r *wire.Request, _ bool) bool {
			buf := r.Buffer(64)
			buf = frame.AppendResponseHeader(buf, r.Header.Key, r.Header.Version, r.Header.CorrelationID)
			buf = append(buf, okBody...)
			r.Reply(payload.Part{Bytes: buf})
			return true
		},
	}
}

// BenchmarkSmall sends 100-byte requests in windows on one connection and reads 48-byte answers.
func BenchmarkSmall(b *testing.B) {
	for _, engine := range engines {
		for _, inline := range []bool{true, false} {
			for _, window := range []int{1, 16} {
				b.Run(fmt.Sprintf("%s/inline=%v/window=%d", engine, inline, window), func(b *testing.B) {
					addr := benchServer(b, engine, small(inline))
					nc, err := net.Dial("tcp", addr.String())
					if err != nil {
						b.Fatal(err)
					}
					defer nc.Close()
					var out []byte
					for i := range window {
						out = append(out, request(int32(i), make([]byte, 84))...)
					}
					in := make([]byte, window*(4+4+len(okBody)))
					b.ReportAllocs()
					for done := 0; done < b.N; done += window {
						if _, err := nc.Write(out); err != nil {
							b.Fatal(err)
						}
						if _, err := io.ReadFull(nc, in); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

// BenchmarkLarge sends requests of 1 MiB and reads small answers.
func BenchmarkLarge(b *testing.B) {
	for _, engine := range engines {
		b.Run(engine, func(b *testing.B) {
			addr := benchServer(b, engine, small(true))
			nc, err := net.Dial("tcp", addr.String())
			if err != nil {
				b.Fatal(err)
			}
			defer nc.Close()
			out := request(1, make([]byte, 1<<20))
			in := make([]byte, 4+4+len(okBody))
			b.SetBytes(1 << 20)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := nc.Write(out); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(nc, in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFetch reads responses of 8 MiB from a file in the page cache.
func BenchmarkFetch(b *testing.B) {
	const size = 8 << 20
	for _, engine := range engines {
		b.Run(engine, func(b *testing.B) {
			disk, _ := osFile(b, size)
			addr := benchServer(b, engine, &app{admit: admitInline, serve: func(r *wire.Request, _ bool) bool {
				disk.Retain()
				r.Reply(head(r), payload.Part{File: disk, Len: size})
				return true
			}})
			nc, err := net.Dial("tcp", addr.String())
			if err != nil {
				b.Fatal(err)
			}
			defer nc.Close()
			in := make([]byte, 1<<20)
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := nc.Write(request(1, nil)); err != nil {
					b.Fatal(err)
				}
				for left := size + 8; left > 0; {
					n, err := nc.Read(in[:min(left, len(in))])
					if err != nil {
						b.Fatal(err)
					}
					left -= n
				}
			}
		})
	}
}
