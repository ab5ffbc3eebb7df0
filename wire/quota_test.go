package wire

import (
	"net/netip"
	"testing"
	"testing/synctest"
)

// TestQuotaOfListener: a listener that is full keeps the next connection waiting until one of its own leaves; others have room.
func TestQuotaOfListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, from := newQuota(), netip.MustParseAddr("10.0.0.1")
		if err := q.set(ConnectionLimits{PerListener: map[string]int{"A": 1}}); err != nil {
			t.Fatal(err)
		}
		enter := func(listener string) (in *bool) {
			in = new(bool)
			go func() { *in = q.enter(listener, from) == nil }()
			synctest.Wait()
			return in
		}
		first, second, other := enter("A"), enter("A"), enter("B")
		if !*first || *second || !*other {
			t.Fatalf("A has the first: %v, and the second: %v; B has one: %v", *first, *second, *other)
		}
		q.leave("B", from)
		if synctest.Wait(); *second {
			t.Error("there is room at A since one left B")
		}
		q.leave("A", from)
		if synctest.Wait(); !*second {
			t.Error("there is no room at A though one left")
		}
		if err := q.set(ConnectionLimits{}); err != nil {
			t.Fatal(err)
		}
		if third := enter("A"); !*third {
			t.Error("the limit holds on after it is gone")
		}
	})
}
