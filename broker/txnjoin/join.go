// Package txnjoin asks the coordinators of transactions whether partitions are part of them, or has them added, before
// anything is written there (KIP-890). A coordinator on this broker gets a call, one on another broker an
// AddPartitionsToTxn of a version that only brokers send, which carries all that waits for that broker.
//
// Answers for one transactional id are handed on in the order in which was asked, so that batches which a producer sent
// one after the other stay in that order. After AddPartitionsToTxnManager of Apache Kafka.
package txnjoin

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/broker/replica"
	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/gregor-broker/gregor/wire/errcode"
)

// Client speaks to one other broker, one request at a time.
type Client interface {
	Do(ctx context.Context, r kmsg.Request, response kmsg.Response) error
	Close()
}

// Options is what a Joiner works with. All must be set.
type Options struct {
	Self int32
	// Coordinator returns the broker that coordinates a transactional id, false while there is none.
	Coordinator func(transactionalID string) (broker int32, ok bool)
	// Local has this broker's coordinator answer; done is called once, on any goroutine.
	Local  func(r *kmsg.AddPartitionsToTxnRequest, done func(*kmsg.AddPartitionsToTxnResponse))
	Dial   func(broker int32) Client
	Pool   func(func()) // runs a function elsewhere, and never blocks
	Clock  clock.Clock
	Logger *zap.Logger

	RetryBackoff, RetryMax time.Duration // add.partitions.to.txn.retry.backoff.ms, ….max.ms

	// Asked is told how long an answer took and how many partitions it refuses. It must be quick; nil: nobody wants to know.
	Asked func(took time.Duration, refused int)
}

// version is the version of AddPartitionsToTxn that brokers of 3.6 and later serve to one another.
const version = 4

// Joiner asks. Safe for concurrent use.
type Joiner struct {
	o       Options
	running context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup // senders, and those who wait to ask again
	mu      struct {
		sync.Mutex
		closed  bool
		senders map[int32]*sender
		answers map[string][]func() // by transactional id: not handed on yet; the first is being handed on
	}
}

// New returns a Joiner that has no connection yet.
func New(o Options) *Joiner {
	j := &Joiner{o: o}
	if j.o.Asked == nil {
		j.o.Asked = func(time.Duration, int) {}
	}
	j.running, j.cancel = context.WithCancel(context.Background())
	j.mu.senders, j.mu.answers = map[int32]*sender{}, map[string][]func(){}
	return j
}

// Close ends what is in work, which gets NETWORK_EXCEPTION, and waits for that.
func (j *Joiner) Close() {
	j.cancel()
	j.mu.Lock()
	j.mu.closed = true
	for _, s := range j.mu.senders {
		s.client.Close()
	}
	j.mu.Unlock()
	j.wg.Wait()
}

// question is one Joining on its way.
type question struct {
	*replica.Joining
	done func([]error)
	asks time.Duration // monotonic time at which it was asked last
	last time.Duration // and from which on it is not asked again
}

// Join asks, and calls done on the pool with an error for each partition.
func (j *Joiner) Join(what *replica.Joining, done func(errs []error)) {
	q := &question{Joining: what, last: j.o.Clock.Monotonic() + j.o.RetryMax, done: func(errs []error) {
		j.handOn(what.TransactionalID, func() { done(errs) })
	}}
	j.ask(q)
}

func (j *Joiner) ask(q *question) {
	q.asks = j.o.Clock.Monotonic()
	broker, ok := j.o.Coordinator(q.TransactionalID)
	switch {
	case !ok:
		j.settle(q, q.all(kerr.CoordinatorNotAvailable.Code))
	case broker == j.o.Self:
		j.o.Local(request([]*question{q}), func(r *kmsg.AddPartitionsToTxnResponse) { j.settle(q, q.codes(r)) })
	default:
		j.send(broker, q)
	}
}

// request puts questions about different transactional ids into one.
func request(qs []*question) *kmsg.AddPartitionsToTxnRequest {
	r := kmsg.NewPtrAddPartitionsToTxnRequest()
	r.Version = version
	for _, q := range qs {
		t := kmsg.NewAddPartitionsToTxnRequestTransaction()
		t.TransactionalID, t.ProducerID, t.ProducerEpoch = q.TransactionalID, q.ProducerID, q.ProducerEpoch
		t.VerifyOnly = q.Client != replica.TxnImplicit
		for _, tp := range q.Partitions {
			t.Topics = withPartition(t.Topics, tp)
		}
		r.Transactions = append(r.Transactions, t)
	}
	return r
}

