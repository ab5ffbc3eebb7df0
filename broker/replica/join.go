package replica

import (
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/record"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/gregor-broker/gregor/wire/invariants"
)

// Joining asks the coordinator of a transaction whether partitions are part of it, or has it add them (KIP-890).
type Joining struct {
	TransactionalID string
	ProducerID      int64
	ProducerEpoch   int16
	Client          TxnSupport
	Partitions      []log.TopicPartition
	// Renew is called before the coordinator is asked again. It answers that the transaction before has not ended; once
	// that one's marker is written, what was begun before the first question is void.
	Renew func()
}

// TxnSupport is what a client understands of transactions, which the version of its request tells
// (AddPartitionsToTxnManager.TransactionSupportedOperation of Apache Kafka).
type TxnSupport int8

// The three kinds of clients.
const (
	TxnOld       TxnSupport = iota // adds partitions itself
	TxnAbortable                   // likewise, and knows TRANSACTION_ABORTABLE
	TxnImplicit                    // writes, and the broker adds the partition (transaction version 2)
)

// ProduceTxnSupport is what the version of a Produce tells.
func ProduceTxnSupport(version int16) TxnSupport { return txnSupport(version, 11, 12) }

// OffsetCommitTxnSupport is what the version of a TxnOffsetCommit tells.
func OffsetCommitTxnSupport(version int16) TxnSupport { return txnSupport(version, 4, 5) }

func txnSupport(version, abortable, implicit int16) TxnSupport {
	switch {
	case version >= implicit:
		return TxnImplicit
	case version >= abortable:
		return TxnAbortable
	}
	return TxnOld
}

// errTwoProducers is for a Produce whose transactional batches come from several producers.
var errTwoProducers = errcode.New(kerr.InvalidProducerIDMapping, "transactional records of more than one producer in a request")

// transactional returns the head of an entry's batch if it is a transactional one. It has not been checked.
func (e *ProduceEntry) transactional() (record.Batch, bool) {
	const magicAt, current = 16, 2
	if e.Err != nil || len(e.Records) < record.HeaderSize || e.Records[magicAt] != current {
		return nil, false
	}
	b := record.Batch(e.Records)
	return b, b.IsTransactional() && b.ProducerID() >= 0
}

// join returns what the coordinator must be asked before the entries can be appended, and the index of the entry for each
// partition; nil if nothing. Entries that begin a transaction get their guards. After ReplicaManager.handleProduceAppend.
func (m *Manager) join(p *ProduceParams, entries []ProduceEntry) (*Joining, []int) {
	if p.TransactionalID == nil || m.options.Join == nil || !m.options.VerifyTransactions() {
		return nil, nil
	}
	var j *Joining
	var asked []int
	var logs []*log.Log // of the entries asked about
	for i := range entries {
		e := &entries[i]
		b, ok := e.transactional()
		if !ok {
			continue
		}
		if j == nil {
			j = &Joining{
				TransactionalID: *p.TransactionalID, ProducerID: b.ProducerID(), ProducerEpoch: b.ProducerEpoch(), Client: ProduceTxnSupport(p.Version),
			}
		}
		if b.ProducerID() != j.ProducerID || b.ProducerEpoch() != j.ProducerEpoch {
			refuseTransactional(entries)
			return nil, nil
		}
		partition, _, err := m.writable(p, e)
		if err != nil {
			continue // which the append will say
		}
		if !e.begin(partition.log, j) {
			continue
		}
		if asked == nil {
			most := len(entries) - i
			asked, logs, j.Partitions = make([]int, 0, most), make([]*log.Log, 0, most), make([]log.TopicPartition, 0, most)
		}
		asked, logs, j.Partitions = append(asked, i), append(logs, partition.log), append(j.Partitions, partition.tp)
	}
	if len(asked) == 0 {
		return nil, nil
	}
	j.Renew = func() {
		for k, i := range asked {
			entries[i].begin(logs[k], j)
		}
	}
	return j, asked
}

