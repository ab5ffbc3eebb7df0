package enginetest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/gregor-broker/gregor/wire"
	"github.com/gregor-broker/gregor/wire/frame"
	"github.com/gregor-broker/gregor/wire/payload"
)

// admitInline admits everything to the processor.
func admitInline(*wire.Conn, frame.Header, int) (wire.Admission, error) {
	return wire.Admission{Inline: true}, nil
}

func (s *Suite) roundTrip(t *testing.T) {
	for _, c := range []struct {
		name   string
		inline bool // where Admit allows it
		refuse bool // Serve would block
	}{{"handler", false, false}, {"processor", true, false}, {"would block", true, true}} {
		t.Run(c.name, func(t *testing.T) {
			r := s.start(t, wire.Config{}, &app{
				admit: func(_ *wire.Conn, h frame.Header, size int) (wire.Admission, error) {
					if h.Key != 0 || h.CorrelationID != 7 || *h.ClientID != "me" || size != 17 {
						t.Errorf("admitted %+v, %d bytes", h, size)
					}
					return wire.Admission{Inline: c.inline}, nil
				},
				serve: func(r *wire.Request, inline bool) bool {
					if inline && c.refuse {
						return false
					}
					if inline != (c.inline && !c.refuse) {
						t.Errorf("served inline: %v", inline)
					}
					if r.Conn.Listener() != "PLAINTEXT" || !r.Conn.RemoteAddr().Addr().IsLoopback() || r.Received.IsZero() || r.Dead() {
						t.Errorf("request from %v", r.Conn.RemoteAddr())
					}
					answer(r, r.Body)
					return true
				},
			})
			cl := r.dial()
			for range 3 {
				cl.send(request(7, []byte("hello")))
				cl.expect(7, []byte("hello"))
			}
		})
	}
}

// sizes sends and gets back requests around every step of the buffers.
func (s *Suite) sizes(t *testing.T) {
	for _, inline := range []bool{false, true} {
		r := s.start(t, wire.Config{}, &app{
			admit: func(*wire.Conn, frame.Header, int) (wire.Admission, error) {
				return wire.Admission{Inline: inline}, nil
			},
			serve: func(r *wire.Request, _ bool) bool {
				answer(r, r.Body)
				return true
			},
		})
		cl := r.dial()
		for i, size := range []int{0, 1, 200, 255, 256, 1 << 10, 40 << 10, 1<<16 - 16, 1<<16 - 15, 1 << 16, 1<<16 + 1, 100_000, 1 << 20, 1<<20 + 300, 3 << 20, 20 << 20} {
			body := bytes.Repeat([]byte{byte(i), 1, 2, 3, 5}, size/5+1)[:size]
			next := request(int32(i)+1000, []byte("next"))
			go cl.send(request(int32(i), body), next)
			cl.expect(int32(i), body)
			cl.expect(int32(i)+1000, []byte("next"))
		}
	}
}

// osFile opens a file of n bytes that say where they are.
func osFile(t testing.TB, n int) (*file, []byte) {
	data := make([]byte, n)
	for i := 0; i+4 <= n; i += 4 {
		binary.BigEndian.PutUint32(data[i:], uint32(i))
	}
	path := filepath.Join(t.TempDir(), "segment")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return &file{File: realFile{f, int(f.Fd())}}, data
}

type realFile struct {
	*os.File
	fd int
}

func (f realFile) FD() int { return f.fd }
func (realFile) Retain()   {}
func (realFile) Release()  {}

// memoryFile can only be read with ReadAt.
type memoryFile struct{ *bytes.Reader }

func (memoryFile) FD() int  { return -1 }
func (memoryFile) Retain()  {}
func (memoryFile) Release() {}