func withPartition(topics []kmsg.AddPartitionsToTxnRequestTransactionTopic, tp log.TopicPartition) []kmsg.AddPartitionsToTxnRequestTransactionTopic {
	for i := range topics {
		if topics[i].Topic == tp.Topic {
			topics[i].Partitions = append(topics[i].Partitions, tp.Partition)
			return topics
		}
	}
	t := kmsg.NewAddPartitionsToTxnRequestTransactionTopic()
	t.Topic, t.Partitions = tp.Topic, append(make([]int32, 0, 16), tp.Partition)
	return append(topics, t)
}

// all gives every partition one code.
func (q *question) all(code int16) []int16 {
	codes := make([]int16, len(q.Partitions))
	for i := range codes {
		codes[i] = code
	}
	return codes
}

// codes are what a response says about the partitions. One that it does not speak of was not answered.
func (q *question) codes(r *kmsg.AddPartitionsToTxnResponse) []int16 {
	if r.ErrorCode != 0 {
		if r.ErrorCode == kerr.ClusterAuthorizationFailed.Code {
			return q.all(kerr.InvalidTxnState.Code) // no client's business
		}
		return q.all(r.ErrorCode)
	}
	codes := q.all(kerr.UnknownServerError.Code)
	for i := range r.Transactions {
		if r.Transactions[i].TransactionalID != q.TransactionalID {
			continue
		}
		for _, t := range r.Transactions[i].Topics {
			for _, p := range t.Partitions {
				for k, tp := range q.Partitions {
					if tp.Topic == t.Topic && tp.Partition == p.Partition {
						codes[k] = q.code(p.ErrorCode)
					}
				}
			}
		}
	}
	return codes
}

// code is the coordinator's answer in words that the client knows.
func (q *question) code(code int16) int16 {
	switch {
	case code == kerr.ProducerFenced.Code:
		return kerr.InvalidProducerEpoch.Code
	case code == kerr.TransactionAbortable.Code && q.Client == replica.TxnOld:
		return kerr.InvalidTxnState.Code
	}
	return code
}

// settle ends a question, or has it asked again while the transaction before it is ending: the coordinator answers the
// client's EndTxn before the markers are written.
func (j *Joiner) settle(q *question, codes []int16) {
	refused := 0
	for _, code := range codes {
		if code != 0 {
			refused++
		}
	}
	j.o.Asked(j.o.Clock.Monotonic()-q.asks, refused)
	if q.Client == replica.TxnImplicit && j.again(q, codes) {
		return
	}
	errs := make([]error, len(codes))
	for i, code := range codes {
		errs[i] = joinErrors(code)
	}
	q.done(errs)
}

func (j *Joiner) again(q *question, codes []int16) bool {
	if j.o.Clock.Monotonic() >= q.last {
		return false
	}
	for _, code := range codes {
		if code == kerr.ConcurrentTransactions.Code {
			return j.spawn(func() {
				ticks, timer := j.o.Clock.NewTimer(j.o.RetryBackoff)
				defer timer.Stop()
				select {
				case <-ticks:
				case <-j.running.Done():
				}
				q.Renew()
				j.ask(q)
			})
		}
	}
	return false
}

// spawn runs f on a goroutine that Close waits for; false when there may be no more of them.
func (j *Joiner) spawn(f func()) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.mu.closed {
		return false
	}
	j.wg.Go(f)
	return true
}

// joinErrors is the error for a coordinator's code.
func joinErrors(code int16) error {
	switch code {
	case 0:
		return nil
	case kerr.InvalidTxnState.Code:
		return errcode.New(kerr.InvalidTxnState, "the partition was not added to the transaction")
	}
	return kerr.ErrorForCode(code)
}

// handOn calls f on the pool after what was handed on before for the same transactional id.
func (j *Joiner) handOn(id string, f func()) {
	j.mu.Lock()
	waiting, busy := j.mu.answers[id]
	j.mu.answers[id] = append(waiting, f)
	j.mu.Unlock()
	if !busy {
		j.o.Pool(func() { j.drain(id) })
	}
}

func (j *Joiner) drain(id string) {
	for {
		j.mu.Lock()
		waiting := j.mu.answers[id]
		if len(waiting) == 0 {
			delete(j.mu.answers, id)
			j.mu.Unlock()
			return
		}
		j.mu.answers[id] = []func(){}
		j.mu.Unlock()
		for _, f := range waiting {
			f()
		}
	}
}
