package txn

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/groupcoord/schema"
	"github.com/gregor-broker/gregor/log/record"
)

// Decided and not complete when the broker is killed: whoever coordinates next writes the markers, in its own epoch, and notes the end.
func TestCrashBetweenPrepareAndComplete(t *testing.T) {
	for _, commit := range []bool{true, false} {
		inWorld(t, 2, func(w *world) {
			ongoing(w, true)
			w.leaders.hold()
			w.must("end", w.end(5, "x", 1000, 0, commit), "ok 1000/1")
			w.close()
			w.leaders.mu.Lock()
			w.leaders.held, w.leaders.waiting = false, nil // the requests died with the broker
			w.leaders.mu.Unlock()
			w.open()
			w.c.Elected(0, 7)
			want := []string{fmt.Sprintf("t-0 1000/1 commit=%t by 7 v2 to 1", commit), fmt.Sprintf("t-1 1000/1 commit=%t by 7 v2 to 1", commit)}
			if got := w.leaders.markers(); !slices.Equal(got, want) {
				t.Errorf("markers %q, want %q", got, want)
			}
			word := map[bool]string{true: "CompleteCommit 1000/1", false: "CompleteAbort 1000/1"}[commit]
			if got := w.status("x"); got != word {
				t.Errorf("%s, want %s", got, word)
			}
			w.must("the next transaction", w.joins("x", 1000, 1, true, 0), "ok")
		})
	}
}

// What can go wrong with a marker, and how the transaction ends nevertheless, or not.
func TestMarkerErrors(t *testing.T) {
	const done, stuck = "CompleteCommit 1000/0", "PrepareCommit 1000/0"
	for _, c := range []struct {
		name   string
		before func(l *leaders) // when the transaction is about to be committed
		soon   string           // the state when nothing moves
		after  func(l *leaders)
		later  string // after ten seconds
	}{
		{"leader moves", func(l *leaders) { l.answer(0, kerr.NotLeaderForPartition); l.lead(0, 2) }, stuck, nil, done},
		{"partition not there yet", func(l *leaders) { l.answer(1, kerr.UnknownTopicOrPartition) }, stuck, nil, done},
		{"too few replicas", func(l *leaders) { l.answer(0, kerr.NotEnoughReplicas) }, stuck, nil, done},
		{"replicas lost after the append", func(l *leaders) { l.answer(0, kerr.NotEnoughReplicasAfterAppend) }, stuck, nil, done},
		{"request timed out", func(l *leaders) { l.answer(0, kerr.RequestTimedOut) }, stuck, nil, done},
		{"disk fails", func(l *leaders) { l.answer(0, kerr.KafkaStorageError) }, stuck, nil, done},
		{"something unexpected", func(l *leaders) { l.answer(0, kerr.UnknownServerError) }, stuck, nil, done},
		{"old message format", func(l *leaders) { l.answer(0, kerr.UnsupportedForMessageFormat) }, done, nil, done},
		{"another coordinator", func(l *leaders) { l.answer(0, kerr.TransactionCoordinatorFenced) }, stuck, nil, stuck},
		{"newer producer", func(l *leaders) { l.answer(1, kerr.InvalidProducerEpoch) }, stuck, nil, stuck},
		{"no leader", func(l *leaders) { l.lead(0, -1) }, stuck, nil, stuck},
		{"no leader for a while", func(l *leaders) { l.lead(0, -1) }, stuck, func(l *leaders) { l.lead(0, 3) }, done},
		{"deleted", func(l *leaders) { l.lead(0, -2); l.lead(1, -2) }, stuck, nil, done},
		{"not known for a moment", func(l *leaders) { l.lead(0, -2) }, stuck, func(l *leaders) { l.lead(0, 1) }, done},
		{"connection breaks", func(l *leaders) { l.failing = 3 }, stuck, nil, done},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, 0, func(w *world) {
				ongoing(w, false)
				c.before(w.leaders)
				w.must("commit", w.end(4, "x", 1000, 0, true), "ok")
				if got := w.status("x"); got != c.soon {
					t.Errorf("soon %s, want %s", got, c.soon)
				}
				if n := w.c.MarkersWaiting(); (n > 0) != (c.soon == stuck && c.later != stuck || c.name == "no leader") {
					t.Errorf("%d markers wait", n)
				}
				if c.after != nil {
					pass(time.Second)
					if got := w.status("x"); got != stuck {
						t.Errorf("a second later %s", got)
					}
					c.after(w.leaders)
				}
				pass(10 * time.Second)
				if got := w.status("x"); got != c.later {
					t.Errorf("later %s, want %s", got, c.later)
				}
				if n := w.c.MarkersWaiting(); n > 0 && c.later == done {
					t.Errorf("%d markers wait in the end", n)
				}
				if c.later == stuck {
					w.move() // the next coordinator tries again
					w.leaders.lead(0, 1)
					pass(time.Minute)
					if got := w.status("x"); got != done {
						t.Errorf("after the coordinator has moved %s", got)
					}
				}
			})
		})
	}
}