// begin begins the verification of a transactional entry and says whether the coordinator must be asked.
func (e *ProduceEntry) begin(l *log.Log, j *Joining) (ask bool) {
	e.guard, ask = l.BeginVerification(j.ProducerID, j.ProducerEpoch, record.Batch(e.Records).BaseSequence(), j.Client == TxnImplicit)
	return ask
}

func refuseTransactional(entries []ProduceEntry) {
	for i := range entries {
		if _, ok := entries[i].transactional(); ok {
			entries[i].Err = errTwoProducers
		}
	}
}

// produceJoined appends the entries once the coordinator has answered.
func (m *Manager) produceJoined(p ProduceParams, entries []ProduceEntry, j *Joining, asked []int, done func([]ProduceResult)) {
	kept := keepRecords(entries)
	m.options.Join(j, func(errs []error) {
		for k, i := range asked {
			entries[i].Err = joinError(j.Client, errs[k])
		}
		m.appendAll(&p, entries, done)
		kept.free()
	})
}

// keptRecords is memory in which entries outlive the request that they came in.
type keptRecords struct{ bytes []byte }

var keptPool = sync.Pool{New: func() any { return new(keptRecords) }}

// keepRecords copies the records of the entries.
func keepRecords(entries []ProduceEntry) *keptRecords {
	size := 0
	for i := range entries {
		size += len(entries[i].Records)
	}
	k := keptPool.Get().(*keptRecords)
	k.bytes = slices.Grow(k.bytes[:0], size)
	for i := range entries {
		e := &entries[i]
		from := len(k.bytes)
		k.bytes = append(k.bytes, e.Records...)
		e.Records = k.bytes[from:len(k.bytes):len(k.bytes)]
	}
	return k
}

// free gives the memory back, whose contents nobody looks at any more.
func (k *keptRecords) free() {
	const most = 1 << 20
	if invariants.Enabled {
		clear(k.bytes)
	}
	if cap(k.bytes) <= most {
		keptPool.Put(k)
	}
}

// joinError is what a producer is told of a coordinator's answer: NOT_ENOUGH_REPLICAS for what passes, which old clients
// try again without looking for another leader. Under transaction version 2 it is normal that the transaction before has
// not ended yet, and the client knows that.
func joinError(client TxnSupport, err error) error {
	switch errcode.Of(err) {
	case kerr.ConcurrentTransactions.Code:
		if client == TxnImplicit {
			return err
		}
	case kerr.NetworkException.Code, kerr.CoordinatorLoadInProgress.Code, kerr.CoordinatorNotAvailable.Code, kerr.NotCoordinator.Code:
	default:
		return err
	}
	return errcode.Newf(kerr.NotEnoughReplicas, "it could not be told whether the partition is part of the transaction: %v", err)
}

// JoinTransaction asks the coordinator about a partition that a coordinator of this broker wants to write to as a
// producer, and calls done with the guard for the first batch, or why there must be none.
func (m *Manager) JoinTransaction(tp log.TopicPartition, j Joining, done func(log.Guard, error)) {
	if m.options.Join == nil || !m.options.VerifyTransactions() {
		done(log.Guard{}, nil)
		return
	}
	partition, err := m.lookup(tp.Topic, log.TopicID{}, tp.Partition)
	if err == nil {
		_, err = partition.leading(-1)
	}
	if err != nil {
		done(log.Guard{}, err)
		return
	}
	guard, ask := partition.log.BeginVerification(j.ProducerID, j.ProducerEpoch, noSequence, j.Client == TxnImplicit)
	if !ask {
		done(log.Guard{}, nil)
		return
	}
	j.Partitions = []log.TopicPartition{tp}
	j.Renew = func() {
		guard, _ = partition.log.BeginVerification(j.ProducerID, j.ProducerEpoch, noSequence, j.Client == TxnImplicit)
	}
	m.options.Join(&j, func(errs []error) { done(guard, errs[0]) })
}

// noSequence is the sequence of a coordinator's batches.
const noSequence = -1
