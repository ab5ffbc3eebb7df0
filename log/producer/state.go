// Package producer is what a log knows of the idempotent and transactional producers that write to it: sequence numbers
// and the last batches, open transactions and what they hide, and the snapshot files that keep that across restarts
// (KIP-98, KIP-360).
package producer

import (
	"fmt"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/wire/errcode"
)

// The reasons for which a batch is refused. They are wrapped with the numbers.
var (
	ErrOutOfOrder        = errcode.New(kerr.OutOfOrderSequenceNumber, "the sequence number is out of order")
	ErrInvalidEpoch      = errcode.New(kerr.InvalidProducerEpoch, "the producer epoch is old")
	ErrInvalidTxnState   = errcode.New(kerr.InvalidTxnState, "a batch outside a transaction while the producer has one open")
	ErrNotInTxn          = errcode.New(kerr.InvalidTxnState, "the partition is not part of an ongoing transaction of the producer")
	ErrCoordinatorFenced = errcode.New(kerr.TransactionCoordinatorFenced, "the transaction coordinator's epoch is old")
)

// keptBatches is how many batches of a producer are remembered: as many requests may a client have in flight.
const keptBatches = 5

// batch is what is remembered of one.
type batch struct {
	lastOffset int64
	stamp      int64 // ms
	lastSeq    int32
	delta      int32 // last offset - first offset
}

func (b batch) firstSeq() int32 {
	// Sequences wrap from the greatest int32 to 0.
	return int32((int64(b.lastSeq) - int64(b.delta)) & math.MaxInt32)
}

// entry is one producer. txnFirst is the first offset of its open transaction, -1 without.
type entry struct {
	stamp            int64 // of its last batch or marker, ms
	txnFirst         int64
	coordinatorEpoch int32
	epoch            int16
	count            uint8
	batches          [keptBatches]batch // the oldest first
}

func newEntry() *entry { return &entry{txnFirst: -1, coordinatorEpoch: -1, epoch: -1, stamp: -1} }

func (e *entry) last() (batch, bool) {
	if e.count == 0 {
		return batch{lastOffset: -1, lastSeq: -1}, false
	}
	return e.batches[e.count-1], true
}

func (e *entry) setEpoch(epoch int16) {
	if e.epoch != epoch {
		e.epoch, e.count = epoch, 0
	}
}

func (e *entry) add(b batch) {
	if e.count == keptBatches {
		copy(e.batches[:], e.batches[1:])
		e.count--
	}
	e.batches[e.count] = b
	e.count++
	e.stamp = b.stamp
}

// span is a transaction: from its first offset to its marker.
type span struct{ producerID, first, last int64 }

// State is the producers of one log. The zero value has none. Not safe for concurrent use: the log's lock is its owner.
// Source: org.apache.kafka.storage.internals.log.{ProducerStateManager,ProducerAppendInfo}.
type State struct {
	producers map[int64]*entry
	verifying map[int64]*verification // until the transaction's first batch or a marker comes
	open      []span                  // open transactions by rising first offset; last is unused
	ended     []span                  // by rising marker: transactions whose marker is not yet below the high watermark
}

// Duplicate is where a batch that is sent again had been stored.
type Duplicate struct{ FirstOffset, LastOffset, Timestamp int64 }

// Origin is who wants to append a batch.
type Origin struct {
	Coordinator bool  // a coordinator, whose batches have no sequence: only the epoch counts
	Verified    bool  // transactional batches need Guard unless the producer's transaction is open
	Guard       Guard // from BeginVerification
}

// Check says whether b may be appended: nil if so; dup is set if b is one of the last five batches of its producer.
// It changes nothing.
func (s *State) Check(b record.Batch, from Origin) (dup Duplicate, isDup bool, err error) {
	id := b.ProducerID()
	if id < 0 {
		return Duplicate{}, false, nil
	}
	e := s.producers[id]
	if e != nil && !from.Coordinator {
		if dup, isDup = e.duplicate(b); isDup {
			return dup, true, nil
		}
	}
	if b.IsTransactional() {
		if err := s.checkVerified(id, b.ProducerEpoch(), from); err != nil {
			return Duplicate{}, false, err
		}
	}
	if e != nil {
		if err := e.checkEpoch(id, b.ProducerEpoch()); err != nil {
			return Duplicate{}, false, err
		}
	}
	if !from.Coordinator {
		if err := s.checkSequence(e, b); err != nil {
			return Duplicate{}, false, err
		}
	}
	if e != nil && e.txnFirst >= 0 && !b.IsTransactional() {
		return Duplicate{}, false, fmt.Errorf("producer %d: %w", id, ErrInvalidTxnState)
	}
	return Duplicate{}, false, nil
}