// Any number of producers may come with one id at a time: each gets an epoch of its own, and only the last may go on.
func TestConcurrentInitProducerID(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		var replies []*reply
		for range 20 {
			replies = append(replies, w.init("x"))
		}
		var said []string
		for _, r := range replies {
			said = append(said, r.now())
		}
		v := w.last("x")
		slices.Sort(said)
		if len(slices.Compact(slices.Clone(said))) != 20 || v.ProducerEpoch != 19 {
			t.Errorf("%q, then %s", said, w.status("x"))
		}
		for epoch := range v.ProducerEpoch {
			w.must("an older one", w.joins("x", v.ProducerID, epoch, true, 0), "PRODUCER_FENCED")
		}
		w.must("the last one", w.joins("x", v.ProducerID, v.ProducerEpoch, true, 0), "ok")
		a, b := w.init("x"), w.init("x") // both come upon the open transaction
		w.must("the first to come", a, "CONCURRENT_TRANSACTIONS")
		w.must("the second", b, "CONCURRENT_TRANSACTIONS")
		if got, want := w.status("x"), fmt.Sprintf("CompleteAbort %d/20", v.ProducerID); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

// Nothing is told, and no marker is sent, before the decision is replicated, however long that takes.
func TestDecisionIsReplicatedFirst(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		ongoing(w, true)
		w.log.Hold()
		commit, next := w.end(5, "x", 1000, 0, true), w.init("x")
		w.must("commit", commit, "waits")
		w.must("what follows", next, "waits")
		pass(31 * time.Second)
		w.must("commit after the request's time", commit, "COORDINATOR_NOT_AVAILABLE")
		w.must("what follows", next, "COORDINATOR_NOT_AVAILABLE")
		if got := w.leaders.markers(); len(got) > 0 {
			t.Errorf("markers %q", got)
		}
		pass(time.Hour)
		w.log.Release()
		if got := w.leaders.markers(); len(got) != 2 || w.status("x") != "CompleteCommit 1000/1" {
			t.Errorf("markers %q, %s", got, w.status("x"))
		}
		w.must("the client asks again", w.end(5, "x", 1000, 0, true), "ok 1000/1")
	})
}

// That the end of a transaction was noted, and not replicated in time, says nothing about the next one: its end is not noted before its
// markers are written.
func TestLateEndDoesNotEndTheNext(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		ongoing(w, true)
		w.leaders.hold()
		w.must("commit", w.end(5, "x", 1000, 0, true), "ok 1000/1")
		w.log.Hold()
		w.leaders.release() // the end is noted, and not replicated
		next := w.joins("x", 1000, 1, true, 0)
		w.must("the next transaction", next, "waits")
		w.must("a new producer", w.init("x"), "waits")
		pass(31 * time.Second)
		w.must("the next transaction", next, "COORDINATOR_NOT_AVAILABLE")
		if got := w.status("x"); got != "PrepareAbort 1000/2" {
			t.Errorf("%s, want it to wait for its markers", got)
		}
		w.leaders.markers()
		w.log.Release()
		if got := w.leaders.markers(); len(got) != 1 || w.status("x") != "CompleteAbort 1000/2" {
			t.Errorf("markers %q, %s", got, w.status("x"))
		}
	})
}

