package replica

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/record"
)

// inTxn is a batch of one record of a producer's transaction.
func inTxn(t *testing.T, id int64, epoch int16, seq int32) []byte {
	t.Helper()
	b, err := record.Build(record.BatchOptions{
		LeaderEpoch: -1, ProducerID: id, ProducerEpoch: epoch, BaseSequence: seq, Transactional: true,
	}, []record.Record{{Value: []byte("v")}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// produceOne produces to t-0 in a transaction and returns the error, which must have come.
func (f *fixture) produceOne(version int16, records []byte) (result error) {
	f.t.Helper()
	id, answered := "tx", false
	p := ProduceParams{Version: version, Acks: AcksAll, TransactionalID: &id, Timeout: time.Minute}
	f.Produce(p, []ProduceEntry{{Topic: "t", Records: records}}, func(rs []ProduceResult) { result, answered = rs[0].Err, true })
	if !answered {
		f.t.Fatal("no answer")
	}
	return result
}

func (f *fixture) marker(e record.EndTxn) (result error) {
	f.t.Helper()
	answered := false
	f.WriteMarkers([]Marker{{log.TopicPartition{Topic: "t"}, e}}, time.Minute, func(errs []error) { result, answered = errs[0], true })
	if !answered {
		f.t.Fatal("no answer")
	}
	return result
}

// The coordinator is asked before the first batch of a transaction, and not for those after it.
func TestProduceAsksTheCoordinator(t *testing.T) {
	f := newFixture(t)
	f.lead("t", idOf(1), 1)
	var asked []Joining
	var answer error
	f.joins = func(j *Joining, done func([]error)) {
		asked = append(asked, *j)
		done([]error{answer})
	}
	if err := f.produceOne(9, inTxn(t, 7, 0, 0)); err != nil {
		t.Fatal(err)
	}
	if err := f.produceOne(9, inTxn(t, 7, 0, 1)); err != nil || len(asked) != 1 {
		t.Fatalf("%v; asked %d times, want once", err, len(asked))
	}
	if j := asked[0]; j.TransactionalID != "tx" || j.ProducerID != 7 || j.Client != TxnOld || len(j.Partitions) != 1 {
		t.Errorf("asked %+v", j)
	}
	if err := f.marker(record.EndTxn{ProducerID: 7, Commit: true}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		version int16
		answer  *kerr.Error
		want    *kerr.Error
		client  TxnSupport
	}{
		{9, kerr.InvalidTxnState, kerr.InvalidTxnState, TxnOld},
		{11, kerr.TransactionAbortable, kerr.TransactionAbortable, TxnAbortable},
		{11, kerr.NotCoordinator, kerr.NotEnoughReplicas, TxnAbortable},
		{11, kerr.CoordinatorLoadInProgress, kerr.NotEnoughReplicas, TxnAbortable},
		{11, kerr.CoordinatorNotAvailable, kerr.NotEnoughReplicas, TxnAbortable},
		{11, kerr.NetworkException, kerr.NotEnoughReplicas, TxnAbortable},
		{11, kerr.ConcurrentTransactions, kerr.NotEnoughReplicas, TxnAbortable},
		{12, kerr.ConcurrentTransactions, kerr.ConcurrentTransactions, TxnImplicit},
		{12, kerr.InvalidProducerEpoch, kerr.InvalidProducerEpoch, TxnImplicit},
	} {
		answer, asked = c.answer, nil
		err := f.produceOne(c.version, inTxn(t, 7, 0, 2))
		if !errors.Is(err, c.want) {
			t.Errorf("v%d: %v for %v, want %v", c.version, err, c.answer, c.want)
		}
		if len(asked) != 1 || asked[0].Client != c.client {
			t.Errorf("v%d: asked %+v", c.version, asked)
		}
	}
}

// What ends a transaction between the coordinator's answer and the append keeps the batch out: it would hang for ever.
func TestMarkerBeforeTheAppend(t *testing.T) {
	f := newFixture(t)
	f.lead("t", idOf(1), 1)
	f.joins = func(_ *Joining, done func([]error)) {
		if err := f.marker(record.EndTxn{ProducerID: 7}); err != nil {
			t.Error(err)
		}
		done([]error{nil})
	}
	if err := f.produceOne(9, inTxn(t, 7, 0, 0)); !errors.Is(err, kerr.InvalidTxnState) {
		t.Errorf("%v, want INVALID_TXN_STATE", err)
	}
}

// While the transaction before is ending, the coordinator is asked again; its marker comes in between.
func TestMarkerBetweenTwoQuestions(t *testing.T) {
	f := newFixture(t)
	f.lead("t", idOf(1), 1)
	f.joins = func(j *Joining, done func([]error)) {
		if err := f.marker(record.EndTxn{ProducerID: 7, Commit: true}); err != nil {
			t.Error(err)
		}
		j.Renew()
		done([]error{nil})
	}
	if err := f.produceOne(12, inTxn(t, 7, 0, 0)); err != nil {
		t.Error(err)
	}
	f.Manager.JoinTransaction(log.TopicPartition{Topic: "t"}, Joining{ProducerID: 8, Client: TxnImplicit}, func(g log.Guard, err error) {
		if now, ask := f.find("t", 0).log.BeginVerification(8, 0, noSequence, true); err != nil || !ask || now != g {
			t.Errorf("%v; guard %v, now %v", err, g, now)
		}
	})
}

// Records lie in a buffer that is used again once Produce has returned.
func TestProduceKeepsWhatWaits(t *testing.T) {
	f := newFixture(t)
	f.lead("t", idOf(1), 1)
	var answer func([]error)
	f.joins = func(_ *Joining, done func([]error)) { answer = done }
	buffer, id := inTxn(t, 7, 0, 0), "tx"
	var result error
	f.Produce(ProduceParams{Version: 9, Acks: 1, TransactionalID: &id}, []ProduceEntry{{Topic: "t", Records: buffer}}, func(rs []ProduceResult) { result = rs[0].Err })
	clear(buffer)
	answer([]error{nil})
	if result != nil {
		t.Error(result)
	}
}

func TestTwoProducersInOneProduce(t *testing.T) {
	f := newFixture(t)
	f.lead("t", idOf(1), 2)
	id := "tx"
	f.Produce(ProduceParams{Version: 9, Acks: 1, TransactionalID: &id}, []ProduceEntry{
		{Topic: "t", Records: inTxn(t, 7, 0, 0)}, {Topic: "t", Partition: 1, Records: inTxn(t, 8, 0, 0)},
	}, func(rs []ProduceResult) {
		for _, r := range rs {
			if !errors.Is(r.Err, kerr.InvalidProducerIDMapping) {
				t.Errorf("%v, want INVALID_PRODUCER_ID_MAPPING", r.Err)
			}
		}
	})
}

func TestMarkers(t *testing.T) {
	f := newFixture(t)
	f.lead("t", idOf(1), 1)
	f.joins = func(_ *Joining, done func([]error)) { done([]error{nil}) }
	stable := func() int64 { return f.find("t", 0).log.Bounds().Stable }
	if err := f.produceOne(9, inTxn(t, 7, 2, 0)); err != nil || stable() != 0 {
		t.Fatalf("%v; last stable offset %d", err, stable())
	}
	for _, c := range []struct {
		name string
		e    record.EndTxn
		want *kerr.Error
	}{
		{"no epoch", record.EndTxn{ProducerID: 7, ProducerEpoch: -1}, kerr.InvalidProducerEpoch},
		{"no producer", record.EndTxn{ProducerID: -1}, kerr.InvalidProducerEpoch},
		{"an old epoch", record.EndTxn{ProducerID: 7, ProducerEpoch: 1}, kerr.InvalidProducerEpoch},
		{"version 2 with the data's epoch", record.EndTxn{ProducerID: 7, ProducerEpoch: 2, Bumped: true}, kerr.InvalidProducerEpoch},
		{"version 2", record.EndTxn{ProducerID: 7, ProducerEpoch: 3, CoordinatorEpoch: 5, Bumped: true}, nil},
		{"version 2, again", record.EndTxn{ProducerID: 7, ProducerEpoch: 3, CoordinatorEpoch: 5, Bumped: true}, nil},
		{"an old coordinator", record.EndTxn{ProducerID: 7, ProducerEpoch: 3, CoordinatorEpoch: 4}, kerr.TransactionCoordinatorFenced},
		{"of an unknown producer", record.EndTxn{ProducerID: 9, Commit: true}, nil},
	} {
		if err := f.marker(c.e); c.want == nil && err != nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if got := f.find("t", 0).log.Bounds(); got.Stable != 3 || got.End != 3 {
		t.Errorf("bounds %+v: the marker that came twice is to be there once, and nothing is open", got)
	}
	f.minISR["t"] = 2
	lonely := f.order("t", idOf(1), 1, 1, self)
	lonely.TopicStates[0].PartitionStates[0].Replicas = []int32{self, 2}
	f.mustObey(lonely)
	f.ConfigChanged("t")
	if err := f.marker(record.EndTxn{ProducerID: 9}); !errors.Is(err, kerr.NotEnoughReplicas) {
		t.Errorf("below min ISR: %v", err)
	}
	f.WriteMarkers([]Marker{{TopicPartition: log.TopicPartition{Topic: "nope"}}}, 0, func(errs []error) {
		if !errors.Is(errs[0], kerr.UnknownTopicOrPartition) {
			t.Errorf("a partition that is not held here: %v", errs[0])
		}
	})
}