func (s *State) checkSequence(e *entry, b record.Batch) error {
	if b.IsTransactional() {
		if err := s.checkOrder(b.ProducerID(), b.BaseSequence()); err != nil {
			return err
		}
	}
	if e == nil {
		return nil // nothing is known, or not any more: any sequence is right
	}
	return e.checkSequence(b.ProducerID(), b.ProducerEpoch(), b.BaseSequence())
}

// duplicate finds b among the last batches.
func (e *entry) duplicate(b record.Batch) (Duplicate, bool) {
	if b.ProducerEpoch() != e.epoch {
		return Duplicate{}, false
	}
	first, last := b.BaseSequence(), b.LastSequence()
	for _, old := range e.batches[:e.count] {
		if old.lastSeq == last && old.firstSeq() == first {
			return Duplicate{old.lastOffset - int64(old.delta), old.lastOffset, old.stamp}, true
		}
	}
	return Duplicate{}, false
}

func (e *entry) checkEpoch(id int64, epoch int16) error {
	if epoch < e.epoch {
		return fmt.Errorf("producer %d with epoch %d, the last seen is %d: %w", id, epoch, e.epoch, ErrInvalidEpoch)
	}
	return nil
}

func (e *entry) checkSequence(id int64, epoch int16, first int32) error {
	if epoch != e.epoch {
		if first == 0 || e.epoch < 0 {
			return nil
		}
		return fmt.Errorf("producer %d begins epoch %d with sequence %d: %w", id, epoch, first, ErrOutOfOrder)
	}
	last, _ := e.last()
	if int64(first) == int64(last.lastSeq)+1 || first == 0 && last.lastSeq == math.MaxInt32 {
		return nil
	}
	return fmt.Errorf("producer %d: sequence %d follows %d: %w", id, first, last.lastSeq, ErrOutOfOrder)
}

// Apply takes note of a data batch that is in the log. It checks nothing: followers and recovery take what the log has.
func (s *State) Apply(b record.Batch) {
	id := b.ProducerID()
	if id < 0 || b.IsControl() {
		return
	}
	e := s.entry(id)
	e.setEpoch(b.ProducerEpoch())
	delete(s.verifying, id)
	e.add(batch{b.LastOffset(), b.MaxTimestamp(), b.LastSequence(), b.LastOffsetDelta()})
	if b.IsTransactional() && e.txnFirst < 0 {
		e.txnFirst = b.BaseOffset()
		s.open = append(s.open, span{producerID: id, first: e.txnFirst})
	}
}

func (s *State) entry(id int64) *entry {
	e := s.producers[id]
	if e == nil {
		if s.producers == nil {
			s.producers = map[int64]*entry{}
		}
		e = newEntry()
		s.producers[id] = e
	}
	return e
}

// Marker is a control record that ends a transaction, as it is in the log.
type Marker struct {
	ProducerID       int64
	ProducerEpoch    int16
	CoordinatorEpoch int32
	Bumped           bool // of transaction version 2: its epoch is greater than that of the transaction's data
	Offset           int64
	Timestamp        int64 // ms
}