// While the log takes nothing requests are refused and change nothing; the end of a transaction is noted when it can be.
func TestRefusedWrites(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.log.Refuse(kerr.NotEnoughReplicas)
		w.must("init", w.init("x"), "COORDINATOR_NOT_AVAILABLE")
		w.log.Refuse(nil)
		ongoing2 := func() {
			w.must("init", w.init("x"), "ok 1001/0")
			w.must("add", w.joins("x", 1001, 0, true, 0), "ok")
		}
		ongoing2()
		w.log.Refuse(kerr.NotEnoughReplicas)
		w.must("add", w.joins("x", 1001, 0, true, 1), "COORDINATOR_NOT_AVAILABLE")
		w.must("commit", w.end(5, "x", 1001, 0, true), "COORDINATOR_NOT_AVAILABLE")
		w.must("init", w.init("x"), "COORDINATOR_NOT_AVAILABLE")
		pass(2 * time.Minute) // its time is over, and cannot be noted
		w.log.Refuse(nil)
		if got := w.status("x"); got != "Ongoing 1001/0" {
			t.Errorf("after refusals %s", got)
		}
		w.leaders.hold()
		w.must("commit", w.end(5, "x", 1001, 0, true), "ok 1001/1")
		w.log.Refuse(kerr.NotEnoughReplicas)
		w.leaders.release()
		if got := w.status("x"); got != "PrepareCommit 1001/1" {
			t.Errorf("the end is noted: %s", got)
		}
		w.log.Refuse(nil)
		pass(time.Second)
		if got := w.status("x"); got != "CompleteCommit 1001/1" {
			t.Errorf("the end is not noted: %s", got)
		}
	})
}

// An open transaction is aborted by the next look after its time, not before; an id is forgotten when it has not been used for long.
func TestTimes(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		ongoing(w, true)
		pass(59 * time.Second)
		w.must("add", w.joins("x", 1000, 0, true, 2), "ok") // does not prolong it
		pass(time.Second)
		if got := w.status("x"); got != "Ongoing 1000/0" {
			t.Errorf("after a minute %s", got)
		}
		pass(10 * time.Second)
		if got := w.status("x"); got != "CompleteAbort 1000/1" {
			t.Errorf("after its time %s", got)
		}
		w.must("commit of the first protocol", w.end(4, "x", 1000, 0, true), "PRODUCER_FENCED")
		w.must("commit of the second", w.end(5, "x", 1000, 0, true), "INVALID_TXN_STATE")
		w.must("add", w.joins("x", 1000, 0, true, 0), "PRODUCER_FENCED")
		w.must("the producer goes on", w.initAs("x", 1000, 0), "ok 1000/1")
		pass(7*24*time.Hour - 2*time.Minute)
		if w.last("x") == nil {
			t.Error("forgotten too early")
		}
		pass(time.Hour + 2*time.Minute)
		if w.last("x") != nil {
			t.Error("not forgotten")
		}
		w.must("init", w.init("x"), "ok 1001/0")
		w.move()
		w.must("init after a reload", w.init("x"), "ok 1001/1")
	})
}

