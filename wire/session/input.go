package session

import (
	"github.com/gregor-broker/gregor/wire/buffers"
	"github.com/gregor-broker/gregor/wire/frame"
)

const (
	// FirstStep is the most that a request may occupy, in bytes, before it is admitted.
	FirstStep = 64 << 10
	// askAt is how much of a larger request must be there before it is put to admission: any header fits (a client id has
	// 32 KiB at most).
	askAt = 40 << 10

	smallestBuffer = 1 << 10
	// growth bounds what a client can make us allocate: this many times what it has sent.
	growth = 16
	// readAhead is the number of missing bytes of a request below which the following ones are read with it.
	readAhead = 32 << 10
)

// Frame is a request, without its length prefix, or the beginning of one.
type Frame struct {
	Bytes []byte
	Size  int  // of the whole request
	Owned bool // Bytes is a buffer of the pool's that the receiver returns; otherwise it is valid until the next call of the session
	Part  bool // only the beginning has arrived: call Admitted when the rest may be read into memory
}

// input cuts a stream of bytes into requests. What is incomplete lies in buffers of its own that grow as bytes arrive; an
// idle connection has none.
type input struct {
	prefix   [frame.LengthSize]byte
	have     uint8  // bytes of prefix
	admitted bool   // the request that arrives may grow beyond FirstStep
	asked    bool   // it was put to admission
	want     int    // size of the request that arrives; 0: its prefix is incomplete
	trickle  int    // bytes of an admitted request since the last ones that counted as life
	buf      []byte // what has arrived of it, if it is not all in rest
	rest     []byte // bytes not looked at yet, in the caller's scratch or in stash
	stash    []byte // buffer behind rest when the connection was muted
}

// ReadBufs returns where the next bytes are to be read: into first, and what is more than fits into second (which may be
// nil: a large request is read right up to its end, and no further). first is nil while the connection is muted, or has requests to
// look at from before it was. scratch
// must hold FirstStep bytes or less, and may be shared by many connections.
func (c *Conn) ReadBufs(scratch []byte) (first, second []byte) {
	if c.muted != 0 || c.stalled {
		return nil, nil
	}
	own := c.in.own()
	switch {
	case own == nil:
		return scratch, nil
	case len(own) < readAhead && (c.in.want == 0 || len(c.in.buf)+len(own) == c.in.want):
		return own, scratch
	}
	return own, nil
}

// own returns the free part of the buffer in which a request or prefix is being assembled, if one is.
func (in *input) own() []byte {
	switch {
	case in.want > 0:
		return in.buf[len(in.buf):min(cap(in.buf), in.want)]
	case in.have > 0:
		return in.prefix[in.have:]
	}
	return nil
}

// Fed says that n bytes were read into what ReadBufs returned for scratch. It reports whether that counts as life: a request
// that holds a share of the memory budget must come in steps of FirstStep, so that nobody keeps the share by trickling.
func (c *Conn) Fed(n int, scratch []byte) (alive bool) {
	in := &c.in
	k := min(n, len(in.own()))
	alive = true
	if in.admitted {
		in.trickle += n
		if alive = in.trickle >= FirstStep || len(in.buf)+k == in.want; alive {
			in.trickle = 0
		}
	}
	if in.want > 0 {
		in.buf = in.buf[:len(in.buf)+k]
	} else {
		in.have += uint8(k)
	}
	if n > k {
		in.rest = scratch[:n-k]
	}
	return alive
}

// Next returns the next request, or the part of a large one that must be admitted; a Frame without Bytes when there is
// neither. The only errors are those of frame.CheckLength.
func (c *Conn) Next() (Frame, error) {
	in := &c.in
	if in.want == 0 {
		if ok, err := c.length(); !ok {
			return Frame{}, err
		}
		if in.want <= len(in.rest) {
			f := Frame{Bytes: in.rest[:in.want], Size: in.want}
			in.rest = in.rest[in.want:]
			in.next()
			return f, nil
		}
	}
	if arrived := len(in.buf) + len(in.rest); in.want > FirstStep && !in.admitted && arrived >= askAt {
		if in.asked {
			return Frame{}, nil
		}
		in.asked = true
		return Frame{Bytes: in.beginning(), Size: in.want, Part: true}, nil
	}
	if len(in.rest) > 0 || len(in.buf) > 0 {
		in.assemble(c.pool, in.room())
	}
	if len(in.buf) < in.want {
		return Frame{}, nil
	}
	f := Frame{Bytes: in.buf, Size: in.want, Owned: true}
	in.buf = nil
	in.next()
	return f, nil
}

