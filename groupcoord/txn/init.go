package txn

import (
	"errors"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/groupcoord/runtime"
	"github.com/gregor-broker/gregor/groupcoord/schema"
	"github.com/gregor-broker/gregor/wire/errcode"
)

// What requests are refused with.
var (
	errTransactionalID = errcode.New(kerr.InvalidRequest, "the transactional id is empty, or longer than 32,767 bytes")
	errTimeoutRange    = errcode.New(kerr.InvalidTransactionTimeout, "the transaction timeout is not positive, or above transaction.max.timeout.ms")
	errFenced          = errcode.New(kerr.ProducerFenced, "a newer producer uses the transactional id, or the transaction timed out")
	errMapping         = errcode.New(kerr.InvalidProducerIDMapping, "the transactional id does not belong to this producer id")
	errConcurrent      = errcode.New(kerr.ConcurrentTransactions, "an earlier transaction of the transactional id is being completed; try again")
	errState           = errcode.New(kerr.InvalidTxnState, "the transaction is in no state for this")
	errAbortable       = errcode.New(kerr.TransactionAbortable, "the partition takes no part in the transaction; abort it")
	errNotFound        = errcode.New(kerr.TransactionalIDNotFound, "there is no such transactional id")
)

// initProducerID is an InitProducerId of a transactional id.
type initProducerID struct {
	id       string
	timeout  int32
	expected bool // the producer names its former id and epoch (KIP-360)
	producer int64
	epoch    int16
	newID    int64 // a producer id that was asked for, -1 none
	version  int16
	reply    func(kmsg.Response)
}

// InitProducerID gives the producer that uses a transactional id from now on its id and epoch, and fences those before it.
// v3 former id and epoch (KIP-360) · v4 PRODUCER_FENCED.
// Errors: INVALID_REQUEST, INVALID_TRANSACTION_TIMEOUT, CONCURRENT_TRANSACTIONS, PRODUCER_FENCED (before v4 INVALID_PRODUCER_EPOCH).
// After TransactionCoordinator.handleInitProducerId.
func (c *Coordinator) InitProducerID(r *kmsg.InitProducerIDRequest, reply func(kmsg.Response)) {
	ev := &initProducerID{
		timeout: r.TransactionTimeoutMillis, expected: r.ProducerID != -1, producer: r.ProducerID, epoch: r.ProducerEpoch,
		newID: -1, version: r.Version, reply: reply,
	}
	if r.TransactionalID != nil {
		ev.id = *r.TransactionalID
	}
	switch timeout := time.Duration(ev.timeout) * time.Millisecond; {
	case ev.id == "":
		ev.Refuse(errTransactionalID)
	case timeout <= 0 || timeout > c.o.Config.MaxTimeout:
		ev.Refuse(errTimeoutRange)
	default:
		c.submit(ev.id, ev)
	}
}

// Refuse implements runtime.Event.
func (ev *initProducerID) Refuse(err error) { ev.answer(-1, -1, err) }

func (ev *initProducerID) answer(id int64, epoch int16, err error) {
	resp := kmsg.NewPtrInitProducerIDResponse()
	resp.Version = ev.version
	resp.ProducerID, resp.ProducerEpoch = id, epoch
	resp.ErrorCode = errcode.Versioned(resp.Key(), ev.version, errcode.Of(err))
	ev.reply(resp)
}

func (m *machine) initProducerID(ev *initProducerID, out *runtime.Out) {
	e := m.entries[ev.id]
	switch {
	case e == nil:
		m.create(ev, out)
	case ev.expected && !e.knows(ev.producer, ev.epoch):
		m.refuse(out, ev, errFenced)
	case e.prepared():
		m.refuse(out, ev, errConcurrent)
	case e.value.Status == schema.TxnOngoing:
		m.fence(ev, e, out)
	case e.value.ProducerEpoch >= exhausted && (!ev.expected || ev.epoch == e.value.ProducerEpoch):
		m.rotate(ev, e, out)
	default:
		m.bump(ev, e, out)
	}
}

// knows says whether a producer that names its former id may go on: with the present id, with the one that comes when the transaction
// has ended, or with the one before if it may have missed that its epochs were used up.
func (e *entry) knows(producer int64, epoch int16) bool {
	next, _ := e.identity()
	return producer == e.value.ProducerID || producer == next || producer == e.value.PreviousProducerID && epoch >= exhausted
}