// What 4.4.0 answered a producer whose epochs are used up; id and epoch are 1000 and 32766 then.
func TestEpochsUsedUp(t *testing.T) {
	const full = 32766
	for _, c := range []struct {
		name string
		ask  []func(w *world) *reply
		want []string
	}{
		{"a new producer", []func(*world) *reply{func(w *world) *reply { return w.init("x") }}, []string{"ok 5000/0"}},
		{"the same producer, and again", []func(*world) *reply{
			func(w *world) *reply { return w.initAs("x", 1000, full) },
			func(w *world) *reply { return w.initAs("x", 1000, full) },
			func(w *world) *reply { return w.initAs("x", 5000, 0) },
		}, []string{"ok 5000/0", "ok 5000/0", "ok 5000/1"}},
		{"a transaction", []func(*world) *reply{
			func(w *world) *reply { return w.joins("x", 1000, full, true, 0) },
			func(w *world) *reply { return w.end(5, "x", 1000, full, true) },
			func(w *world) *reply { return w.end(5, "x", 1000, full, true) },
			func(w *world) *reply { return w.end(5, "x", 1000, full, false) },
			func(w *world) *reply { return w.joins("x", 5000, 0, true, 0) },
			func(w *world) *reply { return w.end(5, "x", 5000, 0, false) },
		}, []string{"ok", "ok 5000/0", "ok 5000/0", "INVALID_TXN_STATE", "ok", "ok 5000/1"}},
		{"a new producer finds it open", []func(*world) *reply{
			func(w *world) *reply { return w.joins("x", 1000, full, true, 0) },
			func(w *world) *reply { return w.init("x") },
			func(w *world) *reply { return w.init("x") },
			func(w *world) *reply { return w.init("x") },
		}, []string{"ok", "CONCURRENT_TRANSACTIONS", "ok 5000/1", "ok 5000/2"}},
		{"the same producer finds it open", []func(*world) *reply{
			func(w *world) *reply { return w.joins("x", 1000, full, true, 0) },
			func(w *world) *reply { return w.initAs("x", 1000, full) },
			func(w *world) *reply { return w.initAs("x", 1000, full) },
			func(w *world) *reply { return w.end(5, "x", 1000, full, false) },
		}, []string{"ok", "CONCURRENT_TRANSACTIONS", "ok 5000/0", "INVALID_PRODUCER_ID_MAPPING"}},
		{"a transaction of the first protocol, and an empty one of the second", []func(*world) *reply{
			func(w *world) *reply { return w.joins("x", 1000, full, false, 0) },
			func(w *world) *reply { return w.end(4, "x", 1000, full, true) },
			func(w *world) *reply { return w.end(5, "x", 1000, full, false) },
			func(w *world) *reply { return w.end(5, "x", 1000, full, false) },
		}, []string{"ok", "ok", "ok 5000/0", "ok 5000/0"}},
		{"its time is over", []func(*world) *reply{
			func(w *world) *reply { return w.joins("x", 1000, full, true, 0) },
			func(w *world) *reply { pass(75 * time.Second); return w.init("x") },
		}, []string{"ok", "ok 5000/1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 2)
				w.lastID = 4999
				w.seed("x", schema.TxnValue{ProducerID: 1000, ProducerEpoch: full, TimeoutMs: 60000, StartMs: -1, PreviousProducerID: 1000,
					NextProducerID: -1, UpdateMs: time.Now().UnixMilli()})
				w.c.Elected(0, 0)
				synctest.Wait()
				for i, ask := range c.ask {
					w.must(fmt.Sprint("request ", i), ask(w), c.want[i])
				}
				w.close()
			})
		})
	}
}

