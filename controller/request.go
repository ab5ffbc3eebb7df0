package controller

import (
	"errors"
	"slices"
	"time"

	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"
)

var (
	errNotController = errcode.New(kerr.NotController, "This is not the correct controller for this cluster.")
	errTimedOut      = errcode.New(kerr.RequestTimedOut, "")
)

// request is an administrative request about several topics: it is answered when each has a result or when its time is over.
type request struct {
	set   func(i int, code int16, message *string) // stores the result of topic i
	reply func(m *Machine)                         // called once, with all results there
	now   bool                                     // timeout 0: what was begun is answered as timed out

	open  []bool // topics without a result
	left  int
	timer uint64
}

// newRequest begins a request about n topics. Results may come at once; begin must be called after those.
func (m *Machine) newRequest(n int, timeoutMs int32, set func(int, int16, *string), reply func(*Machine)) *request {
	q := &request{set: set, reply: reply, now: timeoutMs <= 0, open: make([]bool, n), left: n}
	for i := range q.open {
		q.open[i] = true
	}
	return q
}

// begin waits for the results that are missing.
func (q *request) begin(m *Machine, timeoutMs int32) {
	if q.left == 0 {
		q.reply(m)
		return
	}
	m.reign.waiting = append(m.reign.waiting, q)
	if !q.now {
		q.timer = m.after(inReign, time.Duration(timeoutMs)*time.Millisecond, func() { q.all(m, errTimedOut) })
	}
}

// result sets the result of a topic, once, and answers when it was the last one.
func (q *request) result(m *Machine, i int, err error) {
	if !q.open[i] {
		return
	}
	q.open[i] = false
	q.left--
	code, message := errcode.Of(err), errcode.Message(err)
	if errors.Is(err, kerr.RequestTimedOut) {
		message = nil // as Kafka
	}
	if code == kerr.UnknownServerError.Code {
		m.log.Error("an administrative request failed", zap.Error(err))
	}
	q.set(i, code, message)
	if q.left == 0 && m.reign != nil {
		if i := slices.Index(m.reign.waiting, q); i >= 0 {
			m.reign.waiting = slices.Delete(m.reign.waiting, i, i+1)
			m.cancel(q.timer)
			q.reply(m)
		}
	}
}

// begun says that the change for a topic is committed: without a timeout that is all that will be waited for.
func (q *request) begun(m *Machine, i int) bool {
	if q.now {
		q.result(m, i, errTimedOut)
	}
	return !q.now
}

// all gives every open topic the same result.
func (q *request) all(m *Machine, err error) {
	for i := range q.open {
		q.result(m, i, err)
	}
}

// abandon answers at the end of the reign.
func (q *request) abandon(m *Machine) {
	for i, open := range q.open {
		if open {
			q.open[i] = false
			q.left--
			q.set(i, errNotController.Code(), errcode.Message(errNotController))
		}
	}
	m.cancel(q.timer)
	q.reply(m)
}

// awaiting is somebody who waits until partitions from ≤ p < to of a topic have leaders that serve.
type awaiting struct {
	from, to int32
	done     func()
}

// await calls done when the partitions are served, or the topic is deleted: it was there, and will not be served any more.
func (m *Machine) await(t *topic, from, to int32, done func()) {
	t.awaits = append(t.awaits, &awaiting{from, to, done})
	m.checkAwaits(t)
}

func (m *Machine) checkAwaits(t *topic) {
	var due []*awaiting
	t.awaits = slices.DeleteFunc(t.awaits, func(a *awaiting) bool {
		ok := t.deletion != nil || m.servedAll(t, a.from, a.to)
		if ok {
			due = append(due, a)
		}
		return ok
	})
	for _, a := range due {
		a.done()
	}
}

func (m *Machine) servedAll(t *topic, from, to int32) bool {
	for p := from; p < to; p++ {
		if part := &t.parts[p]; !part.served || part.leader < 0 || !m.reign.serves(part.leader, ref{t, p}) {
			return false
		}
	}
	return true
}
