package txn

import (
	"time"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/groupcoord/runtime"
	"github.com/gregor-broker/gregor/groupcoord/schema"
)

// completeAgain is how long after a refusal it is tried again to write that a transaction is complete.
const completeAgain = 100 * time.Millisecond

// ending is a prepared transaction whose markers are on their way. What the machine keeps of them is the machine's; the rest does
// not change.
type ending struct {
	life             *life // of the machine that sent the markers
	id               string
	coordinatorEpoch int32
	producerID       int64
	producerEpoch    int16
	commit           bool
	version          int8 // of the protocol
	partitions       []partition

	written []bool // which partitions have their marker; the machine's
	left    int    // how many do not; the machine's
}

// sendMarkers has the markers of a prepared transaction written. Its record is replicated.
func (m *machine) sendMarkers(e *entry, out *runtime.Out) {
	if !e.prepared() || e.ending != nil {
		return
	}
	n := 0
	for i := range e.value.Topics {
		n += len(e.value.Topics[i].Partitions)
	}
	g := &ending{
		life: m.life, id: e.id, coordinatorEpoch: out.LeaderEpoch, producerID: e.value.ProducerID, producerEpoch: e.value.ProducerEpoch,
		commit: e.value.Status == schema.TxnPrepareCommit, version: int8(e.value.ClientVersion),
		partitions: make([]partition, 0, n), written: make([]bool, n), left: n,
	}
	for _, t := range e.value.Topics {
		for _, p := range t.Partitions {
			g.partitions = append(g.partitions, partition{t.Topic, p})
		}
	}
	e.ending = g
	if n == 0 {
		m.complete(e, out)
		return
	}
	m.sender.send(g)
}

// marked says that partitions have their markers, or are gone.
type marked struct {
	ending *ending
	at     []int32 // in its list
}

// Refuse does nothing: whoever leads the partition next sends the markers again.
func (*marked) Refuse(error) {}

func (m *machine) marked(ev *marked, out *runtime.Out) {
	g := ev.ending
	e := m.entries[g.id]
	if e == nil || e.ending != g {
		return
	}
	for _, at := range ev.at {
		if !g.written[at] {
			g.written[at] = true
			g.left--
		}
	}
	if g.left == 0 {
		m.complete(e, out)
	}
}

// complete writes that every partition has its marker. If that cannot be written now it is tried again.
func (m *machine) complete(e *entry, out *runtime.Out) {
	if !e.marked() || m.entries[e.id] != e {
		return
	}
	status, decided := schema.TxnCompleteCommit, e.value
	if e.value.Status == schema.TxnPrepareAbort {
		status = schema.TxnCompleteAbort
	}
	v := e.follow(status, out.Now.WallMs())
	v.ProducerID, v.ProducerEpoch = e.identity()
	v.NextProducerID, v.Topics = -1, []schema.TxnTopic{}
	m.write(out, e, e.id, v, e.lastEpoch)
	m.release(e, out)
	out.Then(func(err error, out *runtime.Out) {
		if err != nil && e.value == decided { // refused: nothing has changed
			m.log.Warn("a completed transaction cannot be noted now; trying again", zap.String("txn", e.id), zap.Error(err))
			out.Set(&e.again, completeAgain)
		}
	})
}

// abortTimedOut aborts open transactions whose time is over. After TransactionCoordinator.abortTimedOutTransactions.
func (m *machine) abortTimedOut(out *runtime.Out) {
	out.Set(&m.timeouts, m.o.Config.AbortTimedOutInterval)
	out.Split()
	var aborted []*entry
	for _, e := range m.ongoing {
		switch {
		case !e.timedOut(out.Now.WallMs()):
		case m.replaced(e):
			m.o.NewProducerID(func(id int64, err error) {
				if err == nil { // else the next look tries again
					m.submit(&abortReplaced{e.id, id})
				}
			})
		default:
			m.abort(e, -1, out)
			aborted = append(aborted, e)
		}
	}
	m.afterTimeouts(aborted, out)
}

// timedOut says whether an open transaction's time is over.
func (e *entry) timedOut(nowMs int64) bool { return e.value.StartMs+int64(e.value.TimeoutMs) < nowMs }

// abortReplaced aborts a transaction whose time is over, and gives the transactional id another producer id.
type abortReplaced struct {
	id    string
	newID int64
}

// Refuse does nothing: whoever leads the partition finds the transaction.
func (*abortReplaced) Refuse(error) {}

func (m *machine) abortReplaced(ev *abortReplaced, out *runtime.Out) {
	if e := m.ongoing[ev.id]; e != nil && e.timedOut(out.Now.WallMs()) && m.replaced(e) {
		m.abort(e, ev.newID, out)
		m.afterTimeouts([]*entry{e}, out)
	}
}

// afterTimeouts sends the markers of what was aborted.
func (m *machine) afterTimeouts(aborted []*entry, out *runtime.Out) {
	if len(aborted) == 0 {
		return
	}
	for _, e := range aborted {
		m.log.Info("a transaction is aborted: its time is over", zap.String("txn", e.id), zap.Int64("producer_id", e.value.ProducerID),
			zap.Int16("epoch", e.value.ProducerEpoch))
	}
	m.whenReplicated(out, func(out *runtime.Out) {
		for _, e := range aborted {
			m.sendMarkers(e, out)
		}
	})
}

// removeExpired forgets transactional ids that nobody has used for long.
// After TransactionStateManager.removeExpiredTransactionalIds.
func (m *machine) removeExpired(out *runtime.Out) {
	out.Set(&m.expiry, m.o.Config.RemoveExpiredInterval)
	out.Split()
	before, n := out.Now.Wall.Add(-m.o.Config.IDExpiration).UnixMilli(), 0
	for _, e := range m.entries {
		if e.value.Status != schema.TxnOngoing && !e.prepared() && e.value.UpdateMs <= before {
			m.key = schema.AppendTxnKey(m.key[:0], e.id)
			out.Write(m.key, nil)
			n++
		}
	}
	if n > 0 {
		m.log.Info("transactional ids expired", zap.Int("ids", n))
	}
}
