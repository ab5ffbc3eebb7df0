package session

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gregor-broker/gregor/wire/buffers"
)

func newConn(max int32) (*Conn, *buffers.Pool) {
	pool := &buffers.Pool{}
	c := New(&Limits{MaxRequestBytes: max, MaxInFlight: 8, MaxUnsentBytes: 1000}, pool)
	return &c, pool
}

func framed(b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

// feeder plays the engine over a stream of bytes.
type feeder struct {
	c       *Conn
	pool    *buffers.Pool
	scratch []byte
	got     [][]byte
	asked   int
}

// read moves the first bytes of in, at most n, into the session, and returns how many.
func (f *feeder) read(in []byte, n int) int {
	first, second := f.c.ReadBufs(f.scratch)
	n = min(n, len(in), len(first)+len(second))
	k := copy(first, in[:n])
	copy(second, in[k:n])
	f.c.Fed(n, f.scratch)
	return n
}

// next takes requests until there are none, or until stop says so.
func (f *feeder) next(stop func() bool) error {
	for !stop() {
		fr, err := f.c.Next()
		if err != nil {
			return err
		}
		if fr.Bytes == nil {
			break
		}
		if fr.Part {
			f.asked++
			f.c.Admitted()
			continue
		}
		if len(fr.Bytes) != fr.Size {
			return fmt.Errorf("%d bytes of %d", len(fr.Bytes), fr.Size)
		}
		f.got = append(f.got, bytes.Clone(fr.Bytes))
		if fr.Owned {
			f.pool.Put(fr.Bytes)
		} else {
			buffers.Poison(fr.Bytes)
		}
	}
	f.c.Stash()
	buffers.Poison(f.scratch)
	return nil
}

// TestAnyCutAnyMute feeds streams of requests of all sizes in pieces of all sizes, muting at random.
func TestAnyCutAnyMute(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		var want [][]byte
		var stream []byte
		for range 1 + r.IntN(30) {
			size := 8 + r.IntN([]int{20, 300, 5000, 70_000, 200_000, 3 << 20}[r.IntN(6)]>>r.IntN(4))
			b := bytes.Repeat([]byte{byte(r.Uint32()), byte(size), byte(size >> 8), 1, 2}, size/5+1)[:size]
			want = append(want, b)
			stream = append(stream, framed(b)...)
			if len(stream) > 4<<20 {
				break
			}
		}
		c, pool := newConn(4 << 20)
		f := &feeder{c: c, pool: pool, scratch: make([]byte, 1+r.IntN(FirstStep))}
		maxCut := []int{3, 100, 70_000, 4 << 20}[r.IntN(4)]
		maxCut = max(maxCut, len(stream)/300)
		for len(stream) > 0 || c.Muted() {
			c.Unmute(Queue)
			if c.Resumable() {
				c.Resume()
			} else {
				stream = stream[f.read(stream, 1+r.IntN(maxCut)):]
			}
			if err := f.next(func() bool {
				if r.IntN(4) == 0 {
					c.Mute(Queue)
					c.Stall()
				}
				return c.Muted()
			}); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		if err := f.next(func() bool { return false }); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if len(f.got) != len(want) {
			t.Fatalf("seed %d: %d requests of %d", seed, len(f.got), len(want))
		}
		for i := range want {
			if !bytes.Equal(f.got[i], want[i]) {
				t.Fatalf("seed %d: request %d differs", seed, i)
			}
		}
		if c.in.buf != nil || c.in.stash != nil {
			t.Errorf("seed %d: an idle connection holds a buffer", seed)
		}
	}
}

// TestClaimAllocatesNothing: what a connection holds is in proportion to what it sent, not to what it claims.
func TestClaimAllocatesNothing(t *testing.T) {
	const claim = 8 << 20
	c, pool := newConn(claim)
	f := &feeder{c: c, pool: pool, scratch: make([]byte, FirstStep)}
	stream := framed(make([]byte, claim))
	never := func() bool { return false }
	sent := 0
	for _, upTo := range []int{1, 3, 4, 5, 100, 1000, 5000, 30_000, 70_000, 1 << 20, 5 << 20, claim + 4} {
		for sent < upTo {
			sent += f.read(stream[sent:], upTo-sent)
			if err := f.next(never); err != nil {
				t.Fatal(err)
			}
		}
		held := cap(c.in.buf) + cap(c.in.stash)
		if limit := max(smallestBuffer, growth*sent*5/4); sent <= 4 && held > 0 || held > limit {
			t.Errorf("after %d bytes the connection holds %d", sent, held)
		}
		if sent < askAt && held > FirstStep {
			t.Errorf("after %d bytes, not admitted, the connection holds %d", sent, held)
		}
	}
	if len(f.got) != 1 || f.asked != 1 {
		t.Errorf("%d requests, asked %d times", len(f.got), f.asked)
	}
}

func TestLargeRequestIsReadIntoItsBuffer(t *testing.T) {
	const size = 1<<20 + 77
	c, pool := newConn(4 << 20)
	f := &feeder{c: c, pool: pool, scratch: make([]byte, FirstStep)}
	stream := append(framed(make([]byte, size)), framed(make([]byte, 100))...)
	stream = stream[f.read(stream, len(stream)):]
	if err := f.next(func() bool { return false }); err != nil {
		t.Fatal(err)
	}
	first, second := c.ReadBufs(f.scratch)
	if len(first) != size+4-FirstStep || second != nil {
		t.Errorf("after the first read the next takes %d and %d bytes, want all that is missing and no more", len(first), len(second))
	}
	stream = stream[f.read(stream, len(stream)):]
	if err := f.next(func() bool { return false }); err != nil {
		t.Fatal(err)
	}
	if len(f.got) != 1 || len(stream) != 104 {
		t.Errorf("%d requests, %d bytes left", len(f.got), len(stream))
	}
}

func TestNothingIsReadUntilAdmitted(t *testing.T) {
	c, pool := newConn(4 << 20)
	f := &feeder{c: c, pool: pool, scratch: make([]byte, FirstStep)}
	stream := framed(make([]byte, 1<<20))
	f.read(stream, FirstStep)
	part, err := c.Next()
	if err != nil || !part.Part || len(part.Bytes) != FirstStep-4 || part.Size != 1<<20 {
		t.Fatalf("%+v, %v", part, err)
	}
	c.Mute(Memory)
	c.Stall()
	c.Stash()
	if first, _ := c.ReadBufs(f.scratch); first != nil {
		t.Error("a muted connection reads")
	}
	if again, _ := c.Next(); again.Bytes != nil {
		t.Error("asked twice")
	}
	held := cap(c.in.buf) + cap(c.in.stash)
	if held > FirstStep {
		t.Errorf("%d bytes held", held)
	}
}

// TestTricklingIsNoLife: who holds memory for a request must send it.
func TestTricklingIsNoLife(t *testing.T) {
	c, _ := newConn(4 << 20)
	scratch := make([]byte, FirstStep)
	feed := func(n int) bool {
		first, _ := c.ReadBufs(scratch)
		first[0], first[1], first[2], first[3] = 0, 0x20, 0, 0 // 2 MiB, where it is the prefix
		alive := c.Fed(n, scratch)
		if f, err := c.Next(); err != nil {
			t.Fatal(err)
		} else if f.Part {
			c.Admitted()
		}
		c.Stash()
		return alive
	}
	for i, step := range []struct {
		n    int
		want bool
	}{{10, true}, {1, true}, {FirstStep - 1000, true}, {1, false}, {60_000, false}, {5000, false}, {1000, true}, {1, false}, {70_000, true}} {
		if alive := feed(step.n); alive != step.want {
			t.Errorf("step %d, %d bytes: alive %v", i, step.n, alive)
		}
	}
}

func TestForeignBytes(t *testing.T) {
	for _, in := range []string{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "\xff\xff\xff\xff", "\x7f\xff\xff\xff"} {
		for cut := 1; cut <= len(in); cut++ {
			c, pool := newConn(100 << 20)
			f := &feeder{c: c, pool: pool, scratch: make([]byte, FirstStep)}
			f.read([]byte(in), cut)
			err := f.next(func() bool { return false })
			for sent := cut; err == nil && sent < len(in); {
				sent += f.read([]byte(in[sent:]), len(in))
				err = f.next(func() bool { return false })
			}
			if err == nil {
				t.Errorf("%q cut at %d passes", in, cut)
			} else if strings.HasPrefix(in, "GET") && !strings.Contains(err.Error(), "HTTP") {
				t.Errorf("%q cut at %d: %v", in, cut, err)
			}
		}
	}
}

func FuzzInput(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x08abcdefgh\x00\x00\x00\x09ijklmnopq"), uint8(3))
	f.Add([]byte("\x00\x01\x00\x08abcdefgh\x00\x00\x00\x09ijklmnopq"), uint8(200))
	f.Fuzz(func(t *testing.T, in []byte, cut uint8) {
		c, pool := newConn(1 << 20)
		fd := &feeder{c: c, pool: pool, scratch: make([]byte, 100)}
		for rest := in; len(rest) > 0; {
			n := fd.read(rest, int(cut)+1)
			rest = rest[n:]
			if fd.next(func() bool { return false }) != nil {
				break
			}
		}
		var back []byte
		for _, b := range fd.got {
			back = append(back, framed(b)...)
		}
		if !bytes.HasPrefix(in, back) {
			t.Errorf("%x became %x", in, back)
		}
		c.Close()
	})
}