func (s *Suite) fileParts(t *testing.T) {
	disk, data := osFile(t, 9<<20)
	memory := &file{File: memoryFile{bytes.NewReader(data)}}
	r := s.start(t, wire.Config{}, &app{serve: func(r *wire.Request, _ bool) bool {
		// The body lists ranges: kind, position, length.
		parts := []payload.Part{head(r)}
		for b := r.Body; len(b) > 0; b = b[9:] {
			pos, n := int64(binary.BigEndian.Uint32(b[1:])), int(binary.BigEndian.Uint32(b[5:]))
			switch b[0] {
			case 'd', 'c':
				disk.Retain()
				parts = append(parts, payload.Part{File: disk, Pos: pos, Len: n, Cold: b[0] == 'c'})
			case 'm':
				memory.Retain()
				parts = append(parts, payload.Part{File: memory, Pos: pos, Len: n})
			case 'b':
				parts = append(parts, payload.Part{Bytes: bytes.Clone(data[pos : pos+int64(n)])})
			}
		}
		r.Reply(parts...)
		return true
	}})
	cl := r.dial()
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 60 {
		var body, want []byte
		for range rnd.IntN(6) {
			n := rnd.IntN([]int{10, 2000, 100_000, 3 << 20}[rnd.IntN(4)])
			pos := rnd.IntN(len(data) - n)
			body = append(body, "dcmb"[rnd.IntN(4)])
			body = binary.BigEndian.AppendUint32(body, uint32(pos))
			body = binary.BigEndian.AppendUint32(body, uint32(n))
			want = append(want, data[pos:pos+n]...)
		}
		cl.send(request(int32(i), body))
		cl.expect(int32(i), want)
	}
	eventually(t, "files are released", func() bool { return disk.refs.Load() == 0 && memory.refs.Load() == 0 })
}

// effectsInArrivalOrder pipelines requests of which some may run on the processor and some may not.
func (s *Suite) effectsInArrivalOrder(t *testing.T) {
	const n = 500
	var next int32 // touched by the strand only
	r := s.start(t, wire.Config{MaxInFlight: 40}, &app{
		admit: func(_ *wire.Conn, h frame.Header, _ int) (wire.Admission, error) {
			return wire.Admission{Inline: h.CorrelationID%3 > 0}, nil
		},
		serve: func(r *wire.Request, inline bool) bool {
			if inline && r.Header.CorrelationID%5 == 0 {
				return false
			}
			if r.Header.CorrelationID != next {
				t.Errorf("request %d runs in place of %d", r.Header.CorrelationID, next)
			}
			if r.Conn.Value == nil {
				r.Conn.Value = 0
			}
			r.Conn.Value = r.Conn.Value.(int) + 1
			next++
			answer(r, fmt.Append(nil, r.Conn.Value))
			return true
		},
	})
	cl := r.dial()
	go func() {
		for i := range int32(n) {
			cl.send(request(i, make([]byte, i%50)))
		}
	}()
	for i := range int32(n) {
		cl.expect(i, fmt.Append(nil, i+1))
	}
}

