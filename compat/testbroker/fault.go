package testbroker

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/gregor-broker/gregor/broker/api"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Fault is what goes wrong with some requests. Of Error, Drop, Delay and Answer any may be set; with none of them requests are only
// counted.
type Fault struct {
	Key        kmsg.Key                // of the requests; with the zero value, Produce
	Topic      string                  // "": all
	Partitions []int32                 // of Topic; nil: all
	When       func(kmsg.Request) bool // looks at a request, changes nothing, and says whether it is hit; nil: all
	Times      int                     // so many requests; 0: until Remove

	// Error is answered for the topic's partitions, which are not served: nothing is stored or committed. Others in the
	// request are; of a Fetch they are left out, as if they had nothing new.
	Error *kerr.Error
	// Drop closes the connection; nothing is served.
	Drop bool
	// Delay keeps the answer back, at most until Remove. What was asked is done before.
	Delay time.Duration
	// Answer answers instead of the broker, which does not serve the request, unless it returns nil.
	Answer func(kmsg.Request) kmsg.Response
}

// Injected is a fault at work.
type Injected struct {
	fault Fault
	owner *faults

	// Guarded by owner.mu.
	struck  int
	again   chan struct{} // closed and made anew when it strikes
	removed bool
}

// Inject has requests fail from now on. Of several faults that fit a request the one that was injected first strikes.
func (b *Broker) Inject(f Fault) *Injected {
	i := &Injected{fault: f, owner: b.faults, again: make(chan struct{})}
	b.faults.mu.Lock()
	defer b.faults.mu.Unlock()
	b.faults.active = append(b.faults.active, i)
	return i
}

// Struck is how many requests it has hit.
func (i *Injected) Struck() int {
	i.owner.mu.Lock()
	defer i.owner.mu.Unlock()
	return i.struck
}