// While a transaction ends whose producer goes on with another id, that id is known already: whoever names it waits, or tries again.
func TestEpochsUsedUpWhileItEnds(t *testing.T) {
	const full = math.MaxInt16 - 1
	for _, c := range []struct {
		name string
		ask  func(w *world) *reply
		now  string // while markers are missing
		then string // once they are written; of what waited the answer
	}{
		{"the next transaction", func(w *world) *reply { return w.joins("x", 5000, 0, true, 0) }, "waits", "ok"},
		{"with an epoch to come", func(w *world) *reply { return w.joins("x", 5000, 1, true, 0) }, "PRODUCER_FENCED", "PRODUCER_FENCED"},
		{"verification", func(w *world) *reply {
			return w.add(Addition{ID: "x", ProducerID: 5000, VerifyOnly: true, Topics: []schema.TxnTopic{{Topic: "t", Partitions: []int32{0}}}})
		}, "CONCURRENT_TRANSACTIONS", "missing"},
		{"an abort", func(w *world) *reply { return w.end(5, "x", 5000, 0, false) }, "CONCURRENT_TRANSACTIONS", "ok 5000/1"},
		{"a commit", func(w *world) *reply { return w.end(5, "x", 5000, 0, true) }, "CONCURRENT_TRANSACTIONS", "INVALID_TXN_STATE"},
		{"a new start as what it is now", func(w *world) *reply { return w.initAs("x", 5000, 0) }, "CONCURRENT_TRANSACTIONS", "ok 5000/1"},
		{"the end again", func(w *world) *reply { return w.end(5, "x", 1000, full, true) }, "CONCURRENT_TRANSACTIONS", "ok 5000/0"},
	} {
		for _, moved := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, moved %t", c.name, moved), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, 2)
					w.lastID = 4999
					w.seed("x", schema.TxnValue{ProducerID: 1000, ProducerEpoch: full, TimeoutMs: 60000, StartMs: -1, PreviousProducerID: 1000,
						NextProducerID: -1, UpdateMs: time.Now().UnixMilli()})
					w.c.Elected(0, 0)
					synctest.Wait()
					w.must("add", w.joins("x", 1000, full, true, 0), "ok")
					w.leaders.hold()
					w.must("commit", w.end(5, "x", 1000, full, true), "ok 5000/0")
					if moved {
						w.move()
					}
					asked := c.ask(w)
					w.must("while it ends", asked, c.now)
					w.leaders.release()
					if c.now != "waits" {
						asked = c.ask(w)
					}
					w.must("afterwards", asked, c.then)
					w.close()
				})
			})
		}
	}
}

// What a partition holds that cannot be read costs only the ids that it is about; and an id that a key cannot hold is refused.
func TestUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		good := schema.TxnValue{ProducerID: 7, TimeoutMs: 60000, Status: schema.TxnEmpty, StartMs: -1, PreviousProducerID: 7, NextProducerID: -1}
		w.seed("x", good)
		w.seed("y", good)
		for _, r := range []record.Record{
			{Key: schema.AppendTxnKey(nil, "y"), Value: []byte{0, 1, 2, 3}},
			{Key: schema.AppendTxnKey(nil, "z"), Value: []byte{0, 9}},
			{Key: []byte{0, 5}, Value: []byte("of a later version")},
			{Key: []byte{0}, Value: []byte("no key")},
		} {
			b, err := record.Build(record.BatchOptions{}.NoProducer(), []record.Record{r})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.log.Append(0, 0, b); err != nil {
				t.Fatal(err)
			}
		}
		w.c.Elected(0, 0)
		synctest.Wait()
		w.must("x", w.init("x"), "ok 7/1")
		w.must("y", w.init("y"), "ok 1000/0")
		w.must("z", w.init("z"), "ok 1001/0")
		w.must("too long", w.init(strings.Repeat("x", longestID+1)), "INVALID_REQUEST")
		w.must("just not", w.init(strings.Repeat("x", longestID)), "ok 1002/0")
		w.close()
	})
}

// Without producer ids nobody begins, and nobody waits for ever.
func TestNoProducerIDs(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.idErr = kerr.CoordinatorNotAvailable
		w.must("init", w.init("x"), "COORDINATOR_NOT_AVAILABLE")
		w.idErr = nil
		w.must("init", w.init("x"), "ok 1001/0")
	})
}

// On ZooKeeper, and below level 1, states are stored in version 0, which 3.9 reads.
func TestStoredVersions(t *testing.T) {
	for level, want := range []int16{0, 1, 1} {
		inWorld(t, int16(level), func(w *world) {
			ongoing(w, false)
			w.must("commit", w.end(4, "x", 1000, 0, true), "ok")
			for _, e := range w.log.Entries(0) {
				for r := range e.Records(noLimits) {
					if _, version, err := schema.DecodeTxnValue(r.Value); err != nil || version != want {
						t.Errorf("level %d: version %d, %v", level, version, err)
					}
				}
			}
		})
	}
}

