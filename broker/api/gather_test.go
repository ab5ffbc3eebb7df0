package api

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/gregor-broker/gregor/broker/metadata"
)

func TestGatherKeepsOrderAndEndsOnce(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	calls := 0
	var got []error
	g := newGather(3, func(r []error) { calls++; got = r })
	g.put(2, second)
	g.put(0, first)
	if calls != 0 {
		t.Fatal("done before all results were there")
	}
	g.put(1, nil)
	if calls != 1 || got[0] != first || got[1] != nil || got[2] != second {
		t.Errorf("done %d times with %v", calls, got)
	}
	newGather(0, func([]error) { calls++ })
	if calls != 2 {
		t.Error("nothing to gather must end at once")
	}
}

func TestProducerIDsGoThroughBlocks(t *testing.T) {
	next, failing := int64(1000), false
	down := errors.New("no controller")
	var pending []func(int64, int64, error)
	ids := NewProducerIDs(func(done func(int64, int64, error)) { pending = append(pending, done) })
	serve := func() {
		done := pending[0]
		pending = pending[1:]
		if failing {
			done(0, 0, down)
			return
		}
		next += 2
		done(next-2, 2, nil)
	}
	seen := map[int64]bool{}
	var failed error
	take := func(id int64, err error) {
		if err != nil {
			failed = err
			return
		}
		if seen[id] {
			t.Errorf("id %d was handed out twice", id)
		}
		seen[id] = true
	}
	for range 5 {
		ids.Next(take)
	}
	for range 3 {
		if len(pending) != 1 {
			t.Fatalf("%d blocks asked for at a time, want 1", len(pending))
		}
		serve()
	}
	if len(seen) != 5 || len(pending) != 0 {
		t.Errorf("%d ids handed out, %d blocks still asked for", len(seen), len(pending))
	}
	ids.Next(take)
	failing = true
	ids.Next(take)
	serve()
	if !errors.Is(failed, down) {
		t.Errorf("a failed allocation ended with %v", failed)
	}
}

func TestEndpointOfOwnListeners(t *testing.T) {
	self := &metadata.Broker{ID: 1, Endpoints: map[string]metadata.Endpoint{"A": {Host: "a", Port: 1}, "B": {Host: "b", Port: 2}}}
	other := &metadata.Broker{ID: 2, Endpoints: map[string]metadata.Endpoint{"A": {Host: "o", Port: 3}}}
	s := &Services{BrokerID: 1, Listeners: Listeners{"A": {Port: 9}, "B": {Host: "b", Port: 2}}}
	local := netip.MustParseAddrPort("[::ffff:10.0.0.7]:9092")
	for _, c := range []struct {
		name     string
		broker   *metadata.Broker
		listener string
		local    netip.AddrPort
		want     metadata.Endpoint
		ok       bool
	}{
		{"unadvertised: the connection's own end", self, "A", local, metadata.Endpoint{Host: "10.0.0.7", Port: 9}, true},
		{"unadvertised, over a pipe", self, "A", netip.AddrPort{}, metadata.Endpoint{Host: "localhost", Port: 9}, true},
		{"advertised", self, "B", local, metadata.Endpoint{Host: "b", Port: 2}, true},
		{"another broker", other, "A", local, metadata.Endpoint{Host: "o", Port: 3}, true},
		{"a broker without that listener", other, "B", local, metadata.Endpoint{}, false},
	} {
		got, ok := s.Endpoint(c.broker, c.listener, c.local)
		if got != c.want || ok != c.ok {
			t.Errorf("%s: %+v %v, want %+v %v", c.name, got, ok, c.want, c.ok)
		}
	}
}