// refuse answers once what was decided before is replicated: a refusal may rest on that.
func (m *machine) refuse(out *runtime.Out, ev runtime.Event, err error) {
	out.Then(func(failed error, _ *runtime.Out) {
		if failed != nil {
			err = failed
		}
		ev.Refuse(err)
	})
}

// newID asks for a producer id and has the request handled again with it.
func (m *machine) newID(ev *initProducerID) {
	m.o.NewProducerID(func(id int64, err error) {
		if err != nil {
			ev.Refuse(err)
			return
		}
		ev.newID = id
		m.submit(ev)
	})
}

func (m *machine) create(ev *initProducerID, out *runtime.Out) {
	if ev.newID < 0 {
		m.newID(ev)
		return
	}
	v := &schema.TxnValue{
		ProducerID: ev.newID, PreviousProducerID: ev.newID, NextProducerID: -1, TimeoutMs: ev.timeout,
		Status: schema.TxnEmpty, UpdateMs: out.Now.WallMs(), StartMs: -1,
	}
	m.begin(ev, nil, v, -1, out)
}

// rotate replaces a producer id whose epochs are used up.
func (m *machine) rotate(ev *initProducerID, e *entry, out *runtime.Out) {
	if ev.newID < 0 {
		m.newID(ev)
		return
	}
	v, last := e.follow(schema.TxnEmpty, out.Now.WallMs()), int16(-1)
	if ev.expected {
		last = v.ProducerEpoch
	}
	v.ProducerID, v.ProducerEpoch = ev.newID, 0
	m.begin(ev, e, v, last, out)
}

// bump raises the epoch, unless the producer only asks again.
func (m *machine) bump(ev *initProducerID, e *entry, out *runtime.Out) {
	v, last := e.follow(schema.TxnEmpty, out.Now.WallMs()), int16(-1)
	switch {
	case !ev.expected:
		v.ProducerEpoch++
	case ev.epoch == v.ProducerEpoch:
		last = v.ProducerEpoch
		v.ProducerEpoch++
	case ev.epoch == e.lastEpoch:
		last = e.lastEpoch
	default:
		m.refuse(out, ev, errFenced)
		return
	}
	m.begin(ev, e, v, last, out)
}

// begin writes the entry without a transaction and answers with what the producer goes on with.
func (m *machine) begin(ev *initProducerID, e *entry, v *schema.TxnValue, last int16, out *runtime.Out) {
	v.TimeoutMs, v.Topics, v.StartMs = ev.timeout, nil, -1
	m.write(out, e, ev.id, v, last)
	out.Then(func(err error, _ *runtime.Out) {
		if err != nil {
			ev.Refuse(err)
			return
		}
		m.log.Debug("producer initialised", zap.String("txn", ev.id), zap.Int64("producer_id", v.ProducerID), zap.Int16("epoch", v.ProducerEpoch))
		ev.answer(v.ProducerID, v.ProducerEpoch, nil)
	})
}

// fence aborts the open transaction of an earlier producer. The new one is to ask again when that is done.
func (m *machine) fence(ev *initProducerID, e *entry, out *runtime.Out) {
	if m.replaced(e) && ev.newID < 0 {
		m.newID(ev)
		return
	}
	m.abort(e, ev.newID, out)
	out.Then(func(err error, out *runtime.Out) {
		switch {
		case err == nil:
			ev.Refuse(errConcurrent)
			m.sendMarkers(e, out)
		case errors.Is(err, runtime.ErrTimeout):
			ev.Refuse(err)
			m.whenReplicated(out, func(out *runtime.Out) { m.sendMarkers(e, out) })
		default:
			ev.Refuse(err)
		}
	})
}

// replaced says whether the coordinator's own end of a transaction brings another producer id.
func (m *machine) replaced(e *entry) bool {
	return m.o.Version() >= second && e.value.ProducerEpoch >= exhausted
}

// abort writes that an open transaction is aborted from here, and not by its producer, whose epoch is over. In the second protocol
// that very producer may go on with the new one, if it asks before another does. next is another producer id where replaced says so.
func (m *machine) abort(e *entry, next int64, out *runtime.Out) {
	v, last := e.follow(schema.TxnPrepareAbort, out.Now.WallMs()), int16(-1)
	v.ClientVersion = 0
	if m.o.Version() >= second {
		v.ClientVersion, last = second, v.ProducerEpoch
	}
	if m.replaced(e) {
		v.NextProducerID = next
	}
	if v.ProducerEpoch < math.MaxInt16 {
		v.ProducerEpoch++
	}
	m.write(out, e, e.id, v, last)
}