// CheckMarker says whether a coordinator may append m. again is set if m was appended before, and nothing came after it.
func (s *State) CheckMarker(m Marker) (again bool, err error) {
	if m.ProducerID < 0 || m.ProducerEpoch < 0 {
		return false, fmt.Errorf("a marker of no producer (%d, epoch %d): %w", m.ProducerID, m.ProducerEpoch, ErrInvalidEpoch)
	}
	e := s.producers[m.ProducerID]
	if e == nil {
		return false, nil
	}
	if err := e.checkEpoch(m.ProducerID, m.ProducerEpoch); err != nil {
		return false, err
	}
	if m.CoordinatorEpoch < e.coordinatorEpoch {
		return false, fmt.Errorf("producer %d with coordinator epoch %d, the last seen is %d: %w",
			m.ProducerID, m.CoordinatorEpoch, e.coordinatorEpoch, ErrCoordinatorFenced)
	}
	if m.Bumped && m.ProducerEpoch == e.epoch {
		if e.txnFirst >= 0 {
			return false, fmt.Errorf("producer %d: a marker with the epoch %d of the transaction's data: %w", m.ProducerID, e.epoch, ErrInvalidEpoch)
		}
		return true, nil
	}
	return false, nil
}

// ApplyMarker takes note of a marker that is in the log. If it ended a transaction with data, it returns the
// transaction's first offset and the last stable offset that the marker alone allows.
func (s *State) ApplyMarker(m Marker) (first, stable int64, ended bool) {
	e := s.entry(m.ProducerID)
	e.setEpoch(m.ProducerEpoch)
	if v := s.verifying[m.ProducerID]; v != nil && !((m.Bumped || v.bumps) && v.epoch >= m.ProducerEpoch) {
		delete(s.verifying, m.ProducerID) // but not the verification of the next transaction, which a bumped epoch tells apart
	}
	e.coordinatorEpoch, e.stamp = m.CoordinatorEpoch, m.Timestamp
	first = e.txnFirst
	if first < 0 {
		return 0, 0, false
	}
	e.txnFirst = -1
	s.open = slices.DeleteFunc(s.open, func(t span) bool { return t.producerID == m.ProducerID })
	s.ended = append(s.ended, span{m.ProducerID, first, m.Offset})
	stable = m.Offset + 1
	if len(s.open) > 0 {
		stable = s.open[0].first
	}
	return first, stable, true
}

// Replicated forgets ended transactions whose marker is below the high watermark.
func (s *State) Replicated(highWatermark int64) {
	s.ended = slices.DeleteFunc(s.ended, func(t span) bool { return t.last < highWatermark })
}

// FirstUnstable is the first offset of a transaction that is open, or whose marker is not yet below the high watermark;
// -1 if there is none.
func (s *State) FirstUnstable() int64 {
	first := int64(-1)
	if len(s.open) > 0 {
		first = s.open[0].first
	}
	for _, t := range s.ended {
		if first < 0 || t.first < first {
			first = t.first
		}
	}
	return first
}

// Pending says whether transactions wait for the high watermark.
func (s *State) Pending() bool { return len(s.ended) > 0 }

// Expire forgets producers without open transaction, and verifications, that have been silent for maxAgeMs at wall time
// nowMs.
func (s *State) Expire(nowMs, maxAgeMs int64) {
	for id, e := range s.producers {
		if e.expired(nowMs, maxAgeMs) {
			delete(s.producers, id)
		}
	}
	for id, v := range s.verifying {
		if nowMs-v.stamp >= maxAgeMs {
			delete(s.verifying, id)
		}
	}
}

func (e *entry) expired(nowMs, maxAgeMs int64) bool {
	return e.txnFirst < 0 && nowMs-e.stamp >= maxAgeMs
}

// Len is the number of producers.
func (s *State) Len() int { return len(s.producers) }

// Row is a producer as DescribeProducers shows it.
type Row struct {
	ProducerID       int64
	Epoch            int16
	LastSequence     int32 // -1 when unknown
	Timestamp        int64 // ms
	CoordinatorEpoch int32
	TxnFirstOffset   int64 // -1 without open transaction
}

// Rows lists the producers by id.
func (s *State) Rows() []Row {
	rows := make([]Row, 0, len(s.producers))
	for id, e := range s.producers {
		last, _ := e.last()
		rows = append(rows, Row{id, e.epoch, last.lastSeq, e.stamp, e.coordinatorEpoch, e.txnFirst})
	}
	slices.SortFunc(rows, func(a, b Row) int {
		if a.ProducerID < b.ProducerID {
			return -1
		}
		return 1
	})
	return rows
}
