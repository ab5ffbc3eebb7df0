package txn

import (
	"errors"
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/groupcoord/runtime"
	"github.com/gregor-broker/gregor/groupcoord/schema"
	"github.com/gregor-broker/gregor/wire/errcode"
)

// endTxn is an EndTxn on its way.
type endTxn struct {
	request *kmsg.EndTxnRequest
	id      string
	newID   int64 // a producer id that was asked for, -1 none
	reply   func(kmsg.Response)
}

// EndTxn commits or aborts a transaction. It is answered when the decision is replicated; the markers follow.
// v2 PRODUCER_FENCED · v5 the second protocol: the producer goes on with another epoch, or another id.
// Errors: INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED (before v2 INVALID_PRODUCER_EPOCH),
// CONCURRENT_TRANSACTIONS, INVALID_TXN_STATE. After TransactionCoordinator.handleEndTransaction.
func (c *Coordinator) EndTxn(r *kmsg.EndTxnRequest, reply func(kmsg.Response)) {
	ev := &endTxn{request: r, id: r.TransactionalID, newID: -1, reply: reply}
	if r.TransactionalID == "" {
		ev.Refuse(errTransactionalID)
		return
	}
	c.submit(ev.id, ev)
}

func (ev *endTxn) second() bool { return ev.request.Version >= 5 }

// Refuse implements runtime.Event.
func (ev *endTxn) Refuse(err error) { ev.answer(-1, -1, err) }

func (ev *endTxn) answer(id int64, epoch int16, err error) {
	resp := kmsg.NewPtrEndTxnResponse()
	resp.Version = ev.request.Version
	resp.ProducerID, resp.ProducerEpoch = id, epoch
	resp.ErrorCode = errcode.Versioned(resp.Key(), resp.Version, errcode.Of(err))
	ev.reply(resp)
}

// status is what the transaction becomes at once.
func (ev *endTxn) status() schema.TxnStatus {
	if ev.request.Commit {
		return schema.TxnPrepareCommit
	}
	return schema.TxnPrepareAbort
}

// complete is the state that the request leads to.
func (ev *endTxn) complete() schema.TxnStatus {
	if ev.request.Commit {
		return schema.TxnCompleteCommit
	}
	return schema.TxnCompleteAbort
}

func (m *machine) endTxn(ev *endTxn, out *runtime.Out) {
	e := m.entries[ev.id]
	if e == nil {
		m.refuse(out, ev, errMapping)
		return
	}
	if ev.second() {
		m.endSecond(ev, e, out)
	} else {
		m.endFirst(ev, e, out)
	}
}

// endFirst is EndTxn in the first protocol, where nothing tells a repetition from a request about the next transaction.
func (m *machine) endFirst(ev *endTxn, e *entry, out *runtime.Out) {
	switch v := e.value; {
	case v.ProducerID != ev.request.ProducerID:
		m.refuse(out, ev, errMapping)
	case v.ProducerEpoch != ev.request.ProducerEpoch:
		m.refuse(out, ev, errFenced)
	case v.Status == schema.TxnOngoing:
		m.prepare(ev, e, -1, out)
	case e.prepared():
		m.refuse(out, ev, errConcurrent)
	case v.Status == ev.complete():
		m.repeat(ev, e, out)
	default:
		m.refuse(out, ev, errState)
	}
}

// endSecond is EndTxn in the second protocol. The epoch tells a repetition, which has the one before, from a request about what is
// now; and the end of an empty transaction is nothing but a new epoch, so that a producer that does not know whether any of its
// records arrived can always abort.
func (m *machine) endSecond(ev *endTxn, e *entry, out *runtime.Out) {
	v, r := e.value, ev.request
	overflown := v.PreviousProducerID == r.ProducerID && r.ProducerEpoch == exhausted && v.ProducerEpoch == 0
	again := overflown || e.second() && int(v.ProducerEpoch) == int(r.ProducerEpoch)+1
	id, epoch := e.identity()
	now := r.ProducerID == id && r.ProducerEpoch == epoch
	complete := v.Status == schema.TxnCompleteCommit || v.Status == schema.TxnCompleteAbort
	switch {
	case v.ProducerID != r.ProducerID && !overflown && !now:
		m.refuse(out, ev, errMapping)
	case !now && !(again && (complete || e.prepared())):
		m.refuse(out, ev, errFenced)
	case e.prepared():
		m.refuse(out, ev, errConcurrent)
	case v.Status == schema.TxnOngoing:
		m.rise(ev, e, out)
	case complete && again && v.Status == ev.complete():
		m.repeat(ev, e, out)
	case !again && !r.Commit:
		m.rise(ev, e, out)
	default:
		m.refuse(out, ev, errState)
	}
}

// repeat answers a repetition of what is done.
func (m *machine) repeat(ev *endTxn, e *entry, out *runtime.Out) {
	id, epoch := e.value.ProducerID, e.value.ProducerEpoch
	out.Then(func(err error, _ *runtime.Out) {
		if err != nil {
			ev.Refuse(err)
			return
		}
		ev.answer(id, epoch, nil)
	})
}

// rise ends a transaction with a new epoch, or with a new producer id if the present one's epochs are used up.
func (m *machine) rise(ev *endTxn, e *entry, out *runtime.Out) {
	if e.value.ProducerEpoch >= exhausted && ev.newID < 0 {
		m.o.NewProducerID(func(id int64, err error) {
			if err != nil {
				ev.Refuse(err)
				return
			}
			ev.newID = id
			m.submit(ev)
		})
		return
	}
	next := int64(-1)
	if e.value.ProducerEpoch >= exhausted {
		next = ev.newID
	}
	m.prepare(ev, e, next, out)
}

// prepare writes the decision, answers when it is replicated, and sends the markers.
func (m *machine) prepare(ev *endTxn, e *entry, next int64, out *runtime.Out) {
	nowMs := out.Now.WallMs()
	v, last := e.follow(ev.status(), nowMs), e.lastEpoch
	v.ClientVersion, v.NextProducerID = 0, next
	if e.value.Status != schema.TxnOngoing {
		v.Topics, v.StartMs = []schema.TxnTopic{}, nowMs
	}
	if ev.second() {
		v.ClientVersion, last = second, v.ProducerEpoch
		if v.ProducerEpoch < math.MaxInt16 {
			v.ProducerEpoch++
		}
	}
	m.write(out, e, e.id, v, last)
	id, epoch := goesOnWith(v)
	out.Then(func(err error, out *runtime.Out) {
		switch {
		case err == nil:
			ev.answer(id, epoch, nil)
			m.sendMarkers(e, out)
		case errors.Is(err, runtime.ErrTimeout):
			ev.Refuse(err)
			m.whenReplicated(out, func(out *runtime.Out) { m.sendMarkers(e, out) })
		default:
			ev.Refuse(err)
		}
	})
}
