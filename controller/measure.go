package controller

import "time"

// Measure is told what takes time. Its functions must be quick, and are called on any goroutine; nil: nobody wants to know.
type Measure struct {
	EventWaited func(d time.Duration)               // an event, until it is taken from the queue
	TurnTook    func(d time.Duration)               // what was taken from the queue at once, until it is carried out
	OrderWaited func(broker int32, d time.Duration) // an order, until it is its turn with its broker
	Elected     func(d time.Duration)               // leaders that were decided on together, until all that was decided is written
}

func (m *Measure) fill() {
	none := func(time.Duration) {}
	if m.EventWaited == nil {
		m.EventWaited = none
	}
	if m.TurnTook == nil {
		m.TurnTook = none
	}
	if m.OrderWaited == nil {
		m.OrderWaited = func(int32, time.Duration) {}
	}
	if m.Elected == nil {
		m.Elected = none
	}
}

// QueuedEvents is how many events wait for the controller of this broker.
func (c *Controller) QueuedEvents() int { return c.driver.queued() }

// QueuedOrders calls f for each broker that this one gives orders to, with how many wait for their turn.
func (c *Controller) QueuedOrders(f func(broker int32, n int)) {
	c.driver.obeying.Range(func(id, p any) bool {
		f(id.(int32), p.(*peer).queued())
		return true
	})
}

// queued is how many events are in the mailbox.
func (d *driver) queued() int {
	d.mail.Lock()
	defer d.mail.Unlock()
	return len(d.mail.events)
}

// queued is how many orders wait.
func (p *peer) queued() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.mu.queue)
}
