package session

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gregor-broker/gregor/wire/payload"
)

type fakeFile struct {
	data []byte
	refs int
}

func (f *fakeFile) FD() int { return -1 }
func (f *fakeFile) ReadAt(p []byte, pos int64) (int, error) {
	return copy(p, f.data[pos:]), nil
}
func (f *fakeFile) Retain()  { f.refs++ }
func (f *fakeFile) Release() { f.refs-- }

// drain sends up to n bytes of what may go out.
func drain(c *Conn, n int, vecs int) (out []byte) {
	for n > 0 && c.HasOutput() {
		room := n % 1500
		vec, file := c.Gather(nil, vecs, func(p *payload.Part) []byte {
			if room -= p.Len; room < 0 {
				return nil
			}
			return p.File.(*fakeFile).data[p.Pos : p.Pos+int64(p.Len)]
		})
		var piece []byte
		for _, v := range vec {
			piece = append(piece, v...)
		}
		if file != nil && len(vec) == 0 {
			f := file.File.(*fakeFile)
			piece = f.data[file.Pos : file.Pos+int64(file.Len)]
		}
		piece = bytes.Clone(piece[:min(n, len(piece))])
		n -= len(piece)
		out = append(out, piece...)
		c.Sent(len(piece))
	}
	return out
}

// told counts what is sent.
type told int

func (n *told) Sent() { *n++ }

// TestSent: who wants to know is told when all of a reply is out, and not of what never is.
func TestSent(t *testing.T) {
	c, _ := newConn(1000)
	var n told
	var xs [4]Exchange
	for i := range xs {
		c.Begin(&xs[i])
		xs[i].SetSent(&n)
	}
	for i := range 3 {
		xs[i].SetReply([]payload.Part{{Bytes: []byte("abc")}})
		c.Done(&xs[i])
		if drain(c, 6, 8); n != told(i) {
			t.Errorf("%d replies are out, and of reply %d all but one byte", n, i)
		}
		if drain(c, 1, 8); n != told(i+1) {
			t.Errorf("%d replies are out after reply %d", n, i)
		}
	}
	c.Done(&xs[3]) // without reply
	if n != 4 {
		t.Errorf("%d replies are out", n)
	}
	c.Begin(&xs[0])
	xs[0].SetReply([]payload.Part{{Bytes: []byte("abc")}})
	c.Done(&xs[0])
	c.Close()
	if n != 4 {
		t.Error("a reply that was never sent is told of")
	}
}

// TestRepliesLeaveInRequestOrder completes requests in random order, some without reply, and sends in random pieces.
func TestRepliesLeaveInRequestOrder(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 2))
		c, pool := newConn(1000)
		file := &fakeFile{data: make([]byte, 5000)}
		for i := range file.data {
			file.data[i] = byte(r.Uint32())
		}
		n := 1 + r.IntN(20)
		xs := make([]*Exchange, n)
		var want, got []byte
		begun := 0
		var open []int
		for i := range xs {
			xs[i] = &Exchange{}
		}
		replies := make([][]byte, n)
		for len(open) > 0 || begun < n {
			switch {
			case begun < n && !c.Muted() && (len(open) == 0 || r.IntN(2) == 0):
				c.Begin(xs[begun])
				open = append(open, begun)
				begun++
			case len(open) > 0:
				k := r.IntN(len(open))
				i := open[k]
				open = append(open[:k], open[k+1:]...)
				if r.IntN(5) > 0 {
					var parts []payload.Part
					for range r.IntN(5) {
						if r.IntN(2) == 0 {
							file.Retain()
							pos := r.IntN(4000)
							p := payload.Part{File: file, Pos: int64(pos), Len: r.IntN(1000)}
							parts = append(parts, p)
							replies[i] = append(replies[i], file.data[pos:pos+p.Len]...)
						} else {
							b := fmt.Append(nil, seed, i, "xxxxxxxxxxxxx"[:r.IntN(13)])
							parts = append(parts, payload.Part{Bytes: b})
							replies[i] = append(replies[i], b...)
						}
					}
					xs[i].SetReply(parts)
					xs[i].SetBuffer(pool.Get(100))
					replies[i] = append(binary.BigEndian.AppendUint32(nil, uint32(len(replies[i]))), replies[i]...)
				}
				c.Done(xs[i])
			}
			got = append(got, drain(c, r.IntN(2000), 1+r.IntN(5))...)
			if c.out.inFlight >= 8 && c.MutedFor()&InFlight == 0 || c.out.inFlight < 8 && c.MutedFor()&InFlight != 0 {
				t.Fatalf("seed %d: %d in flight, muted for %b", seed, c.out.inFlight, c.MutedFor())
			}
		}
		got = append(got, drain(c, 1<<30, 64)...)
		for _, b := range replies {
			want = append(want, b...)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("seed %d: sent %d bytes, want %d", seed, len(got), len(want))
		}
		if file.refs != 0 {
			t.Fatalf("seed %d: %d references to the file remain", seed, file.refs)
		}
		if c.out.first != nil || c.out.last != nil || c.out.unsent != 0 || c.muted != 0 || c.out.inFlight != 0 {
			t.Fatalf("seed %d: not clean: %+v, muted for %b", seed, c.out, c.muted)
		}
	}
}

