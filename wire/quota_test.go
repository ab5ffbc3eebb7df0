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

// TestQuotaLetsBrokersIn: a listener that is exempt has room where the server is full, but not beyond its own limit; a limit below 0 is for
// nobody.
func TestQuotaLetsBrokersIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, from := newQuota(), netip.MustParseAddr("10.0.0.1")
		full := func(l ConnectionLimits, listener string) bool {
			if err := q.set(l); err != nil {
				t.Fatal(err)
			}
			q.mu.Lock()
			defer q.mu.Unlock()
			return q.full(listener)
		}
		if err := q.enter("B", from); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			limits ConnectionLimits
			a, b   bool // full
		}{
			{ConnectionLimits{}, false, false},
			{ConnectionLimits{MaxConnections: 1}, true, true},
			{ConnectionLimits{MaxConnections: 1, Exempt: "B"}, true, false},
			{ConnectionLimits{MaxConnections: 9, Exempt: "B", PerListener: map[string]int{"B": 1}}, false, true},
			{ConnectionLimits{MaxConnections: -1, Exempt: "B"}, true, false},
			{ConnectionLimits{PerListener: map[string]int{"A": -1}}, true, false},
		} {
			if a, b := full(c.limits, "A"), full(c.limits, "B"); a != c.a || b != c.b {
				t.Errorf("%+v: A is full %t, B %t", c.limits, a, b)
			}
		}
	})
}