func (s *Suite) repliesInRequestOrder(t *testing.T) {
	const n = 50
	for _, inline := range []bool{false, true} {
		parked := make(chan *wire.Request, n)
		r := s.start(t, wire.Config{}, &app{
			admit: func(*wire.Conn, frame.Header, int) (wire.Admission, error) {
				return wire.Admission{Inline: inline}, nil
			},
			serve: func(r *wire.Request, _ bool) bool {
				parked <- r
				return true
			},
		})
		cl := r.dial()
		for i := range int32(n) {
			cl.send(request(i, nil))
		}
		var all []*wire.Request
		for range n {
			all = append(all, within(t, "a request arrives while others wait", parked))
		}
		rand.Shuffle(n, func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, r := range all {
			answer(r, fmt.Append(nil, "answer to ", r.Header.CorrelationID))
		}
		for i := range int32(n) {
			cl.expect(i, fmt.Append(nil, "answer to ", i))
		}
	}
}

func (s *Suite) noReplyLeavesNoHole(t *testing.T) {
	r := s.start(t, wire.Config{MaxInFlight: 4}, &app{
		admit: func(_ *wire.Conn, h frame.Header, _ int) (wire.Admission, error) {
			return wire.Admission{Inline: h.CorrelationID%2 == 0}, nil
		},
		serve: func(r *wire.Request, _ bool) bool {
			if string(r.Body) == "acks=0" {
				r.NoReply()
			} else {
				answer(r)
			}
			return true
		},
	})
	cl := r.dial()
	for i := range int32(100) {
		cl.send(request(2*i, []byte("acks=0")), request(2*i+1, []byte("acks=0")))
		if i%10 == 9 {
			cl.send(request(i, nil))
			cl.expect(i, nil)
		}
	}
}

func (s *Suite) closeInPlaceOfAnAnswer(t *testing.T) {
	parked := make(chan *wire.Request, 1)
	r := s.start(t, wire.Config{}, &app{serve: func(r *wire.Request, _ bool) bool {
		switch r.Header.CorrelationID {
		case 1:
			parked <- r
		case 2:
			r.Close("an invalid record")
		default:
			answer(r)
		}
		return true
	}})
	cl := r.dial()
	cl.send(request(1, nil), request(2, nil), request(3, nil))
	first := within(t, "the first request arrives", parked)
	eventually(t, "a line says why", func() bool { return r.logs.FilterMessage("closing a connection: an invalid record").Len() == 1 })
	answer(first)
	cl.expect(1, nil)
	cl.expectEnd()
}

// replyToAnotherRequestInline answers a parked request while the processor that owns its connection runs another one's
// first stage.
func (s *Suite) replyToAnotherRequestInline(t *testing.T) {
	var parked *wire.Request
	r := s.start(t, wire.Config{}, &app{admit: admitInline, serve: func(r *wire.Request, _ bool) bool {
		if parked == nil {
			parked = r
			return true
		}
		answer(parked, []byte("join"))
		answer(r, []byte("leave"))
		parked = nil
		return true
	}})
	cl := r.dial()
	for i := range int32(20) {
		cl.send(request(2*i, nil))
		cl.send(request(2*i+1, nil))
		cl.expect(2*i, []byte("join"))
		cl.expect(2*i+1, []byte("leave"))
	}
}

// randomTraffic has many connections pipeline requests of many sizes, run and answered in every way.
func (s *Suite) randomTraffic(t *testing.T) {
	disk, data := osFile(t, 2<<20)
	pick := func(h frame.Header, mod int32) int32 { return (h.CorrelationID * 7919 >> 3) % mod }
	var inWork sync.WaitGroup
	r := s.start(t, wire.Config{MaxInFlight: 10, QueuedMaxRequests: 7, QueuedMaxRequestBytes: 3 << 20}, &app{
		admit: func(_ *wire.Conn, h frame.Header, size int) (wire.Admission, error) {
			return wire.Admission{Inline: pick(h, 3) > 0, Cost: 2 * int64(size)}, nil
		},
		serve: func(r *wire.Request, inline bool) bool {
			if inline && pick(r.Header, 7) == 0 {
				return false
			}
			kind := pick(r.Header, 5)
			sum := fmt.Append(nil, len(r.Body), " ", bytes.Count(r.Body, []byte{1}), " ")
			reply := func() {
				if kind == 0 {
					disk.Retain()
					r.Reply(head(r), payload.Part{Bytes: sum}, payload.Part{File: disk, Len: int(r.Header.CorrelationID) * 997 % len(data)})
				} else {
					answer(r, sum)
				}
			}
			if kind == 1 {
				inWork.Go(reply)
			} else {
				reply()
			}
			return true
		},
	})
	var clients sync.WaitGroup
	for n := range 12 {
		clients.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(n), 3))
			cl := r.dial()
			const requests = 150
			want := make(chan [2][]byte, requests)
			go func() {
				defer close(want)
				for i := range int32(requests) {
					body := bytes.Repeat([]byte{1, 2, byte(n)}, rnd.IntN([]int{5, 500, 30_000, 300_000}[rnd.IntN(4)]))
					expected := fmt.Append(nil, len(body), " ", bytes.Count(body, []byte{1}), " ")
					h := frame.Header{CorrelationID: i}
					if pick(h, 5) == 0 {
						expected = append(expected, data[:int(i)*997%len(data)]...)
					}
					want <- [2][]byte{binary.BigEndian.AppendUint32(nil, uint32(i)), expected}
					b := request(i, body)
					for len(b) > 0 {
						k := min(len(b), 1+rnd.IntN(200_000))
						if _, err := cl.Write(b[:k]); err != nil {
							t.Error(err)
							return
						}
						b = b[k:]
					}
				}
			}()
			for w := range want {
				corr, body, err := cl.receive()
				if err != nil || corr != int32(binary.BigEndian.Uint32(w[0])) || !bytes.Equal(body, w[1]) {
					t.Errorf("connection %d: response %d of %d bytes, want %d of %d bytes: %v", n, corr, len(body), binary.BigEndian.Uint32(w[0]), len(w[1]), err)
					cl.Close()
					break
				}
			}
			for range want {
			}
		})
	}
	clients.Wait()
	inWork.Wait()
	eventually(t, "files are released", func() bool { return disk.refs.Load() == 0 })
}