func TestCloseReleasesReplies(t *testing.T) {
	c, _ := newConn(1000)
	file := &fakeFile{data: make([]byte, 100)}
	var a, b, late Exchange
	for _, x := range []*Exchange{&a, &b, &late} {
		c.Begin(x)
	}
	reply := func(x *Exchange) {
		file.Retain()
		x.SetReply([]payload.Part{{Bytes: []byte("abc")}, {File: file, Len: 50}, {Bytes: []byte("abc")}})
		c.Done(x)
	}
	reply(&a)
	reply(&b)
	c.Sent(20) // into a's file part
	c.Close()
	if file.refs != 0 {
		t.Errorf("%d references after Close", file.refs)
	}
	reply(&late)
	if file.refs != 0 {
		t.Errorf("%d references after a late reply", file.refs)
	}
	c.Close()
}

func TestLastClosesInItsPlace(t *testing.T) {
	c, _ := newConn(1000)
	var a, b, after Exchange
	for _, x := range []*Exchange{&a, &b, &after} {
		c.Begin(x)
	}
	b.SetLast()
	c.Done(&b)
	after.SetReply([]payload.Part{{Bytes: []byte("never")}})
	c.Done(&after)
	if c.Finished() || c.HasOutput() || !c.Muted() {
		t.Fatal("closes before the earlier reply")
	}
	a.SetReply([]payload.Part{{Bytes: []byte("abc")}})
	c.Done(&a)
	if c.Finished() {
		t.Fatal("closes before the earlier reply is out")
	}
	if out := drain(c, 1000, 64); string(out) != "\x00\x00\x00\x03abc" {
		t.Errorf("sent %q", out)
	}
	if !c.Finished() {
		t.Error("does not close")
	}
}

func TestUnsentBytesMute(t *testing.T) {
	c, _ := newConn(1000)
	var a, b Exchange
	c.Begin(&a)
	c.Begin(&b)
	file := &fakeFile{data: make([]byte, 1<<20)}
	file.Retain()
	a.SetReply([]payload.Part{{File: file, Len: 1 << 20}})
	c.Done(&a)
	if c.Muted() {
		t.Error("file ranges count")
	}
	b.SetReply([]payload.Part{{Bytes: make([]byte, 1001)}})
	c.Done(&b)
	if c.MutedFor() != Output {
		t.Error("unsent bytes do not mute")
	}
	drain(c, 1<<30, 64)
	if c.Muted() {
		t.Error("stays muted")
	}
}

func TestDrainFinishesWhenAnswered(t *testing.T) {
	c, _ := newConn(1000)
	var a Exchange
	c.Begin(&a)
	c.Mute(Draining)
	if c.Finished() {
		t.Error("finished with a request in work")
	}
	c.Done(&a)
	if !c.Finished() {
		t.Error("not finished")
	}
}
