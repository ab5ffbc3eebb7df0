package log

import (
	"errors"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

func TestTransactions(t *testing.T) {
	e := newEnv(t).open()
	l := e.create("t", small())
	committed(t, l, transactional(1, 0, 0, 3)) // 0-2
	committed(t, l, batch(1, "plain"))         // 3
	committed(t, l, transactional(2, 0, 0, 1)) // 4
	checkStable := func(want int64) {
		t.Helper()
		if got := l.Bounds().Stable; got != want {
			t.Errorf("last stable offset %d, want %d", got, want)
		}
	}
	checkStable(0)
	if _, err := l.Append(idempotent(1, 0, 3, 1), 0); !errors.Is(err, kerr.InvalidTxnState) {
		t.Errorf("a plain batch in a transaction: %v", err)
	}
	abort, err := l.WriteMarker(Marker{ProducerID: 1, CoordinatorEpoch: 7})
	if err != nil || abort.BaseOffset != 5 {
		t.Fatalf("%+v %v", abort, err)
	}
	checkStable(0) // the marker is not replicated
	l.AdvanceHighWatermark(5)
	checkStable(0)
	l.AdvanceHighWatermark(6)
	checkStable(4)
	if got := values(t, l, 0, Committed); len(got) != 4 {
		t.Errorf("%d records below the stable offset, want 4", len(got))
	}
	if _, err := l.WriteMarker(Marker{ProducerID: 2, CoordinatorEpoch: 7, Commit: true}); err != nil {
		t.Fatal(err)
	}
	l.AdvanceHighWatermark(7)
	checkStable(7)
	want := []AbortedTxn{{1, 0, 5}}
	for _, c := range []struct {
		from, to int64
		want     []AbortedTxn
	}{{0, 7, want}, {0, 1, want}, {5, 7, want}, {6, 7, nil}, {0, 0, nil}} {
		if got := abortedTxns(t, l, c.from, c.to); !reflect.DeepEqual(got, c.want) {
			t.Errorf("aborted in [%d, %d): %v, want %v", c.from, c.to, got, c.want)
		}
	}
	if _, err := l.WriteMarker(Marker{ProducerID: 2, CoordinatorEpoch: 6}); !errors.Is(err, kerr.TransactionCoordinatorFenced) {
		t.Errorf("a marker of an old coordinator: %v", err)
	}
	for _, again := range []func(){func() { e.reopen() }, func() { e.on(e.fs.Kill()) }, func() { e.reopen() }} {
		again()
		l = e.get("t")
		if got := abortedTxns(t, l, 0, 7); !reflect.DeepEqual(got, want) {
			t.Errorf("after a restart aborted are %v, want %v", got, want)
		}
		checkStable(7)
	}
}

func TestOpenTransactionOutlivesRestarts(t *testing.T) {
	e := newEnv(t).open()
	l := e.create("t", small())
	committed(t, l, batch(1, "plain"))
	for seq := range int32(12) {
		committed(t, l, transactional(5, 1, seq, 1))
	}
	for _, again := range []func(){func() { e.reopen() }, func() { e.on(e.fs.Kill()) }, func() { e.reopen() }} {
		again()
		l = e.get("t")
		if got := l.Bounds(); got.Stable != 1 || got.HighWatermark != 13 {
			l.AdvanceHighWatermark(13)
			if got = l.Bounds(); got.Stable != 1 {
				t.Errorf("bounds %+v", got)
			}
		}
		if p := l.Producers(); len(p) != 1 || p[0].TxnStartOffset != 1 || p[0].LastSequence != 11 {
			t.Errorf("producers %+v", p)
		}
	}
	if _, err := l.WriteMarker(Marker{ProducerID: 5, ProducerEpoch: 1}); err != nil {
		t.Fatal(err)
	}
	l.AdvanceHighWatermark(14)
	if got := abortedTxns(t, l, 3, 14); len(got) != 1 || got[0] != (AbortedTxn{5, 1, 13}) {
		t.Errorf("aborted %v", got)
	}
	// Truncation before the marker opens the transaction again.
	if err := l.TruncateTo(13); err != nil {
		t.Fatal(err)
	}
	if got := abortedTxns(t, l, 0, 13); got != nil || l.Bounds().Stable != 1 {
		t.Errorf("after the marker was cut off: aborted %v, bounds %+v", got, l.Bounds())
	}
}

func TestProducersExpire(t *testing.T) {
	e := newEnv(t)
	e.open()
	l := e.create("t", nil)
	committed(t, l, idempotent(1, 0, 0, 1))
	committed(t, l, transactional(2, 0, 0, 1))
	e.clock.Advance(e.m.o.ProducerIDExpiration)
	waitFor(t, func() bool { e.clock.Advance(e.m.o.ProducerIDCheckInterval); return len(l.Producers()) == 1 })
	if p := l.Producers(); p[0].ProducerID != 2 {
		t.Errorf("left is %+v, want the one with an open transaction", p)
	}
	if a := mustAppend(t, l, idempotent(1, 0, 77, 1)); a.BaseOffset != 2 {
		t.Errorf("a forgotten producer: %+v", a)
	}
}