// Arrived returns how many bytes of the request that arrives are there.
func (c *Conn) Arrived() int { return len(c.in.buf) + min(len(c.in.rest), c.in.want) }

// Admitted lets the request whose beginning Next returned grow to its size.
func (c *Conn) Admitted() { c.in.admitted = true }

// Stash copies what was not looked at out of the scratch buffer, which is then free for others. Call it when done with Next.
func (c *Conn) Stash() {
	in := &c.in
	if in.want > 0 && len(in.rest) > 0 {
		in.assemble(c.pool, max(in.room(), len(in.rest)))
	}
	if len(in.rest) == 0 {
		in.unstash(c.pool)
	} else if in.stash == nil {
		in.stash = c.pool.Get(len(in.rest))
		copy(in.stash, in.rest)
		in.rest = in.stash
	}
}

// length completes the prefix and takes the request's size from it.
func (c *Conn) length() (ok bool, err error) {
	in := &c.in
	if in.have == 0 && len(in.rest) >= frame.LengthSize {
		if in.want, err = frame.CheckLength(in.rest, c.limits.MaxRequestBytes); err != nil {
			return false, err
		}
		in.rest = in.rest[frame.LengthSize:]
		return true, nil
	}
	k := copy(in.prefix[in.have:], in.rest)
	in.have += uint8(k)
	in.rest = in.rest[k:]
	if in.have < frame.LengthSize {
		in.unstash(c.pool)
		return false, nil
	}
	in.want, err = frame.CheckLength(in.prefix[:], c.limits.MaxRequestBytes)
	return err == nil, err
}

// room is the capacity that the buffer of the arriving request may have, by what has arrived.
func (in *input) room() int {
	r := max(smallestBuffer, growth*(len(in.buf)+len(in.rest)))
	if in.want > FirstStep && !in.admitted {
		return min(r, FirstStep)
	}
	if in.want <= r+r/4 {
		return in.want
	}
	return r
}

// assemble moves bytes from rest into the request's own buffer, whose capacity it raises to room if it is full.
func (in *input) assemble(pool *buffers.Pool, room int) {
	if len(in.buf) == cap(in.buf) && cap(in.buf) < in.want {
		grown := pool.Get(max(min(room, in.want), len(in.buf)+1))[:len(in.buf)]
		copy(grown, in.buf)
		if in.buf != nil {
			pool.Put(in.buf)
		}
		in.buf = grown
	}
	k := min(len(in.rest), min(cap(in.buf), in.want)-len(in.buf))
	in.buf = append(in.buf, in.rest[:k]...)
	in.rest = in.rest[k:]
	if len(in.rest) == 0 {
		in.unstash(pool)
	}
}

// beginning returns what has arrived of a request, which is in buf or in rest: they both hold some of it only when buf has
// room for all.
func (in *input) beginning() []byte {
	if len(in.buf) == 0 {
		return in.rest
	}
	return in.buf
}

// next gets ready for the next request.
func (in *input) next() {
	in.want, in.have, in.admitted, in.asked, in.trickle = 0, 0, false, false, 0
}

// unstash gives back the buffer behind rest, which is empty.
func (in *input) unstash(pool *buffers.Pool) {
	if in.stash != nil {
		pool.Put(in.stash)
		in.stash, in.rest = nil, nil
	}
}

func (in *input) drop(pool *buffers.Pool) {
	in.rest = nil
	in.unstash(pool)
	if in.buf != nil {
		pool.Put(in.buf)
	}
	in.buf = nil
}
