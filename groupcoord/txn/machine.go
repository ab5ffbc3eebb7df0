package txn

import (
	"errors"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/groupcoord/runtime"
	"github.com/gregor-broker/gregor/groupcoord/schema"
)

// machine holds the transactional ids of one partition of __transaction_state. Owned by its shard's goroutine.
type machine struct {
	o         *Options
	partition int32
	log       *zap.Logger
	submit    func(runtime.Event) // to this machine's shard
	sender    *sender
	life      *life
	entries   map[string]*entry
	ongoing   map[string]*entry // those with an open transaction
	loaded    bool
	left      int // records that were not understood
	timeouts  runtime.Timer
	expiry    runtime.Timer
	key       []byte // scratch
	encoded   []byte
}

// life is the time from one replay of a partition to the next: what was begun in an earlier one is forgotten.
type life struct {
	partition int32
	over      atomic.Bool
}

// The events of the machine's own timers.
type (
	timeoutsDue struct{}
	expiryDue   struct{}
	completeDue struct{ entry *entry }
	patienceDue struct{ entry *entry }
)

func newMachine(o *Options, p int32, s *sender, submit func(runtime.Event)) *machine {
	m := &machine{
		o: o, partition: p, log: o.Logger.With(zap.Int32("partition", p)), submit: submit, sender: s, life: &life{partition: p},
		entries: map[string]*entry{}, ongoing: map[string]*entry{},
	}
	m.timeouts.Event, m.expiry.Event = timeoutsDue{}, expiryDue{}
	return m
}

// Handle reacts to a request, a marker's answer or a timer.
func (m *machine) Handle(ev any, out *runtime.Out) {
	switch ev := ev.(type) {
	case *initProducerID:
		m.initProducerID(ev, out)
	case *addPartitions:
		m.addPartitions(ev, out)
	case *endTxn:
		m.endTxn(ev, out)
	case *marked:
		m.marked(ev, out)
	case *abortReplaced:
		m.abortReplaced(ev, out)
	case *describe:
		m.describe(ev, out)
	case *list:
		m.list(ev, out)
	case completeDue:
		m.complete(ev.entry, out)
	case patienceDue:
		m.refuseHeld(ev.entry, out)
	case timeoutsDue:
		m.abortTimedOut(out)
	case expiryDue:
		m.removeExpired(out)
	}
}

// Apply takes a record over.
func (m *machine) Apply(r *runtime.Record) {
	id, err := schema.DecodeTxnKey(r.Key)
	if err != nil {
		m.leave(r, err)
		return
	}
	if r.Value == nil {
		delete(m.entries, string(id))
		delete(m.ongoing, string(id))
		return
	}
	e := m.entries[string(id)]
	if !m.loaded {
		if e == nil {
			e = m.entry(string(id))
		}
		e.read = append(e.read[:0], r.Value...)
		return
	}
	v, _, err := schema.DecodeTxnValue(r.Value)
	if err != nil {
		m.leave(r, err)
		return
	}
	if e == nil {
		e = m.entry(string(id))
	}
	m.take(e, v)
}

// entry makes an entry.
func (m *machine) entry(id string) *entry {
	e := &entry{id: id, lastEpoch: -1, next: -1}
	e.again.Event, e.patience.Event = completeDue{e}, patienceDue{e}
	m.entries[id] = e
	return e
}

// take makes v the state of an entry.
func (m *machine) take(e *entry, v *schema.TxnValue) {
	e.value, e.lastEpoch, e.next, e.ending = v, e.next, -1, nil
	if v.Status == schema.TxnOngoing {
		m.ongoing[e.id] = e
	} else {
		delete(m.ongoing, e.id)
	}
}

// decodeAll makes the states of what was replayed.
func (m *machine) decodeAll() {
	m.loaded = true
	for id, e := range m.entries {
		v, _, err := schema.DecodeTxnValue(e.read)
		e.read = nil
		if err != nil {
			m.log.Warn("the state of a transactional id cannot be read; it is forgotten", zap.String("txn", id), zap.Error(err))
			delete(m.entries, id)
			continue
		}
		m.take(e, v)
	}
}

// leave notes a record that is left as it is.
func (m *machine) leave(r *runtime.Record, err error) {
	m.left++
	var unknown *schema.UnknownVersionError
	if !errors.As(err, &unknown) {
		m.log.Warn("a record of the internal topic is malformed and left as it is", zap.Int64("offset", r.Order), zap.Error(err))
	}
}

// EndTransaction has nothing to do: nothing in this topic is transactional.
func (m *machine) EndTransaction(int64, bool) {}

// Loaded finishes what an earlier coordinator has begun, once all that was read is replicated.
func (m *machine) Loaded(out *runtime.Out) {
	m.decodeAll()
	if m.left > 0 {
		m.log.Warn("records that this version does not understand are left as they are", zap.Int("records", m.left))
	}
	out.Set(&m.timeouts, m.o.Config.AbortTimedOutInterval)
	out.Set(&m.expiry, m.o.Config.RemoveExpiredInterval)
	var open []*entry
	for _, e := range m.entries {
		if e.prepared() {
			open = append(open, e)
		}
	}
	if len(open) > 0 {
		m.log.Info("transactions that were decided are completed", zap.Int("transactions", len(open)))
		m.whenReplicated(out, func(out *runtime.Out) {
			for _, e := range open {
				m.sendMarkers(e, out)
			}
		})
	}
}

// Unloaded ends the machine's life, and answers who waits.
func (m *machine) Unloaded(err error) {
	m.life.over.Store(true)
	for _, e := range m.entries {
		for _, ev := range e.held {
			ev.Refuse(err)
		}
	}
}

// whenReplicated calls f when all that was written is below the high watermark, however long that takes. Once its state is dropped
// the machine forgets it.
func (m *machine) whenReplicated(out *runtime.Out, f func(*runtime.Out)) {
	out.Then(func(err error, out *runtime.Out) {
		switch {
		case err == nil:
			f(out)
		case errors.Is(err, runtime.ErrTimeout):
			m.whenReplicated(out, f)
		}
	})
}

// write writes what an entry becomes. lastEpoch is what its last epoch becomes with it.
func (m *machine) write(out *runtime.Out, e *entry, id string, v *schema.TxnValue, lastEpoch int16) {
	if e != nil {
		e.next = lastEpoch
	}
	version := int16(0)
	if m.o.Version() >= 1 {
		version = 1
	}
	m.key = schema.AppendTxnKey(m.key[:0], id)
	m.encoded = v.Append(m.encoded[:0], version)
	out.Write(m.key, m.encoded)
}
