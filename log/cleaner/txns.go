package cleaner

import (
	"cmp"
	"slices"

	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/log/segment"
)

// txns follows the transactions of a log while its batches are read in order: which data was aborted, which markers end
// a transaction that has no data left. Owned by one goroutine. After CleanedTransactionMetadata of Kafka.
type txns struct {
	waiting   []segment.AbortedTxn // not yet reached, by first offset
	aborted   map[int64]*abortedTxn
	committed map[int64]bool // producers of open transactions that will be committed, with data
	// keep is called for an aborted transaction of which data was seen, when its marker comes: readers have to know it.
	keep func(segment.AbortedTxn) error
}

// abortedTxn is an open transaction that will be aborted.
type abortedTxn struct {
	segment.AbortedTxn
	seen bool // data of it
}

func newTxns() *txns {
	return &txns{aborted: map[int64]*abortedTxn{}, committed: map[int64]bool{}}
}

// add tells of aborted transactions that overlap what is read next. Those known are not told again.
func (t *txns) add(list []segment.AbortedTxn) {
	for _, a := range list {
		if open := t.aborted[a.ProducerID]; open != nil && open.AbortedTxn == a || slices.Contains(t.waiting, a) {
			continue
		}
		t.waiting = append(t.waiting, a)
	}
	slices.SortFunc(t.waiting, func(a, b segment.AbortedTxn) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
}

// reach begins the aborted transactions that begin at or before offset.
func (t *txns) reach(offset int64) {
	n := 0
	for ; n < len(t.waiting) && t.waiting[n].FirstOffset <= offset; n++ {
		if t.aborted[t.waiting[n].ProducerID] == nil {
			t.aborted[t.waiting[n].ProducerID] = &abortedTxn{AbortedTxn: t.waiting[n]}
		}
	}
	t.waiting = t.waiting[n:]
}

// data takes note of a data batch and says whether it was aborted.
func (t *txns) data(e record.Entry) bool {
	t.reach(e.LastOffset())
	if !e.IsTransactional() {
		return false
	}
	if a := t.aborted[e.ProducerID()]; a != nil {
		a.seen = true
		return true
	}
	t.committed[e.ProducerID()] = true
	return false
}

// control takes note of a control batch and says whether nothing of what it ends is left.
func (t *txns) control(e record.Entry) (dispensable bool, err error) {
	t.reach(e.LastOffset())
	for r, err := range e.Records(record.Limits{}) {
		if err != nil {
			return false, err
		}
		kind, err := record.ParseControl(r.Key)
		if err != nil {
			return false, err
		}
		return t.end(e.ProducerID(), kind)
	}
	return true, nil // emptied before
}

func (t *txns) end(producerID int64, kind record.ControlType) (dispensable bool, err error) {
	switch kind {
	case record.Abort:
		a := t.aborted[producerID]
		delete(t.aborted, producerID)
		if a == nil || !a.seen {
			return true, nil
		}
		if t.keep != nil {
			err = t.keep(a.AbortedTxn)
		}
		return false, err
	case record.Commit:
		had := t.committed[producerID]
		delete(t.committed, producerID)
		return !had, nil
	}
	return false, nil
}
