package txn

import (
	"slices"
	"time"

	"github.com/gregor-broker/gregor/groupcoord/runtime"
	"github.com/gregor-broker/gregor/groupcoord/schema"
)

// Addition is partitions that are to take part in a transaction, or of which it is asked whether they do.
type Addition struct {
	ID         string // transactional id
	ProducerID int64
	Epoch      int16
	Topics     []schema.TxnTopic // that exist
	VerifyOnly bool
	Second     bool // the producer speaks the second protocol, if the cluster does
}

// addPartitions is an Addition on its way.
type addPartitions struct {
	Addition
	done func(missing []schema.TxnTopic, err error)
}

// holdFor is how long an addition waits for the end of the transaction before it, which a producer may not know to be incomplete.
// Kafka has it try again.
const holdFor = 100 * time.Millisecond

// maxHeld bounds how many wait for one transaction: a producer has one in flight for each broker that it produces to.
const maxHeld = 100

// AddPartitions adds partitions to a transaction, which begins with the first of them, or verifies that they are in it. done is
// called once: missing are those that a verification did not find, which is TRANSACTION_ABORTABLE.
// Errors: INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
// After TransactionCoordinator.handleAddPartitionsToTransaction and handleVerifyPartitionsInTransaction.
func (c *Coordinator) AddPartitions(a Addition, done func(missing []schema.TxnTopic, err error)) {
	a.Second = a.Second && c.o.Version() >= second
	ev := &addPartitions{a, done}
	if a.ID == "" {
		ev.Refuse(errTransactionalID)
		return
	}
	c.submit(a.ID, ev)
}

// Refuse implements runtime.Event.
func (ev *addPartitions) Refuse(err error) { ev.done(nil, err) }

func (m *machine) addPartitions(ev *addPartitions, out *runtime.Out) {
	e := m.entries[ev.ID]
	if e == nil {
		m.refuse(out, ev, errMapping)
		return
	}
	switch id, epoch := e.identity(); {
	case id != ev.ProducerID:
		m.refuse(out, ev, errMapping)
	case epoch != ev.Epoch:
		m.refuse(out, ev, errFenced)
	case e.prepared() && (ev.VerifyOnly || len(e.held) >= maxHeld):
		m.refuse(out, ev, errConcurrent)
	case e.prepared():
		m.hold(ev, e, out)
	case ev.VerifyOnly:
		m.answer(out, ev, e.missing(ev.Topics))
	case e.value.Status == schema.TxnOngoing && len(e.missing(ev.Topics)) == 0:
		m.answer(out, ev, nil)
	default:
		m.add(ev, e, out)
	}
}

// hold lets an addition wait.
func (m *machine) hold(ev *addPartitions, e *entry, out *runtime.Out) {
	if e.held = append(e.held, ev); len(e.held) == 1 {
		out.Set(&e.patience, holdFor)
	}
}

// release has the additions that wait handled again.
func (m *machine) release(e *entry, out *runtime.Out) {
	out.Stop(&e.patience)
	held := e.held
	e.held = nil
	for _, ev := range held {
		m.submit(ev)
	}
}

// refuseHeld ends the waiting.
func (m *machine) refuseHeld(e *entry, out *runtime.Out) {
	for _, ev := range e.held {
		m.refuse(out, ev, errConcurrent)
	}
	e.held = nil
}

// missing returns which of some partitions do not take part.
func (e *entry) missing(topics []schema.TxnTopic) (missing []schema.TxnTopic) {
	for _, t := range topics {
		partitions := slices.DeleteFunc(slices.Clone(t.Partitions), func(p int32) bool { return e.has(t.Topic, p) })
		if len(partitions) > 0 {
			missing = append(missing, schema.TxnTopic{Topic: t.Topic, Partitions: partitions})
		}
	}
	return missing
}

func (m *machine) add(ev *addPartitions, e *entry, out *runtime.Out) {
	nowMs := out.Now.WallMs()
	v := e.follow(schema.TxnOngoing, nowMs)
	if e.value.Status != schema.TxnOngoing {
		v.StartMs = nowMs
	}
	v.Topics, v.ClientVersion = e.with(ev.Topics), 0
	if ev.Second {
		v.ClientVersion = second
	}
	m.write(out, e, e.id, v, e.lastEpoch)
	m.answer(out, ev, nil)
}

func (m *machine) answer(out *runtime.Out, ev *addPartitions, missing []schema.TxnTopic) {
	out.Then(func(err error, _ *runtime.Out) { ev.done(missing, err) })
}