// Ids of other partitions, of a coordinator that loads, and where the topic does not exist.
func TestNotHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		w.must("not elected", w.init("x"), "NOT_COORDINATOR")
		w.log.FailReplay(fmt.Errorf("disk"))
		w.c.Elected(0, 1)
		w.must("loading", w.init("x"), "COORDINATOR_LOAD_IN_PROGRESS")
		pass(time.Minute)
		w.must("loaded", w.init("x"), "ok 1000/0")
		w.c.Resigned(0, 2)
		w.must("resigned", w.init("x"), "NOT_COORDINATOR")
		w.c.o.Partitions = func() int32 { return 0 }
		w.must("no topic", w.init("x"), "COORDINATOR_NOT_AVAILABLE")
		w.close()
	})
}

func (w *world) list(change func(*kmsg.ListTransactionsRequest)) (ids []string, resp *kmsg.ListTransactionsResponse) {
	r := kmsg.NewPtrListTransactionsRequest()
	r.Version, r.DurationFilterMillis = 2, -1
	change(r)
	w.c.List(r, func(got kmsg.Response) { resp = got.(*kmsg.ListTransactionsResponse) })
	synctest.Wait()
	for _, s := range resp.TransactionStates {
		ids = append(ids, s.TransactionalID)
	}
	slices.Sort(ids)
	return ids, resp
}

func TestListAndDescribe(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.must("init", w.init("empty"), "ok 1000/0")
		w.must("init", w.init("open-1"), "ok 1001/0")
		w.must("add", w.joins("open-1", 1001, 0, true, 0), "ok")
		pass(5 * time.Second)
		w.must("init", w.init("open-2"), "ok 1002/0")
		w.must("add", w.joins("open-2", 1002, 0, true, 3, 4), "ok")
		pattern := func(p string) func(*kmsg.ListTransactionsRequest) {
			return func(r *kmsg.ListTransactionsRequest) { r.TransactionalIDPattern = &p }
		}
		for _, c := range []struct {
			name   string
			change func(*kmsg.ListTransactionsRequest)
			want   string
		}{
			{"all", func(*kmsg.ListTransactionsRequest) {}, "empty open-1 open-2"},
			{"state", func(r *kmsg.ListTransactionsRequest) { r.StateFilters = []string{"Ongoing", "nonsense"} }, "open-1 open-2"},
			{"no state that exists", func(r *kmsg.ListTransactionsRequest) { r.StateFilters = []string{"ongoing"} }, ""},
			{"producer", func(r *kmsg.ListTransactionsRequest) { r.ProducerIDFilters = []int64{1000, 7} }, "empty"},
			{"duration", func(r *kmsg.ListTransactionsRequest) { r.DurationFilterMillis = 4999 }, "open-1"},
			{"duration 0", func(r *kmsg.ListTransactionsRequest) { r.DurationFilterMillis = 0 }, "open-1"},
			{"exactly that duration", func(r *kmsg.ListTransactionsRequest) { r.DurationFilterMillis = 5000 }, ""},
			{"pattern", pattern("open-."), "open-1 open-2"},
			{"pattern of a part", pattern("open"), ""},
			{"empty pattern", pattern(""), "empty open-1 open-2"},
		} {
			if ids, resp := w.list(c.change); strings.Join(ids, " ") != c.want || resp.ErrorCode != 0 {
				t.Errorf("%s: %q, error %d, want %q", c.name, ids, resp.ErrorCode, c.want)
			}
		}
		if _, resp := w.list(func(r *kmsg.ListTransactionsRequest) { r.StateFilters = []string{"Empty", "nonsense"} }); !slices.Equal(resp.UnknownStateFilters, []string{"nonsense"}) {
			t.Errorf("unknown states %q", resp.UnknownStateFilters)
		}
		if _, resp := w.list(pattern("(")); resp.ErrorCode != kerr.InvalidRegularExpression.Code {
			t.Errorf("a broken pattern: %d", resp.ErrorCode)
		}
		r := kmsg.NewPtrDescribeTransactionsRequest()
		r.TransactionalIDs = []string{"open-2", "nobody", ""}
		var said []string
		w.c.Describe(r, func(got kmsg.Response) {
			for _, s := range got.(*kmsg.DescribeTransactionsResponse).TransactionStates {
				said = append(said, fmt.Sprint(s.TransactionalID, " ", word(s.ErrorCode), " ", s.State, " ", s.ProducerID, "/", s.ProducerEpoch, " ", len(s.Topics)))
				if s.ErrorCode == 0 && !slices.Equal(s.Topics[0].Partitions, []int32{3, 4}) {
					t.Errorf("partitions %v", s.Topics[0].Partitions)
				}
			}
		})
		synctest.Wait()
		want := []string{"open-2 ok Ongoing 1002/0 1", "nobody TRANSACTIONAL_ID_NOT_FOUND  0/0 0", " INVALID_REQUEST  0/0 0"}
		if !slices.Equal(said, want) {
			t.Errorf("%q, want %q", said, want)
		}
	})
}

