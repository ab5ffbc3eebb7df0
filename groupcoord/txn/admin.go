package txn

import (
	"regexp"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/groupcoord/runtime"
	"github.com/gregor-broker/gregor/groupcoord/schema"
	"github.com/gregor-broker/gregor/wire/errcode"
)

// describe is the part of a DescribeTransactions request about one transactional id.
type describe struct {
	answer *kmsg.DescribeTransactionsResponseTransactionState
	done   func()
}

// Describe tells the state of transactional ids.
// Errors, for each: INVALID_REQUEST, TRANSACTIONAL_ID_NOT_FOUND. After TransactionCoordinator.handleDescribeTransactions.
func (c *Coordinator) Describe(r *kmsg.DescribeTransactionsRequest, reply func(kmsg.Response)) {
	resp := kmsg.NewPtrDescribeTransactionsResponse()
	resp.Version = r.Version
	resp.TransactionStates = make([]kmsg.DescribeTransactionsResponseTransactionState, len(r.TransactionalIDs))
	all := runtime.NewGather(len(r.TransactionalIDs), func() { reply(resp) })
	for i, id := range r.TransactionalIDs {
		a := &resp.TransactionStates[i]
		a.Default()
		a.TransactionalID = id
		ev := &describe{a, all.Done}
		if id == "" {
			ev.Refuse(errTransactionalID)
			continue
		}
		c.submit(id, ev)
	}
}

// Refuse implements runtime.Event.
func (ev *describe) Refuse(err error) {
	id := ev.answer.TransactionalID
	ev.answer.Default()
	ev.answer.TransactionalID, ev.answer.ErrorCode = id, errcode.Of(err)
	ev.done()
}

func (m *machine) describe(ev *describe, out *runtime.Out) {
	e := m.entries[ev.answer.TransactionalID]
	if e == nil {
		m.refuse(out, ev, errNotFound)
		return
	}
	a, v := ev.answer, e.value
	a.State, a.TimeoutMillis, a.StartTimestamp = v.Status.String(), v.TimeoutMs, v.StartMs
	a.ProducerID, a.ProducerEpoch = v.ProducerID, v.ProducerEpoch
	topics := map[string]int{}
	for _, p := range e.open() {
		at, ok := topics[p.topic]
		if !ok {
			at = len(a.Topics)
			topics[p.topic] = at
			t := kmsg.NewDescribeTransactionsResponseTransactionStateTopic()
			t.Topic = p.topic
			a.Topics = append(a.Topics, t)
		}
		a.Topics[at].Partitions = append(a.Topics[at].Partitions, p.index)
	}
	out.Then(func(err error, _ *runtime.Out) {
		if err != nil {
			ev.Refuse(err)
			return
		}
		ev.done()
	})
}

// open returns the partitions whose transaction is not over: those that have their marker are left out.
func (e *entry) open() (list []partition) {
	if g := e.ending; g != nil {
		for at, p := range g.partitions {
			if !g.written[at] {
				list = append(list, p)
			}
		}
		return list
	}
	for _, t := range e.value.Topics {
		for _, p := range t.Partitions {
			list = append(list, partition{t.Topic, p})
		}
	}
	return list
}

// wanted are the filters of a ListTransactions request.
type wanted struct {
	states    []string
	producers []int64
	longerMs  int64          // -1 any
	pattern   *regexp.Regexp // nil any
}

// list is the part of a ListTransactions request that one partition answers.
type list struct {
	runtime.Part[kmsg.ListTransactionsResponseTransactionState]
	wanted *wanted
}

// List lists the transactional ids of all partitions that this broker leads. v1 duration (KIP-994) · v2 pattern (KIP-1152).
// If one of the partitions is loading, neither does the whole. Errors: INVALID_REGULAR_EXPRESSION, COORDINATOR_LOAD_IN_PROGRESS.
// After TransactionStateManager.listTransactionStates.
func (c *Coordinator) List(r *kmsg.ListTransactionsRequest, reply func(kmsg.Response)) {
	resp := kmsg.NewPtrListTransactionsResponse()
	resp.Version = r.Version
	w := &wanted{producers: r.ProducerIDFilters, longerMs: r.DurationFilterMillis}
	if pattern := r.TransactionalIDPattern; pattern != nil && *pattern != "" {
		compiled, err := regexp.Compile(`\A(?:` + *pattern + `)\z`)
		if err != nil {
			resp.ErrorCode = kerr.InvalidRegularExpression.Code
			reply(resp)
			return
		}
		w.pattern = compiled
	}
	for _, s := range r.StateFilters {
		if slices.Contains(schema.TxnStatuses, s) {
			w.states = append(w.states, s)
		} else {
			resp.UnknownStateFilters = append(resp.UnknownStateFilters, s)
		}
	}
	if len(r.StateFilters) > 0 && len(w.states) == 0 {
		reply(resp) // nothing is in a state that does not exist
		return
	}
	ask := func(p runtime.Part[kmsg.ListTransactionsResponseTransactionState]) runtime.Event { return &list{p, w} }
	runtime.List(c.runtime, ask, func(found []kmsg.ListTransactionsResponseTransactionState, err error) {
		resp.TransactionStates, resp.ErrorCode = found, errcode.Of(err)
		reply(resp)
	})
}

// has says whether an entry passes the filters.
func (w *wanted) has(e *entry, nowMs int64) bool {
	v := e.value
	switch {
	case len(w.producers) > 0 && !slices.Contains(w.producers, v.ProducerID):
	case len(w.states) > 0 && !slices.Contains(w.states, v.Status.String()):
	case w.longerMs >= 0 && (v.StartMs < 0 || nowMs-v.StartMs <= w.longerMs):
	case w.pattern != nil && !w.pattern.MatchString(e.id):
	default:
		return true
	}
	return false
}

func (m *machine) list(ev *list, out *runtime.Out) {
	nowMs := out.Now.WallMs()
	var found []kmsg.ListTransactionsResponseTransactionState
	for _, e := range m.entries {
		if ev.wanted.has(e, nowMs) {
			s := kmsg.NewListTransactionsResponseTransactionState()
			s.TransactionalID, s.ProducerID, s.TransactionState = e.id, e.value.ProducerID, e.value.Status.String()
			found = append(found, s)
		}
	}
	ev.Answer(out, found)
}
