package txn

import (
	"regexp"
	"slices"
	"sync"

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
	for _, t := range e.value.Topics {
		for _, p := range t.Partitions {
			at := partition{t.Topic, p}
			if _, missing := e.unmarked[at]; e.unmarked == nil || missing {
				list = append(list, at)
			}
		}
	}
	return list
}

// listing gathers the answer to one ListTransactions request.
type listing struct {
	states    []string
	producers []int64
	longerMs  int64 // -1 any
	pattern   *regexp.Regexp
	mu        struct {
		sync.Mutex
		found []kmsg.ListTransactionsResponseTransactionState
		err   error
	}
}

// list is the part of a ListTransactions request that one partition answers.
type list struct {
	whole *listing
	done  func()
	found []kmsg.ListTransactionsResponseTransactionState
}

// List lists the transactional ids of all partitions that this broker leads. v1 duration (KIP-994) · v2 pattern (KIP-1152).
// If one of the partitions is loading, neither does the whole. Errors: INVALID_REGULAR_EXPRESSION, COORDINATOR_LOAD_IN_PROGRESS.
// After TransactionStateManager.listTransactionStates.
func (c *Coordinator) List(r *kmsg.ListTransactionsRequest, reply func(kmsg.Response)) {
	resp := kmsg.NewPtrListTransactionsResponse()
	resp.Version = r.Version
	whole := &listing{producers: r.ProducerIDFilters, longerMs: r.DurationFilterMillis}
	if pattern := r.TransactionalIDPattern; pattern != nil && *pattern != "" {
		compiled, err := regexp.Compile(`\A(?:` + *pattern + `)\z`)
		if err != nil {
			resp.ErrorCode = kerr.InvalidRegularExpression.Code
			reply(resp)
			return
		}
		whole.pattern = compiled
	}
	for _, s := range r.StateFilters {
		if slices.Contains(schema.TxnStatuses, s) {
			whole.states = append(whole.states, s)
		} else {
			resp.UnknownStateFilters = append(resp.UnknownStateFilters, s)
		}
	}
	if len(r.StateFilters) > 0 && len(whole.states) == 0 {
		reply(resp) // nothing is in a state that does not exist
		return
	}
	partitions := c.runtime.Partitions()
	all := runtime.NewGather(len(partitions), func() {
		if whole.mu.err != nil {
			resp.ErrorCode = errcode.Of(whole.mu.err)
		} else {
			resp.TransactionStates = whole.mu.found
		}
		reply(resp)
	})
	for _, p := range partitions {
		c.runtime.Submit(p, &list{whole: whole, done: all.Done})
	}
}

// wants says whether an entry passes the filters.
func (l *listing) wants(e *entry, nowMs int64) bool {
	v := e.value
	switch {
	case len(l.producers) > 0 && !slices.Contains(l.producers, v.ProducerID):
	case len(l.states) > 0 && !slices.Contains(l.states, v.Status.String()):
	case l.longerMs >= 0 && (v.StartMs < 0 || nowMs-v.StartMs <= l.longerMs):
	case l.pattern != nil && !l.pattern.MatchString(e.id):
	default:
		return true
	}
	return false
}

// Refuse implements runtime.Event. A partition that has just moved away is not ours to list.
func (ev *list) Refuse(err error) {
	if errcode.Of(err) != kerr.NotCoordinator.Code {
		ev.whole.mu.Lock()
		ev.whole.mu.err = err
		ev.whole.mu.Unlock()
	}
	ev.done()
}

func (m *machine) list(ev *list, out *runtime.Out) {
	nowMs := out.Now.WallMs()
	for _, e := range m.entries {
		if ev.whole.wants(e, nowMs) {
			s := kmsg.NewListTransactionsResponseTransactionState()
			s.TransactionalID, s.ProducerID, s.TransactionState = e.id, e.value.ProducerID, e.value.Status.String()
			ev.found = append(ev.found, s)
		}
	}
	out.Then(func(err error, _ *runtime.Out) {
		if err != nil {
			ev.Refuse(err)
			return
		}
		ev.whole.mu.Lock()
		ev.whole.mu.found = append(ev.whole.mu.found, ev.found...)
		ev.whole.mu.Unlock()
		ev.done()
	})
}