// Partitions that come while the transaction before is being completed join the next one as soon as that is possible.
func TestAdditionsWaitForTheEnd(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		ended(w, 5, true, true)
		first, second, verified := w.joins("x", 1000, 1, true, 0), w.joins("x", 1000, 1, true, 1), verify(w, 1, 0)
		w.must("first", first, "waits")
		w.must("second", second, "waits")
		w.must("verification", verified, "CONCURRENT_TRANSACTIONS")
		pass(50 * time.Millisecond)
		w.leaders.release()
		w.must("first", first, "ok")
		w.must("second", second, "ok")
		if v := w.last("x"); v.Status != schema.TxnOngoing || len(v.Topics[0].Partitions) != 2 {
			t.Errorf("%+v", v)
		}
		w.leaders.hold()
		w.must("end", w.end(5, "x", 1000, 1, false), "ok 1000/2")
		var held []*reply
		for range maxHeld + 1 {
			held = append(held, w.joins("x", 1000, 2, true, 0))
		}
		w.must("one too many", held[maxHeld], "CONCURRENT_TRANSACTIONS")
		w.must("the last that waits", held[maxHeld-1], "waits")
		pass(holdFor)
		w.must("its time is over", held[maxHeld-1], "CONCURRENT_TRANSACTIONS")
		moved := w.joins("x", 1000, 2, true, 0)
		w.must("another", moved, "waits")
		w.move()
		w.must("the coordinator has moved", moved, "NOT_COORDINATOR")
		w.leaders.release()
	})
}

// Markers of many transactions that end at a time go to a broker in few requests.
func TestMarkersTravelTogether(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.leaders.hold()
		const n = 100
		for i := range n {
			id := fmt.Sprint("x", i)
			w.must("init", w.init(id), fmt.Sprintf("ok %d/0", 1000+i))
			w.must("add", w.joins(id, int64(1000+i), 0, true, 0, 1), "ok")
			w.must("commit", w.end(5, id, int64(1000+i), 0, true), fmt.Sprintf("ok %d/1", 1000+i))
		}
		if w.leaders.sent != 1 {
			t.Errorf("%d requests while the first is in work", w.leaders.sent)
		}
		w.leaders.release()
		if got := len(w.leaders.markers()); got != 2*n || w.leaders.sent != 2 {
			t.Errorf("%d markers in %d requests", got, w.leaders.sent)
		}
		for i := range n {
			if got := w.status(fmt.Sprint("x", i)); got != fmt.Sprintf("CompleteCommit %d/1", 1000+i) {
				t.Fatal(got)
			}
		}
	})
}