// Wait returns when it has hit n requests, or with the error of the context that ended before.
func (i *Injected) Wait(ctx context.Context, n int) error {
	for {
		i.owner.mu.Lock()
		struck, again := i.struck, i.again
		i.owner.mu.Unlock()
		if struck >= n {
			return nil
		}
		select {
		case <-again:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Remove ends it, and lets the answers go that it keeps back.
func (i *Injected) Remove() {
	i.owner.mu.Lock()
	i.removed = true
	i.owner.remove(i)
	kept := i.owner.take(func(a keptBack) bool { return a.by == i })
	i.owner.mu.Unlock()
	release(kept)
}

// faults are those of a broker.
type faults struct {
	name    func(id [16]byte) string // of a topic
	mu      sync.Mutex
	active  []*Injected // in order of injection
	delayed map[*time.Timer]keptBack
	closed  bool // the broker is down
}

// keptBack is an answer that waits for its time.
type keptBack struct {
	by   *Injected
	send func()
}

func newFaults(name func([16]byte) string) *faults {
	return &faults{name: name, delayed: map[*time.Timer]keptBack{}}
}

func (s *faults) remove(i *Injected) {
	s.active = slices.DeleteFunc(s.active, func(a *Injected) bool { return a == i })
}

// strike returns the fault that hits a request, nil if none does.
func (s *faults) strike(r kmsg.Request) *Injected {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.active {
		if i.fault.Key.Int16() != r.Key() || !s.hits(r, &i.fault) {
			continue
		}
		if i.struck++; i.struck == i.fault.Times {
			s.remove(i)
		}
		close(i.again)
		i.again = make(chan struct{})
		return i
	}
	return nil
}

func (s *faults) hits(r kmsg.Request, f *Fault) bool {
	if f.When != nil && !f.When(r) {
		return false
	}
	if m, ok := r.(*kmsg.MetadataRequest); ok && m.Topics == nil {
		return true // it asks for all
	}
	return selection{fault: f, name: s.name}.hits(body(r))
}

// intercept is api.Services.Intercept.
func (s *faults) intercept(c *api.Call, r kmsg.Request, serve func()) {
	if s.mustNameTopics(r) {
		answer := kmsg.NewPtrFetchResponse()
		answer.ErrorCode = kerr.FetchSessionIDNotFound.Code
		c.Reply(answer)
		return
	}
	hit := s.strike(r)
	if hit == nil {
		serve()
		return
	}
	f := &hit.fault
	if f.Drop {
		c.Close("a fault was injected")
		return
	}
	if f.Delay > 0 {
		c.Deliver = func(send func()) { s.later(hit, send) }
	}
	if f.Answer != nil {
		if answer := f.Answer(r); answer != nil {
			c.Reply(answer)
			return
		}
	}
	if f.Error == nil {
		serve()
		return
	}
	s.refuse(c, r, f, serve)
}

// mustNameTopics says whether a Fetch goes on with a session, whose topics it does not name, while a fault looks for one. As if
// the session had been forgotten, which happens in any broker, the client then names them.
func (s *faults) mustNameTopics(r kmsg.Request) bool {
	f, ok := r.(*kmsg.FetchRequest)
	if !ok || f.SessionEpoch <= 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.active, func(i *Injected) bool { return i.fault.Key == kmsg.Fetch && i.fault.Topic != "" })
}

// refuse answers what the fault hits with its error, and has the rest served.
func (s *faults) refuse(c *api.Call, r kmsg.Request, f *Fault, serve func()) {
	hit := selection{fault: f, name: s.name}
	refused := r.ResponseKind()
	switch r := r.(type) {
	case *kmsg.MetadataRequest:
		c.Amend = func(answer kmsg.Response) { refuseTopics(answer.(*kmsg.MetadataResponse), f) }
		serve()
		return
	case *kmsg.ProduceRequest:
		if r.Acks == 0 {
			c.NoReply()
			return
		}
	case *kmsg.FetchRequest:
		hit.mirror(body(r), body(refused))
		c.Reply(refused)
		return
	}
	hit.mirror(body(r), body(refused))
	if f.Topic == "" || !hit.withhold(body(r)) {
		c.Reply(refused)
		return
	}
	c.Amend = func(answer kmsg.Response) { merge(body(answer), body(refused)) }
	serve()
}

// refuseTopics puts the error of a fault on topics of an answer; the brokers in it are as they are.
func refuseTopics(answer *kmsg.MetadataResponse, f *Fault) {
	for i := range answer.Topics {
		if t := &answer.Topics[i]; f.Topic == "" || t.Topic != nil && *t.Topic == f.Topic {
			t.ErrorCode, t.Partitions = f.Error.Code, nil
		}
	}
}

// later sends an answer after a while, or when the fault is removed or the broker stops.
func (s *faults) later(by *Injected, send func()) {
	s.mu.Lock()
	if s.closed || by.removed {
		s.mu.Unlock()
		send()
		return
	}
	defer s.mu.Unlock()
	var timer *time.Timer
	timer = time.AfterFunc(by.fault.Delay, func() {
		s.mu.Lock()
		_, waits := s.delayed[timer]
		delete(s.delayed, timer)
		s.mu.Unlock()
		if waits {
			send()
		}
	})
	s.delayed[timer] = keptBack{by: by, send: send}
}

// take returns the answers that are kept back and wanted, and keeps them no longer. It needs mu.
func (s *faults) take(wanted func(keptBack) bool) (kept []keptBack) {
	for timer, a := range s.delayed {
		if wanted(a) {
			timer.Stop()
			delete(s.delayed, timer)
			kept = append(kept, a)
		}
	}
	return kept
}

func release(kept []keptBack) {
	for _, a := range kept {
		a.send()
	}
}

// open is for a broker that starts, close for one that stops, which lets every answer go.
func (s *faults) open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = false
}

func (s *faults) close() {
	s.mu.Lock()
	s.closed = true
	kept := s.take(func(keptBack) bool { return true })
	s.mu.Unlock()
	release(kept)
}
