package runtime

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/wire/errcode"
)

// Writes of transactions are checked by the log itself: the epochs of producer and coordinator, and whether the
// transaction is open. So each is a batch of its own that is appended before Machine hears of it: a refusal changes
// nothing, and what was written in between stays in order.

// Txn is a producer that writes in a transaction.
type Txn struct {
	ProducerID    int64
	ProducerEpoch int16
	Guard         any // what the Log wants to see before a transaction begins
}

// In makes what this call writes part of a producer's transaction: it counts once the transaction is committed.
func (o *Out) In(t Txn) { o.txn = &t }

// End ends a producer's transaction. The call must not write anything.
func (o *Out) End(e record.EndTxn) { o.end = &e }

// admitIn appends the records in out as one transactional batch, then applies them.
func (c *core) admitIn(wallMs int64) error {
	total := record.HeaderSize
	for _, s := range c.out.records {
		total += recordBytes(s)
	}
	if total > c.log.MaxBatchBytes(c.partition) {
		return ErrTooLarge
	}
	t := c.out.txn
	records := make([]record.Record, len(c.out.records))
	for i, s := range c.out.records {
		records[i].Timestamp = wallMs
		records[i].Key, records[i].Value = c.out.cut(s)
	}
	b, err := record.Build(record.BatchOptions{
		LeaderEpoch: c.epoch, Codec: c.codec, ProducerID: t.ProducerID, ProducerEpoch: t.ProducerEpoch, BaseSequence: -1, Transactional: true,
	}, records)
	if err != nil {
		return err
	}
	end, err := c.log.AppendIn(c.partition, c.epoch, t.Guard, b)
	if err != nil {
		return txnRefusal(err)
	}
	c.written = end
	for i := range records {
		r := &records[i]
		c.record = Record{Key: r.Key, Value: r.Value, Order: end - int64(len(records)-i), ProducerID: t.ProducerID}
		c.machine.Apply(&c.record)
	}
	return nil
}

// admitEnd appends a marker, then applies it.
func (c *core) admitEnd() error {
	end, err := c.log.WriteMarker(c.partition, c.epoch, *c.out.end)
	if err != nil {
		return txnRefusal(err)
	}
	c.written = max(c.written, end)
	c.machine.EndTransaction(c.out.end.ProducerID, c.out.end.Commit)
	return nil
}

// admitTxn does what a call wants written of a transaction.
func (c *core) admitTxn(now Time) error {
	if err := c.refused(); err != nil {
		return err
	}
	c.append() // what was written before comes first
	switch {
	case c.failed != nil:
		return ErrNotCoordinator
	case c.out.end != nil:
		return c.admitEnd()
	}
	return c.admitIn(now.WallMs())
}

// txnRefusal is what a client is told when the log does not take a write of a transaction.
func txnRefusal(err error) error {
	for _, about := range []*kerr.Error{kerr.InvalidProducerEpoch, kerr.InvalidTxnState, kerr.TransactionCoordinatorFenced, kerr.OutOfOrderSequenceNumber} {
		if errors.Is(err, about) {
			return errcode.Newf(about, "%v", err)
		}
	}
	return refusal(err)
}
