package wire

import (
	"errors"
	"time"

	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/gregor-broker/gregor/wire/session"
)

var errTooFast = errors.New("the address makes more connections than its quota allows")

// pause is when a connection may be read again, whose client took more than its quota. Owned by the connection's owner.
type pause struct {
	until time.Duration // monotonic
	timer clock.Timer   // nil: there was none yet
}

func (p *pause) stop() {
	if p.timer != nil {
		p.timer.Stop()
	}
}

// done takes a reply, and begins the pause after it.
func (c *Conn) done(x *session.Exchange) {
	if d := x.Pause(); d > 0 {
		c.stopReading(d)
	}
	c.session.Done(x)
}

func (c *Conn) stopReading(d time.Duration) {
	c.session.Mute(session.Throttled)
	until := c.server.cfg.Clock.Monotonic() + d
	if c.pause.timer != nil && until <= c.pause.until {
		return
	}
	c.pause.until = until
	c.pause.stop()
	c.pause.timer = c.server.cfg.Clock.AfterFunc(d, func() { c.port.Post(session.Message{Kind: session.PauseOver}) })
}

// pauseOver goes on, unless another pause has begun meanwhile.
func (c *Conn) pauseOver() {
	if c.server.cfg.Clock.Monotonic() >= c.pause.until {
		c.session.Unmute(session.Throttled)
	}
}

// pace keeps a connection waiting that came too soon after others, and so the ones after it. For accepting goroutines.
func (s *Server) pace(listener string) {
	if s.cfg.Pace == nil {
		return
	}
	d := s.cfg.Pace(listener)
	if d <= 0 {
		return
	}
	due, timer := s.cfg.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-due:
	case <-s.quota.stopping:
	}
}

// hold has a new connection do nothing for d, and then closes it (KIP-612). Called before an engine owns it.
func (c *Conn) hold(d time.Duration) {
	if d > 0 {
		c.pause.until = d // until the engine says that it has begun
		c.session.Mute(session.Throttled)
	}
}

// held begins to count the time that hold was called with.
func (c *Conn) held() {
	c.pause.timer = c.server.cfg.Clock.AfterFunc(c.pause.until, func() { c.port.Post(session.Message{Kind: session.TooFast}) })
}
