package txnjoin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/broker/replica"
	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/wire/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const self, other = 1, 2

// world is a Joiner between a coordinator here and one elsewhere, which answer as the test says.
type world struct {
	*Joiner
	at     int32 // who coordinates
	code   func(txn *kmsg.AddPartitionsToTxnRequestTransaction) int16
	fail   error           // of the connection
	took   []time.Duration // what Asked was told
	no     int             // partitions that were refused
	mu     sync.Mutex
	seen   []*kmsg.AddPartitionsToTxnRequest
	pool   sync.WaitGroup
	closed bool
}

func newWorld(at int32) *world {
	w := &world{at: at, code: func(*kmsg.AddPartitionsToTxnRequestTransaction) int16 { return 0 }}
	w.Joiner = New(Options{
		Self: self, Coordinator: func(string) (int32, bool) { return w.at, w.at > 0 },
		Local: func(r *kmsg.AddPartitionsToTxnRequest, done func(*kmsg.AddPartitionsToTxnResponse)) {
			done(w.answer(r))
		},
		Dial: func(int32) Client { return w }, Pool: func(f func()) { w.pool.Go(f) }, Clock: clock.System, Logger: zap.NewNop(),
		RetryBackoff: 20 * time.Millisecond, RetryMax: 100 * time.Millisecond,
		Asked: func(took time.Duration, refused int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.took, w.no = append(w.took, took), w.no+refused
		},
	})
	return w
}

func (w *world) answer(r *kmsg.AddPartitionsToTxnRequest) *kmsg.AddPartitionsToTxnResponse {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, r)
	response := kmsg.NewPtrAddPartitionsToTxnResponse()
	for i := range r.Transactions {
		t := &r.Transactions[i]
		rt := kmsg.NewAddPartitionsToTxnResponseTransaction()
		rt.TransactionalID = t.TransactionalID
		for _, topic := range t.Topics {
			tt := kmsg.NewAddPartitionsToTxnResponseTransactionTopic()
			tt.Topic = topic.Topic
			for _, p := range topic.Partitions {
				tt.Partitions = append(tt.Partitions, kmsg.AddPartitionsToTxnResponseTransactionTopicPartition{Partition: p, ErrorCode: w.code(t)})
			}
			rt.Topics = append(rt.Topics, tt)
		}
		response.Transactions = append(response.Transactions, rt)
	}
	return response
}

// Do implements Client.
func (w *world) Do(_ context.Context, r kmsg.Request, response kmsg.Response) error {
	if w.fail != nil {
		return w.fail
	}
	*response.(*kmsg.AddPartitionsToTxnResponse) = *w.answer(r.(*kmsg.AddPartitionsToTxnRequest))
	return nil
}

// Close implements Client; the Joiner's own Close is w.Joiner.Close.
func (w *world) Close() { w.closed = true }

func (w *world) end() {
	w.Joiner.Close()
	w.pool.Wait()
}

func joining(id string, client replica.TxnSupport) *replica.Joining {
	return &replica.Joining{
		TransactionalID: id, ProducerID: 7, ProducerEpoch: 1, Client: client,
		Partitions: []log.TopicPartition{{Topic: "a", Partition: 1}, {Topic: "b"}, {Topic: "a", Partition: 0}},
	}
}

func TestAnswers(t *testing.T) {
	for _, at := range []int32{self, other} {
		for _, c := range []struct {
			client     replica.TxnSupport
			code, want *kerr.Error
		}{
			{replica.TxnOld, nil, nil},
			{replica.TxnOld, kerr.ProducerFenced, kerr.InvalidProducerEpoch},
			{replica.TxnOld, kerr.TransactionAbortable, kerr.InvalidTxnState},
			{replica.TxnAbortable, kerr.TransactionAbortable, kerr.TransactionAbortable},
			{replica.TxnAbortable, kerr.ConcurrentTransactions, kerr.ConcurrentTransactions},
			{replica.TxnImplicit, kerr.InvalidProducerIDMapping, kerr.InvalidProducerIDMapping},
		} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(at)
				defer w.end()
				w.code = func(*kmsg.AddPartitionsToTxnRequestTransaction) int16 {
					if c.code == nil {
						return 0
					}
					return c.code.Code
				}
				var got []error
				w.Join(joining("tx", c.client), func(errs []error) { got = errs })
				synctest.Wait()
				if len(got) != 3 {
					t.Fatalf("answers %v", got)
				}
				for _, err := range got {
					if c.want == nil && err != nil || c.want != nil && !errors.Is(err, c.want) {
						t.Errorf("%v for %v: %v, want %v", c.client, c.code, err, c.want)
					}
				}
				if v := w.seen[0].Transactions[0].VerifyOnly; v != (c.client != replica.TxnImplicit) {
					t.Errorf("verify only: %v for %v", v, c.client)
				}
			})
		}
	}
}

func TestNoCoordinator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(-1)
		defer w.end()
		var got []error
		w.Join(joining("tx", replica.TxnOld), func(errs []error) { got = errs })
		synctest.Wait()
		if len(got) != 3 || !errors.Is(got[0], kerr.CoordinatorNotAvailable) {
			t.Errorf("%v, want COORDINATOR_NOT_AVAILABLE", got)
		}
		w.at, w.fail = other, errors.New("connection refused")
		w.Join(joining("tx", replica.TxnOld), func(errs []error) { got = errs })
		synctest.Wait()
		if !errors.Is(got[0], kerr.NetworkException) {
			t.Errorf("%v, want NETWORK_EXCEPTION", got)
		}
	})
}

// While the transaction before is ending, the broker asks again for a while in place of a client that adds implicitly.
func TestAsksAgain(t *testing.T) {
	for _, lasting := range []int{3, 1000} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(self)
			defer w.end()
			asked := 0
			w.code = func(*kmsg.AddPartitionsToTxnRequestTransaction) int16 {
				if asked++; asked <= 3*lasting {
					return kerr.ConcurrentTransactions.Code
				}
				return 0
			}
			var got []error
			what, renewed := joining("tx", replica.TxnImplicit), 0
			what.Renew = func() { renewed++ }
			w.Join(what, func(errs []error) { got = errs })
			over, _ := clock.System.NewTimer(time.Second)
			<-over
			synctest.Wait()
			if got == nil || (got[0] == nil) != (lasting == 3) {
				t.Errorf("after %d tries: %v", asked/3, got)
			}
			if renewed != asked/3-1 {
				t.Errorf("renewed %d times for %d questions", renewed, asked/3)
			}
			if len(w.took) != asked/3 || w.no != min(asked, 3*lasting) || slices.Max(w.took) > 0 {
				t.Errorf("%d questions took %v, and %d partitions were refused", asked/3, w.took, w.no)
			}
		})
	}
}

// The answers for one transactional id come in the order of the questions, also when they travel in several requests.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(other)
		defer w.end()
		var mu sync.Mutex
		got := map[string][]int{}
		for i := range 50 {
			for k := range 3 {
				id := fmt.Sprint("tx", k)
				w.Join(joining(id, replica.TxnOld), func([]error) {
					mu.Lock()
					got[id] = append(got[id], i)
					mu.Unlock()
				})
			}
		}
		synctest.Wait()
		for id, order := range got {
			for i, n := range order {
				if i != n || len(order) != 50 {
					t.Fatalf("%s: %v", id, order)
				}
			}
		}
		for _, r := range w.seen {
			seen := map[string]bool{}
			for i := range r.Transactions {
				if id := r.Transactions[i].TransactionalID; seen[id] {
					t.Errorf("%s twice in a request", id)
				} else {
					seen[id] = true
				}
			}
		}
	})
}
