package broker

import (
	"errors"
	"time"
)

var (
	errSimReset   = errors.New("connection reset")
	errSimTimeout = errors.New("no answer in time")
)

// simPipe carries messages in one direction, in order. While the link is cut they wait, as TCP has them wait.
type simPipe struct {
	w     *simWorld
	link  simLink
	queue []func()
	going bool
}

func (p *simPipe) send(deliver func()) {
	p.queue = append(p.queue, deliver)
	if !p.going {
		p.going = true
		p.w.at(p.w.mostlyShort(40*time.Millisecond), "message", p.pump)
	}
}

func (p *simPipe) pump() {
	if p.w.cut[p.link] > 0 {
		p.w.at(p.w.between(50*time.Millisecond, 250*time.Millisecond), "message is held up", p.pump)
		return
	}
	deliver := p.queue[0]
	p.queue = p.queue[1:]
	if p.going = len(p.queue) > 0; p.going {
		p.w.at(p.w.mostlyShort(2*time.Millisecond), "message", p.pump)
	}
	deliver()
}

// simConn is a connection from one process to another: messages of one connection stay in order, those of two do not.
type simConn struct {
	number      uint64 // grows from one connection to the next
	from, to    *simProc
	there, back simPipe
	broken      bool // given up by the sender
	late        bool // what was under way then arrives all the same
}

// simPeer is how a process reaches a broker, whichever process that is by then.
type simPeer struct {
	proc *simProc
	id   int32
	conn *simConn
}

func (p *simPeer) connection() *simConn {
	to := p.proc.w.brokers[p.id-1].proc
	if c := p.conn; c != nil && !c.broken && c.to == to {
		return c
	}
	w := p.proc.w
	w.conns++
	p.conn = &simConn{
		number: w.conns, from: p.proc, to: to,
		there: simPipe{w: w, link: simLink{p.proc.id, p.id}}, back: simPipe{w: w, link: simLink{p.id, p.proc.id}},
	}
	return p.conn
}

// call sends a request: serve is called at the receiver, done once at the sender with what serve replied, or an error, after
// which nobody knows whether it was served, or will be yet. The result gives the call up.
func (p *simPeer) call(limit time.Duration, serve func(to *simProc, reply func(any)), done func(any, error)) (giveUp func()) {
	c, over := p.connection(), false
	finish := func(answer any, err error) {
		if over {
			return
		}
		over = true
		if err != nil && !c.broken {
			c.broken, c.late = true, c.from.w.rand.IntN(2) == 0
		}
		done(answer, err)
	}
	c.from.after(limit, "request is given up", func() { finish(nil, errSimTimeout) })
	reset := func() { c.back.send(func() { c.from.run(func() { finish(nil, errSimReset) }) }) }
	c.there.send(func() {
		switch {
		case c.broken && !c.late:
		case c.to.dead || !c.to.open:
			reset()
		default:
			c.to.run(func() {
				serve(c.to, func(answer any) { c.back.send(func() { c.from.run(func() { finish(answer, nil) }) }) })
			})
		}
	})
	return func() {
		if !over {
			over = true
			c.broken, c.late = true, c.from.w.rand.IntN(2) == 0
		}
	}
}
